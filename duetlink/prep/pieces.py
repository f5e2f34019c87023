"""Splits a table or files into pieces, which engines in memory prepare one after the other.

Theory. Each step of a preparation treats each row by itself, once bounds and categories are declared. A split
does so too: it decides by a key or by the number of the row. So the pieces give the same rows as the whole,
if each piece knows the number of its first row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from duetlink.prep.files import CSV, Files, csv_blocks

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 65_536  # of one piece; enough that an engine's cost for starting a piece does not matter
BYTES = 32 << 20  # of one piece with wide rows; with its results it takes a few times as much memory


def fits_one_piece(source: Any) -> bool:
    """Return True for a table that is one piece. Files are always read in pieces."""
    return not isinstance(source, Files) and len(source) <= _rows_of_a_table(source)


def pieces(source: Any, columns: list[str]) -> Iterator[tuple[int, Any]]:
    """Yield pieces of `source` in order, each with the number of its first row. There is at least one piece.

    `source` is an Arrow table, a Polars frame, or files. Only `columns` are read from files, as Arrow tables.

    Raises:
        PrepError: a CSV file cannot be read.
    """
    first, piece = 0, None
    for piece in _pieces(source, columns):
        yield first, piece
        first += len(piece)
    if piece is None:  # files without rows
        yield 0, source.schema.empty_table().select(columns)


def batches_of(table: pa.Table, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield views of at most `rows` rows of the table; one empty batch if it has no rows."""
    import pyarrow as pa

    yield from table.to_batches(max_chunksize=rows) or [pa.RecordBatch.from_pylist([], schema=table.schema)]


def _pieces(source: Any, columns: list[str]) -> Iterator[Any]:
    if not isinstance(source, Files):
        rows = _rows_of_a_table(source)
        return (source.slice(start, rows) for start in range(0, max(len(source), 1), rows))
    return _gathered(csv_blocks(source, columns)) if source.kind == CSV else _parquet(source, columns)


def _rows_of_a_table(table: Any) -> int:
    size_bytes = table.nbytes if hasattr(table, "nbytes") else table.estimated_size()
    return _rows_of_a_piece(len(table.columns), len(table), size_bytes)


def _rows_of_a_piece(columns: int, rows: int, size_bytes: int) -> int:
    """Return the number of rows of a piece, for a source of that size; an item counts as 8 bytes or more."""
    row_bytes = max(size_bytes // max(rows, 1), 8 * columns, 1)
    return min(ROWS, max(BYTES // row_bytes, 1))


def _gathered(blocks: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    rows = size = 0
    for block in blocks:
        held.append(block)
        rows, size = rows + block.num_rows, size + block.nbytes
        if rows >= ROWS or size >= BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def _parquet(files: Files, columns: list[str]) -> Iterator[pa.Table]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in files.paths:
        # without a small buffer the reader would hold the compressed columns of a whole row group
        ahead_bytes = max(min(BYTES // len(files.names), 1 << 20), 4_096)
        with pq.ParquetFile(path, buffer_size=ahead_bytes, pre_buffer=False) as file:
            about = file.metadata
            size = sum(about.row_group(n).total_byte_size for n in range(about.num_row_groups))
            rows = _rows_of_a_piece(len(columns), about.num_rows, size)
            for batch in file.iter_batches(rows, columns=columns):
                yield pa.Table.from_batches([batch]).select(columns)
