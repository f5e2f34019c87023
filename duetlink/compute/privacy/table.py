"""The public facts of private data: column, frame or matrix, column names and kinds. Never the number of
rows.

These classes stand for the owner's objects while a program is analysed. Two of them with equal `Rows` have
the same rows in the same order, whatever the data is.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from duetlink.errors import SettingError

# INT has 64 bits. NARROW has fewer: a constant that does not fit fails in some libraries, but only if there
# is a row, so NARROW columns must be converted first. OTHER can be filtered and tested for missing items
# only.
BOOL, INT, NARROW, FLOAT, TEXT, OTHER = "bool", "int", "narrow", "float", "text", "other"
NUMBERS = frozenset({INT, FLOAT})

NUMPY, PANDAS, POLARS, TORCH = "numpy", "pandas", "polars", "torch"


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one asset that are left after some filters.

    A filter is identified by the position of its step in the program or, to compare rows of several programs,
    by the digest of the filter's program.
    """

    asset: str = ""
    revision: int = 0
    filters: tuple[int | str, ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `signless`: the position of a row may decide whether its zero is 0 or -0."""

    library: str
    kind: str
    rows: Rows = Rows()
    signless: bool = False


@dataclass(frozen=True, slots=True)
class PrivateTable:
    library: str
    columns: Mapping[str | int, str]  # kind by name
    rows: Rows = Rows()


@dataclass(frozen=True, slots=True)
class Matrix:
    library: str
    kind: str
    width: int
    rows: Rows = Rows()


Table = Column | PrivateTable | Matrix


def table_of(obj: Any) -> Table:
    """Return the public facts of an asset. Its owner's side calls this when the asset gets a budget.

    From then on the names and types of its columns count as public, and also the fact that a column of
    objects holds texts only.

    Raises:
        SettingError: it is no table, array or tensor that has rows; the message lists the accepted types.
    """
    library = type(obj).__module__.partition(".")[0]
    if library in _DESCRIBE and library in sys.modules:
        found = _DESCRIBE[library](obj)
        if found is not None:
            return found
    raise SettingError(
        f"private statistics cannot be made of a {type(obj).__name__} of this form: share a pandas or polars "
        "frame or series with distinct column names, or an array or tensor of one or two dimensions"
    )


def table_rows(obj: Any) -> int:
    """Return the number of rows of an asset that `table_of` describes. It is private."""
    return len(obj)


def _describe_numpy(obj: Any) -> Table | None:
    import numpy as np

    if type(obj) is not np.ndarray:  # masked arrays and numpy.matrix have arithmetic of their own
        return None
    return _array(NUMPY, obj, _numpy_kind(obj.dtype))


def _describe_torch(obj: Any) -> Table | None:
    import torch

    if type(obj) is not torch.Tensor or obj.layout != torch.strided or obj.device.type != "cpu":
        return None
    kinds = {torch.bool: BOOL, torch.int64: INT, torch.float32: FLOAT, torch.float64: FLOAT}
    kinds |= dict.fromkeys((torch.int8, torch.int16, torch.int32, torch.uint8), NARROW)
    return _array(TORCH, obj, kinds.get(obj.dtype, OTHER))


def _array(library: str, obj: Any, kind: str) -> Table | None:
    if obj.ndim == 1:
        return Column(library, kind)
    return Matrix(library, kind, int(obj.shape[1])) if obj.ndim == 2 else None


def _describe_pandas(obj: Any) -> Table | None:
    import pandas as pd

    if type(obj) is pd.Series:
        return Column(PANDAS, _pandas_kind(obj))
    if type(obj) is not pd.DataFrame or not obj.columns.is_unique:
        return None
    named = {name: obj[name] for name in obj.columns if type(name) in (str, int)}
    return PrivateTable(PANDAS, {name: _pandas_kind(column) for name, column in named.items()})


def _pandas_kind(column: Any) -> str:
    import numpy as np
    import pandas as pd

    dtype = column.dtype
    if isinstance(dtype, np.dtype):
        if dtype.kind == "O" and pd.api.types.infer_dtype(column, skipna=True) in ("string", "empty"):
            return TEXT
        return _numpy_kind(dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        texts = pd.api.types.infer_dtype(dtype.categories, skipna=True) in ("string", "empty")
        return TEXT if texts else OTHER
    # With pandas.NA a comparison may be neither true nor false, and NumPy's functions fail on that: only if
    # the data has one. Numbers of Arrow types fail if a sum overflows.
    missing = getattr(dtype, "na_value", None)
    return TEXT if isinstance(dtype, pd.StringDtype) and missing is not pd.NA else OTHER


def _numpy_kind(dtype: Any) -> str:
    if not dtype.isnative:
        return OTHER
    narrow = NARROW if dtype.itemsize < 8 else OTHER  # NumPy computes float64 from uint64 and int64
    known = {"b": BOOL, "i": INT if dtype.itemsize == 8 else NARROW, "u": narrow, "U": TEXT}
    known["f"] = FLOAT if dtype.itemsize in (4, 8) else OTHER
    return known.get(dtype.kind, OTHER)


def _describe_polars(obj: Any) -> Table | None:
    import polars as pl

    kinds: dict[Any, str] = {pl.Boolean: BOOL, pl.Int64: INT, pl.Float32: FLOAT, pl.Float64: FLOAT}
    kinds |= dict.fromkeys((pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32), NARROW)
    kinds[pl.String] = TEXT
    if type(obj) is pl.Series:
        return Column(POLARS, kinds.get(obj.dtype, OTHER))
    if type(obj) is not pl.DataFrame:
        return None
    return PrivateTable(POLARS, {name: kinds.get(dtype, OTHER) for name, dtype in obj.schema.items()})


_DESCRIBE = {
    NUMPY: _describe_numpy,
    PANDAS: _describe_pandas,
    POLARS: _describe_polars,
    TORCH: _describe_torch,
}
