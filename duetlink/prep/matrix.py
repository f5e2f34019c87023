"""Columns of Arrow as arrays of NumPy: views where that can be, else one copy into one matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from duetlink.errors import PrepError

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK = 8_192  # rows whose columns are written one after the other: a block of the matrix stays in the cache


def array_of(column: pa.ChunkedArray) -> NDArray[Any]:
    """A column of numbers as one array: a view of its memory if it is in one piece and nothing is missing.

    Else a copy; where something is missing, of float64, with NaN.
    """
    if column.num_chunks == 1 and not column.null_count:
        chunk = column.chunk(0)
        try:
            return np.asarray(chunk.to_numpy(zero_copy_only=True))
        except ValueError:  # bits
            pass
    if column.null_count:
        return np.asarray(column.cast("float64").to_numpy())
    return np.asarray(column.to_numpy())


def check_numbers(table_schema: Any, where: str) -> None:
    """Raises PrepError: a column is neither numbers nor truth values."""
    import pyarrow.types as kinds

    for field in table_schema:
        kind = field.type
        if not (kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind)):
            raise PrepError(
                f"column {field.name!r} of {where} is {kind}, which is no number: one_hot or cast it, or "
                "select the others",
                file=where,
                column=field.name,
            )


class Matrix:
    """Rows of numbers that grows, in one piece of memory."""

    def __init__(self, width: int, dtype: Any, rows: int = 0) -> None:
        self._found: NDArray[Any] = np.empty((rows, width), dtype=dtype)
        self._rows = 0
        if self._found.dtype.kind not in "fiub":
            raise PrepError(f"a matrix has numbers, not {self._found.dtype}")

    def add(self, batch: pa.RecordBatch) -> None:
        """Its rows, behind those that are there; what is missing becomes NaN. Raises PrepError."""
        end = self._rows + batch.num_rows
        if end > len(self._found):
            # realloc moves pages, not bytes; nobody else has seen the memory
            self._found.resize((max(end, len(self._found) * 3 // 2), self._found.shape[1]), refcheck=False)
        columns = [_numbers(batch, place, self._found.dtype) for place in range(batch.num_columns)]
        for start in range(0, batch.num_rows, _BLOCK):
            stop = min(start + _BLOCK, batch.num_rows)
            block = self._found[self._rows + start : self._rows + stop]
            for place, column in enumerate(columns):
                block[:, place] = column[start:stop]
        self._rows = end

    def finish(self) -> NDArray[Any]:
        """The whole, C-contiguous."""
        if self._rows != len(self._found):
            self._found.resize((self._rows, self._found.shape[1]), refcheck=False)
        return self._found


def _numbers(batch: pa.RecordBatch, place: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    column = batch.column(place)
    if column.null_count:
        if dtype.kind != "f":
            raise PrepError(
                f"column {batch.schema.names[place]!r} has missing items, which {dtype} cannot have: "
                "drop_missing before, or take float32",
                column=batch.schema.names[place],
            )
        column = column.cast("float64")
    return np.asarray(column.to_numpy(zero_copy_only=False))
