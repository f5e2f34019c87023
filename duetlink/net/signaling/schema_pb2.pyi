from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Mood(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MOOD_UNSPECIFIED: _ClassVar[Mood]
    HAPPY: _ClassVar[Mood]
    WRONG_CODE: _ClassVar[Mood]
    LONELY: _ClassVar[Mood]
    ERRORY: _ClassVar[Mood]
MOOD_UNSPECIFIED: Mood
HAPPY: Mood
WRONG_CODE: Mood
LONELY: Mood
ERRORY: Mood

class ClientFrame(_message.Message):
    __slots__ = ("claim", "join", "message", "leave", "meet")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    JOIN_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    MEET_FIELD_NUMBER: _ClassVar[int]
    claim: Claim
    join: Join
    message: bytes
    leave: Mood
    meet: Meet
    def __init__(self, claim: _Optional[_Union[Claim, _Mapping]] = ..., join: _Optional[_Union[Join, _Mapping]] = ..., message: _Optional[bytes] = ..., leave: _Optional[_Union[Mood, str]] = ..., meet: _Optional[_Union[Meet, _Mapping]] = ...) -> None: ...

class Claim(_message.Message):
    __slots__ = ("lifetime_s", "seats", "hall")
    LIFETIME_S_FIELD_NUMBER: _ClassVar[int]
    SEATS_FIELD_NUMBER: _ClassVar[int]
    HALL_FIELD_NUMBER: _ClassVar[int]
    lifetime_s: int
    seats: int
    hall: bytes
    def __init__(self, lifetime_s: _Optional[int] = ..., seats: _Optional[int] = ..., hall: _Optional[bytes] = ...) -> None: ...

class Join(_message.Message):
    __slots__ = ("nameplate",)
    NAMEPLATE_FIELD_NUMBER: _ClassVar[int]
    nameplate: int
    def __init__(self, nameplate: _Optional[int] = ...) -> None: ...

class Meet(_message.Message):
    __slots__ = ("place", "owner")
    PLACE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    place: bytes
    owner: bool
    def __init__(self, place: _Optional[bytes] = ..., owner: bool = ...) -> None: ...

class ServerFrame(_message.Message):
    __slots__ = ("claimed", "joined", "message", "left", "refusal")
    CLAIMED_FIELD_NUMBER: _ClassVar[int]
    JOINED_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    claimed: Claimed
    joined: Joined
    message: bytes
    left: Mood
    refusal: Refusal
    def __init__(self, claimed: _Optional[_Union[Claimed, _Mapping]] = ..., joined: _Optional[_Union[Joined, _Mapping]] = ..., message: _Optional[bytes] = ..., left: _Optional[_Union[Mood, str]] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ...) -> None: ...

class Claimed(_message.Message):
    __slots__ = ("nameplate", "lifetime_s", "hall")
    NAMEPLATE_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_S_FIELD_NUMBER: _ClassVar[int]
    HALL_FIELD_NUMBER: _ClassVar[int]
    nameplate: int
    lifetime_s: int
    hall: bytes
    def __init__(self, nameplate: _Optional[int] = ..., lifetime_s: _Optional[int] = ..., hall: _Optional[bytes] = ...) -> None: ...

class Joined(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("reason", "text")
    class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        REASON_UNSPECIFIED: _ClassVar[Refusal.Reason]
        UNKNOWN_NAMEPLATE: _ClassVar[Refusal.Reason]
        USED: _ClassVar[Refusal.Reason]
        EXPIRED: _ClassVar[Refusal.Reason]
        LIMIT: _ClassVar[Refusal.Reason]
        MALFORMED: _ClassVar[Refusal.Reason]
        UNATTENDED: _ClassVar[Refusal.Reason]
    REASON_UNSPECIFIED: Refusal.Reason
    UNKNOWN_NAMEPLATE: Refusal.Reason
    USED: Refusal.Reason
    EXPIRED: Refusal.Reason
    LIMIT: Refusal.Reason
    MALFORMED: Refusal.Reason
    UNATTENDED: Refusal.Reason
    REASON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    reason: Refusal.Reason
    text: str
    def __init__(self, reason: _Optional[_Union[Refusal.Reason, str]] = ..., text: _Optional[str] = ...) -> None: ...

class Envelope(_message.Message):
    __slots__ = ("pake", "sealed")
    PAKE_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    pake: bytes
    sealed: bytes
    def __init__(self, pake: _Optional[bytes] = ..., sealed: _Optional[bytes] = ...) -> None: ...

class Introduction(_message.Message):
    __slots__ = ("hello", "payload")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    payload: bytes
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., payload: _Optional[bytes] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("protocol_min", "protocol_max", "version", "name", "features", "relays")
    PROTOCOL_MIN_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_MAX_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    RELAYS_FIELD_NUMBER: _ClassVar[int]
    protocol_min: int
    protocol_max: int
    version: str
    name: str
    features: _containers.RepeatedScalarFieldContainer[str]
    relays: _containers.RepeatedCompositeFieldContainer[Relay]
    def __init__(self, protocol_min: _Optional[int] = ..., protocol_max: _Optional[int] = ..., version: _Optional[str] = ..., name: _Optional[str] = ..., features: _Optional[_Iterable[str]] = ..., relays: _Optional[_Iterable[_Union[Relay, _Mapping]]] = ...) -> None: ...

class Relay(_message.Message):
    __slots__ = ("url", "username", "credential")
    URL_FIELD_NUMBER: _ClassVar[int]
    USERNAME_FIELD_NUMBER: _ClassVar[int]
    CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    url: str
    username: str
    credential: str
    def __init__(self, url: _Optional[str] = ..., username: _Optional[str] = ..., credential: _Optional[str] = ...) -> None: ...

class PasteBlob(_message.Message):
    __slots__ = ("secret", "public_key", "sealed")
    SECRET_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    secret: bytes
    public_key: bytes
    sealed: bytes
    def __init__(self, secret: _Optional[bytes] = ..., public_key: _Optional[bytes] = ..., sealed: _Optional[bytes] = ...) -> None: ...
