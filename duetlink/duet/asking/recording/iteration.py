"""What Python's loops get of a pointer: the items of an array or column, the names of a frame's columns.

Which groups and labels there are depends on the data, so that a loop over them would be one over the mock's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MappingView, Sequence
from typing import Any

from duetlink.duet.asking.recording import mock_used, sizes
from duetlink.errors import PrivateValue

_PARAMETERS = ("n_splits", "cvargs")  # of what splits rows; they tell how often
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
    """What `for item in remote` loops over. Raises PrivateValue where the mock's length says nothing."""
    mock = remote._mock
    if hasattr(mock, "ngroups"):
        raise PrivateValue(_GROUPS)
    if isinstance(mock, (Mapping, MappingView)):
        raise PrivateValue(_KEYS.format(title=remote._title()))
    if hasattr(mock, "columns"):  # a frame's names, which are no secret where no data have made them
        sizes.check(remote, "columns")
        return iter(mock)
    rows = remote.iloc if hasattr(mock, "iloc") else remote  # by place: labels depend on the data
    return _items(rows, len(remote), remote)


def _items(rows: Any, count: int, remote: Any) -> Iterator[Any]:
    # not before the first is wanted: libraries ask for a loop to see whether there is one
    mock_used.check_loop(remote._title(), remote._program.allowed)
    for index in range(count):
        yield rows[index]


def is_counted(operation: str, mocks: Sequence[Any]) -> bool:
    """Whether the items of an iterator that an operation has made are as many for any data: the folds of a
    splitter that is told how many, and the stages of boosting that does not stop early.
    """
    target = mocks[0] if mocks else None
    of_splits = any(hasattr(target, name) for name in _PARAMETERS)
    return of_splits or (operation.startswith(".staged_") and getattr(target, "n_iter_no_change", 0) is None)


def loop_of(remote: Any, name: str) -> Callable[..., Any] | None:
    """The method of LOOPS of what `remote` points to; None: it has none."""
    mock = remote._mock
    if not hasattr(mock, name):
        return None
    if hasattr(mock, "columns") and name == "keys":
        return lambda: remote.columns
    if hasattr(mock, "columns") and hasattr(mock, "iloc") and name == "items":
        return lambda: ((column, remote.iloc[:, place]) for place, column in enumerate(remote.columns))
    words = _LABELS if name in ("items", "keys") else _ROWS

    def refuse(*arguments: Any, **keywords: Any) -> Any:
        raise PrivateValue(words.format(name=name))

    return refuse
