"""Rows keep the order of their source, so that labels that are taken by themselves stand beside their rows.

An engine with several threads has to be made to: the file has a million rows in fifty groups, and each row
says its own number.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from pyarrow import csv

from duetlink.prep import Prep
from duetlink.prep.engines.duckdb_ import DuckSource
from duetlink.prep.prepared import Prepared

ENGINES = ("pyarrow", "polars", "duckdb")
ROWS = 1_000_000
ROW = np.arange(ROWS)
WORDS = ["a", "b", "c", "d", "e", "f"]
AGES = [3, 14, 15, 92, 65, 35]
PREP = (
    Prep()
    .missing("u", "v", "w", "x", "y", "z")
    .one_hot("word", WORDS)
    .one_hot("age", AGES)
    .cast(yes="bool")
    .select("row", "wage", "word=a", "age=3", "yes")
)
# each step that asks whether an item is one of many
STEPS = {
    "missing": Prep().missing("a", "v", "w", "x", "y", "z"),
    "one_hot of texts": Prep().one_hot("word", WORDS),
    "one_hot of numbers": Prep().one_hot("age", AGES),
    "one_hot, unknown ignored": Prep().one_hot("word", WORDS, unknown="ignore"),
    "cast to dates": Prep().cast(day="date"),
    "cast to truth values": Prep().cast(yes="bool"),
}
# of DuckDB, which do with one row after the other
IN_ORDER = {"PROJECTION", "FILTER", "STREAMING_WINDOW", "PARQUET_SCAN", "PYTHON_ARROW_SCAN"}


def wage_of(row: Any) -> Any:
    return row * 7 % 1_000_003


def people() -> pa.Table:
    def repeated(items: list[Any]) -> Any:
        return pa.array(items).take(pa.array(ROW % len(items)))

    days = [f"2024-{month:02}-28" for month in range(1, 13)]
    return pa.table(
        {
            "row": pa.array(ROW, pa.int32()),
            "wage": pa.array(wage_of(ROW), pa.int32()),
            "word": repeated(WORDS),
            "age": repeated(AGES),
            "day": repeated(days),
            "yes": repeated(["true", "false", "1", "0"]),
        }
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("order") / "people.parquet"
    pq.write_table(people(), made, row_group_size=20_000, compression="none")
    return made


def rows_of(table: pa.Table) -> NDArray[Any]:
    return np.asarray(table.column("row").to_numpy())


def by_parquet(found: Prepared, directory: Path) -> NDArray[Any]:
    return rows_of(pq.read_table(found.to_parquet(directory / "out.parquet")))


OUTPUTS: dict[str, Callable[[Prepared, Path], NDArray[Any]]] = {
    "arrow": lambda found, _: rows_of(found.arrow()),
    "numpy": lambda found, _: found.numpy()[:, 0],
    "tensor": lambda found, _: np.asarray(found.tensor()[:, 0]),
    "batches": lambda found, _: rows_of(pa.Table.from_batches(list(found.batches()))),
    "column": lambda found, _: found.column("row"),
    "to_parquet": by_parquet,
    "loader": lambda found, _: np.concatenate([rows[:, 0] for rows in found.loader(65_536)]),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("output", OUTPUTS)
def test_each_output_has_the_order_of_the_file(path: Path, engine: str, output: str, tmp_path: Path) -> None:
    assert np.array_equal(OUTPUTS[output](PREP.run(path, engine), tmp_path), ROW)


@pytest.mark.parametrize("step", STEPS)
def test_each_step_keeps_the_order_of_the_file_on_duckdb(path: Path, step: str) -> None:
    assert np.array_equal(STEPS[step].run(path, "duckdb").column("row"), ROW)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["table", "directory", "csv"])
def test_each_source_has_its_order(path: Path, tmp_path: Path, engine: str, kind: str) -> None:
    table = pq.read_table(path, columns=["row", "word"])
    source: Any = table
    if kind == "directory":
        source = tmp_path / "parts"
        source.mkdir()
        for part in range(4):
            rows = table.slice(part * ROWS // 4, ROWS // 4)
            pq.write_table(rows, source / f"{part}.parquet", row_group_size=20_000)
    elif kind == "csv":
        source = tmp_path / "people.csv"
        csv.write_csv(table, source)
    found = Prep().one_hot("word", WORDS).cast(row="int64").run(source, engine)
    assert np.array_equal(found.column("row"), ROW)


@pytest.mark.parametrize("engine", ENGINES)
def test_labels_stand_beside_their_rows(path: Path, engine: str) -> None:
    """Taken one after the other, or together."""
    found = PREP.run(path, engine)
    rows = found.numpy(columns=["row", "word=a"])
    assert np.array_equal(found.column("wage"), wage_of(rows[:, 0].astype(np.int64)))
    assert np.array_equal(rows[:, 1], rows[:, 0] % 6 == 0)
    for batch, labels in found.loader(65_536, label="wage", shuffle=3):
        assert np.array_equal(labels, wage_of(np.asarray(batch[:, 0]).astype(np.int64)))


def test_labels_stand_beside_the_rows_of_a_relation_which_has_no_order(path: Path) -> None:
    with duckdb.connect() as connection:
        found = PREP.split(0.8, seed=1, by="row").run(connection.read_parquet(str(path)))
        for part in (found, found.train):
            rows = part.numpy(columns=["row"])[:, 0]
            assert np.array_equal(part.column("wage"), wage_of(rows.astype(np.int64)))


@pytest.mark.parametrize("kind", ["parquet", "table"])
@pytest.mark.parametrize("step", [*STEPS, "split"])
def test_no_plan_of_duckdb_has_an_operator_that_loses_the_order(
    path: Path, kind: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    source = path if kind == "parquet" else pq.read_table(path)
    prep = STEPS.get(step, PREP.drop_missing().scale("wage", (0, 99)).split(0.8, seed=1))

    def collect(source: DuckSource, frame: Any) -> Any:
        made.append(frame.to_native())
        return made[0].limit(0).to_arrow_table()  # no row is read

    monkeypatch.setattr(DuckSource, "collect", collect)
    prep.run(source, "duckdb").arrow()
    ((_, plan),) = made[0].query("made", "EXPLAIN (FORMAT json) FROM made").fetchall()
    assert operators(json.loads(plan)) <= IN_ORDER


def operators(plan: list[Any]) -> set[str]:
    found = {each["name"].strip() for each in plan}
    return found.union(*(operators(each["children"]) for each in plan))


def check_labels(session: Any) -> None:
    """The same on Spark, whose partitions come in whatever order."""
    row = np.arange(20_000)
    frame = session.createDataFrame(pa.table({"row": row, "wage": wage_of(row)})).repartition(7)
    found = Prep().split(0.5, seed=1, by="row").run(frame)
    for part in (found, found.train):
        rows = part.numpy(columns=["row"])[:, 0]
        assert np.array_equal(part.column("wage"), wage_of(rows.astype(np.int64)))
    assert sorted(found.column("row")) == row.tolist()
    for batch, labels in found.test.loader(4_096, label="wage", shuffle=1):
        assert np.array_equal(labels, wage_of(np.asarray(batch[:, 0]).astype(np.int64)))
