"""Which member adds up which items, and who keeps a second copy for it.

Each member owns one block of every array: the others send it theirs of that block, masked. What a member has
of its own block would be lost with it, so it sends that to a neighbour in rank, its *deputy*. The two blocks
lie side by side, so that what goes to each member is one piece of the array.
"""

from __future__ import annotations

from dataclasses import dataclass

from duetlink.groups.secure.keystream import ALIGNED_ITEMS


@dataclass(frozen=True, slots=True)
class OwnedBlocks:
    """Of an array of `items`, for `members` members; all but the last ones are multiples of 16 items."""

    items: int
    members: int

    def bounds(self, rank: int) -> tuple[int, int]:
        step = -(-self.items // (self.members * ALIGNED_ITEMS)) * ALIGNED_ITEMS
        return min(rank * step, self.items), min((rank + 1) * step, self.items)

    def size(self, rank: int) -> int:
        start, stop = self.bounds(rank)
        return stop - start

    def deputy(self, rank: int) -> int:
        """The next rank; that of the last one is the one before."""
        return rank + 1 if rank < self.members - 1 else rank - 1

    def sent(self, of: int, to: int) -> list[int]:
        """The blocks that `of` sends to `to`, one after the other as they lie in the array."""
        if of == to:
            return []
        return sorted((of, to)) if self.deputy(of) == to else [to]
