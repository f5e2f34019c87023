"""What is done item by item and counts as rows of an asset keeps these rows apart, whatever it is given."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from duetlink.compute.operations.allow_lists.allowed import ELEMENTWISE, Allowed, read_list
from duetlink.compute.operations.allow_lists.guards import check
from duetlink.compute.worker.protocol import groups
from duetlink.testing.faults import listed_functions
from tests.compute.operations import test_lists_effects as arrays
from tests.compute.operations import test_lists_pandas as tables

ROWS = 6
ORDER = [3, 0, 5, 1, 4, 2]
SAMPLES: dict[str, list[Any]] = {
    "numpy": [sample for sample in arrays.COLUMNS if sample.dtype.kind != "b" or sample.ndim == 1],
    "torch": [sample for sample in arrays.TENSORS if sample.ndim and len(sample) == ROWS],
    "pandas": tables.SERIES,
    "polars": [
        pl.Series("a", [0.25, 0.5, -0.75, 0.125, -0.5, 0.9]),
        pl.Series("a", [1, 2, 3, 4, 5, 6]),
        pl.Series("a", [True, False, True, True, False, True]),
        pl.DataFrame({"a": [0.25, 0.5, -0.75, 0.125, -0.5, 0.9], "b": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}),
    ],
}
SAMPLES["python"] = [sample for samples in list(SAMPLES.values()) for sample in samples[::2]]
SAMPLES["scipy"] = SAMPLES["numpy"][:1]  # some of these functions are slow
CLASSES = {
    "numpy": ["ndarray"],
    "torch": ["Tensor"],
    "pandas": ["core.generic.NDFrame", "DataFrame", "Series"],
    "polars": ["DataFrame", "Series"],
    "python": [],
    "scipy": [],
}
SPECIAL: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    **arrays.SPECIAL,
    "cast": lambda x: (x, pl.Float32),
    "case_when": lambda x: (x, [(x == x, x)]),
    "is_busday": lambda x: (x, "1111111", x),
    "mask": lambda x: (x, x != x, x),
    "polygamma": lambda x: (1, x),
    "replace": lambda x: (x, "a", "xy"),
}
SPECIAL.pop("select")
ALLOWED = Allowed(["python", "numpy", "torch", "pandas", "polars", "scipy"])


def elementwise(library: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    listed = read_list(library)
    for name in listed["functions"].get(ELEMENTWISE, ()):
        full = name if library == "python" else f"{library}.{name}"
        if full in listed_functions(ALLOWED):
            yield full, ALLOWED.function(full).call
    for class_ in CLASSES[library]:
        for name in listed["classes"][class_].get(ELEMENTWISE, ()):
            yield f".{name}", lambda x, *others, name=name: getattr(x, name)(*others)


def given(operation: str, sample: Any) -> Iterator[tuple[Any, ...]]:
    special = SPECIAL.get(operation.rpartition(".")[2])
    turned = take(sample, ORDER[::-1], keep=True)
    if special is not None:
        with contextlib.suppress(Exception):  # it is not for this sample
            yield special(sample)
    yield from (
        (sample,),
        (sample, turned),
        (sample, 2),
        (sample, sample == turned, turned),
        (turned, turned),
    )


def has_rows(value: Any) -> bool:
    shape = getattr(value, "shape", ())
    return isinstance(shape, tuple) and bool(shape) and shape[0] == ROWS


def take(value: Any, order: list[int], *, keep: bool = False) -> Any:
    """Its rows in another order, with their labels; with `keep` the labels stay."""
    if not has_rows(value):
        return value
    if isinstance(value, (pd.Series, pd.DataFrame)):
        taken = value.iloc[order]
        return taken.set_axis(value.index) if keep else taken
    return value[order]


def is_equal(left: Any, right: Any) -> bool:
    if isinstance(left, (pd.Series, pd.DataFrame)):
        return tables.is_equal(left, right)
    if isinstance(left, (pl.Series, pl.DataFrame)):
        return bool(left.equals(right, null_equal=True)) or np.allclose(left, right, equal_nan=True)
    return arrays.is_equal(left, right)


def rows_are_apart(call: Callable[..., Any], arguments: tuple[Any, ...], operands: int, place: int) -> bool:
    result = call(*arguments)
    changed = range(ROWS)
    if not any(map(has_rows, arguments[operands:])):  # which tell of each row how it is done
        together = call(*(take(argument, ORDER) for argument in arguments))
        if not is_equal(take(result, ORDER), together):
            return False
        changed = range(1)  # as good as any other
    for row in changed:
        like = [(each + 3) % ROWS if each == row else each for each in range(ROWS)]
        others = [each for each in range(ROWS) if each != row]
        given = list(arguments)
        given[place] = take(arguments[place], like, keep=True)
        if not is_equal(take(result, others), take(call(*given), others)):
            return False
    return True


@pytest.mark.parametrize(
    ("library", "least"),
    [
        ("python", 20),
        ("numpy", 130),
        ("torch", 300),
        ("pandas", 35),
        ("polars", 50),
        ("scipy", 200),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_counts_as_rows_keeps_them_apart(library: str, least: int) -> None:
    wrong, tried = [], set()
    for operation, function in elementwise(library):
        pairing = operation.rpartition(".")[2] in groups.PAIRING
        for sample, place in itertools.product(SAMPLES[library], (0, 1, 2)):
            for arguments in given(operation, sample):
                if place >= len(arguments) or not has_rows(arguments[place]):
                    continue
                operands = len(arguments) if pairing else 1
                private = [arguments[place]]
                try:
                    check(operation, arguments, {})
                    result = function(*arguments)
                    if groups.row_group(operation, ELEMENTWISE, private, arguments, {}, result) == 1:
                        continue
                    if not rows_are_apart(function, arguments, operands, place):
                        wrong.append((operation, place, arguments))
                except Exception:  # this is not how it is called, or not on such items
                    continue
                tried.add(operation)
    assert wrong == []
    assert len(tried) >= least
