"""The actions that the state machine returns. Actions of the kind `Awaited` take time and can fail; the
others do not.
"""

from __future__ import annotations

import enum

import msgspec


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


class Action(msgspec.Struct, frozen=True):
    """Something to do for a request."""


class Awaited(Action, frozen=True):
    """An action that takes time and can fail. Its result comes back as the event `Done` or `Failed`."""


class Settle(Action, frozen=True):
    """Set the state of the request; save it and refresh what is displayed."""

    state: str
    by: str = ""
    reason: str = ""


class Count(Action, frozen=True):
    """Count one more question for the request (`Request.times`)."""


class Charge(Action, frozen=True):
    what: Charged


class ChargeBack(Action, frozen=True):
    what: Charged


class Grant(Action, frozen=True):
    """Keep this approval, so that it answers the peer when it asks again."""

    by: str


class RevokeGrant(Action, frozen=True):
    pass


class WithdrawOffer(Action, frozen=True):
    """Withdraw an offer that the peer was never sent. Nothing of it has left or will leave."""

    asker: bytes
    error: BaseException | None = None


class EndTransfer(Action, frozen=True):
    """Stop a transfer whose offer the peer has received and no longer wants."""

    asker: bytes


class Note(Action, frozen=True):
    """Add a line to the audit log about something that has already happened, without waiting for the disk."""

    what: Entries


class Notify(Action, frozen=True):
    """Send an answer without waiting for a reply."""

    asker: bytes
    state: str
    reason: str


class Reply(Action, frozen=True):
    """Answer the question in the reply to its own call."""

    asker: bytes
    state: str
    reason: str = ""


class Announce(Action, frozen=True):
    """Show or log on this side what a policy has answered, if the policy says so."""


class CallPerson(Action, frozen=True):
    """Tell the person that the request waits for an answer."""


class StartTimer(Action, frozen=True):
    """Start the timer that expires the request, if the peer set a time."""


class StartFunction(Action, frozen=True):
    """Run the job of the request. `by` is the policy that approved the run; empty: no policy did."""

    by: str


class Decide(Action, frozen=True):
    """Let the policies decide again. Their answer comes back as the event `Answered`."""


class FreeContent(Action, frozen=True):
    """Release the content of the request, which has ended."""


class Raise(Action, frozen=True):
    """Raise `error` in the call that caused this event."""

    error: BaseException


class Save(Awaited, frozen=True):
    """Wait until charges and grants are on the disk."""


class SaveFailure(Awaited, frozen=True):
    """Wait until the charges are on the disk, before the peer is told that its function failed. That the
    function failed is information about the data, so the run has to be paid for first.
    """

    by: str
    reason: str


class MakeOffer(Awaited, frozen=True):
    asker: bytes


class Release(Awaited, frozen=True):
    """Write to the audit log that the offer goes out, and wait for the disk; the offer may leave only after
    that. `with_question`: record the question in the same step, because it was not recorded before.
    """

    asker: bytes
    with_question: bool


class WriteAuditEntry(Awaited, frozen=True):
    """Write lines to the audit log; `Done` means that they are on the disk. `is_first`: this is the first
    question of its request.
    """

    what: Entries
    asker: bytes = b""
    is_first: bool = False


class SendAnswer(Awaited, frozen=True):
    """Send an answer as a message, and wait until the peer has received it."""

    asker: bytes
    state: str
    reason: str
