"""The terms that members agree on before they make sketches, and the meaning of a summed sketch.

Theory. With the lowest and the highest bit of all members' items known, each item becomes an integer under
one exponent. A decoded item is the exact sum of these. It has the bits of the float sum where the order of
additions cannot matter: at places of one or two members, and where no sum has more bits than a mantissa.
Values at the other places have to be added as floats.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs.element import Element
from duetlink.data.codecs.integers.floats import floats, unfloats
from duetlink.data.codecs.integers.spans import NONE, SPECIAL, Spans
from duetlink.data.codecs.sketch.peel import Peeled
from duetlink.data.codecs.sketch.plan import MAX_LOAD, SketchPlan
from duetlink.data.codecs.support import Places
from duetlink.groups.collectives.execution.elements import Array
from duetlink.groups.collectives.sums.sampling import SAMPLE_BYTES, density_of, sample_of, support_of

_SLACK = 1.25  # a sample estimates the density of a sparse array within about a quarter
_HEAD = struct.Struct(f"<Qhh{SAMPLE_BYTES}s")
HEAD_BYTES = _HEAD.size
_VALUE_BITS = 62


def head_of(array: Array, element: Element, places: Places, values: Array) -> Array:
    """Encode in `HEAD_BYTES` this member's number of items that are not 0, the bits they use, and a
    sample.
    """
    spans = Spans.of(values, element)
    top, neg_low = (int(each.max(initial=NONE)) for each in (spans.top, spans.neg_low))
    support = support_of(sample_of(array), element).tobytes()
    return np.frombuffer(_HEAD.pack(places.size, top, neg_low, support), np.uint8)


@dataclass(frozen=True, slots=True)
class SketchTerms:
    """The terms that follow from the heads of all members with a value. Equal at all of them."""

    element: Element
    items: int  # of the array
    members: int
    most_places: int  # of all members together
    load: int  # the estimated size of the union
    spans: Spans  # over all items as one block

    @classmethod
    def of(cls, heads: Sequence[bytes], element: Element, items: int) -> SketchTerms:
        unpacked = [_HEAD.unpack(head) for head in heads]
        counts = [min(each[0], items) for each in unpacked]  # not trusted: a member may send any number
        supports = np.array([np.frombuffer(each[3], np.uint8) for each in unpacked])
        expected = int(_SLACK * density_of(supports, items) * items)
        both = [np.array([max(each[index] for each in unpacked)], np.int16) for index in (1, 2)]
        most = sum(counts)
        load = min(most, items, max(expected, *counts))
        return cls(element, items, len(heads), most, load, Spans(*both))

    @property
    def refusal(self) -> str:
        """The reason why a sketch is impossible or useless; empty if it is neither."""
        if self.spans.special()[0]:
            return "NaN, infinity, -0.0 or subnormal numbers cannot go into a sketch"
        if self.spans.width_bits(self.members)[0] > _VALUE_BITS:
            return "the items' exponents are too far apart for one sketch"
        if self.is_large(self.load):
            return "so many items make a sketch that is larger than the array"
        return ""

    def is_large(self, load: int) -> bool:
        """Return True if a sketch for that many places takes more bytes than the array."""
        if load > min(self.items, MAX_LOAD):
            return True
        return 8 * SketchPlan.for_load(self.items, load).words > self.items * self.element.size_bytes

    @property
    def _step(self) -> int:
        """The exponent under which items are integers."""
        return 0 if self.spans.top[0] in (NONE, SPECIAL) else -int(self.spans.neg_low[0])

    def integers(self, values: Array) -> NDArray[np.int64]:
        """Convert one member's values into the integers of its sketch."""
        with np.errstate(all="ignore"):  # only if a member has sent false exponents
            scaled = np.ldexp(floats(values, self.element).astype(np.float64), -self._step)
            return scaled.astype(np.int64)

    def sums(self, read: Sequence[Peeled]) -> tuple[Places, Array, Places]:
        """Return the places with a known float sum, the sums there, and the places that still have to be
        added.
        """
        places = np.concatenate([each.places for each in read])
        sums = np.concatenate([each.values for each in read])
        counts = np.concatenate([each.counts for each in read])
        whole = sums.astype(np.float64)
        proven = counts <= 2
        if self.spans.proven(self.element, self.members)[0]:
            proven[:] = True
        proven &= _round_trips(whole, sums)  # otherwise it would be rounded twice
        exact: NDArray[Any] = np.ldexp(whole[proven], self._step)
        if self.element.size_bytes == 2:  # which are added in float32, and rounded once more
            with np.errstate(over="ignore"):
                exact = exact.astype(np.float32)
        return places[proven], unfloats(exact, self.element), places[~proven]


def _round_trips(whole: NDArray[np.float64], sums: NDArray[np.int64]) -> Any:
    """Mark the integers that a float64 holds exactly. (2^63 is not an int64; no sum comes near it.)"""
    return (np.abs(whole) < 2.0**62) & (whole.astype(np.int64) == sums)
