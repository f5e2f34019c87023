from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GroupMessage(_message.Message):
    __slots__ = ("seated", "newcomer", "linked", "agreement", "greeting", "word", "shut")
    SEATED_FIELD_NUMBER: _ClassVar[int]
    NEWCOMER_FIELD_NUMBER: _ClassVar[int]
    LINKED_FIELD_NUMBER: _ClassVar[int]
    AGREEMENT_FIELD_NUMBER: _ClassVar[int]
    GREETING_FIELD_NUMBER: _ClassVar[int]
    WORD_FIELD_NUMBER: _ClassVar[int]
    SHUT_FIELD_NUMBER: _ClassVar[int]
    seated: Seated
    newcomer: Entry
    linked: Linked
    agreement: Agreement
    greeting: Greeting
    word: Word
    shut: Shut
    def __init__(self, seated: _Optional[_Union[Seated, _Mapping]] = ..., newcomer: _Optional[_Union[Entry, _Mapping]] = ..., linked: _Optional[_Union[Linked, _Mapping]] = ..., agreement: _Optional[_Union[Agreement, _Mapping]] = ..., greeting: _Optional[_Union[Greeting, _Mapping]] = ..., word: _Optional[_Union[Word, _Mapping]] = ..., shut: _Optional[_Union[Shut, _Mapping]] = ...) -> None: ...

class Word(_message.Message):
    __slots__ = ("topic", "content")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    topic: str
    content: bytes
    def __init__(self, topic: _Optional[str] = ..., content: _Optional[bytes] = ...) -> None: ...

class Greeting(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Shut(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Entry(_message.Message):
    __slots__ = ("key", "name", "seat", "kept")
    KEY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SEAT_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    name: str
    seat: int
    kept: int
    def __init__(self, key: _Optional[bytes] = ..., name: _Optional[str] = ..., seat: _Optional[int] = ..., kept: _Optional[int] = ...) -> None: ...

class Seated(_message.Message):
    __slots__ = ("entries", "epoch", "members", "present", "grows", "host", "hall", "most")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    PRESENT_FIELD_NUMBER: _ClassVar[int]
    GROWS_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    HALL_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[Entry]
    epoch: int
    members: _containers.RepeatedScalarFieldContainer[int]
    present: _containers.RepeatedScalarFieldContainer[int]
    grows: bool
    host: int
    hall: bytes
    most: int
    def __init__(self, entries: _Optional[_Iterable[_Union[Entry, _Mapping]]] = ..., epoch: _Optional[int] = ..., members: _Optional[_Iterable[int]] = ..., present: _Optional[_Iterable[int]] = ..., grows: bool = ..., host: _Optional[int] = ..., hall: _Optional[bytes] = ..., most: _Optional[int] = ...) -> None: ...

class Linked(_message.Message):
    __slots__ = ("seat",)
    SEAT_FIELD_NUMBER: _ClassVar[int]
    seat: int
    def __init__(self, seat: _Optional[int] = ...) -> None: ...

class Ballot(_message.Message):
    __slots__ = ("round", "seat")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    SEAT_FIELD_NUMBER: _ClassVar[int]
    round: int
    seat: int
    def __init__(self, round: _Optional[int] = ..., seat: _Optional[int] = ...) -> None: ...

class Agreement(_message.Message):
    __slots__ = ("epoch", "ballot", "lost", "leaving", "prepare", "promise", "refused", "accept", "accepted", "commit", "spoiled", "missing")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BALLOT_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    PREPARE_FIELD_NUMBER: _ClassVar[int]
    PROMISE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    ACCEPT_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    SPOILED_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    ballot: Ballot
    lost: Lost
    leaving: Leaving
    prepare: Prepare
    promise: Promise
    refused: Refused
    accept: Proposal
    accepted: Accepted
    commit: Proposal
    spoiled: Spoiled
    missing: Missing
    def __init__(self, epoch: _Optional[int] = ..., ballot: _Optional[_Union[Ballot, _Mapping]] = ..., lost: _Optional[_Union[Lost, _Mapping]] = ..., leaving: _Optional[_Union[Leaving, _Mapping]] = ..., prepare: _Optional[_Union[Prepare, _Mapping]] = ..., promise: _Optional[_Union[Promise, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ..., accept: _Optional[_Union[Proposal, _Mapping]] = ..., accepted: _Optional[_Union[Accepted, _Mapping]] = ..., commit: _Optional[_Union[Proposal, _Mapping]] = ..., spoiled: _Optional[_Union[Spoiled, _Mapping]] = ..., missing: _Optional[_Union[Missing, _Mapping]] = ...) -> None: ...

class Lost(_message.Message):
    __slots__ = ("one", "other")
    ONE_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELD_NUMBER: _ClassVar[int]
    one: int
    other: int
    def __init__(self, one: _Optional[int] = ..., other: _Optional[int] = ...) -> None: ...

class Missing(_message.Message):
    __slots__ = ("by", "seat", "back")
    BY_FIELD_NUMBER: _ClassVar[int]
    SEAT_FIELD_NUMBER: _ClassVar[int]
    BACK_FIELD_NUMBER: _ClassVar[int]
    by: int
    seat: int
    back: bool
    def __init__(self, by: _Optional[int] = ..., seat: _Optional[int] = ..., back: bool = ...) -> None: ...

class Leaving(_message.Message):
    __slots__ = ("seat",)
    SEAT_FIELD_NUMBER: _ClassVar[int]
    seat: int
    def __init__(self, seat: _Optional[int] = ...) -> None: ...

class Prepare(_message.Message):
    __slots__ = ("without",)
    WITHOUT_FIELD_NUMBER: _ClassVar[int]
    without: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, without: _Optional[_Iterable[int]] = ...) -> None: ...

class Promise(_message.Message):
    __slots__ = ("accepted", "proposal", "finished")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    PROPOSAL_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    accepted: Ballot
    proposal: Proposal
    finished: int
    def __init__(self, accepted: _Optional[_Union[Ballot, _Mapping]] = ..., proposal: _Optional[_Union[Proposal, _Mapping]] = ..., finished: _Optional[int] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("promised",)
    PROMISED_FIELD_NUMBER: _ClassVar[int]
    promised: Ballot
    def __init__(self, promised: _Optional[_Union[Ballot, _Mapping]] = ...) -> None: ...

class Spoiled(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Proposal(_message.Message):
    __slots__ = ("members", "even")
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    EVEN_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedScalarFieldContainer[int]
    even: bool
    def __init__(self, members: _Optional[_Iterable[int]] = ..., even: bool = ...) -> None: ...

class Accepted(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
