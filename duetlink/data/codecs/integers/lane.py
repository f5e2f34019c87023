"""Blocks of floats as integers under a shared exponent, as wide as an addition needs, and back.

Theory. One step 2^q serves all items of a block, of all members. An item becomes x / 2^q, rounded to the
nearest; the integers are added without rounding, modulo 2^width, and the sum times 2^q is the result. If q is
no larger than the lowest bit of any item, nothing is rounded at all. A narrower integer takes q from the
highest bit instead: of the width, one bit is the sign and ceil(log2 n) are headroom. An item that would be
rounded up to the first power of two beyond takes the number below it; so each item is at most one step off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs.element import Element
from duetlink.data.codecs.integers.floats import floats, unfloats
from duetlink.data.codecs.integers.spans import BLOCK_ITEMS, NONE, Spans

WIDTHS = (1, 2, 4, 8)  # bytes of an integer
_CHUNK_BLOCKS = 128
# Lossless integers are not worth the work if they save less than a tenth of the bytes.
_WORTHWHILE = 0.9
# A step beyond 2^±1000 cannot be multiplied by in float64. A peer may name any.
_MOST_EXPONENT = 1000


@dataclass(frozen=True, slots=True)
class FixedPointFormat:
    """The conversion of some blocks of an array to integers. Equal at all members.

    Attributes:
        element: the type of the array's items.
        width_bytes: the size of an integer.
        members: the number of arrays that are added.
        step_exponents: q of each block of the array, int32; undefined for blocks that are not chosen.
        chosen: a mask of the blocks that become integers; the others are sent dense.
        exact: True if q is such that no item is rounded.
    """

    element: Element
    width_bytes: int
    members: int
    step_exponents: NDArray[np.int32]
    chosen: NDArray[np.bool_]
    exact: bool

    @classmethod
    def lossless(cls, spans: Spans, element: Element, items: int, members: int) -> FixedPointFormat | None:
        """Choose integers for the blocks whose sums are proven exact; return None if that saves little.

        The width is the one with which all blocks together take the fewest bytes.
        """
        proven = spans.proven(element, members)
        width = spans.width_bits(members)
        steps = np.where(spans.top == NONE, 0, -spans.neg_low.astype(np.int32))
        proven &= np.abs(steps) <= _MOST_EXPONENT
        sizes = _block_sizes(items)
        dense_bytes = items * element.size_bytes
        best: tuple[int, int, NDArray[np.bool_]] | None = None
        for width_bytes in WIDTHS:
            chosen = proven & (width <= 8 * width_bytes)
            taken = int(sizes[chosen].sum())
            size_bytes = taken * width_bytes + (items - taken) * element.size_bytes
            if size_bytes < _WORTHWHILE * dense_bytes and (best is None or size_bytes < best[0]):
                best = (size_bytes, width_bytes, chosen)
        if best is None:
            return None
        return cls(element, best[1], members, steps, best[2], True)

    @classmethod
    def lossy(cls, spans: Spans, element: Element, members: int, width_bytes: int) -> FixedPointFormat:
        """Choose integers of that width for all blocks except special ones."""
        headroom = (members - 1).bit_length()
        top = np.where(spans.top == NONE, 0, spans.top.astype(np.int32))
        steps = top + 1 + headroom - (8 * width_bytes - 1)
        chosen = ~spans.special() & (np.abs(steps) <= _MOST_EXPONENT)
        return cls(element, width_bytes, members, steps, chosen, False)

    @property
    def storage(self) -> np.dtype[Any]:
        """The dtype of the integers, which are added modulo 2^(8 * width_bytes)."""
        return np.dtype(f"<i{self.width_bytes}")

    @property
    def bound(self) -> float:
        """The largest error of any item of a sum, before it is rounded to the element."""
        if self.exact or not self.chosen.any():
            return 0.0
        return self.members * float(np.ldexp(1.0, int(self.step_exponents[self.chosen].max())))

    def items(self, items: int) -> int:
        """Return how many of an array's items become integers."""
        return int(_block_sizes(items)[self.chosen].sum())

    def dense_places(self, items: int) -> NDArray[np.int64]:
        """Return the indices of the items that are sent dense."""
        first = np.flatnonzero(~self.chosen) * BLOCK_ITEMS
        places = (first[:, None] + np.arange(BLOCK_ITEMS)).reshape(-1)
        return places[places < items]

    def to_integers(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return the integers of the chosen blocks of a flat array of the element's storage, concatenated."""
        out: NDArray[Any] = np.empty(self.items(array.size), self.storage)
        most = (1 << (8 * self.width_bytes - 1 - (self.members - 1).bit_length())) - 1
        done = 0
        for part, steps, chosen in self._chunks(floats(array, self.element)):
            rows = part if chosen.all() else part[chosen]
            scaled = np.multiply(rows, np.exp2(-steps[chosen].astype(np.float64))[:, None], dtype=np.float64)
            np.rint(scaled, out=scaled)
            if not self.exact:
                np.clip(scaled, -most, most, out=scaled)
            whole = scaled.reshape(-1)[: out.size - done]
            with np.errstate(invalid="ignore"):  # happens only if a member lied about its exponents
                out[done : done + whole.size] = whole
            done += whole.size
        return out

    def from_integers(self, integers: NDArray[Any], array: NDArray[Any]) -> None:
        """Overwrite the chosen blocks of a flat array with the sums."""
        done = 0
        step = _CHUNK_BLOCKS * BLOCK_ITEMS
        for start in range(0, array.size, step):
            first = start // BLOCK_ITEMS
            chosen = np.flatnonzero(self.chosen[first : first + _CHUNK_BLOCKS])
            if not chosen.size:
                continue
            scale = np.exp2(self.step_exponents[first + chosen].astype(np.float64))
            part = array[start : start + step]
            if chosen.size * BLOCK_ITEMS == part.size:  # all of them, as a rule
                rows = integers[done : done + part.size].reshape(-1, BLOCK_ITEMS)
                part[:] = unfloats(np.multiply(rows, scale[:, None], dtype=np.float64), self.element).reshape(
                    -1
                )
                done += part.size
                continue
            places = (start + chosen[:, None] * BLOCK_ITEMS + np.arange(BLOCK_ITEMS)).reshape(-1)
            places = places[places < array.size]
            sums = integers[done : done + places.size] * np.repeat(scale, BLOCK_ITEMS)[: places.size]
            array[places] = unfloats(sums, self.element)
            done += places.size

    def _chunks(self, values: NDArray[Any]) -> Any:
        """Yield rows of blocks, padded with zeros, with their exponents and the mask of chosen ones."""
        step = _CHUNK_BLOCKS * BLOCK_ITEMS
        for start in range(0, values.size, step):
            part = values[start : start + step]
            short = -part.size % BLOCK_ITEMS
            if short:
                part = np.concatenate([part, np.zeros(short, part.dtype)])
            first = start // BLOCK_ITEMS
            rows = part.reshape(-1, BLOCK_ITEMS)
            last = first + len(rows)
            yield rows, self.step_exponents[first:last], self.chosen[first:last]


def _block_sizes(items: int) -> NDArray[np.int64]:
    sizes = np.full(-(-items // BLOCK_ITEMS), BLOCK_ITEMS, np.int64)
    if items % BLOCK_ITEMS:
        sizes[-1] = items % BLOCK_ITEMS
    return sizes
