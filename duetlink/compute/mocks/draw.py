"""Draws the values of one column of a mock, as NumPy arrays, from a seed and within the given bounds.

The defaults are the same for every column: floats are standard normal, integers 0 to 9, times within ten
years from 2000, texts "text 0" to "text 9". If a column can have no more different values than items, each
value occurs about equally often, so that a classifier finds all its classes.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import numbers
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from duetlink.compute.mocks import instants
from duetlink.errors import SettingError

PLACEHOLDERS = 10  # different texts, or integers
UNKNOWN_CATEGORIES = 3  # for every column without given categories: the true number is data
_SHUFFLED = 1 << 20  # items; drawing longer columns is much faster than shuffling them
_DAYS, _SECONDS = 3652, 86_400

Array = np.ndarray[Any, Any]


class ColumnSampler:
    """Draws the items of one column.

    `where` names the column in error messages. `categories` are values as the owner gave them; the library's
    file converts them (see `chosen`). `missing` is the share of items that are missing, from 0 to 1.
    """

    def __init__(
        self,
        where: str,
        seed: tuple[int, ...],
        bounds: tuple[Any, Any] | None = None,
        categories: tuple[Any, ...] | None = None,
        missing: float = 0.0,
        values_name: str = "categories",
    ) -> None:
        self.where = where
        self.bounds = bounds
        self.categories = categories
        self._values_name = values_name  # the name of the categories in messages
        self._missing = missing
        self._rng = np.random.default_rng(seed)

    def picks(self, count: int, choices: int) -> Array:
        """Draw `count` indices from 0 to `choices` - 1, as int64."""
        return self._uniform(count, 0, choices - 1)

    def gaps(self, count: int) -> Array:
        """Return a bool mask of the missing items: all False unless the owner allows their share to
        be known.
        """
        gone = round(self._missing * count)
        mask = np.arange(count) < gone
        if gone:
            self._rng.shuffle(mask)
        return mask

    def integers(
        self, count: int, least: int, most: int, dtype_name: str, *, unit: Fraction = Fraction(1)
    ) -> Array:
        """Draw integers: int64, or uint64 or Python's integers if the values need it.

        With a `unit`, such as 1/100 for cents, bounds are given in whole units, and `least`, `most` and the
        result are counts of the small one.

        Raises:
            SettingError: the bounds are no numbers, are beyond the limits, or have no integer between them.
        """
        if self.bounds is None:
            return self._uniform(
                count, max(0, least), min(max(PLACEHOLDERS, int(PLACEHOLDERS / unit)) - 1, most)
            )
        low, high = (self._number(bound) / unit for bound in self.bounds)
        self._check(least <= low <= high <= most, dtype_name)
        if math.ceil(low) > math.floor(high):
            raise SettingError(f"bounds of {self.where} have no {dtype_name} between them; give wider ones")
        return self._uniform(count, math.ceil(low), math.floor(high))

    def floats(self, count: int, most: float, dtype_name: str, rounded: Callable[[Array], Array]) -> Array:
        """Draw float64 numbers that a narrower dtype represents exactly.

        `rounded` converts float64 to that dtype and back; `most` is the dtype's greatest finite number.

        Raises:
            SettingError: the bounds are no numbers, are beyond `most`, or no number of the dtype is between.
        """
        low, high = -most, most
        if self.bounds is None:
            values = self._rng.standard_normal(count)
        else:
            exact = [self._number(bound) for bound in self.bounds]
            self._check(-most <= exact[0] <= exact[1] <= most, dtype_name)
            low, high = (float(bound) for bound in exact)
            low = low if Fraction(low) >= exact[0] else math.nextafter(low, math.inf)
            high = high if Fraction(high) <= exact[1] else math.nextafter(high, -math.inf)
            share = self._rng.random(count)
            values = np.clip(low * (1 - share) + high * share, low, high)
        values = rounded(values)
        good = (values >= low) & (values <= high)
        if good.all():
            return values
        kept = values[good]
        if not len(kept):
            kept = rounded(np.array([low, high, low / 2 + high / 2]))
            kept = kept[(kept >= low) & (kept <= high)]
        if not len(kept):
            raise SettingError(f"bounds of {self.where} have no {dtype_name} between them; give wider ones")
        values[~good] = np.resize(kept, len(values) - int(good.sum()))
        return values

    def times(self, count: int, dtype: np.dtype[Any]) -> Array:
        """Draw times or durations of a datetime64 or timedelta64 dtype.

        Raises:
            SettingError: the bounds are no times, or beyond the dtype.
        """
        if self.bounds is not None:
            counts = instants.counts(self.bounds, dtype, self.where)
            return self._uniform(count, *counts).view(instants.native(dtype)).astype(dtype)
        if not instants.is_usual(dtype):
            return self._uniform(count, 0, PLACEHOLDERS - 1).view(instants.native(dtype)).astype(dtype)
        if dtype.kind == "m":
            return self._uniform(count, 0, PLACEHOLDERS * _SECONDS).view("m8[s]").astype(dtype)
        seconds = self._uniform(count, 0, _DAYS * _SECONDS)
        return (instants.START + seconds.view("m8[s]")).astype(dtype)

    def times_of_day(self, count: int, per_second: int) -> Array:
        """Draw times of day, as int64 counts of 1/`per_second` s since midnight. Bounds are `datetime.time`.

        Raises:
            SettingError: the bounds are no times of day.
        """
        if self.bounds is None:
            return self._uniform(count, 0, _SECONDS - 1) * per_second
        if not all(type(bound) is dt.time for bound in self.bounds):
            raise SettingError(f"bounds of {self.where} are no times of a day; give two datetime.time")
        low, high = (Fraction(_microseconds(bound) * per_second, 1_000_000) for bound in self.bounds)
        return self._uniform(count, math.ceil(low), math.floor(high))

    def texts(self, count: int, width: int | None = None, prefix: str = "text") -> list[str]:
        """Draw placeholders of at most `width` characters; raise SettingError if there are bounds."""
        self.unbounded("text")
        texts = placeholders(PLACEHOLDERS, width, prefix)
        return [texts[pick] for pick in self.picks(count, PLACEHOLDERS).tolist()]

    def octets(self, count: int, size_bytes: int) -> Array:
        """Draw random bytes, as uint8 of shape (count, size_bytes); raise SettingError if there are
        bounds.
        """
        self.unbounded("bytes")
        octets: Array = self._rng.integers(0, 256, (count, size_bytes), dtype=np.uint8)
        return octets

    def unbounded(self, content: str) -> None:
        """Raise SettingError if the owner gave bounds."""
        if self.bounds is not None:
            raise SettingError(f"{self.where} is {content}, which has no bounds; give categories, or nothing")

    def chosen(self, count: int, convert: Callable[[Sequence[Any]], Any]) -> Any:
        """Return the converted categories and each item's index into them; None if no categories are given.

        Raises:
            SettingError: `convert` raised a ValueError, TypeError or OverflowError, or a SettingError itself.
        """
        if self.categories is None:
            return None
        try:
            return convert(self.categories), self.picks(count, len(self.categories))
        except SettingError:
            raise
        except (ValueError, TypeError, OverflowError) as error:
            raise SettingError(
                f"{self._values_name} of {self.where} do not fit its dtype ({error}); give values "
                "of that dtype"
            ) from None

    def _uniform(self, count: int, low: int, high: int) -> Array:
        span = high - low + 1
        if low < -(2**63) or high >= (2**64 if low >= 0 else 2**63):
            return np.array([low + self._below(span) for _ in range(count)], dtype=object)
        dtype: Any = np.int64 if high < 2**63 else np.uint64
        if span <= count <= _SHUFFLED:
            values: Array = np.resize(np.arange(span, dtype=dtype), count) + np.asarray(low, dtype)
            self._rng.shuffle(values)
            return values
        values = self._rng.integers(low, high, count, dtype=dtype, endpoint=True)
        if span <= count:
            values[:span] = np.arange(span, dtype=dtype) + np.asarray(low, dtype)
        elif count > 1 and values[0] == values[1]:
            values[:2] = low, high  # a classifier needs two classes
        return values

    def _below(self, span: int) -> int:
        return int.from_bytes(self._rng.bytes(span.bit_length() // 8 + 8), "little") % span

    def _number(self, bound: Any) -> Fraction:
        if isinstance(bound, np.floating):
            return Fraction(*bound.as_integer_ratio())  # exact for long doubles too
        if isinstance(bound, (numbers.Rational, float, decimal.Decimal, np.integer)):
            return Fraction(bound.item() if isinstance(bound, np.integer) else bound)
        raise SettingError(f"bounds of {self.where} have {bound!r:.60}, which is no number; give two numbers")

    def _check(self, fit: bool, dtype_name: str) -> None:
        if not fit:
            low, high = self.bounds or (None, None)
            raise SettingError(
                f"bounds of {self.where}, ({low}, {high}), are outside the range of {dtype_name}, or in "
                "reverse order; give narrower ones, the least first"
            )


def placeholders(count: int, width: int | None, prefix: str) -> list[str]:
    """Return `count` texts: `prefix` and a number, or only the last digits of the number if `width` is
    too small.
    """
    texts = [f"{prefix} {number}" for number in range(count)]
    if width is None or all(len(text) <= width for text in texts):
        return texts
    return [str(number)[-width:] if width else "" for number in range(count)]


def _microseconds(time: dt.time) -> int:
    return ((time.hour * 60 + time.minute) * 60 + time.second) * 1_000_000 + time.microsecond
