"""What the lists say of effects is true: tried on all types of items, with what the guards let pass."""

from __future__ import annotations

import contextlib
import itertools
import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from duetlink.compute.operations.allow_lists.allowed import (
    AGGREGATE,
    ELEMENTWISE,
    IN_PLACE,
    OTHER,
    Allowed,
    read_list,
)
from duetlink.compute.operations.allow_lists.guards import check
from duetlink.testing.faults import listed_functions

torch = pytest.importorskip("torch")

ROWS = 6
SOME = np.array([3, 0, 5, 1])  # rows, in another order

_FLOATS = np.array([0.25, 0.5, -0.75, 0.125, -0.5, 0.9])
COLUMNS = [
    _FLOATS,
    np.arange(1, ROWS + 1),
    np.array([True, False, True, True, False, True]),
    _FLOATS + 1j * _FLOATS[::-1],
    np.array(["b", "aa", "c", "a b", "d1", "2"]),
    np.array(["2020-02-01", "2021-03-04", "NaT", "2024-01-01", "2020-02-03", "1999-12-31"], "datetime64[D]"),
    np.arange("2020-02-01", "2020-02-07", dtype="datetime64[D]"),
    np.stack([_FLOATS, _FLOATS * 2, _FLOATS - 1], axis=1),
    np.arange(ROWS * 3).reshape(ROWS, 3),
    _FLOATS.astype(np.float32),
]
SMALL = [np.array(0.5), np.array([0.5]), np.array(3), np.array([3]), np.array([True]), np.zeros((1, 1))]
TENSORS = [torch.tensor(column) for column in (*COLUMNS, *SMALL) if column.dtype.kind in "biufc"]

# How to call what takes more than arrays of one kind. All else is tried with one, two or three.
SPECIAL: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "astype": lambda x: (x, x.dtype),
    "busday_offset": lambda x: (x, 1, "forward"),
    "choose": lambda x: ((x != 0).astype(int), [x, x]),
    "clamp": lambda x: (x, 0, 2),
    "clip": lambda x: (x, 0, 2),
    "cosine_embedding_loss": lambda x: (x[:, None] * 1.0, x[:, None] * 2.0, x.sign()),
    "cross_entropy": lambda x: (x.reshape(ROWS, 3) * 1.0, torch.arange(ROWS) % 3),
    "ctc_loss": lambda x: (x.reshape(ROWS, 3).log_softmax(1), torch.tensor([1, 2]), (ROWS,), (2,)),
    "full_like": lambda x: (x, 1),
    "logsumexp": lambda x: (x, 0),
    "linear_cross_entropy": lambda x: (x.reshape(ROWS, 3) * 1.0, torch.ones(4, 3), torch.arange(ROWS) % 4),
    "masked_fill": lambda x: (x, x == x, 0),
    "multi_margin_loss": lambda x: (x.reshape(ROWS, 3) * 1.0, torch.arange(ROWS) % 3),
    "multigammaln": lambda x: (x + 5, 2),
    "multilabel_margin_loss": lambda x: (x.reshape(ROWS, 3) * 1.0, torch.ones((ROWS, 3), dtype=torch.int64)),
    "mvlgamma": lambda x: (x + 5, 2),
    "nanpercentile": lambda x: (x, 50),
    "nanquantile": lambda x: (x, 0.5),
    "nll_loss": lambda x: (x.reshape(ROWS, 3) * 1.0, torch.arange(ROWS) % 3),
    "percentile": lambda x: (x, 50),
    "polygamma": lambda x: (1, x),
    "quantile": lambda x: (x, 0.5),
    "select": lambda x: ([x != 0, x == 0], [x, x]),
    "strings.center": lambda x: (x, 9),
    "strings.index": lambda x: (x, ""),
    "strings.ljust": lambda x: (x, 9),
    "strings.multiply": lambda x: (x, 2),
    "strings.replace": lambda x: (x, "a", "xy"),
    "strings.rindex": lambda x: (x, ""),
    "strings.rjust": lambda x: (x, 9),
    "strings.slice": lambda x: (x, 0, 1),
    "strings.zfill": lambda x: (x, 9),
    "threshold": lambda x: (x, 0.1, 0.2),
    "where": lambda x: (x == x, x, x),
}


def ways(name: str, sample: Any) -> Iterator[tuple[Any, ...]]:
    special = SPECIAL.get(name) or SPECIAL.get(name.rpartition(".")[2])
    if special is not None:
        try:
            yield special(sample)
        except Exception:  # not for this sample
            return
    else:
        yield from ((sample,), (sample, sample), (sample, 2), (sample, "a"), (sample, sample, sample))


