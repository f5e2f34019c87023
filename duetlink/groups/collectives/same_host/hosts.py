"""Which members share a host: an agreement by what each has mapped, the same at all members.

Every member sends which members' memory it has mapped, and all decide by the same reports. Two members are
neighbours if each has mapped the other. A host is a set of members that are all neighbours of each other and
of nobody else. Where one member of a connected set of neighbours lacks another, all of that set stay single,
since an operation in memory is over only when each member has read all others.

A member that reports too little is alone, and one that reports too much is a neighbour of nobody who has not
mapped it. One that sends two members different reports brings them to different hosts. The hosts are part of
every call that uses them, so such calls do not match, and end with OperationMismatch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from duetlink.groups.collectives.planning.costs import HostRanks
from duetlink.groups.collectives.same_host.shared import SharedOperations


@dataclass(frozen=True, slots=True)
class Hosts:
    """The members by host, and the memory that this member shares with those of its own."""

    ranks: HostRanks
    shared: SharedOperations | None  # None if this member is the only one of its host

    @property
    def is_one(self) -> bool:
        """True if all members are on one host."""
        return len(self.ranks) == 1


def report_of(mapped: Iterable[int], size: int) -> bytes:
    """Encode the ranks whose memory a member has mapped, one bit for each rank of the group."""
    return sum(1 << rank for rank in mapped).to_bytes((size + 7) // 8, "little")


def hosts_of(reports: Sequence[bytes]) -> HostRanks:
    """Return the ranks of each host, ascending, by the members' reports; the order is that of first ranks.

    A report of another length than `report_of` gives counts as empty.
    """
    size = len(reports)
    mapped = [_ranks_in(report, size) for report in reports]
    neighbours = [{of for of in mapped[rank] if rank in mapped[of]} | {rank} for rank in range(size)]
    found: list[tuple[int, ...]] = []
    seen: set[int] = set()
    for rank in range(size):
        if rank in seen:
            continue
        together = _connected(rank, neighbours)
        seen |= together
        if all(neighbours[each] == together for each in together):
            found.append(tuple(sorted(together)))
        else:
            found += [(each,) for each in together]
    return tuple(sorted(found))


def _ranks_in(report: bytes, size: int) -> set[int]:
    if len(report) != (size + 7) // 8:
        return set()
    bits = int.from_bytes(report, "little")
    return {rank for rank in range(size) if bits >> rank & 1}


def _connected(rank: int, neighbours: Sequence[Collection[int]]) -> set[int]:
    """Return the ranks that can be reached from this one, over neighbours."""
    found, todo = {rank}, [rank]
    while todo:
        new = set(neighbours[todo.pop()]) - found
        found |= new
        todo += new
    return found
