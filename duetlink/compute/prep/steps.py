"""The steps of a preparation: frozen values, checked once when they are made.

Theory. Each step works on one row at a time, whatever the other rows are. What it needs to know of all rows,
such as bounds and categories, is declared in it, since a statistic of private data is a release.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from duetlink.errors import SettingError

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64")
NUMBERS = (*INTEGERS, *FLOATS)
CASTS = ("bool", "int8", "int16", "int32", "int64", "float32", "float64", "text", "date")

ERROR, MISSING, IGNORE = "error", "missing", "ignore"

TRAIN = "train"  # the column that a split adds

MAX_NAME = 200  # characters of a column's name or of a category
MAX_COLUMNS = 20_000  # that a step names
MAX_CATEGORIES = 4_096
# Whole numbers up to here are float64 numbers, too: nothing is rounded on the way from one to the other.
EXACT = 2**53
MAX_SEED = 2**63 - 1

Number = int | float
Bounds = tuple[Number, Number]
Category = str | int | bool


@dataclass(frozen=True, slots=True)
class Step:
    """One of the steps below. `row_stable`: nothing about a row depends on other rows, nor can it fail."""

    name: ClassVar[str] = ""

    @property
    def row_stable(self) -> bool:
        return True

    @property
    def is_open(self) -> bool:
        """Whether `fit_private` has still to find its bounds or categories."""
        return False


@dataclass(frozen=True, slots=True)
class Missing(Step):
    """Texts that stand for a missing item, such as NA. No `columns`: all columns of texts."""

    values: tuple[str, ...]
    columns: tuple[str, ...] = ()
    name: ClassVar[str] = "missing"

    def __post_init__(self) -> None:
        _settle(self, "values", _texts(self.values, "texts that mean missing", most=MAX_CATEGORIES))
        _settle(self, "columns", _columns(self.columns, fewest=0))


@dataclass(frozen=True, slots=True)
class DropMissing(Step):
    """Leave out the rows in which one of `columns` is missing; none: one of all columns."""

    columns: tuple[str, ...] = ()
    name: ClassVar[str] = "drop_missing"

    def __post_init__(self) -> None:
        _settle(self, "columns", _columns(self.columns, fewest=0))


@dataclass(frozen=True, slots=True)
class Cast(Step):
    """Give columns another type, one of CASTS. An item that does not fit is an error, or missing."""

    types: tuple[tuple[str, str], ...]
    invalid: str = ERROR
    name: ClassVar[str] = "cast"

    def __post_init__(self) -> None:
        if not isinstance(self.types, Sequence) or not all(
            isinstance(pair, Sequence) and len(pair) == 2 for pair in self.types
        ):
            raise SettingError('cast takes types by column, such as cast({"age": "int64"})')
        _columns([name for name, _ in self.types])
        for name, kind in self.types:
            if kind not in CASTS:
                raise SettingError(f"{name!r} cannot be cast to {kind!r}; there are {', '.join(CASTS)}")
        _settle(self, "types", tuple((name, kind) for name, kind in self.types))
        _choice(self.invalid, (ERROR, MISSING), "invalid")

    @property
    def row_stable(self) -> bool:
        return self.invalid == MISSING


@dataclass(frozen=True, slots=True)
class Select(Step):
    """Keep these columns, in this order."""

    columns: tuple[str, ...]
    name: ClassVar[str] = "select"

    def __post_init__(self) -> None:
        _settle(self, "columns", _columns(self.columns))


@dataclass(frozen=True, slots=True)
class OneHot(Step):
    """In place of a column one for each category, `column=category`, int8: 1 where it is that, else 0.

    A missing item has 0 in all of them. So has an unknown one with `unknown="ignore"`. `categories` is None
    where `fit_private` is to find them.
    """

    column: str
    categories: tuple[Category, ...] | None = None
    unknown: str = ERROR
    name: ClassVar[str] = "one_hot"

    def __post_init__(self) -> None:
        _column(self.column)
        _choice(self.unknown, (ERROR, IGNORE), "unknown")
        if self.categories is None:
            if self.unknown != IGNORE:
                raise SettingError(
                    f"one_hot of {self.column!r} takes its categories, which are public; or unknown='ignore' "
                    "alone, and fit_private finds those that are not rare"
                )
            return
        if isinstance(self.categories, str) or not isinstance(self.categories, Sequence):
            raise SettingError(f"the categories of {self.column!r} are a list")
        found = tuple(self.categories)
        if not 1 <= len(found) <= MAX_CATEGORIES:
            raise SettingError(f"there are {len(found):,} categories; there may be 1 to {MAX_CATEGORIES:,}")
        kinds = {type(category) for category in found}
        if len(kinds) != 1 or not kinds <= {str, int, bool}:
            raise SettingError(
                f"the categories of {self.column!r} are all texts, all whole numbers or all truth values"
            )
        for category in found:
            check_category(category)
        if len(set(found)) != len(found):
            raise SettingError(f"a category of {self.column!r} is there twice")
        _settle(self, "categories", found)

    @property
    def row_stable(self) -> bool:
        return self.unknown == IGNORE

    @property
    def is_open(self) -> bool:
        return self.categories is None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what it makes."""
        return tuple(f"{self.column}={_shown(category)}" for category in self.categories or ())


