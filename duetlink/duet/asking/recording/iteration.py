"""Iteration over pointers: the items of an array or column, or the column names of a frame.

Loops over groups, labels and rows of frames are refused. These depend on the data, so the loop would run over
those of the mock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MappingView, Sequence
from typing import Any

from duetlink.duet.asking.recording import mock_used, sizes
from duetlink.errors import PrivateValue

_PARAMETERS = ("n_splits", "cvargs")  # attributes of a splitter that fix its number of folds
LOOPS = frozenset({"items", "iter_rows", "iterrows", "itertuples", "keys", "rows", "to_dicts"})

_GROUPS = (
    "which groups there are depends on the data: aggregate all of them at once, with .agg(…), or ask for "
    "their names and take each with .get_group(name)"
)
_KEYS = (
    "which items {title} has depends on the data: ask for a list of them, duet.remote(builtins).list(x)"
    ".get(reason=…)"
)
_LABELS = (
    ".{name}() is not known here, as labels depend on the data: work on .index and on the items, or ask for "
    "all of it with .get(reason=…)"
)
_ROWS = (
    ".{name}() would loop over private rows: work on whole columns, or ask for the rows with .get(reason=…)"
)


def items_of(remote: Any) -> Iterator[Any]:
    """Return the iterator of `for item in remote`.

    Raises:
        PrivateValue: the number of items, or which items there are, depends on the data.
    """
    mock = remote._mock
    if hasattr(mock, "ngroups"):
        raise PrivateValue(_GROUPS)
    if isinstance(mock, (Mapping, MappingView)):
        raise PrivateValue(_KEYS.format(title=remote._title()))
    if hasattr(mock, "columns"):  # column names are public unless they were made from data (a pivot)
        sizes.check(remote, "columns")
        return iter(mock)
    rows = remote.iloc if hasattr(mock, "iloc") else remote  # by position: labels depend on the data
    return _items(rows, len(remote), remote)


def _items(rows: Any, count: int, remote: Any) -> Iterator[Any]:
    # checked with the first item, since libraries call iter() only to see whether an object is iterable
    mock_used.check_loop(remote._title(), remote._program.allowed)
    for index in range(count):
        yield rows[index]


def is_counted(operation: str, mocks: Sequence[Any]) -> bool:
    """Return True if the iterator that `operation` has made yields the same number of items for any data.

    That is so for the folds of a splitter with a given number, and for the stages (`staged_predict`) of
    boosting without early stopping.
    """
    target = mocks[0] if mocks else None
    of_splits = any(hasattr(target, name) for name in _PARAMETERS)
    return of_splits or (operation.startswith(".staged_") and getattr(target, "n_iter_no_change", 0) is None)


def loop_of(remote: Any, name: str) -> Callable[..., Any] | None:
    """Return a replacement for the method `name` (one of LOOPS) of the object; None if it has no such method.

    The replacement loops over columns where names are public, and raises PrivateValue otherwise.
    """
    mock = remote._mock
    if not hasattr(mock, name):
        return None
    if hasattr(mock, "columns") and name == "keys":
        return lambda: remote.columns
    if hasattr(mock, "columns") and hasattr(mock, "iloc") and name == "items":
        return lambda: ((column, remote.iloc[:, index]) for index, column in enumerate(remote.columns))
    words = _LABELS if name in ("items", "keys") else _ROWS

    def refuse(*arguments: Any, **keywords: Any) -> Any:
        raise PrivateValue(words.format(name=name))

    return refuse
