"""A table or files, some rows at a time: what engines in memory prepare one after the other.

Theory. Each step of a preparation goes row by row, once bounds and categories are declared. A split does so,
too, by a key or by the number of the row. So pieces give the rows that the whole gives, if each knows the
number of its first row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from duetlink.prep.files import CSV, Files, csv_blocks

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 65_536  # of one piece: what an engine needs to begin with a piece is little beside their work
BYTES = 32 << 20  # of a piece of wide rows; with its results it is a few times as much


def fits_one_piece(source: Any) -> bool:
    """Whether a table is so small that pieces of it save nothing. Files are read by pieces in any case."""
    return not isinstance(source, Files) and len(source) <= _rows_of_a_table(source)


def pieces(source: Any, columns: list[str]) -> Iterator[tuple[int, Any]]:
    """The rows in order, in at least one piece, with the number of the first of them.

    `source` is a table of Arrow, a frame of Polars, or files, of which only `columns` are read, as Arrow.

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
    """Views of a table; one without rows where it has none."""
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
    """How many rows a piece has at most of a source of so many rows and bytes; 8 bytes an item at least."""
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
        # without them it would hold the compressed columns of a whole group of rows
        ahead_bytes = max(min(BYTES // len(files.names), 1 << 20), 4_096)
        with pq.ParquetFile(path, buffer_size=ahead_bytes, pre_buffer=False) as file:
            about = file.metadata
            size = sum(about.row_group(n).total_byte_size for n in range(about.num_row_groups))
            rows = _rows_of_a_piece(len(columns), about.num_rows, size)
            for batch in file.iter_batches(rows, columns=columns):
                yield pa.Table.from_batches([batch]).select(columns)
