"""Batches: the rows of the whole, though only a piece of the source is in memory at a time."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import csv

from duetlink.errors import PrepError
from duetlink.prep import Prep, pieces
from duetlink.prep.engines.base import Opened
from duetlink.prep.engines.choice import opened
from duetlink.prep.prepared import Prepared
from duetlink.testing.faults import replace_function
from tests.prep.naive import prepared
from tests.prep.test_engines_agree import FIELDS, ROW, SCHEMA, preps, same

ENGINES = ["pyarrow", "polars", "duckdb"]
ROWS = 1_000
PREP = (
    Prep()
    .missing("NA")
    .drop_missing("job")
    .cast(age="int64")
    .one_hot("job", ["a", "b"])
    .scale("age", (0, 100))
    .split(0.8, seed=5)
)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def people() -> pa.Table:
    ages = [str(n % 90) for n in range(ROWS)]
    return pa.table({"age": ages, "job": ["a", "NA", "b", None] * (ROWS // 4)})


def written(table: pa.Table, directory: Path, kind: str) -> Any:
    """The same rows as a table, a file, or a directory of files."""
    if kind == "table":
        return table
    if kind == "csv":
        csv.write_csv(table, directory / "people.csv")
        return directory / "people.csv"
    for number, start in enumerate((0, 300, 300, 700)):
        end = (300, 300, 700, ROWS)[number]
        pq.write_table(table.slice(start, end - start), directory / f"{number}.parquet", row_group_size=90)
    return directory


@pytest.mark.parametrize("kind", ["table", "parquet", "csv"])
def test_batches_are_the_whole_in_order(
    people: pa.Table, tmp_path: Path, engine: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "ROWS", 64)
    source = written(people, tmp_path, kind)
    whole = PREP.run(source, engine).arrow()
    assert whole.num_rows == 500
    found = PREP.run(source, engine)
    batches = list(found.batches(50))
    assert max(batch.num_rows for batch in batches) <= 50
    assert min(batch.num_rows for batch in batches) > 0
    assert pa.Table.from_batches(batches).combine_chunks().equals(whole.combine_chunks())
    train = pa.Table.from_batches(list(found.train.batches(7)))
    assert train.combine_chunks().equals(found.train.arrow().combine_chunks())
    path = PREP.run(source, engine).test.to_parquet(tmp_path / "test.out")
    assert pq.read_table(path).num_rows == whole.num_rows - train.num_rows


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(ROW, max_size=8), preps())
def test_pieces_of_three_rows_do_as_a_loop_over_rows(rows: list[dict[str, Any]], prep: Prep) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA)
    expected = prepared(prep, rows, FIELDS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "ROWS", 3)
        for engine in ENGINES[:2]:
            same(pa.Table.from_batches(list(prep.run(table, engine).batches(2))), expected, prep)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_files_without_rows_have_one_batch(people: pa.Table, tmp_path: Path, engine: str, kind: str) -> None:
    (batch,) = PREP.run(written(people.slice(0, 0), tmp_path, kind), engine).batches()
    assert batch.num_rows == 0
    assert batch.schema.names == ["age", "job=a", "job=b", "train"]


@pytest.mark.parametrize(
    ("kind", "file", "row"),
    [("table", "the table", 910), ("parquet", "3.parquet", 210), ("csv", "people.csv", 910)],
)
def test_the_first_row_that_does_not_fit_is_told_with_its_file(
    people: pa.Table,
    tmp_path: Path,
    engine: str,
    kind: str,
    file: str,
    row: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a directory it is the file of that row, and the row's number in it."""
    monkeypatch.setattr(pieces, "ROWS", 64)
    ages = people["age"].to_pylist()
    ages[910] = ages[950] = "old"
    source = written(people.set_column(0, "age", pa.array(ages)), tmp_path, kind)
    given = PREP.run(source, engine).batches(50)
    with pytest.raises(
        PrepError, match=f"row {row} of .*{file}, column 'age', has an item that is no int64"
    ) as error:
        list(given)
    assert (Path(error.value.file).name, error.value.row, error.value.column) == (file, row, "age")


def test_a_file_damaged_behind_good_ones_leaves_nothing_written(
    people: pa.Table, tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces of the first file are written by then, beside the place."""
    monkeypatch.setattr(pieces, "ROWS", 64)
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    out.mkdir()
    written(people, source, "parquet")
    damaged = source / "3.parquet"
    content = bytearray(damaged.read_bytes())
    content[4:400] = bytes(396)
    damaged.write_bytes(content)
    with pytest.raises(PrepError, match="cut off or damaged") as error:
        PREP.run(source, engine).to_parquet(out / "all.parquet")
    assert Path(error.value.file).name == "3.parquet"
    assert list(out.iterdir()) == []


def bytes_read() -> int:
    """What this process has asked files for."""
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.mark.parametrize("engine", ENGINES[:2])  # DuckDB reads some tens of MB ahead
def test_a_file_is_read_as_batches_are_wanted(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """16 MB: a batch comes when less than half of them are read, and Arrow never holds as much as half."""
    monkeypatch.setattr(pieces, "ROWS", 2_048)
    monkeypatch.setattr(pieces, "BYTES", 1 << 20)
    path = tmp_path / "rows.parquet"
    rows, columns = 100_000, 20
    part = np.random.default_rng(1).normal(size=rows)
    table = pa.table({f"c{n}": part for n in range(columns)})
    pq.write_table(table, path, row_group_size=10_000, use_dictionary=False, compression="none")
    prep = Prep()
    for n in range(columns):
        prep = prep.scale(f"c{n}", (0, rows))
    found = prep.run(path, engine)
    allocated, before = pa.total_allocated_bytes(), bytes_read()
    batches = found.batches(2_048)
    total = next(batches).num_rows
    assert 0 < bytes_read() - before < path.stat().st_size / 2
    most = 0
    for batch in batches:
        most = max(most, pa.total_allocated_bytes() - allocated)
        total += batch.num_rows
    assert total == rows
    assert most < table.nbytes / 2
    assert bytes_read() - before > path.stat().st_size * 0.9


def test_ctrl_c_closes_the_file_though_its_traceback_is_kept(
    people: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a notebook keeps it, until the next error."""

    def interrupted(self: Prepared, table: pa.Table) -> pa.Table:
        raise KeyboardInterrupt

    replace_function(monkeypatch, Prepared, "named", interrupted)
    source = written(people, tmp_path, "parquet")
    with pytest.raises(KeyboardInterrupt) as kept:
        list(PREP.run(source, "pyarrow").batches())
    assert kept.traceback
    still = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    assert not [file for file in still if file.startswith(str(tmp_path))]


def test_ctrl_c_between_batches_ends_it(
    people: pa.Table, tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left: no file, no thread, and the query was cancelled."""
    monkeypatch.setattr(pieces, "ROWS", 64)
    source: Any = type(opened(people, engine))
    whole, cancelled = source.stream, []

    def stream(self: Opened, *given: Any, **named: Any) -> Generator[pa.RecordBatch]:
        with contextlib.closing(whole(self, *given, **named)) as batches:
            yield next(batches)
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("it went on")

    monkeypatch.setattr(source, "stream", stream)
    monkeypatch.setattr(source, "cancel", lambda self: cancelled.append(True))
    with pytest.raises(KeyboardInterrupt):
        PREP.run(people, engine).to_parquet(tmp_path / "out.parquet")
    assert list(tmp_path.iterdir()) == []
    assert cancelled == [True]
    assert "duetlink-prep-progress" not in {thread.name for thread in threading.enumerate()}
