"""Checks that an array of objects holds only immutable values.

With arrays as items, the effects in the lists would be wrong: a copy of such a column is new memory, yet
holds the same arrays. A write into one of them would change all copies, and no recorded step would show it.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from duetlink.errors import OperationRefused

_VALUES = frozenset(
    {str, bytes, int, float, bool, complex, type(None), decimal.Decimal, fractions.Fraction, uuid.UUID}
    | {datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone}
)
_PANDAS_VALUES = frozenset({"Interval", "NAType", "NaTType", "Period", "Timedelta", "Timestamp"})
_MOST_DEPTH = 10


def check_items(operation: str, value: Any) -> None:
    """Refuse an object that an operation made or changed if its items are arrays, tensors, frames or other
    objects.

    The type of each item is read, in columns of objects only.

    Raises:
        OperationRefused: an item is mutable.
    """
    for column in _columns_of_objects(value):
        found = _changeable(column, 0)
        if found is not None:
            raise OperationRefused(
                f"{operation}: a column would have mutable objects as items ({found}); keep them in a list"
            )


def _columns_of_objects(value: Any) -> Iterable[Iterable[Any]]:
    library = type(value).__module__.partition(".")[0]
    if library == "numpy":
        if getattr(getattr(value, "dtype", None), "hasobject", False) and hasattr(value, "ravel"):
            return [value.ravel()]
    elif library == "pandas":
        dimensions = getattr(value, "ndim", 0)
        labels = [
            found for name in ("index", "columns") for found in _columns_of_objects(_labels(value, name))
        ]
        if dimensions == 2 and hasattr(value, "dtypes"):
            indices = [
                index for index, dtype in enumerate(value.dtypes) if getattr(dtype, "hasobject", False)
            ]
            return [*labels, *(value.iloc[:, index].to_numpy() for index in indices)]
        if dimensions == 1 and getattr(getattr(value, "dtype", None), "hasobject", False):
            return [*labels, value.to_numpy()] if getattr(value, "nlevels", 1) == 1 else labels
        return labels
    elif library == "polars" and type(value).__name__ in ("DataFrame", "Series"):
        dtypes = value.dtypes if hasattr(value, "dtypes") else [value.dtype]
        if "Object" in map(str, dtypes):
            return [[value]]
    return ()


def _labels(value: Any, name: str) -> Any:
    """Return the row or column labels of a frame or series; they may be objects, too."""
    return getattr(value, name, None) if type(value).__name__ in ("DataFrame", "Series") else None


def _changeable(items: Iterable[Any], depth: int) -> str | None:
    """Return the name of a mutable type among the items; None if there is none."""
    for kind in set(map(type, items)):
        if kind in _VALUES or _never_changes(kind):
            continue
        if kind not in (list, tuple, set, frozenset, dict) or depth == _MOST_DEPTH:
            return kind.__name__
        for item in items:
            if type(item) is kind:
                found = _changeable(item.values() if isinstance(item, Mapping) else item, depth + 1)
                if found is not None:
                    return found
    return None


def _never_changes(kind: type) -> bool:
    if kind.__module__.startswith("pandas") and kind.__name__ in _PANDAS_VALUES:
        return True
    return any(base.__module__ == "numpy" and base.__name__ == "generic" for base in kind.__mro__)
