"""Reads Parquet and CSV files, or a directory of either, with the same names and types for all engines.

CSV has no types, and each engine would guess different ones. So a CSV column is text until it is cast, an
empty field is missing, and the first line has the names (RFC 4180: quotes are doubled within quotes, a line
break may be quoted).
"""

from __future__ import annotations

import codecs
import itertools
import mmap
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from duetlink.errors import PrepError

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET, CSV = "parquet", "csv"
_SUFFIXES = (".parquet", ".csv")
_PACKED = (".gz", ".zip", ".zst", ".bz2", ".xz", ".lz4")
_ROW, _COLUMN = re.compile(r"Row #(\d+)"), re.compile(r"CSV column #(\d+)")
_AT_ONCE = 1 << 20  # bytes
_HEADER = 1 << 16  # bytes; Arrow guesses types of the whole block, which takes 20 ms for its own 1 MB
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
    """Find the file, or the directory with files of one kind, at a path, and read their schema.

    Names in a directory that begin with a dot or an underscore are ignored, as Arrow and Spark do.

    Raises:
        PrepError: nothing is there, or it cannot be read; files have different columns; or a directory has
            files that would be left out.
    """
    if path.is_dir():
        found = _files_in(path)
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
            pairs = itertools.zip_longest(first, other)
            column = next((one or two).name for one, two in pairs if one != two)
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


def _files_in(directory: Path) -> list[Path]:
    there = sorted(each for each in directory.iterdir() if each.name[0] not in "._")
    for each in there:
        packed = each.suffix.lower() in _PACKED and Path(each.stem).suffix.lower() in _SUFFIXES
        if packed or each.is_dir():
            raise PrepError(
                f"{directory} has {each.name}, which would be left out: "
                + ("unpack it" if packed else "put its files there, or prepare each directory by itself"),
                file=str(each),
            )
    return [each for each in there if each.suffix.lower() in _SUFFIXES]


def _schema(path: Path, kind: str) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if kind == PARQUET:
            return pq.read_schema(path).remove_metadata()
        return pa.schema([(name, pa.string()) for name in _header(path)])
    except UnicodeDecodeError as error:  # a name of a column
        raise unreadable(path, error) from None
    except (pa.ArrowException, OSError) as error:
        raise (_unreadable_csv(path, error) if kind == CSV else unreadable(path, error)) from None


def _header(path: Path) -> list[str]:
    import pyarrow as pa
    from pyarrow import csv

    def names(options: csv.ReadOptions) -> list[str]:
        with csv.open_csv(path, options, _parsing()) as reader:
            return list(reader.schema.names)

    try:
        return names(csv.ReadOptions(block_size=_HEADER))
    except pa.ArrowInvalid:  # it may be longer
        return names(csv.ReadOptions())


def _parsing(*, quotes: bool = True) -> Any:
    from pyarrow import csv

    return csv.ParseOptions(newlines_in_values=quotes)  # without, a third less work


def read_csv(files: Files, columns: Sequence[str]) -> pa.Table:
    """Read `columns` of CSV files as text. Raises PrepError."""
    import pyarrow as pa
    from pyarrow import csv

    tables = []
    for path in files.paths:
        check_quotes(path)
        try:
            found = csv.read_csv(path, parse_options=_parsing(), convert_options=_items(files, columns))
        except (pa.ArrowException, OSError) as error:
            raise _unreadable_csv(path, error, files) from None
        tables.append(found)
    return pa.concat_tables(tables)


def read_typed_csv(
    path: Path,
    files: Files,
    columns: Sequence[str],
    types: Mapping[str, str],
    missing: Sequence[str],
    *,
    quotes: bool,
) -> pa.Table:
    """Read `columns` of one of the files, some with Arrow types. Texts in `missing` are null in all columns.

    Arrow accepts other numbers than a cast does: see `spelling.py`. Raises pyarrow.ArrowException, OSError.
    """
    import pyarrow as pa
    from pyarrow import csv

    return csv.read_csv(
        path,
        parse_options=_parsing(quotes=quotes),
        convert_options=_items(files, columns, types, missing),
        # Arrow's own pools return memory to the system more often, which costs time in the kernel
        memory_pool=pa.system_memory_pool(),
    )


