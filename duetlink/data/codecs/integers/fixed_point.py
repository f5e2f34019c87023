"""Real numbers of a declared range as residues, to which masks and noise can be added.

Theory. An item x becomes the integer round(x * 2^f), and that integer a residue modulo 2^bits, in two's
complement. Residues are added exactly and in any order, and adding and then subtracting a mask changes
nothing. The sum of all members can be recovered from its residue, because f is chosen so that the sum stays
within half of the ring: ceil(log2 members) bits of headroom lie above the declared range.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from duetlink.data.codecs.scratch import scratch
from duetlink.errors import OutOfRange, RemoteProtocolError

# Items converted at a time: three buffers of this size stay in a core's cache.
_BLOCK_ITEMS = 1 << 15
# With more, an item times a power of two may not be a normal float64.
_MOST_FRACTION_BITS = 1000
_MOST_MEMBERS = 1 << 16
_WIRE = struct.Struct("<IiIdI")


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """The conversion of items to residues. Members whose residues are added use equal ones.

    Attributes:
        bits: 32 or 64, the size of a residue.
        fraction_bits: the step between neighbours is 2^-fraction_bits; may be negative.
        limit: the largest absolute value of any member's items.
        members: the largest number of members whose sum can be recovered.
    """

    bits: int
    fraction_bits: int
    limit: float
    members: int

    def __post_init__(self) -> None:
        if self.bits not in (32, 64):
            raise ValueError(f"residues of {self.bits} bits; there are 32 and 64")
        if not (math.isfinite(self.limit) and self.limit > 0):
            raise ValueError(f"a range of {self.limit}; it must be over 0 and finite")
        if not 1 <= self.members <= _MOST_MEMBERS:
            raise ValueError(f"{self.members} members; 1 to {_MOST_MEMBERS} are possible")
        if abs(self.fraction_bits) > _MOST_FRACTION_BITS or self._spare_bits < 0:
            raise ValueError(
                f"{self.members} items up to {self.limit:g} with {self.fraction_bits} bits after the point "
                f"do not fit {self.bits} bits"
            )

    @classmethod
    def of_range(cls, limit: float, members: int, *, bits: int = 64, noise_bits: int = 0) -> FixedPoint:
        """Return the finest step with which the sum of all members stays in the ring.

        `noise_bits` are kept free above the sum: noise that is added may be 2^noise_bits times as large as
        the largest sum, less one.

        Raises:
            ValueError: the range is impossible, or leaves no bits for the items.
        """
        if not (math.isfinite(limit) and limit > 0):
            raise ValueError(f"a range of {limit}; it must be over 0 and finite")
        exponent = math.frexp(limit)[1]  # limit < 2^exponent
        fraction_bits = bits - 2 - noise_bits - _headroom(members) - exponent
        return cls(bits, min(fraction_bits, _MOST_FRACTION_BITS), limit, members)

    @property
    def _spare_bits(self) -> int:
        """Bits above the largest sum and below the sign; one is for what rounding adds."""
        exponent = math.frexp(self.limit)[1]
        return self.bits - 2 - _headroom(self.members) - exponent - self.fraction_bits

    @property
    def storage(self) -> np.dtype[Any]:
        """The dtype of residues: unsigned, so that adding wraps."""
        return np.dtype(f"<u{self.bits // 8}")

    @property
    def step(self) -> float:
        """The difference between two neighbours."""
        return math.ldexp(1.0, -self.fraction_bits)

    @property
    def bound(self) -> float:
        """The largest error of a sum of all members, before it is rounded to a dtype."""
        return self.members * self.step / 2

    def to_ring(self, array: NDArray[np.floating[Any]]) -> NDArray[Any]:
        """Return residues of float16, float32 or float64 items, in new memory of the same shape.

        Each item is rounded to the nearest step, halves to even.

        Raises:
            OutOfRange: an item is not a number or beyond the limit. Nothing is clipped.
        """
        flat = np.ascontiguousarray(array).reshape(-1)
        self.check(flat)
        out: NDArray[Any] = np.empty(flat.size, self.storage)
        signed = out.view(f"<i{self.bits // 8}")
        scale = math.ldexp(1.0, self.fraction_bits)
        work = scratch("integers.to_ring", (min(_BLOCK_ITEMS, flat.size),), np.float64)
        for start in range(0, flat.size, _BLOCK_ITEMS):
            items = flat[start : start + _BLOCK_ITEMS]
            scaled = work[: items.size]
            np.multiply(items, scale, out=scaled, dtype=np.float64)
            np.rint(scaled, out=scaled)
            signed[start : start + items.size] = scaled
        return out.reshape(array.shape)

    def from_ring(self, total: NDArray[Any], dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Return the number that a sum of residues stands for, in new memory.

        It is rounded to `dtype` once if the sum is below 2^53 steps, and to float64 before that otherwise.
        """
        signed = np.ascontiguousarray(total).view(f"<i{self.bits // 8}")
        found: NDArray[Any] = np.multiply(signed, self.step, dtype=np.float64)
        with np.errstate(over="ignore"):  # a sum that the dtype does not hold is infinite, as a dense one is
            return found.astype(dtype, copy=False)

    def check(self, flat: NDArray[Any]) -> None:
        """Raise OutOfRange if an item of this flat array is not a number or beyond the limit."""
        if not flat.size:
            return
        least, most = float(flat.min()), float(flat.max())
        if not (least >= -self.limit and most <= self.limit):  # NaN is neither
            wrong = ~(np.abs(flat.astype(np.float64)) <= self.limit)
            index = int(np.flatnonzero(wrong)[0])
            advice = "declare a larger range, or clip them yourself"
            if np.isnan(flat[index]):
                advice = "no range has NaN: replace it, or leave it out"
            raise OutOfRange(
                f"{int(np.count_nonzero(wrong))} items are beyond the range of ±{self.limit:g}, the first "
                f"({flat[index]:g}) at {index}; {advice}"
            )

    def to_wire(self) -> bytes:
        """Return 24 bytes that are equal for members who agree."""
        return _WIRE.pack(self.bits, self.fraction_bits, self.members, self.limit, 0)

    @classmethod
    def from_wire(cls, data: bytes) -> FixedPoint:
        """Parse 24 bytes; raise RemoteProtocolError if they are malformed."""
        try:
            bits, fraction_bits, members, limit, rest = _WIRE.unpack(data)
            if rest:
                raise ValueError("bytes that mean nothing are set")
            return cls(bits, fraction_bits, limit, members)
        except (struct.error, ValueError) as error:
            raise RemoteProtocolError(f"a malformed fixed-point format: {error}") from None


def _headroom(members: int) -> int:
    """ceil(log2 members)."""
    return (members - 1).bit_length()
