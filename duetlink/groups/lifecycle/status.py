"""The state of a group at one moment, as plain data for a panel or a script."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# How a member went: it announced that it leaves, its kernel ended, it fell silent, it broke the protocol, or
# other members lost it while the link to this one was in order.
Going = Literal["left", "notebook closed", "silent", "put out", "lost by others"]


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """One member of the group, as this member sees it."""

    rank: int | None  # None while it waits for the next epoch
    name: str
    state: str  # as in `group.members`
    waited_s: float  # seconds that operations of this epoch have waited for it here; large for a slow member


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """One direction of the link between two members of the epoch. A field is None if it is not known."""

    of: int  # rank of the sender
    to: int  # rank of the receiver
    path: str | None
    round_trip_s: float | None
    bytes_per_s: float | None  # latest measurement
    now: bool  # True: current figures; False: those that the members exchanged earlier in the epoch


@dataclass(frozen=True, slots=True)
class OperationStatus:
    """One operation that runs at this member."""

    call: str  # "all_reduce at cell 3:12"
    elapsed_s: float
    done_bytes: int
    total_bytes: int  # 0 before it is known, and for operations without a value
    waiting_for: tuple[int, ...]  # ranks; if some have not begun the operation, only those
    codec: str = ""  # the `codec` argument of an all_reduce


@dataclass(frozen=True, slots=True)
class SumStatus:
    """The newest sum of this epoch that was called with a codec for sums."""

    codec: str  # the `codec` argument
    way: str  # the method that ran: "dense", "union", …
    density: float | None  # share of items that are not zero at some member; None if it was not determined
    sent_bytes: int  # sent by this member in total
    dense_bytes: int  # it would have sent these without a codec; 0 if the members share memory
    text: str  # its line in `group.sums`


@dataclass(frozen=True, slots=True)
class GoneStatus:
    """A member that has gone."""

    rank: int | None  # in its last epoch; None if it was in none
    name: str
    epoch: int  # number of the last epoch before it went
    when_s: float  # Unix time, by this machine's clock
    how: Going
    why: str  # how its link to this member ended; empty if only others know


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """The result of `group.status()`. Names have no characters that alter a display; escape them for HTML."""

    state: str
    code: str | None
    verifier: str | None
    epoch: int
    rank: int | None
    size: int
    members: tuple[MemberStatus, ...]  # by rank, then newcomers that wait for the next epoch
    links: tuple[LinkStatus, ...]
    operation: OperationStatus | None  # the oldest operation that runs
    gone: tuple[GoneStatus, ...] = ()  # members that have gone, the newest last, 16 at most
    sum: SumStatus | None = None
