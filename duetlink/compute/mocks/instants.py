"""Converts bounds of times to counts of a dtype's unit, rounded inwards. Times without a time zone
are in UTC.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np

from duetlink.errors import SettingError

START = np.datetime64("2000-01-01", "s")
_TOO_FINE = ("ps", "fs", "as")  # units too fine for int64 to reach the year 2000
_YEARS = 8000  # the greatest distance of a bound from 1970
_NS_LIMIT_US = 2**63 // 1000 - 1


def is_usual(dtype: np.dtype[Any]) -> bool:
    """Return True if the dtype can represent START, or, for a duration, a number of days."""
    unit, _ = np.datetime_data(dtype)
    irregular = dtype.kind == "m" and unit in ("Y", "M")
    return unit != "generic" and unit not in _TOO_FINE and not irregular


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the same dtype in this machine's byte order."""
    return dtype.newbyteorder("=")


def counts(bounds: tuple[Any, Any], dtype: np.dtype[Any], where: str) -> tuple[int, int]:
    """Return the first and the last count of the dtype's unit within the bounds.

    Raises:
        SettingError: the bounds are no times, are beyond the dtype, are in reverse order, or contain no
            count.
    """
    if not is_usual(dtype):
        raise SettingError(f"{where} is {dtype.name}, for which no bounds can be given; leave them out")
    parse = _instant if dtype.kind == "M" else _duration
    exact = [parse(bound, where) for bound in bounds]
    unit, _ = np.datetime_data(dtype)
    if unit == "ns" and any(
        abs(int(bound.astype(f"{dtype.kind}8[us]").astype(np.int64))) > _NS_LIMIT_US for bound in exact
    ):
        raise SettingError(
            f"bounds of {where} are outside the range of {dtype.name}, 1677 to 2262; give narrower ones"
        )
    low, high = (bound.astype(native(dtype)) for bound in exact)
    step = np.array(1, np.int64).view(f"m8[{np.datetime_data(dtype)[1]}{unit}]")[()]
    if low.astype(exact[0].dtype) < exact[0]:
        low = low + step
    if high.astype(exact[1].dtype) > exact[1]:
        high = high - step
    if exact[0] > exact[1] or low > high:
        raise SettingError(f"bounds of {where} have no {dtype.name} between them; give the earlier one first")
    return int(low.astype(np.int64)), int(high.astype(np.int64))


def _instant(bound: Any, where: str) -> Any:
    if hasattr(bound, "asm8"):  # a pandas Timestamp; this is in UTC, and exact to the nanosecond
        return bound.asm8
    if isinstance(bound, str):
        try:
            bound = dt.datetime.fromisoformat(bound)
        except ValueError:
            try:
                bound = np.datetime64(bound)  # also parses "2020" and "2020-01"
            except ValueError:
                bound = None
    if isinstance(bound, dt.datetime):
        if bound.tzinfo is not None:
            bound = bound.astimezone(dt.UTC).replace(tzinfo=None)
        return np.datetime64(bound, "us")
    if isinstance(bound, dt.date):
        return np.datetime64(bound, "D")
    is_time = isinstance(bound, np.datetime64) and not np.isnat(bound)
    if is_time and abs(int(bound.astype("M8[Y]").astype(np.int64))) < _YEARS:
        return bound
    raise SettingError(f'bounds of {where} have {bound!r:.60}; give two dates, such as "2020-01-31"')


def _duration(bound: Any, where: str) -> Any:
    if hasattr(bound, "asm8"):
        return bound.asm8
    if isinstance(bound, dt.timedelta):
        return np.timedelta64(bound, "us")
    if isinstance(bound, np.timedelta64) and is_usual(bound.dtype) and not np.isnat(bound):
        return bound
    raise SettingError(f"bounds of {where} have {bound!r:.60}; give two datetime.timedelta")
