"""The encoding of arrays as residues with noise, and the decoding of their sum.

The encoding does not depend on the values: the range is declared by the user, or follows from
`DEFAULT_LIMIT`. An exponent that members agree on would give finer steps, but would reveal the largest value
to all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from duetlink.data.codecs.element import Element
from duetlink.data.codecs.integers.fixed_point import FixedPoint
from duetlink.data.codecs.integers.floats import floats, unfloats
from duetlink.errors import OutOfRange, SecureSumFailed, SettingError, UnsupportedValue
from duetlink.groups.collectives.execution.elements import Array, divide
from duetlink.groups.secure.keystream import Residues
from duetlink.groups.secure.naming import SUM_BITS
from duetlink.groups.secure.noise import MOST_SIGMA, discrete_gaussian

# The limit of floats if none is declared. With 64 bits, steps are 2^-34 or finer for up to 16 members.
DEFAULT_LIMIT = 1e6
# Sums use a 16th of the ring, so random garbage is out of range in 15 of 16 items.
_GUARD_BITS = 4
# With `accountable`, items are at most 2^SUM_BITS / members steps (`naming.py`).
_ACCOUNTABLE_GUARD_BITS = 62 - SUM_BITS
# Finer steps are not needed with noise: the standard deviation of a share is at most 2^20 steps.
_FINEST_SIGMA = 2**20
# A standard deviation of fewer steps would be rounded up by more than 1/64.
_COARSEST_SIGMA = 64
# Larger noise has a probability of 10^-57 for each item.
_MOST_DEVIATIONS = 16
_CHUNK_ITEMS = 1 << 18


@dataclass(frozen=True, slots=True)
class Range:
    """The range and the step of the residues for items of one dtype.

    Attributes:
        element: the dtype.
        fixed: the fixed-point format of floats; None for integers, whose step is 1.
        limit: the largest magnitude of an item. For floats it is rounded up to a value of the dtype.
        members: the number of members whose items are added.
        share_sigma: standard deviation of each member's part of the noise, in steps; 0 without noise.
    """

    element: Element
    fixed: FixedPoint | None
    limit: float
    members: int
    share_sigma: int = 0

    @classmethod
    def of(
        cls,
        element: Element,
        members: int,
        limit: float | None,
        noise: float,
        honest: int,
        *,
        accountable: bool = False,
    ) -> Range:
        """Choose the range for items of this dtype.

        Args:
            element: the dtype.
            members: the number of members.
            limit: the largest magnitude of an item; None means 10^6 for floats, and for integers the largest
                that 64 bits allow.
            noise: standard deviation of the noise that `honest` members add together.
            honest: the number of members that do not collude.
            accountable: the member that gave garbage is to be named; residues then have 64 bits, of which
                sums use few.

        Raises:
            UnsupportedValue: there is no secure sum for this dtype.
            SettingError: the limit or the noise is invalid, or the noise is too small for the steps.
        """
        if limit is not None and not (math.isfinite(limit) and limit > 0):
            raise SettingError(f"limit is {limit!r}: it is above 0 and finite")
        if not (math.isfinite(noise) and noise >= 0):
            raise SettingError(f"noise is {noise!r}: it is a finite number, 0 or above")
        share = noise / math.sqrt(honest)
        guard_bits = _ACCOUNTABLE_GUARD_BITS if accountable else _GUARD_BITS
        finer = "a smaller limit" if accountable else "a smaller limit, or give float64"
        if not element.is_float:
            if element.storage.kind not in "iu":
                raise UnsupportedValue(
                    f"{element.name} has no secure sum; integers and floats have (convert a bool to uint8)"
                )
            sigma = math.ceil(share)
            return cls(
                element, None, _of_integers(members, limit, sigma, accountable), members, _checked(sigma)
            )
        if element.name.startswith("float8"):
            raise UnsupportedValue(f"{element.name} cannot be added; convert it to float16 or bfloat16 first")
        bits = 64 if accountable or limit is None or element.size_bytes > 4 else 32
        limit = DEFAULT_LIMIT if limit is None else _in_format(float(limit), element)
        room = limit + _MOST_DEVIATIONS * share  # largest magnitude of an item with its noise
        try:
            finest = FixedPoint.of_range(room, members, bits=bits, noise_bits=guard_bits).fraction_bits
            if not share:
                return cls(element, FixedPoint(bits, finest, limit, members), limit, members)
            fraction_bits = min(finest, math.floor(math.log2(_FINEST_SIGMA / share)))
            sigma = math.ceil(math.ldexp(share, fraction_bits))
            fixed = FixedPoint(bits, fraction_bits, limit, members)
        except ValueError as error:
            raise SettingError(f"limit {limit:g} and noise {noise:g} do not fit together: {error}") from None
        if sigma < _COARSEST_SIGMA:
            raise SettingError(
                f"noise {noise:g} is too small for a limit of {limit:g}: the steps of {bits} bits are "
                f"{fixed.step:g}. Declare {finer}"
            )
        return cls(element, fixed, limit, members, _checked(sigma))

    @property
    def storage(self) -> np.dtype[Any]:
        """The dtype of the residues."""
        return np.dtype("<u8") if self.fixed is None else self.fixed.storage

    @property
    def step(self) -> float:
        """The difference in value between two neighbouring residues."""
        return 1.0 if self.fixed is None else self.fixed.step

    def encode(self, array: Array) -> Residues:
        """Encode a flat array of this dtype as residues with this member's noise, in new memory.

        Raises:
            OutOfRange: an item is beyond the limit, or NaN. Nothing is clipped.
        """
        out: Residues = np.empty(len(array), self.storage)
        for start in range(0, len(array), _CHUNK_ITEMS):
            items, into = array[start : start + _CHUNK_ITEMS], out[start : start + _CHUNK_ITEMS]
            into[...] = self._integers(items) if self.fixed is None else self._reals(self.fixed, items)
            if self.share_sigma:
                noise = discrete_gaussian(self.share_sigma, len(into))
                np.add(into, noise.astype(into.dtype), out=into)
        return out

    def check(self, array: Array) -> None:
        """Raise OutOfRange if an item of a flat array of floats is beyond the limit, or NaN."""
        assert self.fixed is not None
        try:
            self.fixed.check(floats(array, self.element))
        except OutOfRange as error:
            raise self._out_of_range(error) from None

    def decode(self, total: Residues, op: str) -> Array:
        """Decode the sum of all members' residues as a sum or a mean, in the dtype's storage.

        Raises:
            SecureSumFailed: a sum is larger than the items of all members can give together.
            OutOfRange: a sum does not fit the integer dtype.
        """
        signed = total.view(f"<i{total.itemsize}")
        most = self.members * (self.limit / self.step + _MOST_DEVIATIONS * self.share_sigma + 1)
        if len(signed) and not (-most <= int(signed.min()) and int(signed.max()) <= most):
            raise SecureSumFailed(
                f"a sum is beyond {self.members} times the limit of {self.limit:g}: a member has added "
                "garbage. A secure sum does not reveal which one. With accountable=True, a member that takes "
                "a sum 2^55 steps beyond its range is named"
            )
        if self.fixed is None:
            return self._as_integers(signed, op)
        out: Array = np.empty(len(total), self.element.storage)
        for start in range(0, len(total), _CHUNK_ITEMS):
            found = self.fixed.from_ring(total[start : start + _CHUNK_ITEMS])
            if op == "mean":
                found /= self.members
            out[start : start + _CHUNK_ITEMS] = unfloats(found, self.element)
        return out

    def _reals(self, fixed: FixedPoint, items: Array) -> Residues:
        try:
            found: Residues = fixed.to_ring(floats(items, self.element))
        except OutOfRange as error:
            raise self._out_of_range(error) from None
        return found

    @staticmethod
    def _out_of_range(error: OutOfRange) -> OutOfRange:
        return OutOfRange(f"{error}. A secure sum's range is its limit=")

    def _integers(self, items: Array) -> Residues:
        if len(items) and not (-self.limit <= int(items.min()) and int(items.max()) <= self.limit):
            raise OutOfRange(
                f"integers are beyond the range of ±{self.limit:,.0f}: it is limit=, for integers as for "
                f"floats, and without it what {self.members} members can add up"
            )
        return np.asarray(items.astype(np.int64).view("<u8"))

    def _as_integers(self, signed: Array, op: str) -> Array:
        if op == "mean":
            signed = signed.copy()
            divide(signed, self.members, self.element)
        kind = np.iinfo(self.element.name)
        if len(signed) and not (kind.min <= int(signed.min()) and int(signed.max()) <= kind.max):
            raise OutOfRange(f"a sum does not fit {self.element.name}; give int64")
        return signed.astype(self.element.storage)


def _in_format(limit: float, element: Element) -> float:
    """Return the limit rounded to the dtype if that is larger: items clipped to the limit have that value."""
    found = float(floats(unfloats(np.array([limit]), element), element)[0])
    return max(limit, found) if math.isfinite(found) else limit


def _of_integers(members: int, limit: float | None, sigma: int, accountable: bool) -> float:
    # half of 2^SUM_BITS, since `members` may be little more than half of a power of two
    largest_sum = 2 ** (SUM_BITS - 1) if accountable else 2**63 >> _GUARD_BITS
    most = largest_sum // members - _MOST_DEVIATIONS * sigma
    if most < 1:
        raise SettingError(f"{members} members cannot add up integers with noise of {sigma} steps each")
    if limit is not None and limit > most:
        raise SettingError(f"limit is {limit:g}: {members} members can add up integers of at most {most:,}")
    return most if limit is None else limit


def _checked(sigma: int) -> int:
    if sigma > MOST_SIGMA:
        raise SettingError(f"noise of {sigma} steps for each member: {MOST_SIGMA:,} can be drawn exactly")
    return sigma
