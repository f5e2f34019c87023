"""A column of any library as a NumPy array of numbers or of category codes, converted row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def numbers(column: Any) -> Floats:
    """Return the items as float64, in order, shape (n,), without missing ones (NaN, None, null).

    Dropping missing items is a filter by row: an added row adds one item, or none. Infinite items stay, for
    the bounds to clamp.

    Raises:
        TypeError: it is not a one-dimensional column of numbers or truth values.
    """
    found = _floats(column)
    if found.ndim != 1:
        raise TypeError("not a column")
    # 0 for -0: libraries may make either, and OpenDP tells them apart
    return np.asarray(found[~np.isnan(found)] + 0.0)


def category_codes(column: Any, categories: Sequence[str] | Sequence[float]) -> Ints:
    """Return each item's index in `categories` as int64, shape (n,), without missing items.

    An item that is in no category has the code `len(categories)`.
    """
    index: dict[Any, int] = {category: code for code, category in enumerate(categories)}
    other = len(categories)
    if isinstance(categories[0], str):
        if getattr(column, "ndim", 1) != 1:
            raise TypeError("not a column")
        items = column.tolist() if hasattr(column, "tolist") else column.to_list()
        found = [index.get(item, other) for item in items if isinstance(item, str)]
    else:
        found = [index.get(item, other) for item in numbers(column).tolist()]
    return np.array(found, dtype=np.int64)


def count_present(column: Any) -> int:
    """Return the number of items of a column of any kind that are not missing (NaN, None, null)."""
    if _library(column) == "polars":
        # NaN is a number to polars; for a count it is missing, as it is in the other libraries
        missing = column.is_null() | (column.is_nan().fill_null(True) if column.dtype.is_float() else False)
        return int(len(column) - missing.sum())
    if _library(column) == "pandas":
        return int(column.count())
    return int(numbers(column).size)


def _floats(column: Any) -> Floats:
    library = _library(column)
    if library == "pandas":
        from pandas.api.types import is_numeric_dtype  # also true for truth values

        if not is_numeric_dtype(column.dtype):
            raise TypeError("no numbers")
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    if library == "polars":
        import polars

        if not (column.dtype.is_numeric() or column.dtype == polars.Boolean):
            raise TypeError("no numbers")
        return np.asarray(column.cast(polars.Float64).to_numpy())
    if library == "torch":
        import torch

        return np.asarray(column.detach().to("cpu", torch.float64).numpy())
    if not isinstance(column, np.ndarray) or column.dtype.kind not in "biuf":
        raise TypeError("no numbers")
    return column.astype(np.float64)


def _library(column: Any) -> str:
    return type(column).__module__.partition(".")[0]
