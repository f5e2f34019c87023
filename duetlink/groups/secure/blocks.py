"""Which member adds up which items, and who keeps a second copy for it.

Each member owns one block of every array: the others send it theirs of that block, masked. What a member has
of its own block would be lost with it, so it sends that to the next rank, its *deputy*.
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
        return (rank + 1) % self.members

    def represented(self, rank: int) -> int:
        """Whose deputy this member is."""
        return (rank - 1) % self.members

    def pieces(self, of: int, to: int) -> list[int]:
        """The blocks that `of` sends to `to`, one after the other; to itself as well, which costs nothing."""
        return [to, of] if self.deputy(of) == to else [to]
