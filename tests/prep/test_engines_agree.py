"""Every engine makes of a table what a loop over its rows makes of it."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings

from duetlink.data.prep.columns import fields_after
from duetlink.data.prep.fields import Field
from duetlink.errors import PrepError, SettingError
from duetlink.prep import Prep
from tests.prep.naive import Unfit, prepared

ENGINES = ("pyarrow", "polars", "duckdb")
KINDS = {
    "id": ("int64", pa.int64()),
    "big": ("int64", pa.int64()),
    "tiny": ("int8", pa.int8()),
    "real": ("float64", pa.float64()),
    "half": ("float32", pa.float32()),
    "word": ("text", pa.string()),
    "when": ("date", pa.date32()),
    "yes": ("bool", pa.bool_()),
}
FIELDS = {name: Field(kind) for name, (kind, _) in KINDS.items()}
SCHEMA = pa.schema([(name, kind) for name, (_, kind) in KINDS.items()])

EDGES = [0, 1, -1, 127, 128, -129, 2**31, -(2**31) - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]
REALS = [
    4e-62,
    0.0,
    -0.0,
    0.5,
    -2.5,
    3.0,
    7.0,
    127.0,
    128.0,
    1e10,
    2.0**63,
    -(2.0**63),
    1e300,
    math.inf,
    -math.inf,
    math.nan,
]
WORDS = [
    "",
    "a",
    "B",
    "NA",
    "12",
    "-7",
    "007",
    "+5",
    " 5",
    "5 ",
    "1e3",
    "1.5",
    ".5",
    "5.",
    "1e99",
    "1e100",
    "-0",
    "-0.0",
    "nan",
]
WORDS += [
    "true",
    "1",
    "0",
    "True",
    "2024-02-29",
    "2023-02-29",
    "0001-01-01",
    "2024-1-1",
    "Ä\u0308",
    "a\nb",
    "12\n",
]
WORDS += [
    "999999999999999999",
    "1000000000000000000",
    "inf",
    "0x10",
    "1_0",
    "\u22123",
    "\u0663",
    "2000-13-01",
    "1900-12-31",
]
ROW = st.fixed_dictionaries(
    {
        "id": st.one_of(st.integers(0, 9), st.sampled_from(EDGES)),
        "big": st.one_of(st.none(), st.integers(-9, 9), st.sampled_from(EDGES)),
        "tiny": st.one_of(st.none(), st.integers(-128, 127)),
        "real": st.one_of(st.none(), st.sampled_from(REALS), st.floats()),
        "half": st.one_of(st.none(), st.floats(width=32)),
        "word": st.one_of(st.none(), st.sampled_from(WORDS)),
        "when": st.one_of(st.none(), st.dates()),
        "yes": st.sampled_from([None, True, False]),
    }
)
COLUMN = st.sampled_from(sorted(KINDS))
BOUNDS = st.sampled_from(
    [(0, 10), (-7, 3), (-0.5, 0.1), (0.25, 49.25), (-(2**53), 2**53), (0, 49), (-0.0, 49), (-1e300, 1e300)]
)


@st.composite
def preps(draw: st.DrawFn) -> Prep:
    """Steps that fit the columns, some of them onto what others have made."""
    prep = Prep()
    for _ in range(draw(st.integers(0, 5))):
        try:
            longer = lengthened(draw, prep, draw(COLUMN))
            fields_after(longer, FIELDS)
        except (PrepError, SettingError):
            continue
        prep = longer
    return prep


def lengthened(draw: st.DrawFn, prep: Prep, column: str) -> Prep:
    names = st.lists(COLUMN, min_size=1, max_size=8, unique=True)
    kind = draw(
        st.sampled_from(["missing", "drop", "cast", "cast", "one_hot", "scale", "clip", "split", "select"])
    )
    if kind == "missing":
        return prep.missing("NA", "", columns=draw(st.sampled_from([(), ("word",)])))
    if kind == "drop":
        return prep.drop_missing(*draw(st.one_of(st.just([]), names))[:2])
    if kind == "cast":
        return prep.cast({column: draw(CASTS)}, invalid="missing")
    if kind == "one_hot":
        return prep.one_hot(column, draw(CATEGORIES), unknown="ignore")
    if kind == "scale":
        return prep.scale(column, draw(BOUNDS))
    if kind == "clip":
        return prep.clip(column, draw(BOUNDS))
    if kind == "split":
        return prep.split(0.5, seed=draw(st.integers(0, 3)), by="id")
    return prep.select(*draw(names))


CASTS = st.sampled_from(["bool", "int8", "int16", "int32", "int64", "float32", "float64", "text", "date"])
CATEGORIES: st.SearchStrategy[Any] = st.sampled_from([["a", "NA", "B"], [0, 1, -7, 300], [True, False]])


def same(found: pa.Table, expected: list[dict[str, Any]], prep: Prep) -> None:
    assert dict(zip(found.column_names, map(str, found.schema.types), strict=True)) == {
        name: ARROW.get(field.type, field.type) for name, field in fields_after(prep, FIELDS).items()
    }
    assert in_any_order(found.to_pylist()) == in_any_order(expected)


def in_any_order(rows: list[dict[str, Any]]) -> list[str]:
    """As texts, in which a zero has a sign; Spark has no order of rows."""
    return sorted(repr(sorted(row.items())) for row in rows)


ARROW = {"text": "large_string", "date": "date32[day]", "float64": "double", "float32": "float"}


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(ROW, max_size=8), preps())
def test_engines_in_memory_do_as_a_loop_over_rows(rows: list[dict[str, Any]], prep: Prep) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA)
    expected = prepared(prep, rows, FIELDS)
    for engine in ENGINES:
        same(prep.run(table, engine).arrow(), expected, prep)


def all_casts() -> list[Prep]:
    """Each cast that there is, on all columns at once, and the other steps."""
    casts = ["bool", "int8", "int64", "float32", "float64", "text", "date"]
    found = []
    for kind in casts:
        types = {}
        for name in KINDS:
            try:
                fields_after(Prep().cast({name: kind}), FIELDS)
            except PrepError:
                continue
            types[name] = kind
        found.append(Prep().split(0.5, seed=2, by="id").cast(types, invalid="missing"))
    found.append(
        Prep()
        .missing("NA", "")
        .drop_missing("word", "big")
        .one_hot("word", ["a", "B", "12\u00e9"], unknown="ignore")
        .one_hot("yes", [True, False])
        .clip("tiny", (-5, 100))
        .scale("big", (-0.5, 49.25))
        .scale("real", (0, 49))
        .clip("half", (-1e300, 1e300))
        .one_hot("tiny", [0, 1, 300], unknown="ignore")
    )
    return found


def edge_rows() -> list[dict[str, Any]]:
    columns: dict[str, list[Any]] = {
        "id": EDGES,
        "big": [*EDGES, None],
        "tiny": [None, *range(-128, 128, 9)],
        "real": [*REALS, None],
        "half": [0.0, -0.0, 0.1, 3.0, -2.5, math.nan, math.inf, -math.inf, None],
        "word": [*WORDS, None],
        "when": [datetime.date(1, 1, 1), datetime.date(1970, 1, 1), datetime.date(2024, 2, 29), None],
        "yes": [True, False, None],
    }
    longest = max(map(len, columns.values()))
    rows = [{name: items[n % len(items)] for name, items in columns.items()} for n in range(longest)]
    for row in rows:
        row["half"] = None if row["half"] is None else pa.scalar(row["half"], pa.float32()).as_py()
    return rows


@pytest.mark.parametrize("engine", ENGINES)
def test_every_cast_of_what_is_at_the_edges(engine: str) -> None:
    rows = edge_rows()
    for prep in all_casts():
        found = prep.run(pa.Table.from_pylist(rows, SCHEMA), engine)
        assert found.engine == engine
        same(found.arrow(), prepared(prep, rows, FIELDS), prep)


def outcome(work: Callable[[], list[dict[str, Any]]]) -> object:
    """How many rows there are, or the row and the column of which an item does not fit."""
    try:
        return len(work())
    except PrepError as error:
        return error.row, error.column
    except Unfit as unfit:
        return unfit.args


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(ROW, min_size=1, max_size=8), st.sampled_from(["word", "big", "real", "tiny"]))
def test_a_strict_step_names_the_first_row_that_does_not_fit(
    engine: str, rows: list[dict[str, Any]], column: str
) -> None:
    prep = Prep().drop_missing("when").cast({column: "int8"})
    found = prep.run(pa.Table.from_pylist(rows, SCHEMA), engine)
    assert outcome(lambda: found.arrow().to_pylist()) == outcome(lambda: prepared(prep, rows, FIELDS))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rows", [0, 1])
def test_tables_of_no_row_and_of_one(engine: str, rows: int) -> None:
    table = pa.Table.from_pylist(edge_rows()[3 : 3 + rows], SCHEMA)
    prep = (
        Prep()
        .one_hot("yes", [True, False])
        .scale("tiny", (0, 10))
        .split(0.5, seed=1)
        .select("tiny", "yes=true")
    )
    found = prep.run(table, engine)
    assert found.numpy().shape == (rows, 3)
    assert len(found.train) + len(found.test) == rows
    assert sum(batch.num_rows for batch in found.batches(1)) == rows


def wide(columns: int) -> tuple[pa.Table, Prep]:
    """A table of so many columns, and what is to be done with it; `check_wide` looks at the result."""
    table = pa.table({f"c{n}": pa.array([n, None, -n], pa.int64()) for n in range(columns)})
    prep = Prep().drop_missing()
    for n in range(0, 200, 10):
        prep = prep.clip(f"c{n}", (0, 1))
    return table, prep.select(*(f"c{n}" for n in reversed(range(columns))))


def check_wide(found: Any, columns: int) -> None:
    assert found.shape == (2, columns)
    assert found[0, -1] == 0
    assert found[0, -11] == 1
    assert found[0, -12] == 11
    assert found[1, -11] == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_two_thousand_columns(engine: str) -> None:
    """`weekly_columns.py` has ten thousand."""
    table, prep = wide(2_000)
    check_wide(prep.run(table, engine).numpy(), 2_000)


def passing() -> pa.Table:
    """Columns of types that no step takes, or of few, as hospitals have them."""
    moment = datetime.datetime(2026, 3, 29, 2, 30, 0, 123456)
    day = datetime.date(2026, 3, 29)
    return pa.table(
        {
            "admitted": pa.array([moment, None], pa.timestamp("us", "Europe/Berlin")),
            "at": pa.array([moment, None], pa.timestamp("ns")),
            "second": pa.array([moment.replace(microsecond=0), None], pa.timestamp("s")),
            "born": pa.array([day, None], pa.date64()),
            "price": pa.array([decimal.Decimal("1.10"), None], pa.decimal128(10, 2)),
            "stay": pa.array([datetime.timedelta(1, 2, 3), None], pa.duration("us")),
            "codes": pa.array([["a", None], None]),
            "notes": pa.array([{"a": 1, "b": "x"}, None]),
            "scan": pa.array([b"a\xff", None]),
            "hour": pa.array([datetime.time(1, 2, 3), None], pa.time32("s")),
            "large": pa.array([2**64 - 1, None], pa.uint64()),
            "nothing": pa.nulls(2),
        }
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["table", "parquet"])
def test_what_no_step_takes_comes_out_as_it_went_in(engine: str, kind: str, tmp_path: Path) -> None:
    """Or the engine's word that it cannot: DuckDB makes intervals of durations in a table."""
    table = passing()
    path = tmp_path / "passing.parquet"
    pq.write_table(table, path)
    source = path if kind == "parquet" else table
    kept = [name for name in table.column_names if (engine, kind, name) != ("duckdb", "table", "stay")]
    expected = (pq.read_table(path) if kind == "parquet" else table).select(kept)
    assert Prep().select(*kept).run(source, engine).arrow().combine_chunks().equals(expected.combine_chunks())
    dropped = Prep().drop_missing("price").select(*kept).run(source, engine)
    assert pa.Table.from_batches(list(dropped.batches())).equals(expected.slice(0, 1))
    if kept != table.column_names:
        with pytest.raises(PrepError, match=r"of column 'stay' of the table, which is duration\[us\]"):
            Prep().run(source, engine).arrow()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_category_is_what_it_stands_for(engine: str) -> None:
    """Of pandas or a dictionary of Arrow: whole numbers stay whole numbers, truth values truth values."""
    frame = pd.DataFrame({"ward": pd.Categorical([1, 2, None]), "job": pd.Categorical(["a", "b", None])})
    table = pa.table({"yes": pa.array([True, False, None]).dictionary_encode(), "ward": frame["ward"]})
    found = Prep().one_hot("ward", [1, 2]).one_hot("job", ["a", "b"]).run(frame, engine)
    assert found.numpy().tolist() == [[1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 0, 0]]
    found = Prep().cast(yes="int8").run(table, engine)
    assert found.columns == {"yes": "int8", "ward": "int64"}
    assert found.arrow()["yes"].to_pylist() == [1, 0, None]


@pytest.mark.parametrize("engine", ENGINES)
def test_names_that_engines_would_take_for_others(engine: str) -> None:
    names = ["Age", "age", 'a"b', "a.b", "select", "c1", "", " ", "duet_row", "a;--"]
    table = pa.table([pa.array([float(n)]) for n in range(len(names))], names=names)
    prep = (
        Prep()
        .scale("age", (0, 2))
        .select("age", "Age", 'a"b', "a.b", "select", "c1", " ", "duet_row", "a;--")
    )
    assert prep.run(table, engine).arrow().to_pylist() == [
        {
            "age": 0.5,
            "Age": 0.0,
            'a"b': 2.0,
            "a.b": 3.0,
            "select": 4.0,
            "c1": 5.0,
            " ": 7.0,
            "duet_row": 8.0,
            "a;--": 9.0,
        }
    ]
