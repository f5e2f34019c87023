"""Spark, classic and by Connect, makes of a table what the others make of it.

All tests that need Java are in one file: files are what is spread over processes, and each would start Java.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duetlink.errors import PrepError
from duetlink.prep import Prep
from duetlink.prep.engines.spark import SparkSource
from tests.prep.naive import prepared
from tests.prep.test_engines_agree import FIELDS, ROW, SCHEMA, all_casts, edge_rows, preps, same
from tests.prep.test_row_order import check_labels


def test_every_cast_of_what_is_at_the_edges_on_spark(spark: Any) -> None:
    rows = edge_rows()
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, SCHEMA))
    for prep in all_casts():
        found = prep.run(frame)
        assert found.engine == "spark"
        same(found.arrow(), prepared(prep, rows, FIELDS), prep)


def test_spark_connect_does_as_a_loop_over_rows(spark_connect: Any, tmp_path: Path) -> None:
    rows = edge_rows()
    table = pa.Table.from_pylist(rows, SCHEMA)
    pq.write_table(table, tmp_path / "rows.parquet")
    prep = all_casts()[-1].split(0.5, seed=1, by="id")
    expected = prepared(prep, rows, FIELDS)
    for source in (table, tmp_path / "rows.parquet"):
        same(prep.run(source, spark_connect).arrow(), expected, prep)
    same(prep.run(table.slice(0, 0), spark_connect).arrow(), [], prep)
    with pytest.raises(PrepError, match=r"column 'word', has an item that is no int8") as error:
        Prep().cast(word="int8").run(table, spark_connect).arrow()
    assert error.value.row is None
    with pytest.raises(PrepError, match="give by="):
        Prep().split(0.5, seed=1).run(table, spark_connect)


def test_a_path_is_no_pattern_to_spark_either(spark: Any, tmp_path: Path) -> None:
    for stem, value in (("w[1]", "1"), ("w1", "2"), ("w{a,b}", "1"), ("wa", "2")):
        pq.write_table(pa.table({"x": [value]}), tmp_path / f"{stem}.parquet")
        (tmp_path / f"{stem}.csv").write_text(f"x\n{value}\n")
    for name in ("w[1].parquet", "w{a,b}.csv"):
        assert Prep().run(tmp_path / name, spark).arrow().to_pylist() == [{"x": "1"}]


def test_spark_reads_csv_as_the_others_do(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text('age,"a ""name""",x\n1,"a, b",\n,"two\nlines",""\n007,NA,é\n', "utf-8")
    found = Prep().run(path, spark).arrow().to_pylist()
    assert found == Prep().run(path, "pyarrow").arrow().to_pylist()
    path.write_text("age,job,town\n" + "1,a,Ulm\n" * 5 + "2,b")
    with pytest.raises(PrepError, match="cannot be read at row 5 "):
        Prep().run(path, spark).arrow()


def test_spark_leaves_out_no_file_and_puts_no_other_letters(spark: Any, tmp_path: Path) -> None:
    """What Hadoop takes for hidden is refused, and so is what is not UTF-8."""
    (tmp_path / "_people.csv").write_text("age\n1\n")
    with pytest.raises(PrepError, match="for the first letter of its name"):
        Prep().run(tmp_path / "_people.csv", spark)
    (tmp_path / "people.csv").write_bytes("town\nUlm\nKöln\n".encode("latin-1"))
    with pytest.raises(PrepError, match=r"at row 1, column 'town' .*UTF-8") as error:
        Prep().run(tmp_path / "people.csv", spark)
    assert told(error) == ("people.csv", "town")


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(ROW, max_size=8), preps())
def test_spark_does_as_a_loop_over_rows(spark: Any, rows: list[dict[str, Any]], prep: Prep) -> None:
    same(prep.run(pa.Table.from_pylist(rows, SCHEMA), spark).arrow(), prepared(prep, rows, FIELDS), prep)


@pytest.mark.parametrize("connect", [False, True])
def test_batches_of_spark_are_the_whole_which_is_never_collected(
    spark: Any, spark_connect: Any, connect: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = edge_rows()
    frame = (spark_connect if connect else spark).createDataFrame(pa.Table.from_pylist(rows, SCHEMA))
    monkeypatch.setattr(SparkSource, "collect", lambda self, frame: pytest.fail("it was collected"))
    for prep in (all_casts()[0], all_casts()[-1]):
        batches = list(prep.run(frame).batches(5))
        assert max(batch.num_rows for batch in batches) == 5
        same(pa.Table.from_batches(batches), prepared(prep, rows, FIELDS), prep)
    (batch,) = Prep().clip("big", (0, 1)).run(frame.limit(0)).batches()
    assert batch.num_rows == 0
    with pytest.raises(PrepError, match=r"column 'word', has an item that is no int8"):
        list(Prep().cast(word="int8").run(frame).batches())


def test_labels_stand_beside_their_rows_on_spark(spark: Any) -> None:
    check_labels(spark)


def test_points_in_time_of_spark_come_as_they_do_in_the_whole(spark: Any) -> None:
    frame = spark.sql("SELECT TIMESTAMP '2026-11-23 12:00:00' AS at, 1 AS a")
    found = Prep().clip("a", (0, 1)).run(frame)
    (batch,) = found.batches()
    assert pa.Table.from_batches([batch]).equals(found.arrow())


def told(error: pytest.ExceptionInfo[PrepError]) -> tuple[str, str]:
    return Path(error.value.file).name, error.value.column


def test_spark_says_what_is_wrong_with_a_file(spark: Any, tmp_path: Path) -> None:
    """A column that is not there or of another type, an undeclared category, a damaged or torn file."""
    path, out = tmp_path / "people.parquet", tmp_path / "out.parquet"
    table = pa.table({"age": range(3_000), "job": ["a", "b", "c"] * 1_000})
    pq.write_table(table, path, use_dictionary=False, compression="zstd")
    with pytest.raises(PrepError, match="no column 'salary' at that step") as error:
        Prep().scale("salary", (0, 1)).run(path, spark)
    assert told(error) == ("people.parquet", "salary")
    with pytest.raises(PrepError, match=r"is text, and scale takes .*: cast it before") as error:
        Prep().scale("job", (0, 1)).run(path, spark)
    assert told(error) == ("people.parquet", "job")
    with pytest.raises(PrepError, match="in no declared category") as error:
        Prep().one_hot("job", ["a", "b"]).run(path, spark).to_parquet(out)
    assert told(error) == ("people.parquet", "job")
    content = bytearray(path.read_bytes())
    content[30:1_500] = bytes(1_470)
    path.write_bytes(content)
    with pytest.raises(PrepError, match="cut off or damaged") as error:
        Prep().run(path, spark).to_parquet(out)
    assert told(error) == ("people.parquet", "")
    path.write_bytes(content[:-100])
    with pytest.raises(PrepError, match="cut off or damaged") as error:
        Prep().run(path, spark)
    assert told(error) == ("people.parquet", "")
    assert list(tmp_path.iterdir()) == [path]
