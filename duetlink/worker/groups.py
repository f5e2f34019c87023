"""Of how many rows a result is at least made: what a policy with `min_group` asks.

A row of an asset counts as one person. What is made from rows has the smallest group of what it was made
from; an aggregate has as many as went into each of its items, where that is known: where its source holds
rows of assets, each once. Otherwise five times the same row would be a group of five. What is one row's own
item, such as a maximum, is a group of one.

It says nothing of what is done to single rows before they go into an aggregate, nor of differences between
aggregates: see SECURITY.md.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from duetlink.operations.allowed import ELEMENTWISE

EVERYBODY = 1 << 60  # nothing of an asset is in it
ROWS = 1.5  # single rows of assets, each once; 1: that is not known
Group = int | float

# Of one row each, whatever else went into them
_ONE_ROW = """aminmax amax amin arg_max arg_min argmax argmin describe idxmax idxmin iqr max median min
mode nan_max nan_min nanargmax nanargmin nanmax nanmedian nanmin nanpercentile nanquantile percentile ptp
quantile"""
_OF_ONE_ROW = frozenset(_ONE_ROW.split())
# What these make of rows has some of them, none twice
_SOME_ROWS = """.contiguous .convert_dtypes .cpu .detach .double .drop .drop_duplicates .drop_nans .drop_nulls
.dropna .float .get_column .groupby .half .head .infer_objects .limit .long .numpy .rename .rename_axis
.reset_index .select_dtypes .sort_index .sort_values .tail .to .to_frame .to_numpy @iloc @loc @values
numpy.array numpy.asarray numpy.ascontiguousarray torch.as_tensor torch.asarray torch.from_numpy"""
_SAME_ROWS = frozenset(_SOME_ROWS.split())
_PLAIN = frozenset({int, float, bool, complex, str, bytes, type(None), slice})


def of_aggregate(
    operation: str, effect: str, private: Sequence[Any], arguments: Sequence[Any], result: Any
) -> Group:
    """Of an aggregate that is made of `private`, rows of assets, and of nothing else of them."""
    source = arguments[0] if arguments else None
    if operation.rpartition(".")[2] in _OF_ONE_ROW or all(rows is not source for rows in private):
        return 1
    return max(1, _smallest(operation, source, result))


def of_rows(
    operation: str, effect: str, private: Sequence[Any], arguments: Sequence[Any], result: Any
) -> Group:
    """ROWS or 1: of what is no aggregate, and is made of `private`."""
    if effect == ELEMENTWISE:  # and nothing repeats the rows along another axis
        shape = _shape(result)
        same = shape is not None and bool(private) and all(_shape(source) == shape for source in private)
        return ROWS if same else 1
    if not private or not arguments or private[0] is not arguments[0]:
        return 1
    if operation == "operator.getitem":
        chosen = _chooses(arguments[0], arguments[1])
    else:
        chosen = operation in _SAME_ROWS and (operation == ".groupby" or len(private) == 1)
    return ROWS if chosen and _is_part(arguments[0], result) else 1


def is_data(obj: Any) -> bool:
    """Whether it is memory that other results may be views of."""
    kind: Any = type(obj)
    return _is_data_by_kind(kind) or _rows(obj) is not None


@functools.cache
def _is_data_by_kind(kind: type) -> bool:
    return kind.__module__.startswith(("pandas", "polars", "numpy")) or hasattr(kind, "dim")


def holds_others(obj: Any) -> bool:
    """Whether others may be part of it, or it of others: a model, or a list of some."""
    kind: Any = type(obj)
    return kind not in _PLAIN and not _is_data_by_kind(kind) and _rows(obj) is None


def _smallest(operation: str, source: Any, result: Any) -> int:
    """How many rows each item of an aggregate was made from, at least."""
    if type(source).__module__.startswith("pandas") and hasattr(source, "ngroups"):
        return _smallest_group(source)
    if operation == ".value_counts":
        return int(result.min()) if len(result) else 1
    rows = _rows(source)
    if rows is None or _rows(result) == rows:
        return 1  # one for each row, as far as can be seen
    return _present(source, rows)


def _smallest_group(source: Any) -> int:
    sizes = source.size()
    if hasattr(sizes, "columns"):  # of as_index=False
        sizes = sizes["size"]
    if not len(sizes) or bool(source.obj.isna().to_numpy().any()):
        return 1  # how many of a group are there, nobody has counted
    return int(sizes.min())


def _present(source: Any, rows: int) -> int:
    """Rows that have a value: missing ones are left out of aggregates."""
    module = type(source).__module__
    if module.startswith(("pandas", "polars")):
        counted = source.count()
        if hasattr(counted, "min"):  # of each column
            counted = counted.min()
        if hasattr(counted, "row"):  # a frame of one row, in polars
            counted = min(counted.row(0), default=0)
        return int(counted)
    is_array = module.startswith("numpy") and source.dtype.kind == "f"
    if not is_array and not (module.startswith("torch") and source.is_floating_point()):
        return rows
    missing = source != source  # NaN
    return rows - int(missing.reshape(rows, -1).sum(0).max())


def _chooses(source: Any, key: Any) -> bool:
    """Whether a key takes columns by name, or rows by a condition or a range, and so none of them twice."""
    if isinstance(key, tuple) and key:
        # a condition together with a list would take items here and there
        others = (int, str, slice) if _shape(key[0]) is not None else (int, str, slice, list)
        return _chooses_rows(key[0]) and all(isinstance(part, others) for part in key[1:])
    names = key if isinstance(key, list) else [key]
    if names and all(type(name) is str for name in names):
        return hasattr(source, "ngroups") or (hasattr(source, "columns") and len(source.shape) == 2)
    return _chooses_rows(key)


def _chooses_rows(key: Any) -> bool:
    if type(key) is slice:
        return True
    shape = _shape(key)
    is_condition = str(getattr(key, "dtype", "")).lower() in ("bool", "torch.bool", "boolean")
    return shape is not None and len(shape) == 1 and is_condition


def _is_part(source: Any, result: Any) -> bool:
    """Whether it has no more rows than its source, or is no table but a way to one."""
    rows, found = _rows(source), _rows(result)
    if found is None:
        return hasattr(result, "ngroups") or type(result).__name__ in ("_LocIndexer", "_iLocIndexer")
    return rows is None or found <= rows


def _shape(obj: Any) -> tuple[int, ...] | None:
    shape = getattr(obj, "shape", None)
    return tuple(shape) if isinstance(shape, tuple) and shape else None


def _rows(obj: Any) -> int | None:
    shape = _shape(obj)
    return None if shape is None else int(shape[0])
