"""The blocks of an array, and the parts that it is cut into: the ranges of items that one frame carries.

Theory. A schedule names only blocks. A large array is cut into parts. Each part runs through the schedule by
itself, a few at a time: while one is added, another is on its way. Both ends of a link compute the same parts
and pieces from their calls, so a frame needs no position except the number of its part. The first part sends
a frame even where it is empty, so that members that call different operations always notice it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

# One frame: large enough that its fixed cost (about 100 µs of Python at both ends together) is small against
# its bytes, small enough that several parts of an array of some MiB are in flight.
FRAME_BYTES = 512 * 1024
# the most that one frame carries, where a step takes many blocks at once
MAX_FRAME_BYTES = 8 * 1024 * 1024

Piece = tuple[int, int]  # items from, to


class Layout(Protocol):
    """The blocks and parts of one array."""

    @property
    def parts(self) -> int:
        """The number of parts of the array, at least one."""

    def pieces(self, part: int, blocks: Sequence[int]) -> list[Piece]:
        """Return the ranges of items that these blocks take up in this part; each range is one frame."""


@dataclass(frozen=True, slots=True)
class Whole:
    """The layout of an array that belongs to all members: each part is contiguous and has its own blocks."""

    items: int
    blocks: int
    part_items: int

    @classmethod
    def of(cls, items: int, item_bytes: int, blocks: int) -> Whole:
        """Choose parts of which each block is one frame, or less where there are very many blocks."""
        part_bytes = min(FRAME_BYTES * blocks, MAX_FRAME_BYTES)
        return cls(items, blocks, max(blocks, part_bytes // item_bytes))

    @property
    def parts(self) -> int:
        return max(1, -(-self.items // self.part_items))

    def cuts(self) -> NDArray[np.int64]:
        """Return the item indices that bound the blocks of each part, shape (parts, blocks + 1)."""
        starts = np.arange(self.parts, dtype=np.int64)[:, None] * self.part_items
        sizes = np.minimum(self.part_items, self.items - starts)
        found: NDArray[np.int64] = starts + sizes * np.arange(self.blocks + 1) // self.blocks
        return found

    def pieces(self, part: int, blocks: Sequence[int]) -> list[Piece]:
        start = part * self.part_items
        size = min(self.part_items, self.items - start)
        cuts = [(start + size * b // self.blocks, start + size * (b + 1) // self.blocks) for b in blocks]
        return _merged(cuts, self.part_items)


@dataclass(frozen=True, slots=True)
class Blocks:
    """The layout of an array with one block for each member: a part takes some items of every block."""

    bounds: tuple[int, ...]  # item indices, one more than there are blocks
    part_items: int

    @classmethod
    def of(cls, sizes: Sequence[int], item_bytes: int) -> Blocks:
        bounds = [0]
        for size in sizes:
            bounds.append(bounds[-1] + size)
        return cls(tuple(bounds), max(1, FRAME_BYTES // item_bytes))

    @property
    def parts(self) -> int:
        largest = max(stop - start for start, stop in zip(self.bounds, self.bounds[1:], strict=False))
        return max(1, -(-largest // self.part_items))

    def pieces(self, part: int, blocks: Sequence[int]) -> list[Piece]:
        found = []
        for block in blocks:
            start, stop = self.bounds[block], self.bounds[block + 1]
            first = min(start + part * self.part_items, stop)
            last = min(first + self.part_items, stop)
            if first < last or part == 0:
                found.append((first, last))
        return _merged(found, self.part_items)


def _merged(pieces: list[Piece], most_items: int) -> list[Piece]:
    """Join adjacent ranges, up to `most_items`."""
    found: list[Piece] = []
    for start, stop in pieces:
        if found and found[-1][1] == start and stop - found[-1][0] <= most_items:
            found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))
    return found
