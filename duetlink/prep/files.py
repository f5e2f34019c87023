"""Files that tables are in: Parquet, CSV, a directory of either. Their names and types are the same to all
engines.

CSV has no types, and each engine guesses others. So a column of CSV is text until it is cast, an empty field
is missing, and the first line has the names (RFC 4180: quotes are doubled within quotes, a line break may be
quoted).
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duetlink.errors import PrepError

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET, CSV = "parquet", "csv"
_ROW = re.compile(r"Row #(\d+)")
_QUOTES_AT_ONCE = 1 << 20  # bytes
_SHOWN = 300  # characters of an engine's message


@dataclass(frozen=True, slots=True)
class Files:
    """Files of one kind with the same columns, in the order of their names."""

    where: str
    kind: str
    paths: tuple[Path, ...]
    schema: Any  # pyarrow.Schema

    @property
    def names(self) -> list[str]:
        return list(self.schema.names)

    @property
    def size_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.paths)

    def texts(self) -> list[str]:
        return [str(path) for path in self.paths]


def files_at(path: Path) -> Files:
    """What is at a path: a file, or a directory with files of one kind.

    Raises:
        PrepError: there is nothing, or nothing that can be read; or files have different columns.
    """
    if path.is_dir():
        found = sorted(each for each in path.iterdir() if each.suffix.lower() in (".parquet", ".csv"))
    elif path.is_file():
        found = [path]
    else:
        raise PrepError(f"there is no file {path}: give the path of a Parquet or CSV file", file=str(path))
    kinds = {each.suffix.lower().lstrip(".") for each in found}
    if not kinds <= {PARQUET, CSV} or len(kinds) != 1:
        raise PrepError(
            f"{path} is no Parquet or CSV file (.parquet, .csv), nor a directory with files of one of them",
            file=str(path),
        )
    (kind,) = kinds
    first = _schema(found[0], kind)
    for each in found[1:]:
        other = _schema(each, kind)
        if not other.equals(first):
            column = next(
                (name for name, one in _pairs(first, other) if one),
                "",
            )
            raise PrepError(
                f"{each} has other columns or types than {found[0]}, first in column {column!r}: write all "
                "files of a directory with the same ones",
                file=str(each),
                column=column,
            )
    if len(set(first.names)) != len(first.names):
        twice = next(name for name in first.names if first.names.count(name) > 1)
        raise PrepError(f"{found[0]} has two columns {twice!r}: rename one", file=str(found[0]), column=twice)
    return Files(str(path), kind, tuple(found), first)


def _pairs(first: Any, other: Any) -> list[tuple[str, bool]]:
    names = dict.fromkeys([*first.names, *other.names])
    kinds = [{field.name: field.type for field in schema} for schema in (first, other)]
    return [(name, kinds[0].get(name) != kinds[1].get(name)) for name in names] + [
        (name, name != theirs) for name, theirs in zip(first.names, other.names, strict=False)
    ]


def _schema(path: Path, kind: str) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if kind == PARQUET:
            return pq.read_schema(path).remove_metadata()
        return pa.schema([(name, pa.string()) for name in _header(path)])
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, _numbered(path, error) if kind == CSV else error) from None


def _header(path: Path) -> list[str]:
    from pyarrow import csv

    with csv.open_csv(path, parse_options=_parsing()) as reader:
        return list(reader.schema.names)


def _parsing() -> Any:
    from pyarrow import csv

    return csv.ParseOptions(newlines_in_values=True)


def read_csv(files: Files, columns: Sequence[str]) -> pa.Table:
    """Some columns of CSV files, as text. Raises PrepError."""
    import pyarrow as pa
    from pyarrow import csv

    tables = []
    for path in files.paths:
        check_quotes(path)
        try:
            found = csv.read_csv(path, parse_options=_parsing(), convert_options=_texts(files, columns))
        except (pa.ArrowException, OSError) as error:
            raise unreadable(path, _numbered(path, error)) from None
        tables.append(found)
    return pa.concat_tables(tables)


def csv_blocks(files: Files, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The same, one MB of a file after the other. Raises PrepError."""
    import pyarrow as pa
    from pyarrow import csv

    for path in files.paths:
        check_quotes(path)
        try:
            with csv.open_csv(
                path, parse_options=_parsing(), convert_options=_texts(files, columns)
            ) as reader:
                yield from reader
        except (pa.ArrowException, OSError) as error:
            raise unreadable(path, _numbered(path, error)) from None


def _texts(files: Files, columns: Sequence[str]) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    return csv.ConvertOptions(
        column_types=dict.fromkeys(files.names, pa.string()),
        include_columns=list(columns),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
    )


def check_quotes(path: Path) -> None:
    """Raise PrepError where a quote is never closed, which Arrow and Spark take for one long item.

    A quoted item has two quotes, and within it each is doubled (RFC 4180): together they are even in number.
    """
    if path.stat().st_size == 0:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        steps = range(0, len(content), _QUOTES_AT_ONCE)
        quotes = sum(content[start : start + _QUOTES_AT_ONCE].count(b'"') for start in steps)
    if quotes % 2:
        raise unreadable(path, ValueError("a quote is never closed"))


def _numbered(path: Path, error: Exception) -> Exception:
    """The same error once more from one thread, which counts rows; one column is all that it keeps."""
    import pyarrow as pa
    from pyarrow import csv

    read = csv.ReadOptions(use_threads=False, autogenerate_column_names=True)
    first = csv.ConvertOptions(include_columns=["f0"], column_types={"f0": pa.binary()})
    try:
        csv.read_csv(path, read, _parsing(), first)
    except (pa.ArrowException, OSError) as numbered:
        return numbered
    return error


def probe(files: Files) -> None:
    """Read all of it once, slowly, to see which file is broken, and where. Raises PrepError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in files.paths:
        row = 0
        try:
            if files.kind == CSV:
                for _ in csv_blocks(Files(files.where, files.kind, (path,), files.schema), files.names):
                    pass
            else:
                with pq.ParquetFile(path) as file:
                    for batch in file.iter_batches(batch_size=65_536):
                        row += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise unreadable(path, error, row or None) from None


def located(files: Files, row: int) -> tuple[Path, int]:
    """The file in which a row of all of them is, and its number there. Reads CSV files up to it."""
    import pyarrow.parquet as pq

    for path in files.paths[:-1]:
        one = Files(files.where, files.kind, (path,), files.schema)
        if files.kind == CSV:
            rows = sum(block.num_rows for block in csv_blocks(one, files.names[:1]))
        else:
            rows = pq.read_metadata(path).num_rows
        if row < rows:
            return path, row
        row -= rows
    return files.paths[-1], row


def unreadable(path: Path, error: Exception, row: int | None = None) -> PrepError:
    """Which file cannot be read, and why, in the words of its reader."""
    words = " ".join(str(error).split())[:_SHOWN]
    found = _ROW.search(words)
    if found is not None:
        row = int(found[1]) - 2  # it counts the header, and from 1
    at = f" at row {row:,}" if row is not None else ""
    return PrepError(
        f"{path} cannot be read{at} ({words}): it may be cut off or damaged; copy or write it again",
        file=str(path),
        row=row,
    )
