"""The division of an array into blocks: the member that adds up each block, and its deputy.

Each member owns one block of every array: the others send it their masked items of that block, and it adds
them up. A member's own masked items of its own block would be lost with it, so it sends a copy of them to a
neighbour in rank, its *deputy*. The blocks of a member and its deputy are adjacent, so the items that go to
one member are always one contiguous piece of the array.
"""

from __future__ import annotations

from dataclasses import dataclass

from duetlink.groups.secure.keystream import ALIGNED_ITEMS


@dataclass(frozen=True, slots=True)
class OwnedBlocks:
    """The blocks of an array with `items` items, one block a member.

    Block sizes are multiples of 16 items, except at the end of the array.
    """

    items: int
    members: int

    def bounds(self, rank: int) -> tuple[int, int]:
        step = -(-self.items // (self.members * ALIGNED_ITEMS)) * ALIGNED_ITEMS
        return min(rank * step, self.items), min((rank + 1) * step, self.items)

    def size(self, rank: int) -> int:
        start, stop = self.bounds(rank)
        return stop - start

    def deputy(self, rank: int) -> int:
        """Return the next rank; for the last rank, the one before it."""
        return rank + 1 if rank < self.members - 1 else rank - 1

    def sent(self, of: int, to: int) -> list[int]:
        """List the blocks that rank `of` sends to rank `to`, in their order in the array."""
        if of == to:
            return []
        return sorted((of, to)) if self.deputy(of) == to else [to]
