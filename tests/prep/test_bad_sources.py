"""Sources that are not as declared: which file, row and column it is, and nothing half done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from duetlink.errors import MissingLibrary, PrepError, SettingError
from duetlink.prep import Prep

ENGINES = ["pyarrow", "polars", "duckdb"]
TABLE = pa.table({"age": pa.array(range(3_000)), "job": ["a", "b", "c"] * 1_000})


def read(path: Path, prep: Prep, engine: Any) -> Any:
    return prep.run(path, engine).arrow()


def told(error: pytest.ExceptionInfo[PrepError]) -> tuple[str, int | None, str]:
    return Path(error.value.file).name, error.value.row, error.value.column


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_file_lacks_a_column(tmp_path: Path, engine: str) -> None:
    pq.write_table(TABLE, tmp_path / "people.parquet")
    with pytest.raises(PrepError, match="no column 'salary' at that step; it has 'age', 'job'") as error:
        read(tmp_path / "people.parquet", Prep().scale("salary", (0, 1)), engine)
    assert told(error) == ("people.parquet", None, "salary")


def test_a_column_has_another_type(tmp_path: Path, engine: str) -> None:
    pq.write_table(TABLE, tmp_path / "people.parquet")
    with pytest.raises(PrepError, match=r"is text, and scale takes .*: cast it before") as error:
        read(tmp_path / "people.parquet", Prep().scale("job", (0, 1)), engine)
    assert told(error) == ("people.parquet", None, "job")


def test_files_of_a_directory_differ(tmp_path: Path, engine: str) -> None:
    pq.write_table(TABLE, tmp_path / "1.parquet")
    pq.write_table(TABLE.set_column(0, "age", pa.array(np.arange(3_000.0))), tmp_path / "2.parquet")
    with pytest.raises(PrepError, match="other columns or types") as error:
        read(tmp_path, Prep(), engine)
    assert told(error) == ("2.parquet", None, "age")


def test_a_directory_is_one_table(tmp_path: Path, engine: str) -> None:
    for part in (2, 0, 1):
        pq.write_table(TABLE.slice(part * 1_000, 1_000), tmp_path / f"{part}.parquet")
    assert read(tmp_path, Prep(), engine)["age"].to_pylist() == list(range(3_000))


@pytest.mark.parametrize("cut", [3, 100, 8_000])
def test_parquet_is_torn(tmp_path: Path, engine: str, cut: int) -> None:
    pq.write_table(TABLE, tmp_path / "people.parquet")
    content = (tmp_path / "people.parquet").read_bytes()
    (tmp_path / "people.parquet").write_bytes(content[:-cut])
    with pytest.raises(PrepError, match="cut off or damaged") as error:
        read(tmp_path / "people.parquet", Prep(), engine)
    assert told(error)[0] == "people.parquet"


def test_parquet_is_damaged_in_the_middle_of_a_directory(tmp_path: Path, engine: str) -> None:
    for part in range(3):
        pq.write_table(TABLE, tmp_path / f"{part}.parquet", use_dictionary=False, compression="zstd")
    content = bytearray((tmp_path / "1.parquet").read_bytes())
    content[30:1_500] = bytes(1_470)
    (tmp_path / "1.parquet").write_bytes(content)
    with pytest.raises(PrepError, match="cut off or damaged") as error:
        read(tmp_path, Prep(), engine)
    assert told(error)[0] == "1.parquet"


def test_a_line_of_csv_is_torn(tmp_path: Path, engine: str) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age,job,town\n" + "1,a,Ulm\n" * 50 + "2,b")
    with pytest.raises(PrepError, match="cannot be read at row 50 ") as error:
        read(path, Prep(), engine)
    assert told(error) == ("people.csv", 50, "")


def test_csv_is_not_utf_8(tmp_path: Path, engine: str) -> None:
    """As Excel writes it in Europe: an item, also of a directory's second file, and the name of a column."""
    (tmp_path / "1.csv").write_text("age,town\n1,Ulm\n")
    (tmp_path / "2.csv").write_bytes("age,town\n1,Ulm\n2,Köln\n".encode("latin-1"))
    with pytest.raises(
        PrepError, match=r"cannot be read at row 1, column 'town' .*write it again as UTF-8"
    ) as error:
        read(tmp_path, Prep(), engine)
    assert told(error) == ("2.csv", 1, "town")
    (tmp_path / "1.csv").write_bytes("größe\n1\n".encode("latin-1"))
    with pytest.raises(PrepError, match="write it again as UTF-8") as error:
        read(tmp_path / "1.csv", Prep(), engine)
    assert told(error) == ("1.csv", None, "")


