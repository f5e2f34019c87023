"""A private statistic as a question (`Statistic`: kind, constants, epsilon) and as an answer with noise."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self

from duetlink.base.wire import json_
from duetlink.compute.privacy.table import BOOL, FLOAT, INT, NARROW, TEXT
from duetlink.errors import LimitExceeded, RemoteProtocolError, SettingError

COUNT, SUM, MEAN, VARIANCE, QUANTILE, HISTOGRAM = "count", "sum", "mean", "variance", "quantile", "histogram"
KINDS = (COUNT, SUM, MEAN, VARIANCE, QUANTILE, HISTOGRAM)

MIN_EPSILON, MAX_EPSILON = 1e-6, 100.0
MAX_ITEMS = 1_000  # candidates, categories or bins
MAX_TEXT = 200  # characters of a category
MAX_TEXTS = 20_000  # characters of all categories
MAX_BYTES = 256 * 1024  # of JSON: more than the longest texts or as many numbers take, all of it escaped
# Squares of the largest number, and quotients by the smallest width, are far from the ends of a float64.
_MAX_NUMBER, _MIN_WIDTH = 1e100, 1e-100

_FIELDS = {  # the fields of each kind, in addition to kind and epsilon
    COUNT: frozenset[str](),
    SUM: frozenset({"bounds"}),
    MEAN: frozenset({"bounds"}),
    VARIANCE: frozenset({"bounds"}),
    QUANTILE: frozenset({"q", "candidates", "bounds"}),
    HISTOGRAM: frozenset({"bins", "categories"}),
}
_NEEDED = {"kind", "epsilon"}
_OPTIONAL = ("bounds", "q", "bins", "categories", "candidates")


@dataclass(frozen=True, slots=True)
class Statistic:
    """One statistic as the scientist asks for it. All its fields are public constants, never computed from
    data.

    `bounds` (low, high): items are clamped to them; None: the owner's bounds apply. `q`: the share of items
    below a quantile, 0 to 1. `candidates`: the values that a quantile is chosen from; None: evenly spaced
    ones between the bounds. `bins`: the edges of a histogram, ascending; a bin includes its lower edge, the
    last one both. `categories`: the texts or numbers that a histogram counts, instead of bins.

    Raises:
        SettingError: the fields do not fit each other, or are out of range.
    """

    kind: str
    epsilon: float
    bounds: tuple[float, float] | None = None
    q: float | None = None
    bins: tuple[float, ...] | None = None
    categories: tuple[str, ...] | tuple[float, ...] | None = None
    candidates: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if type(self.kind) is not str or self.kind not in KINDS:
            raise SettingError(f"{_shown(self.kind)} is no private statistic; choose from {', '.join(KINDS)}")
        epsilon = _number(self.epsilon, "epsilon")
        if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
            raise SettingError(f"epsilon {epsilon!r} is not between {MIN_EPSILON} and {MAX_EPSILON:g}")
        for name in _OPTIONAL:
            if getattr(self, name) is not None and name not in _FIELDS[self.kind]:
                raise SettingError(f"a {self.kind} takes no {name}")
        settle = object.__setattr__  # the dataclass is frozen
        settle(self, "epsilon", epsilon)
        if self.bounds is not None:
            settle(self, "bounds", checked_bounds(self.bounds))
        if self.kind == QUANTILE:
            if self.q is None or not 0 <= _number(self.q, "q") <= 1:
                raise SettingError("a quantile needs q between 0 and 1, such as 0.5 for the median")
            settle(self, "q", float(self.q))
            if self.candidates is not None:
                settle(self, "candidates", _ascending(self.candidates, "candidates"))
        if self.kind == HISTOGRAM:
            if (self.bins is None) is (self.categories is None):
                raise SettingError("a histogram needs either bins, its edges, or categories")
            if self.bins is not None:
                settle(self, "bins", _ascending(self.bins, "bins"))
            if self.categories is not None:
                settle(self, "categories", _categories(self.categories))

    @property
    def cost(self) -> Decimal:
        """The amount to charge: epsilon as its shortest decimal, so that ten times 0.1 is exactly 1."""
        return Decimal(repr(self.epsilon))

    @property
    def of_text(self) -> bool:
        """True if its categories are texts, not numbers."""
        return self.categories is not None and isinstance(self.categories[0], str)

    def check_kind(self, kind: str) -> None:
        """Raise SettingError if the statistic cannot be made of a column of this kind; see `table.py`."""
        numbers = kind in (BOOL, INT, NARROW, FLOAT)
        if kind == TEXT and not (self.of_text or self.kind == COUNT):
            remedy = "; a histogram of texts has categories" if self.kind == HISTOGRAM else ""
            raise SettingError(f"a {self.kind} of texts cannot be made{remedy}")
        if numbers and self.of_text:
            raise SettingError("the categories are texts, and the column has numbers or truth values")
        if not numbers and kind != TEXT:
            raise SettingError(
                f"a {self.kind} of this column cannot be made: its items are neither numbers, truth values "
                "nor texts of the usual types; let its owner share it with another type"
            )

    def words(self) -> str:
        """Describe the statistic for people, such as `mean, epsilon 0.5, bounds 0 to 120`."""
        parts = [self.kind if self.q is None else f"quantile {_short(self.q)}"]
        parts.append(f"epsilon {_short(self.epsilon)}")
        if self.bounds is not None:
            parts.append(f"bounds {_short(self.bounds[0])} to {_short(self.bounds[1])}")
        if self.candidates is not None:
            first, last = _short(self.candidates[0]), _short(self.candidates[-1])
            parts.append(f"{len(self.candidates)} candidates {first} to {last}")
        if self.bins is not None:
            parts.append(f"{len(self.bins) - 1} bins {_short(self.bins[0])} to {_short(self.bins[-1])}")
        if self.categories is not None:
            shown = ", ".join(_shown(category) for category in self.categories[:3])
            more = ", …" if len(self.categories) > 3 else ""
            parts.append(f"{len(self.categories)} categories {shown}{more}")
        return ", ".join(parts)

    def to_json(self) -> bytes:
        fields: dict[str, Any] = {"kind": self.kind, "epsilon": self.epsilon}
        fields |= {name: value for name in _OPTIONAL if (value := getattr(self, name)) is not None}
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, content: bytes | memoryview) -> Self:
        """Parse a statistic that a peer sent.

        Raises:
            LimitExceeded: `content` is longer than MAX_BYTES.
            RemoteProtocolError: `content` is no statistic, or has fields that `Statistic` refuses.
        """
        if len(content) > MAX_BYTES:
            raise LimitExceeded(f"a statistic of {len(content):,} bytes is over {MAX_BYTES:,}")
        try:
            fields = json_.read(content, dict[str, Any])
        except ValueError:
            raise RemoteProtocolError("a statistic is not a JSON object") from None
        if not _NEEDED <= set(fields) <= _NEEDED | set(_OPTIONAL):
            raise RemoteProtocolError("a statistic has unknown fields, or lacks its kind or epsilon")
        try:
            return cls(**fields)
        except SettingError as error:
            raise RemoteProtocolError(f"a statistic cannot be made: {error}") from None


@dataclass(frozen=True, slots=True)
class PrivateStatistic:
    """A statistic with noise. All its fields may be shown: they depend on the data only through the noise.

    With a probability of 95 % the exact value for the clamped items is within `accuracy_95` of `value`; for a
    histogram, all its counts at once are. For a quantile `accuracy_unit` is `rows`: compared with the best
    candidate, at most that many more rows are on the wrong side of the chosen one.
    """

    value: Any  # numpy.float64, or an array of float64
    epsilon: float
    accuracy_95: float
    accuracy_unit: str
    mechanism: str

    def __float__(self) -> float:
        return float(self.value)

    def __repr__(self) -> str:
        unit = f" {self.accuracy_unit}" if self.accuracy_unit != "value" else ""
        return f"<{self.value} ± {self.accuracy_95:.4g}{unit} (95 %), epsilon {self.epsilon:g}>"


def checked_bounds(bounds: Any) -> tuple[float, float]:
    """Return bounds to clamp to, as floats. Raises SettingError unless they are (low, high), low < high."""
    if not isinstance(bounds, Sequence) or isinstance(bounds, str | bytes) or len(bounds) != 2:
        raise SettingError("bounds must be two numbers, the lowest and the highest")
    low, high = (_number(bound, "a bound") for bound in bounds)
    if high - low < max(_MIN_WIDTH, 1e-9 * max(abs(low), abs(high))):
        raise SettingError(f"bounds {low!r} to {high!r} leave no room: give the lowest, then the highest")
    return low, high


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SettingError(f"{what} is {_shown(value)}, which is not a number")
    # compared before it is converted: an int may be too large to become a float
    if not (-_MAX_NUMBER <= value <= _MAX_NUMBER):
        raise SettingError(f"{what} is not a number between {-_MAX_NUMBER:g} and {_MAX_NUMBER:g}")
    return float(value)


def _ascending(values: Any, what: str) -> tuple[float, ...]:
    items = _items(values, what, fewest=2, most=MAX_ITEMS + 1)
    numbers = tuple(_number(item, f"one of the {what}") for item in items)
    if any(second <= first for first, second in itertools.pairwise(numbers)):
        raise SettingError(f"the {what} do not ascend")
    return numbers


def _categories(values: Any) -> tuple[str, ...] | tuple[float, ...]:
    items = _items(values, "categories", fewest=1, most=MAX_ITEMS)
    if all(type(item) is str for item in items):
        if any(len(item) > MAX_TEXT for item in items):
            raise SettingError(f"a category is longer than {MAX_TEXT} characters")
        if sum(map(len, items)) > MAX_TEXTS:
            raise SettingError(f"the categories have more than {MAX_TEXTS:,} characters together")
        found: tuple[Any, ...] = items
    else:
        found = tuple(_number(item, "one of the categories") for item in items)
    if len(set(found)) != len(found):
        raise SettingError("a category is given twice")
    return found


def _items(values: Any, what: str, *, fewest: int, most: int) -> tuple[Any, ...]:
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        raise SettingError(f"the {what} are not a list")
    if not fewest <= len(values) <= most:
        raise SettingError(f"there are {len(values):,} {what}; give {fewest} to {most:,}")
    return tuple(values)


def _short(value: float) -> str:
    return repr(value).removesuffix(".0")


def _shown(value: object) -> str:
    """Format a peer's value for an error message: without control characters, and not at length."""
    if isinstance(value, float):
        return _short(value)
    return repr(value) if isinstance(value, str) and len(value) <= MAX_TEXT else type(value).__name__
