"""The events that the state machine takes. `asker` is always the number of one question that waits for its
answer.
"""

from __future__ import annotations

import enum

import msgspec

from duetlink.duet.answering.actions import Awaited


class FailureKind(enum.Enum):
    """The kinds of failure of an awaited action that the machine treats differently."""

    AUDIT = "the audit log cannot be written"
    GONE = "what was asked for is no longer shared, or has changed"
    INTERRUPTED = "the caller was cancelled, or a defect of ours: nothing may be awaited now"
    OTHER = "anything else, such as a link that has closed"


class Yes(msgspec.Struct, frozen=True):
    """An approval. `by` is who gave it; `is_charged`: it costs a part of that policy's quota."""

    by: str
    is_charged: bool = False


class No(msgspec.Struct, frozen=True):
    by: str
    reason: str


class Fail(msgspec.Struct, frozen=True):
    """The answer that the run has failed; the peer reads `reason`."""

    by: str
    reason: str


class Event(msgspec.Struct, frozen=True):
    """Something that happened to a request."""


class RequestArrived(Event, frozen=True):
    """A question for something that has no grant: a new request, or one from before a restart that is asked
    again.

    `answer` is that of a policy or a budget; None: a person has to answer. `is_unmade`: the result does not
    exist yet, the job has to run first. `runs`: the job runs whatever the answer is, because a person has to
    see its result (programs do, functions do not).
    """

    asker: bytes
    answer: Yes | No | None = None
    is_unmade: bool = False
    runs: bool = False


class AskedAgain(Event, frozen=True):
    """A question for something that this peer was granted before; the grant answers it."""

    asker: bytes
    yes: Yes


class Joined(Event, frozen=True):
    """One more question for the same thing while the request is pending."""

    asker: bytes


class Answered(Event, frozen=True):
    """A person has decided, or the policies have decided again. None: the policies leave it to a person."""

    answer: Yes | No | Fail | None
    is_unmade: bool = False


class FunctionMade(Event, frozen=True):
    """The run succeeded; its result can be decided about."""


class FunctionFailed(Event, frozen=True):
    """The run raised an error. `told` is the answer that its policy gives to the peer; None: a person
    decides.
    """

    told: Fail | None = None


class FunctionLost(Event, frozen=True):
    """The run did not happen, or was stopped before its end."""


class Withdrawn(Event, frozen=True):
    asker: bytes


class PeerGone(Event, frozen=True):
    """The peer has left for good. Its questions will not be answered; another peer may ask for the same
    again.
    """


class Expired(Event, frozen=True):
    reason: str


class Retired(Event, frozen=True):
    """The asset, or one that the result is made of, is no longer shared in this revision."""

    reason: str


class Done(Event, frozen=True):
    action: Awaited


class Failed(Event, frozen=True):
    action: Awaited
    why: FailureKind
    error: BaseException