def test_a_quote_of_csv_is_never_closed(tmp_path: Path, engine: str) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age,job\n" + "1,a\n" * 50 + '2,"b\n' + "3,c\n" * 9)
    with pytest.raises(PrepError, match="cannot be read"):
        read(path, Prep(), engine)


def test_csv_is_text_and_an_empty_field_is_missing(tmp_path: Path, engine: str) -> None:
    path = tmp_path / "people.csv"
    path.write_text('age,"a ""name""",x\n1,"a, b",\n,"two\nlines",""\n007,NA,é\n', "utf-8")
    assert read(path, Prep(), engine).to_pylist() == [
        {"age": "1", 'a "name"': "a, b", "x": None},
        {"age": None, 'a "name"': "two\nlines", "x": None},
        {"age": "007", 'a "name"': "NA", "x": "é"},
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            '\ufeffx,y\r\n1, "a b"\r\n',
            [{"x": "1", "y": ' "a b"'}],
        ),  # a byte order mark, a space before a quote
        ('\n\nx,y\n1,"a"b\n\n2,5" x 3"\r\n', [{"x": "1", "y": "ab"}, {"x": "2", "y": '5" x 3"'}]),
        ("x\n1\n\n2\n", [{"x": "1"}, {"x": "2"}]),  # lines with nothing are left out
        (",y\n0,a\n", [{"": "0", "y": "a"}]),  # as pandas writes its index
    ],
)
def test_csv_that_readers_take_for_different_things(
    tmp_path: Path, engine: str, content: str, expected: list[dict[str, str]]
) -> None:
    (tmp_path / "people.csv").write_bytes(content.encode())
    assert read(tmp_path / "people.csv", Prep(), engine).to_pylist() == expected


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_path_is_no_pattern(tmp_path: Path, engine: str, kind: str) -> None:
    for name in ("w1", "w[1]", "w*", "w?"):
        table = pa.table({"name": [name]})
        path = tmp_path / f"{name}.{kind}"
        csv.write_csv(table, path) if kind == "csv" else pq.write_table(table, path)
    for name in ("w[1]", "w*", "w?"):
        assert read(tmp_path / f"{name}.{kind}", Prep(), engine).to_pylist() == [{"name": name}]


def test_of_a_directory_nothing_is_left_out_but_what_is_hidden(tmp_path: Path, engine: str) -> None:
    for name in ("1.parquet", ".1.parquet", "_2.parquet"):
        pq.write_table(TABLE, tmp_path / name)
    (tmp_path / "_SUCCESS").touch()
    assert read(tmp_path, Prep(), engine).num_rows == 3_000
    (tmp_path / "2.parquet.gz").touch()
    with pytest.raises(PrepError, match=r"has 2\.parquet\.gz, which would be left out: unpack it"):
        read(tmp_path, Prep(), engine)
    (tmp_path / "2.parquet.gz").unlink()
    (tmp_path / "year=2026").mkdir()
    with pytest.raises(PrepError, match=r"has year=2026, which would be left out"):
        read(tmp_path, Prep(), engine)


def test_csv_says_which_item_is_no_number(tmp_path: Path, engine: str) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age,job\n" + "1,a\n" * 70_000 + "?,b\n" * 2)
    with pytest.raises(
        PrepError, match=r"row 70,000 of .*, column 'age', has an item that is no int64"
    ) as error:
        read(path, Prep().cast(age="int64"), engine)
    assert told(error) == ("people.csv", 70_000, "age")


