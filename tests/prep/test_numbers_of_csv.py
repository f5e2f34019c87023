"""Numbers of CSV that are read at once are those that a cast of its texts makes; no others are accepted."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duetlink.data.prep.fields import Field
from duetlink.errors import PrepError
from duetlink.prep import Prep, spelling
from duetlink.prep.files import files_at, read_csv
from duetlink.prep.numbers import number_columns, read_numbers
from tests.prep import naive

FIELDS = dict.fromkeys("abc", Field("text"))
ENGINES = ["pyarrow", "polars"]  # DuckDB and Spark cast texts
# What a reader of numbers may accept and a cast does not, or the other way round; and what both take.
WHOLE = ["3", "-3", "007", "-0", "0", "127", "-128", "128", "123456789012345678", "-123456789012345678"]
REAL = ["1.5", ".5", "5.", "-2e-3", "1E5", "1.e+05", "1e99", "0.1234567890123456789", f"0.{'3' * 200}"]
ODD = [
    *(
        " 3",
        "3 ",
        "\t3",
        "3\t",
        " ",
        "+1",
        "+1.5",
        "0x1F",
        "0X1f",
        "-0x1",
        "1_0",
        "1e3",
        "1.0",
        "--1",
        "-",
        ".",
    ),
    *(
        "nan",
        "NaN",
        "-nan",
        "inf",
        "-Infinity",
        "1e100",
        "1e-300",
        "1e005",
        "0e999",
        "1e400",
        "1e",
        "1d5",
        "e5",
    ),
    *("9223372036854775807", "-9223372036854775808", "9223372036854775808", "1234567890123456789"),
    *("0000000000000000001", "-0000000000000000001", "0" * 30, f"0.{'3' * 201}", "1" * 201, "true", "abc"),
    *(
        "\u0663",
        "3\u00a0",
        "3\x00",
        "3\x0b",
        "'3'",
        "3;4",
        "12:30",
        "2026-11-23",
        "0x",
        "x",
        "10x1",
        "a e123",
    ),
]
MISSING = ["", "NA", "NA ", "na", "-1", "999", "0999"]
QUOTED = [
    '"3"',
    '" 3"',
    '"3" ',
    ' "3"',
    '""',
    '"NA"',
    '"0"x1F',
    '"000000000"0000000001',
    '"1e0"05',
    '""3',
    '3"',
]
QUOTED += ['"3""4"', '"3,4"', '"3\n4"', '"a, b"', '"say ""3"" "', '""+1', '5" x 3"', '"', '"3']
ITEM = st.one_of(*map(st.sampled_from, (WHOLE, WHOLE, REAL, MISSING, ODD, QUOTED)))
GOOD = st.one_of(*map(st.sampled_from, (WHOLE, MISSING)))
LINE = st.one_of(
    st.lists(GOOD, min_size=3, max_size=3),
    st.tuples(GOOD, st.one_of(GOOD, st.sampled_from(REAL)), ITEM).map(list),
    st.lists(ITEM, min_size=3, max_size=3),
)
RAGGED = st.sampled_from([["1"], ["1", "2", "3", "4"], ["", ""], []])


@st.composite
def contents(draw: Any) -> bytes:
    lines = draw(st.lists(LINE, max_size=6))
    if draw(st.integers(0, 7)) == 0:
        lines.insert(draw(st.integers(0, len(lines))), draw(RAGGED))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    text = end.join(map(",".join, [["a", "b", "c"], *lines])) + draw(st.sampled_from(["", end, end + end]))
    content: bytes = draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode()
    return content.replace(b"abc", draw(st.sampled_from([b"abc", b"\xe4"])))


@st.composite
def casts(draw: Any) -> Prep:
    prep = Prep()
    for _ in range(draw(st.integers(0, 2))):
        tokens = draw(st.lists(st.sampled_from(["NA", "999", "-1", "0x1F", " "]), min_size=1, unique=True))
        prep = prep.missing(*tokens, columns=draw(st.sampled_from([(), (), ("a",), ("c", "b")])))
    if draw(st.booleans()):
        prep = prep.drop_missing(*draw(st.sampled_from([("a",), (), ("c",)])))
    if draw(st.integers(0, 5)) == 0:
        prep = prep.missing("3")
    kinds = {name: draw(st.sampled_from(["int64", "int64", "int8", "float64", "float32"])) for name in "ab"}
    prep = prep.cast(kinds, invalid=draw(st.sampled_from(["error", "error", "missing"])))
    return prep.select(*draw(st.sampled_from(["abc", "ab", "ba"])))


def outcome(source: Any, prep: Prep, engine: str) -> object:
    """The rows, with their types and the signs of zeros; or where the error is."""
    try:
        found = prep.run(source, engine).arrow()
    except PrepError as error:
        return error.row, error.column
    return str(found.schema), repr(found.to_pylist())


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(contents(), casts())
def test_csv_gives_what_a_cast_of_its_texts_gives(content: bytes, prep: Prep) -> None:
    with written(content) as path:
        try:
            files = files_at(path)
            texts = read_csv(files, files.names)
        except PrepError as error:
            expected: dict[str, object] = dict.fromkeys(ENGINES, (error.row, error.column))
        else:
            expected = {engine: outcome(texts, prep, engine) for engine in ENGINES}
        assert {engine: outcome(path, prep, engine) for engine in ENGINES} == expected


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(contents(), casts())
def test_numbers_are_read_only_where_a_cast_accepts_each_item(content: bytes, prep: Prep) -> None:
    with written(content) as path, contextlib.suppress(PrepError):  # lines or the header
        read_csv(files_at(path), ["a"])
        check_numbers(path, prep)


@pytest.mark.parametrize("item", [*WHOLE, *REAL, *MISSING, *ODD, *QUOTED])
def test_each_spelling_is_read_as_a_cast_reads_it_or_not_at_all(item: str) -> None:
    for line in (f"{item},1,x", f"1,{item},x", f"1,2,{item}", f"{item},{item},{item}"):
        with written(f"a,b,c\n1,2,3\n{line}\n4,5,6".encode()) as path, contextlib.suppress(PrepError):
            read_csv(files_at(path), ["a"])
            for kinds in ({"a": "int64"}, {"b": "float64"}, {"a": "int64", "b": "float64"}):
                check_numbers(path, Prep().missing("NA").cast(kinds))


def check_numbers(path: Path, prep: Prep) -> None:
    """If columns are read as numbers, each of their texts is one that a cast accepts, and the same number."""
    found, numbers = numbers_of(path, prep), number_columns(prep, FIELDS, "abc")
    if found is None or numbers is None:
        return
    texts = read_csv(files_at(path), ["a", "b", "c"])
    for name in texts.column_names:
        items = [None if text in numbers.missing else text for text in texts[name].to_pylist()]
        if name in numbers.types:
            items = [None if item is None else naive.cast(item, numbers.types[name]) for item in items]
            assert sum(item is None for item in items) == found[name].null_count
        assert repr(found[name].to_pylist()) == repr(items)


def numbers_of(path: Path, prep: Prep) -> pa.Table | None:
    """What is read if columns are read as numbers."""
    files = files_at(path)
    numbers = number_columns(prep, dict.fromkeys(files.names, Field("text")), files.names)
    return None if numbers is None else read_numbers(files, files.names, numbers)


@contextlib.contextmanager
def written(content: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "people.csv")
        path.write_bytes(content)
        yield path


WHOLE_AND_FLOAT = Prep().missing("NA").cast(a="int64", b="float64")


@pytest.mark.parametrize(
    "content",
    [
        "a,b,c\n3,1.5,x\n-007,NA,\n,2e-3,y z\n",
        "a,b,c\r\n3,1.5,0.12345678901234567890\r\n",
        'a,b,c\n"3","1.5","Smith, John"\n4,NA,"5+ 7"\n\n"NA",0.1234567890123456789,"two\n lines"\n',
        "\ufeffa,b,c\n123456789012345678,1E5,a+b = 0-1\n",
    ],
)
def test_numbers_are_read_beside_texts(content: str) -> None:
    with written(content.encode()) as path:
        found = numbers_of(path, WHOLE_AND_FLOAT)
        assert found is not None
        assert list(map(str, found.schema.types)) == ["int64", "double", "string"]


@pytest.mark.parametrize("column", ["a", "b"])
@pytest.mark.parametrize(
    "item", [" 3", "3\t", "nan", '"0"x1F', '3"', f"0.{'3' * 201}", "0" * 19, "", "0x1F", "+1"]
)
def test_a_spelling_is_found_wherever_it_is_in_a_file(
    item: str, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows of a file overlap; each line here moves the item by one byte."""
    monkeypatch.setattr(spelling, "AT_ONCE", 1024)
    with written(b"") as path:
        for before in range(0, 3_000, 41):
            lines = [*(["1,2,3"] * (before // 6)), "7" * (before % 6 + 1) + ",5,6"]
            lines += [f"{item},1,x" if column == "a" else f"1,{item},x", *(["1,2,3"] * 200)]
            path.write_text("\n".join(["a,b,c", *lines]))
            found = numbers_of(path, WHOLE_AND_FLOAT)
            assert (found is None) == (item != "")


def test_quotes_count_over_the_windows_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spelling, "AT_ONCE", 1024)
    text = f'"{"one, two; " * 400}three,"'
    with written(f"a,b,c\n1,2,{text}\n3,4,5\n".encode()) as path:
        assert numbers_of(path, WHOLE_AND_FLOAT) is not None
    with written(f"a,b,c\n1,2,{text}\n 3,4,5\n".encode()) as path:
        assert numbers_of(path, WHOLE_AND_FLOAT) is None
    with written(b'a,b,c\n1,2,"\n') as path:
        assert numbers_of(path, WHOLE_AND_FLOAT) is None


@pytest.mark.parametrize("late", ['"x"', '"x, y"', '"one\n2,3,4\nline"', '"x\n'])
def test_quotes_may_begin_late_in_a_file(late: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether lines may break within quotes is expected from the begin of the file."""
    monkeypatch.setattr(spelling, "AT_ONCE", 1024)
    lines = ["1,2,3"] * 300
    content = "\n".join(["a,b,c", *lines, f"4,5,{late}", *lines]).encode()
    with written(content) as path:
        found = numbers_of(path, WHOLE_AND_FLOAT)
        if late.count('"') % 2:
            assert found is None
            return
        assert found is not None
        assert found.num_rows == 601
        assert found["c"].to_pylist() == ["3"] * 300 + [late.strip('"')] + ["3"] * 300
        assert found["a"].to_pylist() == [1] * 300 + [4] + [1] * 300


def test_columns_that_are_looked_at_before_they_are_cast_stay_text() -> None:
    def types(prep: Prep) -> dict[str, str]:
        found = number_columns(prep, FIELDS, "abc")
        return {} if found is None else dict(found.types)

    whole = Prep().cast(a="int8", b="float32")
    assert types(whole) == {"a": "int64", "b": "float64"}
    assert types(Prep().missing("NA").missing("?").drop_missing("c").select("a", "b").cast(a="int64")) == {
        "a": "int64"
    }
    assert types(Prep().missing("NA", columns=["a"]).cast(a="int64", b="int64")) == {"b": "int64"}
    assert types(Prep().drop_missing().missing("NA").cast(a="int64")) == {}
    assert types(Prep().cast(a="text").cast(a="int64")) == {}
    assert types(Prep().cast(a="date", b="bool")) == {}
    assert types(Prep().one_hot("c", ["x"]).cast(a="int64").missing("NA")) == {"a": "int64"}


@pytest.mark.parametrize("engine", ENGINES)
def test_an_item_in_a_later_file_of_a_directory_is_named(engine: str, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "2.csv").write_text("a,b\n1,2\n3, 4\n")
    assert Prep().cast(a="int64").run(tmp_path, engine).arrow()["a"].to_pylist() == [1, 1, 3]
    with pytest.raises(PrepError, match=r"row 1 of .*2\.csv, column 'b', has an item that is no int64"):
        Prep().cast(a="int64", b="int64").run(tmp_path, engine).arrow()
