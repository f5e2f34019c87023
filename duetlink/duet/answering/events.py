"""What can happen to a request. An asker is the number of one question that waits for its answer."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from duetlink.duet.answering.actions import Awaited


class FailureKind(enum.Enum):
    """Of what kind a failure is."""

    AUDIT = "the audit log cannot be written"
    GONE = "what was asked for is no longer shared, or has changed"
    INTERRUPTED = "whoever waited has given up, or a defect of ours: nothing may be awaited now"
    OTHER = "anything else, such as a link that has closed"


@dataclass(frozen=True, slots=True)
class Yes:
    """By whom, and whether that costs a policy a part of its quota."""

    by: str
    is_charged: bool = False


@dataclass(frozen=True, slots=True)
class No:
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Fail:
    """What was asked for has failed, and the peer is told so in these words."""

    by: str
    reason: str


class Event:
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class RequestArrived(Event):
    """For the first time, or again after a restart. `answer` is a policy's or a budget's; None: a person is
    to answer. What has to be run first and was not `is_unmade`; a program `runs` in any case, to be looked
    at.
    """

    asker: bytes
    answer: Yes | No | None = None
    is_unmade: bool = False
    runs: bool = False


@dataclass(frozen=True, slots=True)
class AskedAgain(Event):
    """For what this peer was granted before; the yes that stands answers."""

    asker: bytes
    yes: Yes


@dataclass(frozen=True, slots=True)
class Joined(Event):
    """Another question for the same thing, while the request is pending."""

    asker: bytes


@dataclass(frozen=True, slots=True)
class Answered(Event):
    """A person has decided, or the policies have looked again."""

    answer: Yes | No | Fail | None
    is_unmade: bool = False


@dataclass(frozen=True, slots=True)
class FunctionMade(Event):
    """A function that a policy has had run is there to be decided about."""


@dataclass(frozen=True, slots=True)
class FunctionFailed(Event):
    """One that a policy has had run has failed; `told` where that policy says so, else a person decides."""

    told: Fail | None = None


@dataclass(frozen=True, slots=True)
class FunctionLost(Event):
    """It could not be run, or was stopped."""


@dataclass(frozen=True, slots=True)
class Withdrawn(Event):
    asker: bytes


@dataclass(frozen=True, slots=True)
class PeerGone(Event):
    """Whoever asked will hear nothing any more; somebody in its place may ask again."""


@dataclass(frozen=True, slots=True)
class Expired(Event):
    reason: str


@dataclass(frozen=True, slots=True)
class Retired(Event):
    """What was asked for is no longer offered."""

    reason: str


@dataclass(frozen=True, slots=True)
class Done(Event):
    action: Awaited


@dataclass(frozen=True, slots=True)
class Failed(Event):
    action: Awaited
    why: FailureKind
    error: BaseException