def test_a_category_was_not_declared(tmp_path: Path, engine: str) -> None:
    pq.write_table(TABLE, tmp_path / "people.parquet")
    with pytest.raises(PrepError, match="in no declared category") as error:
        prep = Prep().clip("age", (0, 9)).one_hot("job", ["a", "b"])
        prep.run(tmp_path / "people.parquet", engine).to_parquet(tmp_path / "out.parquet")
    assert told(error) == ("people.parquet", 2, "job")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.parquet"]


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda path: None, "there is no file"),
        (lambda path: path.mkdir(), "no Parquet or CSV file"),
        (lambda path: path.write_text("a,b"), "no Parquet or CSV file"),
    ],
)
def test_there_is_nothing_to_read(tmp_path: Path, write: Callable[[Path], object], words: str) -> None:
    write(tmp_path / "people.txt")
    with pytest.raises(PrepError, match=words):
        Prep().run(tmp_path / "people.txt")


def test_csv_names_a_column_twice(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,x\n1,2\n")
    with pytest.raises(PrepError, match="two columns 'x'"):
        Prep().run(tmp_path / "a.csv")


def test_two_columns_of_a_table_have_one_name() -> None:
    import duckdb

    relation = duckdb.connect().sql("SELECT 1 AS a, 2 AS a, 3 AS b")
    table = pa.table([[1], [2]], names=["a", "a"])
    for source in (table, relation, pd.DataFrame([[1, 2]], columns=["a", "a"])):
        with pytest.raises(SettingError, match="two columns of the table are called 'a'"):
            Prep().run(source)


def test_pandas_has_a_column_of_several_types() -> None:
    frame = pd.DataFrame({"id": [1, 2, 3, 4], "age": [None, 41, "old", 7]})
    with pytest.raises(
        PrepError, match="row 2 of the table, column 'age', has a str below items of type int"
    ) as error:
        Prep().run(frame)
    assert told(error) == ("the table", 2, "age")
    with pytest.raises(
        PrepError, match="column 'age' of the table has items that Arrow has no type for"
    ) as error:
        Prep().run(pd.DataFrame({"age": [2**70]}))
    assert told(error) == ("the table", None, "age")


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_an_engine_does_not_have_the_type_of_a_column(engine: str) -> None:
    table = pa.table({"price": pa.array([None], pa.decimal256(50, 2))})
    with pytest.raises(PrepError, match=f"the table cannot be taken by {engine} .*choose another engine"):
        Prep().run(table, engine)
    assert Prep().run(table, "pyarrow").arrow().equals(table)


def test_what_cannot_be_a_source_or_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match="list cannot be prepared"):
        Prep().run([1, 2])
    with pytest.raises(SettingError, match="no engine 'spork'"):
        Prep().run(TABLE, "spork")
    with pytest.raises(SettingError, match="Spark session"):
        Prep().run(TABLE, object())
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(MissingLibrary, match=r"duetlink\[prep\]"):
        Prep().run(TABLE, "duckdb")


def test_types_that_engines_would_write_differently_are_not_made() -> None:
    with pytest.raises(PrepError, match="float64, which cannot be cast to text"):
        Prep().cast(a="text").run(pa.table({"a": [0.5]}))
    with pytest.raises(PrepError, match="give whole bounds"):
        Prep().clip("a", (0.5, 2)).run(pa.table({"a": [1]}))
    with pytest.raises(PrepError, match="no int8 is between"):
        Prep().clip("a", (200, 300)).run(pa.table({"a": pa.array([1], pa.int8())}))
    with pytest.raises(PrepError, match="which is what split makes"):
        Prep().split(0.5, seed=1).run(pa.table({"train": [1]}))
    with pytest.raises(PrepError, match="has a column 'a=1' already"):
        Prep().one_hot("a", [1]).run(pa.table({"a": [1], "a=1": [1]}))
