"""The actions that the state machine returns. Actions of the kind `Awaited` take time and can fail; the
others do not.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Charged(enum.Enum):
    """The two things that cost a part of a policy's quota."""

    RUN = "a function is run"
    RELEASE = "an object leaves"


class Entries(enum.Enum):
    """The lines that a request adds to the audit log."""

    ASKED = "asked"
    ANSWERED = "answered"
    WITHDRAWN = "withdrawn"
    ASKED_AND_ANSWERED = "asked and answered"


class Action:
    __slots__ = ()


class Awaited(Action):
    """An action that takes time and can fail. Its result comes back as the event `Done` or `Failed`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Settle(Action):
    """Set the state of the request; save it and refresh what is displayed."""

    state: str
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Count(Action):
    """Count one more question for the request (`Request.times`)."""


@dataclass(frozen=True, slots=True)
class Charge(Action):
    what: Charged


@dataclass(frozen=True, slots=True)
class ChargeBack(Action):
    what: Charged


@dataclass(frozen=True, slots=True)
class Grant(Action):
    """Keep this approval, so that it answers the peer when it asks again."""

    by: str


@dataclass(frozen=True, slots=True)
class RevokeGrant(Action):
    pass


@dataclass(frozen=True, slots=True)
class WithdrawOffer(Action):
    """Withdraw an offer that the peer was never sent. Nothing of it has left or will leave."""

    asker: bytes
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class EndTransfer(Action):
    """Stop a transfer whose offer the peer has received and no longer wants."""

    asker: bytes


@dataclass(frozen=True, slots=True)
class Note(Action):
    """Add a line to the audit log about something that has already happened, without waiting for the disk."""

    what: Entries


@dataclass(frozen=True, slots=True)
class Notify(Action):
    """Send an answer without waiting for a reply."""

    asker: bytes
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reply(Action):
    """Answer the question in the reply to its own call."""

    asker: bytes
    state: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Announce(Action):
    """Show or log on this side what a policy has answered, if the policy says so."""


@dataclass(frozen=True, slots=True)
class CallPerson(Action):
    """Tell the person that the request waits for an answer."""


@dataclass(frozen=True, slots=True)
class StartTimer(Action):
    """Start the timer that expires the request, if the peer set a time."""


@dataclass(frozen=True, slots=True)
class StartFunction(Action):
    """Run the job of the request. `by` is the policy that approved the run; empty: no policy did."""

    by: str


@dataclass(frozen=True, slots=True)
class Decide(Action):
    """Let the policies decide again. Their answer comes back as the event `Answered`."""


@dataclass(frozen=True, slots=True)
class FreeContent(Action):
    """Release the content of the request, which has ended."""


@dataclass(frozen=True, slots=True)
class Raise(Action):
    """Raise `error` in the call that caused this event."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Save(Awaited):
    """Wait until charges and grants are on the disk."""


@dataclass(frozen=True, slots=True)
class SaveFailure(Awaited):
    """Wait until the charges are on the disk, before the peer is told that its function failed. That the
    function failed is information about the data, so the run has to be paid for first.
    """

    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class MakeOffer(Awaited):
    asker: bytes


@dataclass(frozen=True, slots=True)
class Release(Awaited):
    """Write to the audit log that the offer goes out, and wait for the disk; the offer may leave only after
    that. `with_question`: record the question in the same step, because it was not recorded before.
    """

    asker: bytes
    with_question: bool


@dataclass(frozen=True, slots=True)
class WriteAuditEntry(Awaited):
    """Write lines to the audit log; `Done` means that they are on the disk. `is_first`: this is the first
    question of its request.
    """

    what: Entries
    asker: bytes = b""
    is_first: bool = False


@dataclass(frozen=True, slots=True)
class SendAnswer(Awaited):
    """Send an answer as a message, and wait until the peer has received it."""

    asker: bytes
    state: str
    reason: str
