from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Envelope(_message.Message):
    __slots__ = ("id", "reply_to", "deadline_ms", "done", "failure", "cancel", "ping", "bye", "introduction", "client_certificate", "flight_address_query", "flight_address", "local_challenge", "local_proof", "ticket_query", "ticket", "transfer_end", "probe_query", "transfer_offer", "asset_notice", "asset_gone", "ask", "answer", "withdraw", "delivery", "transfer_pause", "transfer_placing", "carrier_open", "carrier_wanted", "carrier_signal", "carrier_end", "manifest_query", "manifest", "compression_change", "compression", "tuner_decision", "path_speed", "codec_wanted", "mock_query", "work_log", "feed_query", "group_notice")
    ID_FIELD_NUMBER: _ClassVar[int]
    REPLY_TO_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    BYE_FIELD_NUMBER: _ClassVar[int]
    INTRODUCTION_FIELD_NUMBER: _ClassVar[int]
    CLIENT_CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    FLIGHT_ADDRESS_QUERY_FIELD_NUMBER: _ClassVar[int]
    FLIGHT_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LOCAL_CHALLENGE_FIELD_NUMBER: _ClassVar[int]
    LOCAL_PROOF_FIELD_NUMBER: _ClassVar[int]
    TICKET_QUERY_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_END_FIELD_NUMBER: _ClassVar[int]
    PROBE_QUERY_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_OFFER_FIELD_NUMBER: _ClassVar[int]
    ASSET_NOTICE_FIELD_NUMBER: _ClassVar[int]
    ASSET_GONE_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    WITHDRAW_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_PAUSE_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_PLACING_FIELD_NUMBER: _ClassVar[int]
    CARRIER_OPEN_FIELD_NUMBER: _ClassVar[int]
    CARRIER_WANTED_FIELD_NUMBER: _ClassVar[int]
    CARRIER_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    CARRIER_END_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_QUERY_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_CHANGE_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    TUNER_DECISION_FIELD_NUMBER: _ClassVar[int]
    PATH_SPEED_FIELD_NUMBER: _ClassVar[int]
    CODEC_WANTED_FIELD_NUMBER: _ClassVar[int]
    MOCK_QUERY_FIELD_NUMBER: _ClassVar[int]
    WORK_LOG_FIELD_NUMBER: _ClassVar[int]
    FEED_QUERY_FIELD_NUMBER: _ClassVar[int]
    GROUP_NOTICE_FIELD_NUMBER: _ClassVar[int]
    id: int
    reply_to: int
    deadline_ms: int
    done: Done
    failure: Failure
    cancel: Cancel
    ping: Ping
    bye: Bye
    introduction: Introduction
    client_certificate: ClientCertificate
    flight_address_query: FlightAddressQuery
    flight_address: FlightAddress
    local_challenge: LocalChallenge
    local_proof: LocalProof
    ticket_query: TicketQuery
    ticket: Ticket
    transfer_end: TransferEnd
    probe_query: ProbeQuery
    transfer_offer: TransferOffer
    asset_notice: AssetNotice
    asset_gone: AssetGone
    ask: Ask
    answer: Answer
    withdraw: Withdraw
    delivery: Delivery
    transfer_pause: TransferPause
    transfer_placing: TransferPlacing
    carrier_open: CarrierOpen
    carrier_wanted: CarrierWanted
    carrier_signal: CarrierSignal
    carrier_end: CarrierEnd
    manifest_query: ManifestQuery
    manifest: Manifest
    compression_change: CompressionChange
    compression: Compression
    tuner_decision: TunerDecision
    path_speed: PathSpeed
    codec_wanted: CodecWanted
    mock_query: MockQuery
    work_log: WorkLog
    feed_query: FeedQuery
    group_notice: GroupNotice
    def __init__(self, id: _Optional[int] = ..., reply_to: _Optional[int] = ..., deadline_ms: _Optional[int] = ..., done: _Optional[_Union[Done, _Mapping]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ..., bye: _Optional[_Union[Bye, _Mapping]] = ..., introduction: _Optional[_Union[Introduction, _Mapping]] = ..., client_certificate: _Optional[_Union[ClientCertificate, _Mapping]] = ..., flight_address_query: _Optional[_Union[FlightAddressQuery, _Mapping]] = ..., flight_address: _Optional[_Union[FlightAddress, _Mapping]] = ..., local_challenge: _Optional[_Union[LocalChallenge, _Mapping]] = ..., local_proof: _Optional[_Union[LocalProof, _Mapping]] = ..., ticket_query: _Optional[_Union[TicketQuery, _Mapping]] = ..., ticket: _Optional[_Union[Ticket, _Mapping]] = ..., transfer_end: _Optional[_Union[TransferEnd, _Mapping]] = ..., probe_query: _Optional[_Union[ProbeQuery, _Mapping]] = ..., transfer_offer: _Optional[_Union[TransferOffer, _Mapping]] = ..., asset_notice: _Optional[_Union[AssetNotice, _Mapping]] = ..., asset_gone: _Optional[_Union[AssetGone, _Mapping]] = ..., ask: _Optional[_Union[Ask, _Mapping]] = ..., answer: _Optional[_Union[Answer, _Mapping]] = ..., withdraw: _Optional[_Union[Withdraw, _Mapping]] = ..., delivery: _Optional[_Union[Delivery, _Mapping]] = ..., transfer_pause: _Optional[_Union[TransferPause, _Mapping]] = ..., transfer_placing: _Optional[_Union[TransferPlacing, _Mapping]] = ..., carrier_open: _Optional[_Union[CarrierOpen, _Mapping]] = ..., carrier_wanted: _Optional[_Union[CarrierWanted, _Mapping]] = ..., carrier_signal: _Optional[_Union[CarrierSignal, _Mapping]] = ..., carrier_end: _Optional[_Union[CarrierEnd, _Mapping]] = ..., manifest_query: _Optional[_Union[ManifestQuery, _Mapping]] = ..., manifest: _Optional[_Union[Manifest, _Mapping]] = ..., compression_change: _Optional[_Union[CompressionChange, _Mapping]] = ..., compression: _Optional[_Union[Compression, _Mapping]] = ..., tuner_decision: _Optional[_Union[TunerDecision, _Mapping]] = ..., path_speed: _Optional[_Union[PathSpeed, _Mapping]] = ..., codec_wanted: _Optional[_Union[CodecWanted, _Mapping]] = ..., mock_query: _Optional[_Union[MockQuery, _Mapping]] = ..., work_log: _Optional[_Union[WorkLog, _Mapping]] = ..., feed_query: _Optional[_Union[FeedQuery, _Mapping]] = ..., group_notice: _Optional[_Union[GroupNotice, _Mapping]] = ...) -> None: ...

class Done(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Failure(_message.Message):
    __slots__ = ("kind", "text", "reason")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[Failure.Kind]
        NOT_FOUND: _ClassVar[Failure.Kind]
        CHANGED: _ClassVar[Failure.Kind]
        DENIED: _ClassVar[Failure.Kind]
        TICKET: _ClassVar[Failure.Kind]
        PATH: _ClassVar[Failure.Kind]
        REFUSED: _ClassVar[Failure.Kind]
        CANCELLED: _ClassVar[Failure.Kind]
        LIMIT: _ClassVar[Failure.Kind]
        PROTOCOL: _ClassVar[Failure.Kind]
        INTERNAL: _ClassVar[Failure.Kind]
        OPERATION: _ClassVar[Failure.Kind]
        NOT_ALLOWED: _ClassVar[Failure.Kind]
        WORKER: _ClassVar[Failure.Kind]
        WORK_LIMIT: _ClassVar[Failure.Kind]
        BUDGET: _ClassVar[Failure.Kind]
        NO_MOCK: _ClassVar[Failure.Kind]
    UNSPECIFIED: Failure.Kind
    NOT_FOUND: Failure.Kind
    CHANGED: Failure.Kind
    DENIED: Failure.Kind
    TICKET: Failure.Kind
    PATH: Failure.Kind
    REFUSED: Failure.Kind
    CANCELLED: Failure.Kind
    LIMIT: Failure.Kind
    PROTOCOL: Failure.Kind
    INTERNAL: Failure.Kind
    OPERATION: Failure.Kind
    NOT_ALLOWED: Failure.Kind
    WORKER: Failure.Kind
    WORK_LIMIT: Failure.Kind
    BUDGET: Failure.Kind
    NO_MOCK: Failure.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    kind: Failure.Kind
    text: str
    reason: str
    def __init__(self, kind: _Optional[_Union[Failure.Kind, str]] = ..., text: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ("call_id",)
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    call_id: int
    def __init__(self, call_id: _Optional[int] = ...) -> None: ...

class Ping(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Bye(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Introduction(_message.Message):
    __slots__ = ("name", "certificate_pem", "codecs", "machine", "loopback")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_PEM_FIELD_NUMBER: _ClassVar[int]
    CODECS_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    LOOPBACK_FIELD_NUMBER: _ClassVar[int]
    name: str
    certificate_pem: bytes
    codecs: _containers.RepeatedScalarFieldContainer[str]
    machine: bytes
    loopback: bytes
    def __init__(self, name: _Optional[str] = ..., certificate_pem: _Optional[bytes] = ..., codecs: _Optional[_Iterable[str]] = ..., machine: _Optional[bytes] = ..., loopback: _Optional[bytes] = ...) -> None: ...

class ClientCertificate(_message.Message):
    __slots__ = ("pem",)
    PEM_FIELD_NUMBER: _ClassVar[int]
    pem: bytes
    def __init__(self, pem: _Optional[bytes] = ...) -> None: ...

class FlightAddressQuery(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FlightAddress(_message.Message):
    __slots__ = ("hosts", "port")
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    hosts: _containers.RepeatedScalarFieldContainer[str]
    port: int
    def __init__(self, hosts: _Optional[_Iterable[str]] = ..., port: _Optional[int] = ...) -> None: ...

class LocalChallenge(_message.Message):
    __slots__ = ("nonce",)
    NONCE_FIELD_NUMBER: _ClassVar[int]
    nonce: bytes
    def __init__(self, nonce: _Optional[bytes] = ...) -> None: ...

class LocalProof(_message.Message):
    __slots__ = ("memory",)
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    memory: SharedMemory
    def __init__(self, memory: _Optional[_Union[SharedMemory, _Mapping]] = ...) -> None: ...

class SharedMemory(_message.Message):
    __slots__ = ("pid", "fd", "label", "size_bytes", "start_bytes", "total_bytes")
    PID_FIELD_NUMBER: _ClassVar[int]
    FD_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    START_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    pid: int
    fd: int
    label: bytes
    size_bytes: int
    start_bytes: int
    total_bytes: int
    def __init__(self, pid: _Optional[int] = ..., fd: _Optional[int] = ..., label: _Optional[bytes] = ..., size_bytes: _Optional[int] = ..., start_bytes: _Optional[int] = ..., total_bytes: _Optional[int] = ...) -> None: ...

class TransferOffer(_message.Message):
    __slots__ = ("transfer_id", "size_bytes", "fingerprint", "inline", "ticket", "elapsed_us", "sent_before", "parts")
    TRANSFER_ID_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    INLINE_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_US_FIELD_NUMBER: _ClassVar[int]
    SENT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    transfer_id: bytes
    size_bytes: int
    fingerprint: bytes
    inline: bytes
    ticket: Ticket
    elapsed_us: int
    sent_before: bool
    parts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, transfer_id: _Optional[bytes] = ..., size_bytes: _Optional[int] = ..., fingerprint: _Optional[bytes] = ..., inline: _Optional[bytes] = ..., ticket: _Optional[_Union[Ticket, _Mapping]] = ..., elapsed_us: _Optional[int] = ..., sent_before: bool = ..., parts: _Optional[_Iterable[int]] = ...) -> None: ...

class ProbeQuery(_message.Message):
    __slots__ = ("path",)
    PATH_FIELD_NUMBER: _ClassVar[int]
    path: str
    def __init__(self, path: _Optional[str] = ...) -> None: ...

class PathSpeed(_message.Message):
    __slots__ = ("path", "bytes_per_s")
    PATH_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    path: str
    bytes_per_s: float
    def __init__(self, path: _Optional[str] = ..., bytes_per_s: _Optional[float] = ...) -> None: ...

class CodecWanted(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class TicketQuery(_message.Message):
    __slots__ = ("transfer_id", "path", "missing", "plain", "reference")
    TRANSFER_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    PLAIN_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    transfer_id: bytes
    path: str
    missing: _containers.RepeatedScalarFieldContainer[int]
    plain: bool
    reference: bytes
    def __init__(self, transfer_id: _Optional[bytes] = ..., path: _Optional[str] = ..., missing: _Optional[_Iterable[int]] = ..., plain: bool = ..., reference: _Optional[bytes] = ...) -> None: ...

class Ticket(_message.Message):
    __slots__ = ("path", "flight", "memory")
    PATH_FIELD_NUMBER: _ClassVar[int]
    FLIGHT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    path: str
    flight: bytes
    memory: SharedMemory
    def __init__(self, path: _Optional[str] = ..., flight: _Optional[bytes] = ..., memory: _Optional[_Union[SharedMemory, _Mapping]] = ...) -> None: ...

class TransferEnd(_message.Message):
    __slots__ = ("transfer_id", "complete", "path", "decoding", "failure")
    TRANSFER_ID_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    DECODING_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    transfer_id: bytes
    complete: bool
    path: str
    decoding: _containers.RepeatedCompositeFieldContainer[DecodeTime]
    failure: Failure
    def __init__(self, transfer_id: _Optional[bytes] = ..., complete: bool = ..., path: _Optional[str] = ..., decoding: _Optional[_Iterable[_Union[DecodeTime, _Mapping]]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class DecodeTime(_message.Message):
    __slots__ = ("codec", "raw_bytes", "elapsed_us")
    CODEC_FIELD_NUMBER: _ClassVar[int]
    RAW_BYTES_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_US_FIELD_NUMBER: _ClassVar[int]
    codec: str
    raw_bytes: int
    elapsed_us: int
    def __init__(self, codec: _Optional[str] = ..., raw_bytes: _Optional[int] = ..., elapsed_us: _Optional[int] = ...) -> None: ...

class TransferPause(_message.Message):
    __slots__ = ("transfer_id", "paused")
    TRANSFER_ID_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    transfer_id: bytes
    paused: bool
    def __init__(self, transfer_id: _Optional[bytes] = ..., paused: bool = ...) -> None: ...

class TransferPlacing(_message.Message):
    __slots__ = ("transfer_id", "placed_bytes")
    TRANSFER_ID_FIELD_NUMBER: _ClassVar[int]
    PLACED_BYTES_FIELD_NUMBER: _ClassVar[int]
    transfer_id: bytes
    placed_bytes: int
    def __init__(self, transfer_id: _Optional[bytes] = ..., placed_bytes: _Optional[int] = ...) -> None: ...

class ManifestQuery(_message.Message):
    __slots__ = ("transfer_id",)
    TRANSFER_ID_FIELD_NUMBER: _ClassVar[int]
    transfer_id: bytes
    def __init__(self, transfer_id: _Optional[bytes] = ...) -> None: ...

class Manifest(_message.Message):
    __slots__ = ("content", "key")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    key: bytes
    def __init__(self, content: _Optional[bytes] = ..., key: _Optional[bytes] = ...) -> None: ...

class CompressionChange(_message.Message):
    __slots__ = ("fields",)
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    fields: bytes
    def __init__(self, fields: _Optional[bytes] = ...) -> None: ...

class Compression(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    def __init__(self, content: _Optional[bytes] = ...) -> None: ...

class TunerDecision(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    def __init__(self, content: _Optional[bytes] = ...) -> None: ...

class AssetNotice(_message.Message):
    __slots__ = ("name", "revision", "kind", "detail", "size_bytes", "description", "tags", "lossy", "mock", "budget")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    LOSSY_FIELD_NUMBER: _ClassVar[int]
    MOCK_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    name: str
    revision: int
    kind: str
    detail: str
    size_bytes: int
    description: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    lossy: str
    mock: str
    budget: str
    def __init__(self, name: _Optional[str] = ..., revision: _Optional[int] = ..., kind: _Optional[str] = ..., detail: _Optional[str] = ..., size_bytes: _Optional[int] = ..., description: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., lossy: _Optional[str] = ..., mock: _Optional[str] = ..., budget: _Optional[str] = ...) -> None: ...

class AssetGone(_message.Message):
    __slots__ = ("name", "revision")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    name: str
    revision: int
    def __init__(self, name: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

class Ask(_message.Message):
    __slots__ = ("request_id", "name", "revision", "reason", "path", "program", "expires_s", "statistic", "job", "check")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_S_FIELD_NUMBER: _ClassVar[int]
    STATISTIC_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    request_id: bytes
    name: str
    revision: int
    reason: str
    path: str
    program: ProgramBody
    expires_s: float
    statistic: bytes
    job: Job
    check: bool
    def __init__(self, request_id: _Optional[bytes] = ..., name: _Optional[str] = ..., revision: _Optional[int] = ..., reason: _Optional[str] = ..., path: _Optional[str] = ..., program: _Optional[_Union[ProgramBody, _Mapping]] = ..., expires_s: _Optional[float] = ..., statistic: _Optional[bytes] = ..., job: _Optional[_Union[Job, _Mapping]] = ..., check: bool = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("request_id", "state", "reason", "offer", "name")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[Answer.State]
        PENDING: _ClassVar[Answer.State]
        APPROVED: _ClassVar[Answer.State]
        DENIED: _ClassVar[Answer.State]
        FAILED: _ClassVar[Answer.State]
    UNSPECIFIED: Answer.State
    PENDING: Answer.State
    APPROVED: Answer.State
    DENIED: Answer.State
    FAILED: Answer.State
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    request_id: bytes
    state: Answer.State
    reason: str
    offer: TransferOffer
    name: str
    def __init__(self, request_id: _Optional[bytes] = ..., state: _Optional[_Union[Answer.State, str]] = ..., reason: _Optional[str] = ..., offer: _Optional[_Union[TransferOffer, _Mapping]] = ..., name: _Optional[str] = ...) -> None: ...

class Withdraw(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: bytes
    def __init__(self, request_id: _Optional[bytes] = ...) -> None: ...

class Delivery(_message.Message):
    __slots__ = ("asset", "offer")
    ASSET_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    asset: AssetNotice
    offer: TransferOffer
    def __init__(self, asset: _Optional[_Union[AssetNotice, _Mapping]] = ..., offer: _Optional[_Union[TransferOffer, _Mapping]] = ...) -> None: ...

class CarrierOpen(_message.Message):
    __slots__ = ("path", "attempt_id", "key", "has_relay")
    PATH_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HAS_RELAY_FIELD_NUMBER: _ClassVar[int]
    path: str
    attempt_id: bytes
    key: bytes
    has_relay: bool
    def __init__(self, path: _Optional[str] = ..., attempt_id: _Optional[bytes] = ..., key: _Optional[bytes] = ..., has_relay: bool = ...) -> None: ...

class CarrierWanted(_message.Message):
    __slots__ = ("path",)
    PATH_FIELD_NUMBER: _ClassVar[int]
    path: str
    def __init__(self, path: _Optional[str] = ...) -> None: ...

class CarrierSignal(_message.Message):
    __slots__ = ("path", "attempt_id", "payload")
    PATH_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    path: str
    attempt_id: bytes
    payload: bytes
    def __init__(self, path: _Optional[str] = ..., attempt_id: _Optional[bytes] = ..., payload: _Optional[bytes] = ...) -> None: ...

class CarrierEnd(_message.Message):
    __slots__ = ("path", "attempt_id", "why")
    PATH_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    path: str
    attempt_id: bytes
    why: str
    def __init__(self, path: _Optional[str] = ..., attempt_id: _Optional[bytes] = ..., why: _Optional[str] = ...) -> None: ...

class MockQuery(_message.Message):
    __slots__ = ("name", "revision")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    name: str
    revision: int
    def __init__(self, name: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

class ProgramBody(_message.Message):
    __slots__ = ("compressed", "offer")
    COMPRESSED_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    compressed: bytes
    offer: TransferOffer
    def __init__(self, compressed: _Optional[bytes] = ..., offer: _Optional[_Union[TransferOffer, _Mapping]] = ...) -> None: ...

class JobValue(_message.Message):
    __slots__ = ("body", "offer", "kind", "detail")
    BODY_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    body: bytes
    offer: TransferOffer
    kind: str
    detail: str
    def __init__(self, body: _Optional[bytes] = ..., offer: _Optional[_Union[TransferOffer, _Mapping]] = ..., kind: _Optional[str] = ..., detail: _Optional[str] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("name", "source", "call", "inputs", "mock_kind", "mock_detail", "mock_text", "epsilon", "delta")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    MOCK_KIND_FIELD_NUMBER: _ClassVar[int]
    MOCK_DETAIL_FIELD_NUMBER: _ClassVar[int]
    MOCK_TEXT_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    name: str
    source: str
    call: bytes
    inputs: _containers.RepeatedCompositeFieldContainer[JobInput]
    mock_kind: str
    mock_detail: str
    mock_text: str
    epsilon: float
    delta: float
    def __init__(self, name: _Optional[str] = ..., source: _Optional[str] = ..., call: _Optional[bytes] = ..., inputs: _Optional[_Iterable[_Union[JobInput, _Mapping]]] = ..., mock_kind: _Optional[str] = ..., mock_detail: _Optional[str] = ..., mock_text: _Optional[str] = ..., epsilon: _Optional[float] = ..., delta: _Optional[float] = ...) -> None: ...

class JobInput(_message.Message):
    __slots__ = ("asset", "program", "value")
    ASSET_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    asset: JobAsset
    program: ProgramBody
    value: JobValue
    def __init__(self, asset: _Optional[_Union[JobAsset, _Mapping]] = ..., program: _Optional[_Union[ProgramBody, _Mapping]] = ..., value: _Optional[_Union[JobValue, _Mapping]] = ...) -> None: ...

class JobAsset(_message.Message):
    __slots__ = ("name", "revision")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    name: str
    revision: int
    def __init__(self, name: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

class WorkLog(_message.Message):
    __slots__ = ("request_id", "lines", "fraction")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    FRACTION_FIELD_NUMBER: _ClassVar[int]
    request_id: bytes
    lines: _containers.RepeatedScalarFieldContainer[str]
    fraction: float
    def __init__(self, request_id: _Optional[bytes] = ..., lines: _Optional[_Iterable[str]] = ..., fraction: _Optional[float] = ...) -> None: ...

class FeedQuery(_message.Message):
    __slots__ = ("path", "arrived")
    PATH_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_FIELD_NUMBER: _ClassVar[int]
    path: str
    arrived: int
    def __init__(self, path: _Optional[str] = ..., arrived: _Optional[int] = ...) -> None: ...

class GroupNotice(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    def __init__(self, content: _Optional[bytes] = ...) -> None: ...