@dataclass(frozen=True, slots=True)
class Bounded(Step):
    """What scale and clip have in common. `bounds` is None where `fit_private` is to find them in
    `within`."""

    column: str
    bounds: Bounds | None = None
    within: Bounds | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _column(self.column)
        if (self.bounds is None) is (self.within is None):
            raise SettingError(
                f"{self.name} of {self.column!r} takes bounds=(lowest, highest), which are public; or "
                "within=(lowest, highest), in which fit_private finds bounds"
            )
        for what in ("bounds", "within"):
            if (given := getattr(self, what)) is not None:
                _settle(self, what, _bounds(given, self.column))

    @property
    def is_open(self) -> bool:
        return self.bounds is None


@dataclass(frozen=True, slots=True)
class Scale(Bounded):
    """To float64 between 0 at the lower bound and 1 at the upper one; what is beyond is 0 or 1."""

    name: ClassVar[str] = "scale"


@dataclass(frozen=True, slots=True)
class Clip(Bounded):
    """What is beyond the bounds becomes the bound. The type stays: whole numbers take whole bounds, and
    float32 has none beyond its range.
    """

    name: ClassVar[str] = "clip"


@dataclass(frozen=True, slots=True)
class Split(Step):
    """Add the column `train`: true for about that share of the rows, chosen by a hash of `by` and the seed.

    `by` names a column of whole numbers; empty: the row's number in its source, which keeps its order.
    """

    train: float
    seed: int
    by: str = ""
    name: ClassVar[str] = "split"

    def __post_init__(self) -> None:
        share = _number(self.train, "train")
        if not 0 < share < 1:
            raise SettingError(f"train is the share of rows to train with, between 0 and 1, not {share!r}")
        _settle(self, "train", float(share))
        if type(self.seed) is not int or not 0 <= self.seed <= MAX_SEED:
            raise SettingError(f"a seed is a whole number from 0 to {MAX_SEED}")
        if self.by != "":
            _column(self.by)

    @property
    def row_stable(self) -> bool:
        # a row more at the beginning gives all others another number
        return self.by != ""


STEPS: tuple[type[Step], ...] = (Missing, DropMissing, Cast, Select, OneHot, Scale, Clip, Split)


def check_category(category: Category) -> None:
    """Raises SettingError: it is too long or too large, or has control characters."""
    if isinstance(category, str):
        _text(category, "a category")
    elif not -(2**63) <= category < 2**63:
        raise SettingError(f"the category {category} does not fit into 64 bits")


# -- checks ------------------------------------------------------------------------------------------------


def _settle(step: Step, name: str, value: object) -> None:
    object.__setattr__(step, name, value)  # the dataclass is frozen


def _column(name: Any) -> str:
    if type(name) is str and name == "":
        raise SettingError("a column's name is empty")
    return _text(name, "a column's name")


def _columns(names: Any, *, fewest: int = 1) -> tuple[str, ...]:
    found = _texts(names, "columns", most=MAX_COLUMNS)
    if len(found) < fewest:
        raise SettingError("no column is named")
    for name in found:
        _column(name)
    return found


def _texts(values: Any, what: str, *, most: int) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise SettingError(f"the {what} are a list of texts")
    found = tuple(values)
    if len(found) > most:
        raise SettingError(f"there are {len(found):,} {what}, and there may be {most:,}")
    for text in found:
        _text(text, f"one of the {what}")
    if len(set(found)) != len(found):
        raise SettingError(f"one of the {what} is there twice")
    return found


def _text(text: Any, what: str) -> str:
    if type(text) is not str:
        raise SettingError(f"{what} is a text, not {type(text).__name__}")
    if len(text) > MAX_NAME:
        raise SettingError(f"{what} has {len(text):,} characters, and may have {MAX_NAME}")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in text):
        raise SettingError(f"{what} has control characters, or is no Unicode text: {text!r}")
    return text


def _number(value: Any, what: str) -> Number:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SettingError(f"{what} is a number, not {type(value).__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise SettingError(f"{what} is {value!r}, and should be finite")
    return value


def _bounds(bounds: Any, column: str) -> Bounds:
    if isinstance(bounds, str) or not isinstance(bounds, Sequence) or len(bounds) != 2:
        raise SettingError(f"the bounds of {column!r} are two numbers: (lowest, highest)")
    low, high = (_number(bound, f"a bound of {column!r}") for bound in bounds)
    if not max(abs(low), abs(high)) <= (EXACT if isinstance(low, int) and isinstance(high, int) else 1e300):
        raise SettingError(f"the bounds of {column!r}, {low} to {high}, are too far from 0")
    if not low < high:
        raise SettingError(f"the bounds of {column!r} are ({low}, {high}): give the lowest, then the highest")
    if float(high) - float(low) < 1e-300:
        raise SettingError(f"the bounds of {column!r}, {low} to {high}, leave no room")
    return _plain(low), _plain(high)


def _plain(bound: Number) -> Number:
    """1 for 1.0, so that equal bounds are written alike."""
    return int(bound) if isinstance(bound, float) and abs(bound) <= EXACT and bound.is_integer() else bound


def _choice(value: Any, choices: tuple[str, ...], what: str) -> None:
    if value not in choices:
        raise SettingError(f"{what} is {' or '.join(map(repr, choices))}, not {value!r}")


def _shown(category: Category) -> str:
    return str(category).lower() if isinstance(category, bool) else str(category)
