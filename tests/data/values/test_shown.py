"""What is encoded is what can be seen: values that look equal have equal bytes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duetlink.data.values import encode
from duetlink.testing.values import joined, round_trip
from tests.data.values import soiled

SETTINGS = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def body(obj: Any, *, plain_nan: bool = False) -> bytes:
    return bytes(joined(encode(obj, plain_nan=plain_nan)))


@SETTINGS
@given(soiled.types, st.lists(st.integers(0, 2**32), max_size=12), st.integers(0, 99), st.integers(0, 99))
def test_arrow_arrays_that_look_equal_are_encoded_alike(
    type_: Any, seeds: list[int], one: int, other: int
) -> None:
    left, right = soiled.soiled(type_, seeds, one), soiled.soiled(type_, seeds, other)
    left.validate(full=True)
    assert left.to_pylist() == right.to_pylist()
    assert body(left) == body(right)
    received = round_trip(left)
    received.validate(full=True)
    assert received.type == left.type
    assert received.to_pylist() == left.to_pylist()
    assert body(received) == body(left)


@SETTINGS
@given(soiled.types, st.lists(st.integers(0, 2**32), max_size=12), st.integers(0, 99), st.integers(0, 99))
def test_columns_of_pandas_and_chunks_of_arrow_are_encoded_alike(
    type_: Any, seeds: list[int], one: int, other: int
) -> None:
    columns = []
    for garbage in (one, other):
        chunks = [soiled.soiled(type_, half, garbage) for half in (seeds[:5], seeds[5:])]
        columns.append(pa.chunked_array(chunks))
    tables = [pa.table({"a": column, "b": range(len(seeds))}) for column in columns]
    assert body(columns[0]) == body(columns[1])
    assert body(tables[0]) == body(tables[1])
    assert round_trip(tables[0]).to_pylist() == tables[0].to_pylist()
    if pa.types.is_null(type_):  # which pandas's Arrow columns cannot be
        return
    left, right = (pd.Series(pd.arrays.ArrowExtensionArray(column)) for column in columns)
    assert body(left) == body(right)
    assert repr(round_trip(left).tolist()) == repr(left.tolist())


_polars_leaves = st.sampled_from(
    [
        *(pa.int8(), pa.uint64(), pa.bool_(), pa.float32(), pa.date32(), pa.timestamp("us", "Europe/Paris")),
        *(pa.decimal128(30, 2), pa.large_string(), pa.string_view(), pa.large_binary(), pa.null()),
        *(pa.dictionary(pa.uint32(), pa.large_string()),),
    ]
)
_polars_types = st.recursive(
    _polars_leaves,
    lambda inner: (
        inner.map(pa.large_list)
        | st.lists(inner, min_size=1, max_size=3).map(
            lambda types: pa.struct([(f"f{at}", each) for at, each in enumerate(types)])
        )
    ),
    max_leaves=4,
)


@SETTINGS
@given(_polars_types, st.lists(st.integers(0, 2**32), max_size=12), st.integers(0, 99), st.integers(0, 99))
def test_columns_of_polars_are_encoded_alike(type_: Any, seeds: list[int], one: int, other: int) -> None:
    left, right = (
        pl.from_arrow(pa.table({"a": soiled.soiled(type_, seeds, garbage), "b": range(len(seeds))}))
        for garbage in (one, other)
    )
    assert isinstance(left, pl.DataFrame)
    assert isinstance(right, pl.DataFrame)
    assert left.equals(right)
    assert body(left) == body(right)
    received = round_trip(left)
    assert received.schema == left.schema
    assert received.equals(left)


WHEN = pd.Timestamp("2026-01-01").to_pydatetime()
POLARS: dict[str, Any] = {
    "numbers": pl.Series([11, 12, 13, 14]),
    "floats": pl.Series([1.5, float("nan"), 2.5, -0.0]),
    "bools": pl.Series([True, False, True, True]),
    "texts": pl.Series(["Ada", "Bob", "a text of more than twelve letters", ""]),
    "bytes": pl.Series([b"Ada", b"Bob", b"bytes of more than twelve letters", b""]),
    "times": pl.Series([WHEN] * 4).dt.replace_time_zone("Europe/Paris"),
    "decimals": pl.Series(["1.5", "2.5", "3.5", "4.5"]).cast(pl.Decimal(10, 2)),
    "categories": pl.Series(["x", "y", "x", "z"], dtype=pl.Categorical),
    "an enumeration": pl.Series(["x", "y", "x", "z"], dtype=pl.Enum(["z", "y", "x", "unused"])),
    "lists": pl.Series([[1, 2], [3], [], [4]]),
    "lists of texts": pl.Series([["Ada"], ["a text of more than twelve letters"], [], ["Bob"]]),
    "arrays": pl.Series([[1, 2], [3, 4], [5, 6], [7, 8]], dtype=pl.Array(pl.Int32, 2)),
    "structs": pl.Series([{"a": at, "b": ["x"] * at} for at in range(4)]),
}


@pytest.mark.parametrize("name", POLARS)
@pytest.mark.parametrize("blank", [[True, False, False, True], [True] * 4, [False] * 4])
def test_cells_that_polars_blanks_leave_without_what_was_in_them(name: str, blank: list[bool]) -> None:
    series = POLARS[name].alias("x")
    frame = pl.DataFrame({"x": series, "blank": blank})
    redacted = frame.select(pl.when(pl.col("blank")).then(None).otherwise(pl.col("x")).alias("x"))
    items = [None if gone else item for gone, item in zip(blank, series.to_list(), strict=True)]
    anew = pl.DataFrame({"x": pl.Series("x", items, dtype=series.dtype)})
    assert redacted.equals(anew)
    assert body(redacted) == body(anew)
    assert body(redacted.to_series()) == body(anew.to_series())
    assert round_trip(redacted).equals(redacted)


def test_categories_of_polars_come_back_from_several_chunks() -> None:
    chunks = [pl.Series("x", items, dtype=pl.Categorical) for items in (["x", "y"], ["z", None, "x"], ["y"])]
    series = pl.concat(chunks)
    assert series.n_chunks() == 3
    assert round_trip(series).to_list() == ["x", "y", "z", None, "x", "y"]
    assert round_trip(series[3:]).to_list() == [None, "x", "y"]


FOUR = [71, 72, 1, 2]
BLANKED: dict[str, Any] = {
    "= NA": lambda column: column.where(column < 10).copy(),
    "mask": lambda column: column.mask(column > 10),
    "replace": lambda column: column.replace({71: pd.NA, 72: pd.NA}),
}


@pytest.mark.parametrize("how", BLANKED)
@pytest.mark.parametrize("dtype", ["Int64", "UInt8", "Float32", "Float64", "int64[pyarrow]"])
def test_cells_that_pandas_blanks_leave_without_what_was_in_them(how: str, dtype: str) -> None:
    column = BLANKED[how](pd.Series(FOUR, dtype=dtype))
    anew = pd.Series([pd.NA, pd.NA, 1, 2], dtype=dtype)
    pd.testing.assert_series_equal(column, anew)
    assert body(column) == body(anew)
    assert body(pd.DataFrame({"x": column})) == body(pd.DataFrame({"x": anew}))
    pd.testing.assert_series_equal(round_trip(column), anew)


def test_a_nullable_column_that_is_written_to_in_place() -> None:
    frame = pd.DataFrame({"salary": pd.array(FOUR, dtype="Int64"), "ill": pd.array([True] * 4, "boolean")})
    frame.loc[frame.salary > 10, ["salary", "ill"]] = pd.NA
    anew = pd.DataFrame(
        {
            "salary": pd.array([None, None, 1, 2], dtype="Int64"),
            "ill": pd.array([None, None, True, True], "boolean"),
        }
    )
    assert body(frame) == body(anew)
    received = round_trip(frame)
    pd.testing.assert_frame_equal(received, anew)
    assert received["salary"].array._data.tolist() == [0, 0, 1, 2]


def test_an_index_of_several_levels_has_the_labels_of_its_rows() -> None:
    whole = pd.MultiIndex.from_arrays([["Ada", "Bob", None], [1.5, 2.5, 3.5]], names=["who", "n"])
    for rows in (whole[1:2], whole[2:], whole[:0], whole):
        received = round_trip(pd.DataFrame({"x": range(len(rows))}, index=rows)).index
        pd.testing.assert_index_equal(received, rows)
        assert [level.tolist() for level in received.levels] == [
            [label for label in ("Ada", "Bob") if label in rows.get_level_values(0)],
            rows.get_level_values(1).tolist(),
        ]
    columns = pd.DataFrame([[1, 2, 3]], columns=whole).iloc[:, 1:2]
    assert b"Ada" not in body(columns)
    pd.testing.assert_frame_equal(round_trip(columns), columns)


def test_categories_of_pandas_are_seen_and_stay() -> None:
    column = pd.Series(["Ada", "Bob"], dtype="category")[1:]
    assert round_trip(column).cat.categories.tolist() == ["Ada", "Bob"]


@pytest.mark.parametrize(
    ("array", "shown"),
    [
        (pa.array([1, 2, 3]), [None, 2, None]),
        (pa.array([1.5, 2.5, 3.5]), [None, 2.5, None]),
        (pa.array([True, True, False]), [None, True, None]),
        (pa.array(["Ada", "Bob", "Eve"]), [None, "Bob", None]),
        (pa.array(["Ada", "Bob", "Eve"], pa.string_view()), [None, "Bob", None]),
        (pa.array([[1], [2], [3]]), [None, [2], None]),
        (pa.array([{"a": 1}, {"a": 2}, {"a": 3}]), [None, {"a": 2}, None]),
        (pa.array(["Ada", "Bob", "Eve"]).dictionary_encode(), [None, "Bob", None]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_cells_that_arrow_blanks_leave_without_what_was_in_them(array: Any, shown: list[Any]) -> None:
    hidden = pa.array([True, False, True])
    validity = pa.array([False, True, False]).buffers()[1]
    if isinstance(array, pa.DictionaryArray):
        indices = pa.DictionaryArray.from_arrays(
            pa.Array.from_buffers(pa.int32(), 3, [validity, array.indices.buffers()[1]]), array.dictionary
        )
        masked: Any = indices
    elif pa.types.is_nested(array.type):
        child = array.values if pa.types.is_list(array.type) else array.field(0)
        masked = pa.Array.from_buffers(
            array.type, 3, [validity, *array.buffers()[1 : array.type.num_buffers]], children=[child]
        )
    else:
        masked = pa.Array.from_buffers(array.type, 3, [validity, *array.buffers()[1:]])
    assert masked.is_null().equals(hidden)
    assert masked.to_pylist() == shown
    assert body(masked) == body(pa.array(shown, array.type))
    scalar = masked[0]
    assert body(scalar) == body(pa.scalar(None, array.type))


@pytest.mark.parametrize(
    ("type_", "item", "other"),
    [
        (pa.int64(), 1, 2),
        (pa.bool_(), True, False),
        (pa.string(), "Ada", "Bob"),
        (pa.string_view(), "a text of more than twelve letters", "Bob"),
        (pa.list_(pa.int8()), [1], [2, 3]),
        (pa.list_(pa.int8(), 2), [1, 2], [3, 4]),
        (pa.struct([pa.field("x", pa.int8(), nullable=False)]), {"x": 1}, {"x": 2}),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else "",
)
def test_a_field_that_declares_to_have_no_nulls_gets_none(type_: Any, item: Any, other: Any) -> None:
    field = pa.field("a", type_, nullable=False)

    def struct(hidden: Any) -> Any:
        child = pa.array([item, hidden, item], type_)
        return pa.StructArray.from_arrays([child], fields=[field], mask=pa.array([False, True, False]))

    assert body(struct(item)) == body(struct(other)) == body(struct(None))
    received = round_trip(struct(item))
    received.validate(full=True)
    assert received.type == struct(item).type
    assert received.to_pylist() == [{"a": item}, None, {"a": item}]
    assert received.field(0).null_count == 0
    assert body(struct(item).slice(1, 1)) == body(struct(other).slice(1, 1))


RECORD = np.dtype([("id", "<i8"), ("ok", "?"), ("name", "S12"), ("more", [("x", "<f8"), ("y", "<f4", (2,))])])


@SETTINGS
@given(
    st.binary(min_size=3 * RECORD.itemsize, max_size=3 * RECORD.itemsize),
    st.lists(st.sampled_from(["id", "ok", "name", "more"]), min_size=1, max_size=3, unique=True),
    st.booleans(),
)
def test_fields_that_were_left_out_do_not_travel(memory: bytes, names: list[str], plain_nan: bool) -> None:
    records = np.frombuffer(bytearray(memory), RECORD)
    picked = records[names]
    anew = np.zeros(3, picked.dtype)
    for name in names:
        anew[name] = records[name] != 0 if name == "ok" else records[name]
    assert body(picked, plain_nan=plain_nan) == body(anew, plain_nan=plain_nan)
    assert body(picked[0], plain_nan=plain_nan) == body(anew[0], plain_nan=plain_nan)
    received = round_trip(picked)
    assert received.dtype == picked.dtype
    for name in names:
        assert repr(received[name].tolist()) == repr(picked[name].tolist())


def test_fields_that_overlap_show_all_of_their_bits() -> None:
    both = np.dtype({"names": ["flag", "number"], "formats": ["?", "u1"], "offsets": [0, 0]})
    array = np.array([7, 0], np.uint8).view(both)
    assert round_trip(array)["number"].tolist() == [7, 0]


def test_a_long_double_travels_without_the_bytes_that_it_does_not_use() -> None:
    number = np.longdouble("0.1")
    dirty = np.frombuffer(b"\xaa" * 48, np.longdouble).copy()
    dirty[:] = number
    clean = np.frombuffer(bytes(48), np.longdouble).copy()
    clean[:] = number
    assert body(dirty) == body(clean)
    assert (round_trip(dirty) == number).all()


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy, pd.Series, lambda array: [array[2]]])
def test_a_bool_is_zero_or_one(make: Any) -> None:
    odd = np.array([0, 1, 77], np.uint8).view(np.bool_)
    if make(odd) is odd or isinstance(make(odd), pd.Series):
        assert round_trip(make(odd)).tolist() == [False, True, True]
    assert body(make(odd)) == body(make(np.array([False, True, True])))


PAYLOADS = np.array([0x7FF8_0000_0000_0000, 0xFFF8_0000_00AB_CDEF, 0x7FF0_0000_0000_0001], np.uint64)
NANS = PAYLOADS.view(np.float64)
SINGLE = np.array([0x7FC0_0000, 0xFFC0_1234, 0x7F80_0001], np.uint32).view(np.float32)
HALF = np.array([0x7E00, 0xFE12, 0x7C01], np.uint16).view(np.float16)
RESULTS: dict[str, Any] = {
    "a float": float(NANS[1]),
    "a complex number": complex(float(NANS[1]), float(NANS[2])),
    "an array": NANS,
    "a column of an array": np.stack([NANS, NANS], 1)[:, 0],
    "the other byte order": NANS.astype(">f8"),
    "float32": SINGLE,
    "float16": HALF,
    "complex64": SINGLE.view(np.float32).astype(np.complex64),
    "a scalar": NANS[1],
    "a record": np.array([(1, NANS[1])], [("a", "i4"), ("b", "f8")]),
    "a frame": pd.DataFrame({"x": NANS}),
    "a nullable column": pd.Series(pd.arrays.FloatingArray(NANS, np.array([True, False, False]))),
    "a column of objects": pd.Series([float(nan) for nan in NANS], dtype=object),
    "Polars": pl.DataFrame({"x": NANS, "y": [[float(nan)] for nan in NANS]}),
    "Arrow": pa.table({"x": pa.array(NANS, from_pandas=False), "y": [{"z": [float(nan)]} for nan in NANS]}),
    "a tensor": torch.from_numpy(NANS.copy()),
    "bfloat16": torch.from_numpy(np.array([0x7FC0, 0xFFC1, 0x7F81], np.uint16).view(np.int16)).view(
        torch.bfloat16
    ),
    "float8": torch.tensor([0x7F, 0xFF, 0x7F], dtype=torch.uint8).view(torch.float8_e4m3fn),
    "complex tensor": torch.complex(torch.from_numpy(NANS.copy()), torch.from_numpy(NANS.copy())),
}


@pytest.mark.parametrize("name", RESULTS)
def test_nan_carries_nothing_in_a_result(name: str) -> None:
    result = RESULTS[name]
    assert repr(round_trip(result)) == repr(result)
    encoded = body(result, plain_nan=True)
    for bits in (0xFFF8_0000_00AB_CDEF, 0x7FF0_0000_0000_0001, 0xFFC0_1234, 0x7F80_0001):
        size = 8 if bits >> 32 else 4
        assert bits.to_bytes(size, "little") not in encoded
        assert bits.to_bytes(size, "big") not in encoded
    assert body(round_trip(result), plain_nan=True) == encoded


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2])
def test_nan_of_a_short_float_carries_nothing_in_a_result(dtype: torch.dtype) -> None:
    size = dtype.itemsize
    every = np.arange(256**size, dtype=f"u{size}")
    numbers = torch.from_numpy(every.view(f"i{size}")).view(dtype)
    sent = np.frombuffer(body(numbers, plain_nan=True)[-every.nbytes :], every.dtype)
    nan = numbers.float().isnan().numpy()
    (plain,) = set(sent[nan].tolist())
    assert plain == torch.tensor(math.nan).to(dtype).view(torch.int16 if size == 2 else torch.uint8).item()
    assert sent[~nan].tolist() == every[~nan].tolist()


def test_nan_of_an_asset_keeps_its_bits() -> None:
    assert round_trip(NANS).view(np.uint64).tolist() == PAYLOADS.tolist()


@SETTINGS
@given(
    st.sets(st.integers() | st.text() | st.floats(allow_nan=False) | st.frozensets(st.integers())),
    st.randoms(),
)
def test_sets_that_are_equal_are_encoded_alike(items: set[Any], random: Any) -> None:
    order = list(items)
    random.shuffle(order)
    assert body(set(order)) == body(items)
    assert body(frozenset(order)) == body(frozenset(items))
    assert round_trip(items) == items


# -- where nothing is hidden, nothing is copied --------------------------------------------------------------

ARROW = pa.table(
    {
        "ints": pa.array(range(8000), pa.int64()),
        "texts": pa.array(["text"] * 8000, pa.string()),
        "large": pa.array(["text"] * 8000, pa.large_string()),
        "bools": pa.array([True, False] * 4000),
        "lists": pa.array([[1, 2]] * 8000),
        "structs": pa.array([{"a": 1.5, "b": "x"}] * 8000),
        "fixed": pa.array([[1, 2]] * 8000, pa.list_(pa.int16(), 2)),
        "clean nulls": pa.array([None, 1] * 4000),
    }
)


def _addresses(obj: Any) -> set[int]:
    return {
        np.frombuffer(segment, np.uint8).__array_interface__["data"][0] for segment in encode(obj).segments
    }


@pytest.mark.parametrize("name", ARROW.column_names)
@pytest.mark.parametrize("rows", [slice(None), slice(4096, 6144)])
def test_arrow_is_sent_from_its_own_memory(name: str, rows: slice) -> None:
    column = ARROW[name].chunk(0)
    sent = _addresses(column[rows])
    data = column
    while pa.types.is_nested(data.type):
        data = data.field(0) if pa.types.is_struct(data.type) else data.values
    width = {"ints": 64, "clean nulls": 64, "texts": 32, "large": 32, "bools": 1, "structs": 64}.get(name, 0)
    width = width or data.type.bit_width * 2
    assert data.buffers()[-1].address + (rows.start or 0) * width // 8 in sent


@pytest.mark.parametrize(
    "array",
    [
        np.arange(1000.0),
        np.full(1000, np.nan),
        np.zeros(1000, "?"),
        np.zeros(1000, "i4,f4"),
        np.asfortranarray(np.ones((30, 40))),
    ],
    ids=["floats", "NaN", "bools", "records", "Fortran"],
)
@pytest.mark.parametrize("plain_nan", [False, True])
def test_arrays_are_sent_from_their_own_memory(array: np.ndarray[Any, Any], plain_nan: bool) -> None:
    (address,) = (
        np.frombuffer(segment, np.uint8).__array_interface__["data"][0]
        for segment in encode(array, plain_nan=plain_nan).segments[-1:]
    )
    assert address == array.__array_interface__["data"][0]


def test_nullable_columns_are_sent_from_their_own_memory() -> None:
    column = pd.Series(range(1000), dtype="Int64")
    assert column.array._data.__array_interface__["data"][0] in _addresses(column)
