"""Blocks of floats as integers under a shared exponent, as wide as an addition needs, and back.

Theory. One step 2^q serves all items of a block, of all members. An item becomes x / 2^q, rounded to the
nearest; the integers add up without rounding, modulo 2^width, and the sum times 2^q is the result. With q no
larger than the lowest bit of any item nothing is rounded at all. A narrower integer takes q from the highest
bit instead: of the width, one bit is the sign and ceil(log2 n) are headroom. An item that would be rounded up
to the first power of two beyond takes the number below it; so each item is at most one step off.
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
# Lossless integers that save less than a tenth of the bytes are not worth the work with them.
_WORTHWHILE = 0.9
# A step beyond 2^±1000 cannot be multiplied by in float64. A peer may name any.
_MOST_EXPONENT = 1000


@dataclass(frozen=True, slots=True)
class FixedPointFormat:
    """How some blocks of an array become integers. Equal at all members.

    Attributes:
        element: of the array's items.
        width_bytes: of an integer.
        members: as many as are added.
        step_exponents: q of each block of the array, int32; means nothing for those that are not chosen.
        chosen: which blocks become integers; the others are dense.
        exact: whether q is such that no item is rounded.
    """

    element: Element
    width_bytes: int
    members: int
    step_exponents: NDArray[np.int32]
    chosen: NDArray[np.bool_]
    exact: bool

    @classmethod
    def lossless(cls, spans: Spans, element: Element, items: int, members: int) -> FixedPointFormat | None:
        """Integers for the blocks whose sums are proven to be those of floats; None if that saves little.

        Of the widths, the one with which all blocks together take the fewest bytes.
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
        """Integers of that width for all blocks but the special ones."""
        headroom = (members - 1).bit_length()
        top = np.where(spans.top == NONE, 0, spans.top.astype(np.int32))
        steps = top + 1 + headroom - (8 * width_bytes - 1)
        chosen = ~spans.special() & (np.abs(steps) <= _MOST_EXPONENT)
        return cls(element, width_bytes, members, steps, chosen, False)

    @property
    def storage(self) -> np.dtype[Any]:
        """Of the integers, which are added modulo 2^(8 * width)."""
        return np.dtype(f"<i{self.width_bytes}")

    @property
    def bound(self) -> float:
        """How far any item of a sum may be from the exact one, before it is rounded to the element."""
        if self.exact or not self.chosen.any():
            return 0.0
        return self.members * float(np.ldexp(1.0, int(self.step_exponents[self.chosen].max())))

    def items(self, items: int) -> int:
        """How many of an array's items become integers."""
        return int(_block_sizes(items)[self.chosen].sum())

    def dense_places(self, items: int) -> NDArray[np.int64]:
        """Where the items are that do not."""
        first = np.flatnonzero(~self.chosen) * BLOCK_ITEMS
        places = (first[:, None] + np.arange(BLOCK_ITEMS)).reshape(-1)
        return places[places < items]

    def to_integers(self, array: NDArray[Any]) -> NDArray[Any]:
        """The integers of the chosen blocks, one after the other; of a flat array of the element's
        storage."""
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
            with np.errstate(invalid="ignore"):  # only where a member has lied about its exponents
                out[done : done + whole.size] = whole
            done += whole.size
        return out

    def from_integers(self, integers: NDArray[Any], array: NDArray[Any]) -> None:
        """Put the sums in the place of the chosen blocks of a flat array."""
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
        """Rows of blocks, filled up with zeros, with their exponents and which of them are chosen."""
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
