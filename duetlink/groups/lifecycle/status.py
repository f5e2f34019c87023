"""A group at one moment, as plain data: for a panel, or for whoever wants to watch it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# How a member went: by its own word, with its kernel, without a word, by breaking the protocol, or in a way
# that only others have seen.
Going = Literal["left", "notebook closed", "silent", "put out", "lost by others"]


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """One member as this one sees it."""

    rank: int | None  # None while it waits for the next epoch
    name: str
    state: str  # as in `group.members`
    waited_s: float  # how long operations of this epoch have waited here for it: who is slow


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """One direction of a link between two members of the epoch. None: not known."""

    of: int  # rank of whoever sends
    to: int
    path: str | None
    round_trip_s: float | None
    bytes_per_s: float | None  # as it was measured last
    now: bool  # as it is at this moment; else as its end told at the beginning of the epoch


@dataclass(frozen=True, slots=True)
class OperationStatus:
    """One call of an operation, under way here."""

    call: str  # "all_reduce at cell 3:12"
    elapsed_s: float
    done_bytes: int
    total_bytes: int  # 0 before it is known, and of operations without a value
    waiting_for: tuple[int, ...]  # ranks; where some have not begun, only those
    codec: str = ""  # of an all_reduce that was called with one


@dataclass(frozen=True, slots=True)
class SumStatus:
    """The newest sum of this epoch that was called with a codec of sums."""

    codec: str  # that was asked for
    way: str  # that ran: "dense", "union", …
    density: float | None  # which part of the items is not zero at some member, where that was found out
    sent_bytes: int  # by this member, all in all
    dense_bytes: int  # that it would have sent without a codec; 0 where members share memory
    text: str  # what `group.sums` has of it


@dataclass(frozen=True, slots=True)
class GoneStatus:
    """A member that is gone."""

    rank: int | None  # in the epoch before; None if it was in none
    name: str
    epoch: int  # the last one that it was in
    when_s: float  # Unix time, by this machine's clock
    how: Going
    why: str  # how its link ended here; empty where only others know


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """What `group.status()` gives. Names have no characters that alter a display; escape them for HTML."""

    state: str
    code: str | None
    verifier: str | None
    epoch: int
    rank: int | None
    size: int
    members: tuple[MemberStatus, ...]  # by rank, then those who wait
    links: tuple[LinkStatus, ...]
    operation: OperationStatus | None  # the oldest that runs
    gone: tuple[GoneStatus, ...] = ()  # the newest last, 16 at most
    sum: SumStatus | None = None
