"""What is to be done about a request. The kinds of `Awaited` take time and can fail; the others do not."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Charged(enum.Enum):
    """What a policy's quota is charged for."""

    RUN = "a function is run"
    RELEASE = "an object leaves"


class Entries(enum.Enum):
    """What is written into the audit log."""

    ASKED = "asked"
    ANSWERED = "answered"
    WITHDRAWN = "withdrawn"
    ASKED_AND_ANSWERED = "asked and answered"


class Action:
    __slots__ = ()


class Awaited(Action):
    """It takes time, and can fail."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Settle(Action):
    """The request is in this state now: persistence and whoever watches hear of it."""

    state: str
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Count(Action):
    """It was asked once more."""


@dataclass(frozen=True, slots=True)
class Charge(Action):
    what: Charged


@dataclass(frozen=True, slots=True)
class ChargeBack(Action):
    what: Charged


@dataclass(frozen=True, slots=True)
class Grant(Action):
    """From now on this yes answers the peer when it asks again."""

    by: str


@dataclass(frozen=True, slots=True)
class TakeBackGrant(Action):
    pass


@dataclass(frozen=True, slots=True)
class TakeBackOffer(Action):
    """Nobody was told of this offer: nothing of it has left, nor will."""

    asker: bytes
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class EndTransfer(Action):
    """The asker knows of the offer, and wants it no longer."""

    asker: bytes


@dataclass(frozen=True, slots=True)
class Note(Action):
    """Write into the audit log what has happened already."""

    what: Entries


@dataclass(frozen=True, slots=True)
class Notify(Action):
    """Send an answer, and wait for no reply."""

    asker: bytes
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reply(Action):
    """Answer the question in its own reply."""

    asker: bytes
    state: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Announce(Action):
    """Show on this side what a policy has answered."""


@dataclass(frozen=True, slots=True)
class CallPerson(Action):
    """The request waits for a person from now on."""


@dataclass(frozen=True, slots=True)
class StartTimer(Action):
    """Where the peer has said until when it may be answered."""


@dataclass(frozen=True, slots=True)
class StartFunction(Action):
    by: str


@dataclass(frozen=True, slots=True)
class Decide(Action):
    """Let the policies look at it; what they say comes back as `Answered`."""


@dataclass(frozen=True, slots=True)
class LetGo(Action):
    """The request has ended: nobody needs its content any more."""


@dataclass(frozen=True, slots=True)
class Raise(Action):
    """Tell whoever has caused this that it failed."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Keep(Awaited):
    """Wait until what was charged and granted is on the disk."""


@dataclass(frozen=True, slots=True)
class KeepFailure(Awaited):
    """As `Keep`, before the peer hears that its function has failed: that tells it something, too."""

    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class MakeOffer(Awaited):
    asker: bytes


@dataclass(frozen=True, slots=True)
class Release(Awaited):
    """Record that the offer goes out; from then on it may. `with_question`: that it was asked as well."""

    asker: bytes
    with_question: bool


@dataclass(frozen=True, slots=True)
class WriteAuditEntry(Awaited):
    """Write into the audit log; Done means that it is on the disk. `is_first`: nothing waited before."""

    what: Entries
    asker: bytes = b""
    is_first: bool = False


@dataclass(frozen=True, slots=True)
class Tell(Awaited):
    """Send an answer, and wait until the peer has it."""

    asker: bytes
    state: str
    reason: str
