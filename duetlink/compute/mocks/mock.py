"""The owner's description of a mock: what the owner gives for it, and what may be computed from the data."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duetlink.errors import SettingError

BOUNDS, CATEGORIES, MISSING, INDEX = "bounds", "categories", "missing", "index"
LIKE, LABELS = "like", "labels"
FACTS = (BOUNDS, CATEGORIES, MISSING, INDEX)

_MOST_CHARACTERS = 200  # the longest pattern
Bound = (
    float | decimal.Decimal | str | dt.date | dt.time | dt.timedelta
)  # a number; for times a date, a text such as "2020-01-31"
Pair = tuple[Bound, Bound]


@dataclass(frozen=True, slots=True)
class Mock:
    """Describes how a mock is made. Nothing of the data goes into it, except what `from_data` names.

    `rows`: the number of rows; by default as many as the object has, or as fit into 16 MiB.

    `bounds`: the least and the greatest value, by column or for a whole array, as they are known anyway, such
    as `{"age": (0, 120)}`. Values lie between them, bounds included. Bounds of times are dates, in UTC.

    `categories`: the possible values, by column or for a whole array. Each occurs if there are enough rows.

    `like`: a pattern for texts, by column or for a whole array: `{"price": "$00.00", "ward": "AA-000",
    "seen": "YYYY-MM-DD"}`. `0` is replaced by a digit, `A` and `a` by letters; every other character, and
    each character after a backslash, is kept. `YYYY MM DD hh mm ss` are the parts of a date, which may also
    have bounds. Texts without a pattern or categories are "text 0" to "text 9".

    `labels`: the row labels of a pandas index without a name; a named index takes categories.

    The name of a column within another is `"outer.inner"`, or `"inner"` wherever it occurs. Parts of a tuple
    are named by their position, and the levels of an index by their names.

    `from_data`: the facts that may be computed from the data, for every column: `"bounds"`; `"categories"`,
    for columns with at most 50 different values (not floats or times) that each occur twice or more, since a
    value that occurs once may identify a person; `"missing"`, the share of missing values; `"index"`, the row
    labels of a pandas object as they are. For one column, `"categories:town"` allows all values of that
    column.

    Raises:
        SettingError: a field cannot be used, as far as that is known without the object.
    """

    rows: int | None = None
    bounds: Mapping[Any, Pair] | Pair | None = None
    categories: Mapping[Any, Sequence[object]] | Sequence[object] | None = None
    like: Mapping[Any, str] | str | None = None
    labels: Sequence[object] | None = None
    from_data: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rows is not None and (type(self.rows) is not int or self.rows < 1):
            raise SettingError(f"rows={self.rows!r} of a mock is no number from 1; leave it out for all")
        if type(self.seed) is not int or self.seed < 0:
            raise SettingError(f"seed={self.seed!r} of a mock is no whole number from 0")
        for kind, checked in ((BOUNDS, _pair), (CATEGORIES, _values), (LIKE, _pattern)):
            given = getattr(self, kind)
            if isinstance(given, Mapping):
                given = {name: checked(value, f"{kind} of {name!r}") for name, value in given.items()}
            elif given is not None:
                given = checked(given, kind)
            object.__setattr__(self, kind, given)
        if self.labels is not None:
            object.__setattr__(self, LABELS, _values(self.labels, LABELS))
        if isinstance(self.from_data, str):
            raise SettingError(f"from_data={self.from_data!r} is a text; write ({self.from_data!r},)")
        object.__setattr__(self, "from_data", tuple(self.from_data))
        for entry in self.from_data:
            if type(entry) is not str or entry.partition(":")[0] not in FACTS:
                raise SettingError(
                    f"from_data has {entry!r}; what may be computed from the data is {', '.join(FACTS)}, "
                    f"or one column's, such as '{BOUNDS}:age'"
                )


def _pair(given: Any, where: str) -> Pair:
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 2:
        raise SettingError(f"{where} are {_short(given)}; give the least and the greatest value: (0, 120)")
    low, high = given
    for bound in (low, high):
        if isinstance(bound, numbers.Real) and not math.isfinite(bound):
            raise SettingError(
                f"{where} have {bound}, which no value can be drawn up to; give a finite number"
            )
    try:
        turned = not isinstance(low, str) and not isinstance(high, str) and bool(low > high)
    except TypeError:
        raise SettingError(
            f"{where} are {_short(given)}, of two kinds; give two numbers or two dates"
        ) from None
    if turned:
        raise SettingError(f"{where} are {_short(given)}, the first above the second; swap them")
    return low, high


def _values(given: Any, where: str) -> tuple[object, ...]:
    if isinstance(given, (str, bytes, Mapping)) or not hasattr(given, "__iter__"):
        raise SettingError(f"{where} are {_short(given)}; give a list of the values that there are")
    values = tuple(given)
    if not values:
        raise SettingError(f"{where} are empty; give at least one value, or leave them out")
    for value in values:
        if value is None or (isinstance(value, numbers.Real) and value != value):
            raise SettingError(f"{where} have {value!r}, which stands for a missing value; leave it out")
    return values


def _pattern(given: Any, where: str) -> str:
    if type(given) is not str or not given or len(given) > _MOST_CHARACTERS:
        raise SettingError(
            f"{where} is {_short(given)}; give a text of at most {_MOST_CHARACTERS} characters, such as "
            "'$00.00' or 'YYYY-MM-DD'"
        )
    return given


def _short(given: object) -> str:
    text = repr(given)
    return text if len(text) <= 60 else f"{text[:57]}…"
