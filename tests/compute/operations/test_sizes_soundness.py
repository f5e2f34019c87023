"""No rule tells a size that is another for other data: each operation of the lists, on two sets of data."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from duetlink.compute.operations.allow_lists.allowed import (
    AGGREGATE,
    ELEMENTWISE,
    OTHER,
    Allowed,
)
from duetlink.compute.operations.sizes.frames import ndim_of
from duetlink.compute.operations.sizes.lookup import hidden_after
from duetlink.compute.operations.sizes.mask import COLUMNS, LABELS, LENGTHS, NAMES, PUBLIC, trimmed

ROWS = 12


class Stand:
    """Stands for a pointer: what the rules see of one."""

    _is_remote = True

    def __init__(self, mock: Any, hidden: int) -> None:
        self._mock = mock
        self._hidden = hidden


def _frame(labels: Any, values: Any, missing: Any, towns: Any) -> pd.DataFrame:
    return pd.DataFrame(
        {"a": values, "b": np.where(missing, np.nan, values * 1.5), "town": towns}, index=pd.Index(labels)
    )


MOCK = _frame(range(ROWS), np.arange(ROWS), np.zeros(ROWS, bool), ["u"] * ROWS)
_RNG = np.random.default_rng(2)
REAL = _frame(
    _RNG.permutation(ROWS) * 2 // 3, _RNG.integers(0, 6, ROWS), _RNG.random(ROWS) < 0.4, list("uvwuvwuuvxyz")
)
_TIMES = (
    pd.date_range("2024-01-01", periods=ROWS, freq="D"),
    pd.DatetimeIndex(pd.to_datetime("2024-01-01") + pd.to_timedelta(_RNG.integers(0, 90, ROWS), unit="D")),
)
_ARRAYS = np.zeros((ROWS, 3)), np.round(_RNG.standard_normal((ROWS, 3)), 1)

# mock and real, of one schema
SUBJECTS: dict[str, tuple[Any, Any]] = {
    "frame": (MOCK, REAL),
    "numbers": (MOCK[["a", "b"]], REAL[["a", "b"]]),
    "series": (MOCK.b, REAL.b),
    "whole": (MOCK.a, REAL.a),
    "texts": (MOCK.town, REAL.town),
    "index": (MOCK.index, REAL.index),
    "times": tuple(pd.Series(range(ROWS), index=index).sort_index() for index in _TIMES),
    "str": (MOCK.town.str, REAL.town.str),
    "dt": tuple(pd.Series(index).dt for index in _TIMES),
    "groups": (MOCK.groupby("town"), REAL.groupby("town")),
    "groups of a series": (MOCK.groupby("town").b, REAL.groupby("town").b),
    "rolling": (MOCK.b.rolling(3), REAL.b.rolling(3)),
    "category": (MOCK.town.astype("category").cat, REAL.town.astype("category").cat),
    "array": _ARRAYS,
    "row": (_ARRAYS[0][:, 0], _ARRAYS[1][:, 0]),
    "counts": (np.arange(ROWS), REAL.a.to_numpy()),
    "square": (np.eye(3), _ARRAYS[1][:3]),
    "tensor": (torch.zeros(ROWS, 3), torch.tensor(_ARRAYS[1])),
    "longs": (torch.zeros(ROWS, dtype=torch.long), torch.tensor(REAL.a.to_numpy())),
    "polars": (pl.from_pandas(MOCK), pl.from_pandas(REAL.reset_index(drop=True))),
    "polars series": (pl.Series("b", MOCK.b.to_numpy()), pl.Series("b", REAL.b.to_numpy())),
    "polars texts": (pl.Series("t", MOCK.town.to_list()), pl.Series("t", REAL.town.to_list())),
}
SUBJECTS["tensor"] = (SUBJECTS["tensor"][0].double(), SUBJECTS["tensor"][1])

ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((2,), {}),
    ((0, 1), {}),
    ((1, 0), {}),
    (("a",), {}),
    (("town",), {}),
    ((["a", "b"],), {}),
    (("mean",), {}),
    ((True,), {}),
    ((), {"axis": 0}),
    ((), {"axis": 1}),
    ((), {"dim": 0}),
    ((), {"columns": "a"}),
    ((), {"dropna": True}),
    ((), {"expand": True}),
    ((), {"numeric_only": True}),
    ((), {"on": "town"}),
    (("itself",), {}),
    (("itself", "itself"), {}),
    ((["itself", "itself"],), {}),
]


def _cases() -> Iterator[tuple[str, str]]:
    allowed = Allowed.installed()
    for name, (mock, _) in SUBJECTS.items():
        for member in dir(type(mock)):
            if allowed.method(type(mock), member) in (ELEMENTWISE, AGGREGATE, OTHER):
                yield name, f".{member}"
            with contextlib.suppress(ValueError, RuntimeError):  # `mT` of a row, `imag` of real numbers
                if allowed.attribute(type(mock), member) == OTHER and hasattr(mock, member):
                    yield name, f"@{member}"


def _functions(*libraries: str) -> Iterator[str]:
    for function in Allowed.installed().functions():
        library = function.name.partition(".")[0]
        if library in libraries and function.effect in (ELEMENTWISE, AGGREGATE, OTHER):
            yield function.name


def _with(subject: Any, given: Any) -> Any:
    if isinstance(given, str) and given == "itself":
        return subject
    if isinstance(given, (list, tuple)):
        return type(given)(_with(subject, part) for part in given)
    return given


def _mask_of(name: str, mock: Any) -> int:
    """As for an asset, and for what is made of one: the row labels are data."""
    if name.startswith("groups"):
        return 2 | LABELS
    return trimmed(LABELS, mock)


def _told(mock: Any, hidden: int, real: Any, where: str) -> None:
    """Compare all that may be told of `mock` with what `real` is."""
    if hidden == -1:
        return
    if isinstance(mock, (tuple, list)):
        assert len(mock) == len(real), where
        for one, other in zip(mock, real, strict=True):
            _told(one, trimmed(hidden, one), other, where)
        return
    if not hasattr(mock, "shape") or not hasattr(real, "shape"):
        if isinstance(mock, (dict, str)) and type(mock) is type(real) and not hidden & LENGTHS:
            assert len(mock) == len(real), where
        return
    if not mock.shape:  # an item, of a label that may be there twice: nothing has been told
        return
    assert len(mock.shape) == len(real.shape), where
    for axis, (one, other) in enumerate(zip(mock.shape, real.shape, strict=True)):
        if not hidden >> (len(mock.shape) - 1 - axis) & 1:
            assert one == other, f"{where}: {hidden:x} {mock.shape} {real.shape}"
    if hasattr(mock, "columns") and ndim_of(mock) == 2 and not hidden & (COLUMNS | NAMES):
        assert list(mock.columns) == list(real.columns), where


def _try(operation: str, call: Any, name: str, allowed: Allowed) -> int:
    """Do an operation with all arguments that it takes; returns how many there were."""
    mock, real = SUBJECTS[name]
    stand, done = Stand(mock, _mask_of(name, mock)), 0
    for arguments, keywords in ARGUMENTS:
        try:
            made = call(mock, *_with(mock, arguments), **keywords)
            other = call(real, *_with(real, arguments), **keywords)
        except (Exception, pl.exceptions.PanicException):
            continue
        if made is None or isinstance(made, Iterator):
            continue
        pointers = (stand, *_with(stand, arguments))
        mocks = (mock, *_with(mock, arguments))
        hidden = hidden_after(operation, pointers, keywords, mocks, made, allowed)
        _told(made, hidden, other, f"{operation} of {name} with {arguments} {keywords}")
        done += 1
    return done


@pytest.fixture(scope="module")
def allowed() -> Allowed:
    return Allowed.installed()


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_size_that_a_rule_tells_is_the_same_for_other_data(allowed: Allowed, name: str) -> None:
    done = 0
    with warnings.catch_warnings(), contextlib.redirect_stdout(None):
        warnings.simplefilter("ignore")
        for subject, operation in _cases():
            if subject != name:
                continue
            if operation[0] == ".":
                method = operation[1:]
                done += _try(operation, lambda of, *a, m=method, **k: getattr(of, m)(*a, **k), name, allowed)
            else:
                mock, real = SUBJECTS[name]
                if not hasattr(real, operation[1:]):  # of an index that is a range, and one that is not
                    continue
                made, other = getattr(mock, operation[1:]), getattr(real, operation[1:])
                hidden = hidden_after(
                    operation, (Stand(mock, _mask_of(name, mock)),), {}, (mock,), made, allowed
                )
                _told(made, hidden, other, f"{operation} of {name}")
                done += 1
    assert done > 10


OF_FUNCTIONS = {
    "frame": ("pandas", "operator", "builtins"),
    "series": ("pandas", "operator", "builtins"),
    "texts": ("pandas", "operator", "builtins"),
    "array": ("numpy", "operator", "builtins"),
    "row": ("numpy",),
    "counts": ("numpy",),
    "square": ("numpy",),
    "tensor": ("torch", "operator"),
    "longs": ("torch",),
}
SLOW = ("torch.pca_lowrank", "torch.svd_lowrank", "torch.nn.", "torch.optim.")


@pytest.mark.parametrize("name", OF_FUNCTIONS)
def test_a_size_that_a_functions_rule_tells_is_the_same_for_other_data(allowed: Allowed, name: str) -> None:
    done = 0
    with warnings.catch_warnings(), contextlib.redirect_stdout(None):
        warnings.simplefilter("ignore")
        for operation in _functions(*OF_FUNCTIONS[name]):
            if not operation.startswith(SLOW):
                done += _try(operation, allowed.function(operation).call, name, allowed)
    assert done > 50


def test_the_rules_tell_something(allowed: Allowed) -> None:
    x = Stand(_ARRAYS[0], PUBLIC)
    assert hidden_after("numpy.sort", (x,), {}, (x._mock,), x._mock, allowed) == PUBLIC
    assert hidden_after("numpy.unique", (x,), {}, (x._mock,), x._mock, allowed) & LENGTHS == LENGTHS
