"""The events that the state machine takes. `asker` is always the number of one question that waits for its
answer.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from duetlink.duet.answering.actions import Awaited


class FailureKind(enum.Enum):
    """The kinds of failure of an awaited action that the machine treats differently."""

    AUDIT = "the audit log cannot be written"
    GONE = "what was asked for is no longer shared, or has changed"
    INTERRUPTED = "the caller was cancelled, or a defect of ours: nothing may be awaited now"
    OTHER = "anything else, such as a link that has closed"


@dataclass(frozen=True, slots=True)
class Yes:
    """An approval. `by` is who gave it; `is_charged`: it costs a part of that policy's quota."""

    by: str
    is_charged: bool = False


@dataclass(frozen=True, slots=True)
class No:
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Fail:
    """The answer that the run has failed; the peer reads `reason`."""

    by: str
    reason: str


class Event:
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class RequestArrived(Event):
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


@dataclass(frozen=True, slots=True)
class AskedAgain(Event):
    """A question for something that this peer was granted before; the grant answers it."""

    asker: bytes
    yes: Yes


@dataclass(frozen=True, slots=True)
class Joined(Event):
    """One more question for the same thing while the request is pending."""

    asker: bytes


@dataclass(frozen=True, slots=True)
class Answered(Event):
    """A person has decided, or the policies have decided again. None: the policies leave it to a person."""

    answer: Yes | No | Fail | None
    is_unmade: bool = False


@dataclass(frozen=True, slots=True)
class FunctionMade(Event):
    """The run succeeded; its result can be decided about."""


@dataclass(frozen=True, slots=True)
class FunctionFailed(Event):
    """The run raised an error. `told` is the answer that its policy gives to the peer; None: a person
    decides.
    """

    told: Fail | None = None


@dataclass(frozen=True, slots=True)
class FunctionLost(Event):
    """The run did not happen, or was stopped before its end."""


@dataclass(frozen=True, slots=True)
class Withdrawn(Event):
    asker: bytes


@dataclass(frozen=True, slots=True)
class PeerGone(Event):
    """The peer has left for good. Its questions will not be answered; another peer may ask for the same
    again.
    """


@dataclass(frozen=True, slots=True)
class Expired(Event):
    reason: str


@dataclass(frozen=True, slots=True)
class Retired(Event):
    """The asset, or one that the result is made of, is no longer shared in this revision."""

    reason: str


@dataclass(frozen=True, slots=True)
class Done(Event):
    action: Awaited


@dataclass(frozen=True, slots=True)
class Failed(Event):
    action: Awaited
    why: FailureKind
    error: BaseException
