"""Mocks of pandas indexes: row labels are data, column names are schema."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from duetlink.compute.mocks.draw import UNKNOWN_CATEGORIES, ColumnSampler
from duetlink.compute.mocks.facts import NoFacts
from duetlink.compute.mocks.pandas_array import column, labels
from duetlink.compute.mocks.pandas_facts import facts_of
from duetlink.compute.mocks.scope import ROW_LABELS, Scope
from duetlink.errors import SettingError


def index_of(index: Any, count: int, scope: Scope, *, alone: bool = False) -> Any:
    """Return the row labels of a mock: ascending, different as far as the dtype allows, and without a
    frequency.

    With `alone`, the index is the whole object. Otherwise bounds and categories are looked up by its name.

    Raises:
        SettingError: the owner allows the labels of the data, but there are fewer than `count`.
    """
    if not alone and scope.keeps_index:
        if len(index) < count:
            raise SettingError(
                f"the index of the data has {len(index)} labels, fewer than rows={count}; give fewer rows"
            )
        return names_of(index[:count])
    if isinstance(index, pd.MultiIndex):
        levels = [
            _level(level, name, count, scope, is_last=number == index.nlevels - 1)
            for number, (level, name) in enumerate(zip(index.levels, index.names, strict=True))
        ]
        return pd.MultiIndex.from_arrays(levels, names=index.names)
    if isinstance(index, pd.RangeIndex):
        return pd.RangeIndex(count, name=index.name)
    if alone:
        known = _is_drawn(scope.draw(facts_of(pd.Series(index))))
        made = _drawn(index, count, scope) if known else labels(index.dtype, count, "row")
        return made.rename(index.name)
    return _level(index, index.name, count, scope, is_last=True).rename(index.name)


def names_of(columns: Any) -> Any:
    """Copy column labels, without labels of dropped columns, which an index may still hold."""
    if isinstance(columns, pd.MultiIndex):
        columns = columns.remove_unused_levels()
    elif isinstance(columns, pd.CategoricalIndex):
        columns = columns.remove_unused_categories()
    return columns.copy(deep=True)


def _level(index: Any, name: Any, count: int, scope: Scope, *, is_last: bool) -> Any:
    """Return one level of the labels. Only the last level tells rows apart; the others repeat a few
    values.
    """
    if name is not None or (is_last and scope.has_labels):
        scope = scope.child(ROW_LABELS if name is None else name)
        if _is_drawn(scope.draw(NoFacts())):
            return _drawn(index[:0], count, scope)  # drawn without the data's labels
    if is_last:
        return labels(index.dtype, count, "row")
    few = labels(index.dtype, UNKNOWN_CATEGORIES, "row")
    return few.take(np.arange(count) * len(few) // max(1, count))


def _is_drawn(draw: ColumnSampler) -> bool:
    return draw.bounds is not None or draw.categories is not None


def _drawn(index: Any, count: int, scope: Scope) -> Any:
    values = column(pd.Series(index), count, scope)
    return pd.Index(values, dtype=values.dtype).sort_values()
