"""Convert a column from one type to another: equally on every engine, with misfits missing."""

from __future__ import annotations

from typing import Any

import narwhals as nw

from duetlink.data.prep.fields import (
    BOOL,
    DATE,
    DATETIME,
    EXACT,
    FLOATS,
    INTEGERS,
    MOST_FLOAT32,
    TEXT,
    always_fits,
    range_of,
)
from duetlink.data.prep.work import TYPES

# `\z`: in Java `$` also matches before a last newline. 18 digits fit into 64 bits.
_WHOLE = r"^-?[0-9]{1,18}\z"
# With at most 200 digits and an exponent of two digits, a number is within the range of float64.
_FLOAT = r"^-?([0-9]{1,200}(\.[0-9]{0,200})?|\.[0-9]{1,200})([eE][+-]?[0-9]{1,2})?\z"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}\z"
_TRUE, _FALSE = ("true", "1"), ("false", "0")
_TWO_63 = 2.0**63

Value = tuple[Any, Any]  # the new column, with misfits missing; a mask of items that fit, None if all do


def converted(column: Any, before: str, kind: str) -> Value:
    """Convert a column of type `before` to `kind` (names of `fields.py`); also return which items fit."""
    if before == kind:
        return column, None
    if before == TEXT:
        return _of_text(column, kind)
    if before == DATETIME:
        return column.cast(nw.Date), None
    if before == DATE:
        return (column.cast(nw.String), None) if kind == TEXT else _days(column, TYPES[kind])
    if kind == BOOL:
        return column != 0, None
    if kind == TEXT:
        return (_truth(column, "true", "false") if before == BOOL else column.cast(nw.String)), None
    if before == BOOL:
        return column.cast(nw.Int8).cast(TYPES[kind]), None
    if kind in INTEGERS:
        return _whole(column, before, kind)
    return _floating(column, before, kind)


def _where(fits: Any, value: Any) -> Any:
    return nw.when(fits).then(value)


def _truth(column: Any, yes: Any, no: Any) -> Any:
    """Return one of two constants, or missing."""
    return nw.when(column).then(nw.lit(yes)).otherwise(_where(~column, nw.lit(no)))


def _whole(column: Any, before: str, kind: str) -> Value:
    if always_fits(before, kind):
        return column.cast(TYPES[kind]), None
    low, high = range_of(kind)
    if before in FLOATS:
        column = column.cast(nw.Float64)
        if kind == "int64":
            within = (column >= -_TWO_63) & (column < _TWO_63)
        else:
            within = (column >= float(low)) & (column <= float(high))
        # engines round ties differently, and Polars' remainder is not exact: but rounding keeps whole numbers
        fits = (_where(within, column).round(0) == column).fill_null(False)
    else:
        column = column.cast(nw.Int64)
        fits = (column >= low) & (column <= high)
    return _where(fits, column).cast(TYPES[kind]), fits


def _floating(column: Any, before: str, kind: str) -> Value:
    if always_fits(before, kind):
        return column.cast(nw.Float64).cast(TYPES[kind]), None
    if before in INTEGERS:
        fits = (column >= -EXACT) & (column <= EXACT)
    else:
        fits = (column >= -MOST_FLOAT32) & (column <= MOST_FLOAT32)
    return _where(fits, column).cast(nw.Float64).cast(TYPES[kind]), fits


def _of_text(column: Any, kind: str) -> Value:
    if kind == BOOL:
        fits = column.is_in((*_TRUE, *_FALSE))
        return _where(fits, column.is_in(_TRUE)), fits
    if kind == DATE:
        return _date(column)
    if kind in INTEGERS:
        fits = column.str.contains(_WHOLE)
        number = _where(fits, column).cast(nw.Int64)
        if kind == "int64":
            return number, fits
        value, within = _whole(number, "int64", kind)
        return value, fits & within.fill_null(False)
    fits = column.str.contains(_FLOAT)
    number = _where(fits, column).cast(nw.Float64)
    if kind == "float64":
        return number, fits
    value, within = _floating(number, "float64", kind)
    return value, fits & within.fill_null(False)


def _date(column: Any) -> Value:
    """Convert text such as `2026-11-23` to a date of the calendar."""
    text = _where(column.str.contains(_DATE), column)
    year, month, day = (
        text.str.slice(start, length).cast(nw.Int64) for start, length in ((0, 4), (5, 2), (8, 2))
    )
    leap = ((year % 4 == 0) & (year % 100 != 0)) | (year % 400 == 0)
    fits = (
        (year >= 1)
        & (month >= 1)
        & (month <= 12)
        & (day >= 1)
        & (
            (day <= 28)
            | ((day <= 30) & (month != 2))
            | ((day <= 31) & month.is_in([1, 3, 5, 7, 8, 10, 12]))
            | ((day == 29) & (month == 2) & leap)
        )
    ).fill_null(False)
    return _where(fits, column).str.to_date(format="%Y-%m-%d"), fits


def _days(column: Any, dtype: Any) -> Value:
    """Return days since 1970-01-01, for the years 1 to 9999. All numbers are whole and small, hence exact."""
    year = column.dt.year().cast(nw.Int64)
    fits = ((year >= 1) & (year <= 9999)).fill_null(False)
    before = _where(fits, year) - 1
    # up to the year before
    leaps = sum(sign * _times(before, years) for sign, years in ((1, 4), (-1, 100), (1, 400)))
    days = before.cast(nw.Float64) * 365 + leaps + column.dt.ordinal_day().cast(nw.Float64) - 719_163
    return days.cast(dtype), fits


def _times(number: Any, divisor: int) -> Any:
    """Divide a whole number from 0 to 9999 by `divisor`, rounding down."""
    # Narwhals divides by Spark's try_divide, which Sail has for whole numbers only. The product is within
    # one rounding of a whole number.
    return ((number - number % divisor).cast(nw.Float64) * (1.0 / divisor)).round(0)
