"""Texts that follow a pattern given by the owner: prices, patient numbers, dates. The data are not read.

In a pattern `0` is replaced by a digit, `A` by a letter from A to Z, `a` by one from a to z; every other
character, and each character after a backslash, is kept. A pattern with `YYYY` is a date: `YYYY`, `MM`, `DD`,
`hh`, `mm` and `ss` are replaced by the parts of one instant, and every other character is kept.
"""

from __future__ import annotations

import re
import string
from typing import Any

import numpy as np

from duetlink.compute.mocks import instants
from duetlink.errors import SettingError

MOST = 1000  # different texts of one pattern
_YEARS = ("2000-01-01", "2009-12-31")  # the same years as `ColumnSampler.times` draws
_ALPHABETS = {"0": string.digits, "A": string.ascii_uppercase, "a": string.ascii_lowercase}
_DATE = re.compile("YYYY|MM|DD|hh|mm|ss")
_PLACES = {
    "YYYY": slice(0, 4),
    "MM": slice(5, 7),
    "DD": slice(8, 10),
    "hh": slice(11, 13),
    "mm": slice(14, 16),
    "ss": slice(17, 19),
}


def is_date(pattern: str) -> bool:
    return "YYYY" in pattern


def texts(pattern: str, seed: tuple[int, ...], bounds: tuple[Any, Any] | None, where: str) -> tuple[str, ...]:
    """Return at most MOST different texts, in random order. `bounds` are the first and last date.

    Raises:
        SettingError: bounds are given and the pattern is no date, or the bounds are no dates.
    """
    draws = np.random.default_rng(seed)
    if is_date(pattern):
        low, high = instants.counts(bounds or _YEARS, np.dtype("M8[s]"), where)
        seconds = draws.integers(low, high, MOST, endpoint=True).astype("M8[s]")
        found = [_dated(pattern, str(instant)) for instant in seconds]
    elif bounds is not None:
        raise SettingError(f"{where} has bounds and like={pattern!r}, which is no date; give one of them")
    else:
        parts = [_ALPHABETS.get(part, part[-1]) for part in re.findall(r"\\.|.", pattern, re.DOTALL)]
        columns = [np.array(list(part))[draws.integers(0, len(part), MOST)] for part in parts]
        found = ["".join(row) for row in zip(*columns, strict=True)]
    return tuple(dict.fromkeys(found))


def _dated(pattern: str, instant: str) -> str:
    return _DATE.sub(lambda part: instant[_PLACES[part[0]]], pattern)