def call(operation: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        check(operation, arguments, {})
        return function(*arguments)


def done(
    operation: str, name: str, function: Callable[..., Any], samples: list[Any]
) -> Iterator[tuple[Any, Any]]:
    """Arguments that work, and what comes of them."""
    for sample in samples:
        for arguments in ways(name, sample):
            try:
                result = call(operation, function, arguments)
            except Exception:  # this is not how it is called, or not on such items
                continue
            yield arguments, result


def arrays(value: Any) -> Iterator[np.ndarray]:
    """All memory in a value."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, torch.Tensor):
        yield (torch.view_as_real(value) if value.is_complex() else value).detach().numpy()
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from arrays(part)


def rows(value: Any) -> Any:
    """SOME rows of all that has rows."""
    if isinstance(value, (np.ndarray, torch.Tensor)):
        return value[SOME] if value.ndim and len(value) == ROWS else value
    return type(value)(map(rows, value)) if isinstance(value, (tuple, list)) else value


def is_equal(left: Any, right: Any) -> bool:
    """Up to the last bits of floats, in which vectorised code may differ."""
    for one, other in itertools.zip_longest(arrays(left), arrays(right)):
        if one.shape != other.shape:
            return False
        if one.dtype.kind in "fc":
            tolerance = 1e-5 if one.dtype.itemsize < 8 else 1e-12
            if not np.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True):
                return False
        elif not np.array_equal(one, other, equal_nan=one.dtype.kind in "mM"):
            return False
    return True


ALLOWED = Allowed(["numpy", "torch"])


def functions(library: str, *effects: str) -> Iterator[tuple[str, str, str, Callable[..., Any]]]:
    """Operation, name, effect and function of what the list of a library has for arrays."""
    listed = read_list(library)
    class_ = np.ndarray if library == "numpy" else torch.Tensor
    for effect in effects:
        for name in listed["functions"].get(effect, ()):
            if f"{library}.{name}" in listed_functions(ALLOWED):  # not in every version
                yield f"{library}.{name}", name, effect, ALLOWED.function(f"{library}.{name}").call
        for name in listed["classes"][class_.__name__].get(effect, ()):
            if hasattr(class_, name):
                yield f".{name}", name, effect, getattr(class_, name)


def samples(library: str) -> list[Any]:
    return [*COLUMNS, *SMALL] if library == "numpy" else TENSORS


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_what_is_made_is_new_and_of_its_row(library: str) -> None:
    wrong = []
    for operation, name, effect, function in functions(library, ELEMENTWISE, AGGREGATE):
        if operation == ".polygamma":
            function = lambda n, x: x.polygamma(n)  # noqa: E731
        tried = by_row = 0
        for arguments, result in done(operation, name, function, samples(library)):
            tried += 1
            if any(np.shares_memory(made, given) for made in arrays(result) for given in arrays(arguments)):
                wrong.append(f"{operation} shares memory with an argument")
            if effect == ELEMENTWISE and any(
                array.ndim and len(array) == ROWS for array in arrays(arguments)
            ):
                by_row += 1
                if not is_equal(rows(result), call(operation, function, rows(arguments))):
                    wrong.append(f"{operation} makes a row of other rows")
        if not tried or (effect == ELEMENTWISE and not by_row):
            wrong.append(f"{operation} was not tried")
    assert wrong == []


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_what_is_not_in_place_changes_no_argument(library: str) -> None:
    wrong = []
    for operation, name, _, function in functions(library, ELEMENTWISE, AGGREGATE, OTHER):
        for sample in samples(library)[::3]:
            for arguments in ways(name, sample):
                before = [array.copy() for array in arrays(arguments)]
                with contextlib.suppress(Exception):  # it may have changed something none the less
                    call(operation, function, arguments)
                if not is_equal(before, list(arrays(arguments))):
                    wrong.append(f"{operation} changes an argument")
                    sample = sample.copy() if library == "numpy" else sample.clone()
    assert wrong == []


def operators(effect: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in read_list("python")["functions"][effect]:
        if name.startswith("operator.") and name != "operator.index":
            yield name, getattr(operator, name.removeprefix("operator."))


def test_operators_make_new_arrays_row_by_row() -> None:
    wrong = []
    for name, function in operators(ELEMENTWISE):
        tried = 0
        for arguments, result in done(name, "", function, [*COLUMNS, *SMALL, *TENSORS]):
            tried += 1
            if any(np.shares_memory(made, given) for made in arrays(result) for given in arrays(arguments)):
                wrong.append(f"{name} shares memory with an argument")
            has_rows = any(array.ndim and len(array) == ROWS for array in arrays(arguments))
            if has_rows and not is_equal(rows(result), call(name, function, rows(arguments))):
                wrong.append(f"{name} makes a row of other rows")
        if not tried:
            wrong.append(f"{name} was not tried")
    assert wrong == []


def test_operators_in_place_change_their_first_argument_only() -> None:
    others = {"operator.setitem": (0, 1), "operator.delitem": (0,), "operator.imatmul": (np.eye(3),)}
    for name, function in operators(IN_PLACE):
        for sample in (COLUMNS[1], COLUMNS[8], TENSORS[1]):
            copy = sample.clone if isinstance(sample, torch.Tensor) else sample.copy
            target, other = copy(), copy()
            with contextlib.suppress(Exception), np.errstate(all="ignore"):
                function(target, *others.get(name, (other,)))
            assert is_equal(other, sample), name