def csv_blocks(files: Files, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield `columns` of CSV files as text, in blocks of 1 MB. Raises PrepError."""
    import pyarrow as pa
    from pyarrow import csv

    for path in files.paths:
        check_quotes(path)
        try:
            with csv.open_csv(
                path, parse_options=_parsing(), convert_options=_items(files, columns)
            ) as reader:
                yield from reader
        except (pa.ArrowException, OSError) as error:
            raise _unreadable_csv(path, error, files) from None


def _items(
    files: Files,
    columns: Sequence[str],
    types: Mapping[str, str] = MappingProxyType({}),
    missing: Sequence[str] = ("",),
) -> Any:
    """Return how items are converted: to text, or to the Arrow type in `types`."""
    import pyarrow as pa
    from pyarrow import csv

    return csv.ConvertOptions(
        column_types={name: pa.type_for_alias(types.get(name, "string")) for name in files.names},
        include_columns=list(columns),
        null_values=list(missing),
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
    )


def check_quotes(path: Path) -> None:
    """Raise PrepError if a quote is never closed; Arrow and Spark would read one long item without an error.

    A quoted item has two quotes, and each quote inside it is doubled (RFC 4180), so a valid file has an even
    number of quotes.
    """
    if path.stat().st_size == 0:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        steps = range(0, len(content), _AT_ONCE)
        quotes = sum(content[start : start + _AT_ONCE].count(b'"') for start in steps)
    if quotes % 2:
        raise unreadable(path, ValueError("a quote is never closed"))


def is_utf_8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        try:
            while block := file.read(_AT_ONCE):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def _unreadable_csv(path: Path, error: Exception, files: Files | None = None) -> PrepError:
    """Read the file again in one thread, where Arrow's errors have row numbers, and return such an error.

    It is about a line with missing fields (one column is read to find it) or an item that is no text.
    """
    import pyarrow as pa
    from pyarrow import csv

    lines = csv.ReadOptions(use_threads=False, autogenerate_column_names=True)
    first = csv.ConvertOptions(include_columns=["f0"], column_types={"f0": pa.binary()})
    try:
        csv.read_csv(path, lines, _parsing(), first)
        if files is not None and (found := _COLUMN.search(str(error))):
            item = _items(files, [files.names[int(found[1])]])
            csv.read_csv(path, csv.ReadOptions(use_threads=False), _parsing(), item)
    except (pa.ArrowException, OSError) as numbered:
        error = numbered
    return unreadable(path, error, names=files.names if files is not None else [])


def probe(files: Files) -> None:
    """Read all files slowly to find the broken one and its row. Raises PrepError if one is broken."""
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
    """Return the file that contains a row, and the row's number in it. Reads CSV files up to that row."""
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


def unreadable(path: Path, error: Exception, row: int | None = None, names: Sequence[str] = ()) -> PrepError:
    """Return the error for a file that cannot be read, with the reader's words. `names` are its columns."""
    words = " ".join(str(error).split())[:_SHOWN]
    if (found := _ROW.search(words)) is not None:
        row = int(found[1]) - 2  # Arrow counts from 1 and includes the header
    column = names[int(found[1])] if names and (found := _COLUMN.search(words)) else ""
    at = f" at row {row:,}" if row is not None else ""
    at += f", column {column!r}" if column else ""
    is_text = "UTF8" not in words and "utf-8" not in words
    todo = "it may be cut off or damaged; copy or write it again" if is_text else "write it again as UTF-8"
    return PrepError(f"{path} cannot be read{at} ({words}): {todo}", file=str(path), row=row, column=column)
