"""A group at one moment, as plain data: for a panel, or for whoever wants to watch it."""

from __future__ import annotations

from dataclasses import dataclass


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
