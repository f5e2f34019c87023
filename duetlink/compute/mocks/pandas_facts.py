"""The facts of a pandas column, computed where the owner allows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from duetlink.compute.mocks import arrow_, items
from duetlink.compute.mocks.facts import Facts


def facts_of(series: Any) -> Facts:
    if isinstance(series.dtype, pd.ArrowDtype):
        return arrow_.ColumnFacts(series.array.__arrow_array__())
    return items.ItemFacts(series.tolist()) if series.dtype == object else _SeriesFacts(series)


class _SeriesFacts:
    def __init__(self, series: Any) -> None:
        self._series = series
        is_known = isinstance(series.dtype, (pd.CategoricalDtype, pd.StringDtype))
        self.discrete = is_known or bool(pd.api.types.is_integer_dtype(series.dtype))

    def bounds(self) -> tuple[Any, Any] | None:
        dtype = self._series.dtype
        timed = isinstance(dtype, (pd.DatetimeTZDtype, pd.PeriodDtype))
        numeric = pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)
        if not timed and not numeric and getattr(dtype, "kind", "") not in tuple("mM"):
            return None
        known = self._series.dropna()
        if numeric:
            if pd.api.types.is_complex_dtype(dtype):
                return None
            known = known[np.isfinite(known.to_numpy(dtype.numpy_dtype if is_masked(dtype) else dtype))]
        return (known.min(), known.max()) if len(known) else None

    def counts(self) -> Mapping[Any, int]:
        counts: dict[Any, int] = self._series.value_counts(sort=False).to_dict()
        return counts

    def missing(self) -> float:
        return float(self._series.isna().mean()) if len(self._series) else 0.0


def is_masked(dtype: Any) -> bool:
    """Return True if the dtype is one of pandas's nullable numbers or booleans, such as `Int64`."""
    return hasattr(dtype, "numpy_dtype") and not isinstance(dtype, (pd.ArrowDtype, pd.StringDtype))
