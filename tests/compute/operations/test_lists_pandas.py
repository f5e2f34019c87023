"""What the list of pandas says of effects is true: tried on samples, with what the guards let pass."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from duetlink.compute.operations.allow_lists.allowed import AGGREGATE, ELEMENTWISE, read_list
from duetlink.compute.operations.allow_lists.guards import check

pd = pytest.importorskip("pandas")

ROWS = 6
SOME = np.array([3, 0, 5, 1])  # rows, in another order

_FLOATS = np.array([0.25, 0.5, -0.75, 0.125, -0.5, 0.9])
_DAYS = ["2020-02-01", "2021-03-04", None, "2024-01-01", "2020-02-03", "1999-12-31"]
SERIES = [
    pd.Series(_FLOATS),
    pd.Series(np.arange(1, ROWS + 1), index=list("abcdef")),
    pd.Series([True, False, True, True, False, True]),
    pd.Series(["b", "aa", None, "a b", "d1", "2"]),
    pd.Series([1, None, 3, 4, 5, 6], dtype="Int64"),
    pd.Series(pd.to_datetime(_DAYS)),
    pd.Series(["x", "y", "x", "z", "x", "y"], dtype="category"),
    pd.DataFrame({"a": _FLOATS, "b": _FLOATS * 2}),
    pd.DataFrame({"a": np.arange(ROWS), "b": np.arange(ROWS) * 2}),
]

SPECIAL: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "as_unit": lambda x: ("us",),
    "astype": lambda x: (x.dtypes if x.ndim == 2 else x.dtype,),
    "asfreq": lambda x: ("Y",),
    "between": lambda x: (0, 2),
    "case_when": lambda x: ([(x == x, x)],),
    "ceil": lambda x: ("D",),
    "center": lambda x: (9,),
    "clip": lambda x: (0, 2),
    "contains": lambda x: ("a",),
    "corrwith": lambda x: (x["a"],),
    "count": lambda x: ("a",) if not hasattr(x, "sum") else (),
    "cov": lambda x: (x,) if x.ndim == 1 else (),
    "corr": lambda x: (x,) if x.ndim == 1 else (),
    "endswith": lambda x: ("a",),
    "find": lambda x: ("a",),
    "findall": lambda x: ("a",),
    "floor": lambda x: ("D",),
    "fullmatch": lambda x: ("a",),
    "get": lambda x: (0,),
    "index": lambda x: ("",),
    "ljust": lambda x: (9,),
    "mask": lambda x: (x != x,),
    "match": lambda x: ("a",),
    "normalize": lambda x: ("NFC",) if hasattr(x, "upper") else (),
    "pad": lambda x: (9,),
    "quantile": lambda x: (0.5,),
    "removeprefix": lambda x: ("a",),
    "removesuffix": lambda x: ("b",),
    "repeat": lambda x: (2,),
    "replace": lambda x: ("a", "xy"),
    "rfind": lambda x: ("a",),
    "rindex": lambda x: ("",),
    "rjust": lambda x: (9,),
    "round": lambda x: ("D",) if hasattr(x, "day") or hasattr(x, "seconds") else (),
    "startswith": lambda x: ("a",),
    "strftime": lambda x: ("%Y",),
    "where": lambda x: (x == x,),
    "wrap": lambda x: (2,),
    "zfill": lambda x: (9,),
}


def targets(class_: str) -> list[tuple[Any, Callable[[Any], Any]]]:
    """Frames and series to work on, and how to come from one of them to what has the method."""
    if class_.endswith("StringMethods"):
        return [(SERIES[3], lambda x: x.str)]
    if class_.endswith("DatetimeProperties"):
        return [(SERIES[5], lambda x: x.dt)]
    if class_.endswith("TimedeltaProperties"):
        return [(SERIES[5] - SERIES[5].iloc[0], lambda x: x.dt)]
    if class_.endswith("BaseWindow"):
        return [(frame, lambda x: x.rolling(2)) for frame in SERIES[7:]]
    if class_.endswith("GroupBy"):
        return [(frame, lambda x: x.groupby(x["a"] > 0.1)) for frame in SERIES[7:]]
    return [(sample, lambda x: x) for sample in SERIES if class_ != "Series" or sample.ndim == 1]


def call(name: str, target: Any) -> Any:
    """The result of a method; None where it is not for such items."""
    special = SPECIAL.get(name)
    for choice in (special,) if special else (lambda x: (), lambda x: (x,), lambda x: (2,)):
        try:
            arguments = choice(target)
            check(f".{name}", (target, *arguments), {})
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return getattr(target, name)(*arguments)
        except Exception:
            continue
    return None


def is_equal(left: Any, right: Any) -> bool:
    if isinstance(left, tuple):
        return all(map(is_equal, left, right))
    compare = pd.testing.assert_frame_equal if left.ndim == 2 else pd.testing.assert_series_equal
    try:
        compare(left, right, check_freq=False, check_dtype=False)
    except AssertionError:
        return False
    return True


def turn(x: Any) -> bool:
    """Write to all of a frame or series; False where it cannot be written to."""
    try:
        x.iloc[:] = x.iloc[::-1].to_numpy().copy()
    except ValueError:  # read only
        return False
    return True


CLASSES = [
    "core.generic.NDFrame",
    "DataFrame",
    "Series",
    "core.groupby.groupby.GroupBy",
    "core.indexes.accessors.DatetimeProperties",
    "core.indexes.accessors.TimedeltaProperties",
    "core.strings.accessor.StringMethods",
    "core.window.rolling.BaseWindow",
]


@pytest.mark.parametrize("class_", CLASSES)
def test_what_methods_make_is_new_and_of_its_row(class_: str) -> None:
    # pandas shares memory until it is written to, so it is written to here
    listed = read_list("pandas")["classes"][class_]
    wrong = []
    for effect in (ELEMENTWISE, AGGREGATE):
        for name in listed.get(effect, ()):
            tried = 0
            for sample, get in targets(class_):
                x = sample.copy()
                result = call(name, get(x))
                if result is None:
                    continue
                tried += 1
                if not is_equal(x, sample):
                    wrong.append(f"{name} changes its argument")
                if effect == ELEMENTWISE and not is_equal(some(result), call(name, get(x.iloc[SOME]))):
                    wrong.append(f"{name} makes a row of other rows")
                if isinstance(result, (pd.Series, pd.DataFrame)) and len(result):
                    kept = result.copy()
                    if turn(x) and not is_equal(result, kept):
                        wrong.append(f"{name}: the argument shares memory with the result")
                    x = sample.copy()
                    result = call(name, get(x))
                    if turn(result) and not is_equal(x, sample):
                        wrong.append(f"{name}: the result shares memory with the argument")
            there = any(hasattr(get(sample), name) for sample, get in targets(class_))
            if there and not tried:
                wrong.append(f"{name} was not tried")
    assert wrong == []


def some(result: Any) -> Any:
    return tuple(map(some, result)) if isinstance(result, tuple) else result.iloc[SOME]
