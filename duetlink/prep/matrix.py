"""Converts Arrow columns to NumPy arrays: views if possible, else copies into one matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from duetlink.data.prep.fields import BOOL, NUMBERS
from duetlink.errors import PrepError

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK = 8_192  # rows that are written column by column, so that the block stays in the CPU cache


def array_of(column: pa.ChunkedArray, name: str) -> NDArray[Any]:
    """Return a column as one array: a view if it is numbers in one piece without missing items, else a copy.

    A copy with missing numbers or booleans is float64 with NaN. A missing date is NaT, a missing text None.

    Raises:
        PrepError: a column with missing items has a whole number beyond 2**53, which float64 cannot hold.
    """
    import pyarrow as pa
    import pyarrow.types as kinds

    if column.num_chunks == 1 and not column.null_count:
        try:
            return np.asarray(column.chunk(0).to_numpy(zero_copy_only=True))
        except ValueError:  # bits
            pass
    kind = column.type
    if column.null_count and (kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind)):
        try:
            column = column.cast("float64")
        except pa.ArrowInvalid:
            raise PrepError(
                f"column {name!r} has missing items and whole numbers beyond 2**53, which no float64 is: "
                "drop_missing before, or take it from arrow()",
                column=name,
            ) from None
    return np.asarray(column.to_numpy())


def check_numbers(types: Mapping[str, str], where: str) -> None:
    """Raise PrepError if a column has a type that is neither a number nor bool. `types` are by name."""
    for name, kind in types.items():
        if kind not in (BOOL, *NUMBERS):
            raise PrepError(
                f"column {name!r} of {where} is {kind}, which is no number: one_hot or cast it, or select "
                "the others",
                file=where,
                column=name,
            )


class Matrix:
    """A matrix to which rows are added, in one piece of memory."""

    def __init__(self, width: int, dtype: Any, rows: int = 0) -> None:
        self._found: NDArray[Any] = np.empty((rows, width), dtype=dtype)
        self._rows = 0
        if self._found.dtype.kind not in "fiub":
            raise PrepError(f"a matrix has numbers, not {self._found.dtype}")

    def add(self, batch: pa.RecordBatch) -> None:
        """Append the rows of a batch; missing items become NaN. Raises PrepError."""
        end = self._rows + batch.num_rows
        if end > len(self._found):
            # realloc moves pages, not bytes; no other reference to the memory exists
            self._found.resize((max(end, len(self._found) * 3 // 2), self._found.shape[1]), refcheck=False)
        _fill(self._found[self._rows : end], batch)
        self._rows = end

    def finish(self) -> NDArray[Any]:
        """Return the matrix, C-contiguous."""
        if self._rows != len(self._found):
            self._found.resize((self._rows, self._found.shape[1]), refcheck=False)
        return self._found


def _fill(part: NDArray[Any], batch: pa.RecordBatch) -> None:
    """Write a batch to its rows of a matrix. Raises PrepError."""
    dtype, rows = part.dtype, batch.num_rows
    checked = dtype.kind != "f" or any(column.null_count for column in batch.columns)
    columns = [_numbers(batch, index, dtype, check=checked) for index in range(batch.num_columns)]
    most = 0 if checked else _exact(dtype)
    room = np.empty((len(columns), min(rows, _BLOCK)), dtype)  # columns are cast here, and then turned
    for start in range(0, rows, _BLOCK):
        block = room[:, : min(rows - start, _BLOCK)]
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is looked at below
            for index, column in enumerate(columns):
                block[index] = column[start : start + _BLOCK]
        # the type holds whatever is smaller; if something is not, each item is looked at
        if not checked and not -most < _extreme(np.fmin, block) <= _extreme(np.fmax, block) < most:
            for index in range(batch.num_columns):
                _check(batch, index, dtype)
            checked = True
        part[start : start + _BLOCK] = block.T


def _extreme(least_or_most: np.ufunc, block: NDArray[Any]) -> Any:
    """Return the smallest or largest item, leaving out NaN; 0 if there is none."""
    return least_or_most.reduce(block, axis=None, initial=0)


def _numbers(batch: pa.RecordBatch, index: int, dtype: np.dtype[Any], *, check: bool) -> NDArray[Any]:
    """Return a column's items, with NaN for missing ones. Raises PrepError, for items only with `check`."""
    column, name = batch.column(index), batch.schema.names[index]
    if column.null_count and dtype.kind != "f":
        raise PrepError(
            f"column {name!r} has missing items, which {dtype} cannot have: drop_missing before, or take "
            "float32",
            column=name,
        )
    if check:
        _check(batch, index, dtype)
    given = column.cast("float64") if column.null_count else column
    return np.asarray(given.to_numpy(zero_copy_only=False))


def _check(batch: pa.RecordBatch, index: int, dtype: np.dtype[Any]) -> None:
    """Raise PrepError if a column has an item that `dtype` cannot hold."""
    column, name = batch.column(index), batch.schema.names[index]
    given = column.drop_null() if column.null_count else column
    found = np.asarray(given.to_numpy(zero_copy_only=False))
    if not _holds(dtype, found):
        other = "float64" if dtype.kind == "f" and dtype.itemsize < 8 else "float32"
        raise PrepError(
            f"column {name!r} is {found.dtype}, from {found.min()} to {found.max()}, and has items that "
            f"{dtype} cannot have: cast, clip or scale it before, or take another dtype, such as {other}",
            column=name,
        )


def _exact(dtype: np.dtype[Any]) -> int:
    """Return the number up to which a floating point type, or float64, has every whole number."""
    return int(2 ** (min(np.finfo(dtype).nmant, 52) + 1))


def _holds(dtype: np.dtype[Any], items: NDArray[Any]) -> bool:
    """Return True if `dtype` can hold all items; a floating point type may round fractions."""
    if not len(items) or (items.dtype.itemsize < 8 and np.can_cast(items.dtype, dtype)):
        return True  # NumPy casts integers of 8 bytes to float64, too
    low, high = items.min(), items.max()
    if dtype.kind == "f" and items.dtype.kind == "f":
        most = np.finfo(dtype).max
        if -most <= low and high <= most:
            return True
        return not np.any(np.abs(items[np.isfinite(items)]) > most)  # infinities stay infinite
    if dtype.kind == "f":
        return -_exact(dtype) <= int(low) and int(high) <= _exact(dtype)
    if dtype.kind == "b" or items.dtype.kind == "f":
        return False
    limits = np.iinfo(dtype)
    return bool(limits.min <= low and high <= limits.max)
