"""Two data sets of one schema and length for every type: nothing but the schema may be the same in them."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
import zoneinfo
from collections import OrderedDict
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import torch

PARIS = zoneinfo.ZoneInfo("Europe/Paris")
ROWS = 12
# texts of the first and of the second data set: none may be found in a twin
OURS = [f"private-{number % 7}" for number in range(ROWS)]
THEIRS = [f"confidential-{'x' * number}" for number in range(ROWS)]
NUMBERS = np.arange(ROWS)
RECORD = np.dtype([("a", "<i4"), ("b", ">f8", (2,)), ("c", [("d", "S20"), ("e", "U20")])])


def numpy_pairs() -> dict[str, tuple[Any, Any]]:
    kinds = "?bBhHiIlLqQefdgFDG"
    pairs: dict[str, tuple[Any, Any]] = {
        f"dtype {kind}": (NUMBERS.astype(kind).reshape(4, 3), (NUMBERS[::-1] // 5).astype(kind).reshape(4, 3))
        for kind in kinds
    }
    one, other = np.zeros(ROWS, RECORD), np.ones(ROWS, RECORD)
    one["c"]["e"], other["c"]["d"] = OURS, "other"
    strings = np.dtypes.StringDType(na_object=None)
    return pairs | {
        "big-endian": (NUMBERS.astype(">i2"), (-NUMBERS).astype(">i2")),
        "missing": (np.array([1.0, np.nan] * 6), np.arange(12.0)),
        "dates": (np.array(["1950-01-01", "NaT"], "M8[D]"), np.array(["2100-01-01", "2000-02-29"], "M8[D]")),
        "spans": (np.array([1, 2], "m8[25s]"), np.array(["NaT", "NaT"], "m8[25s]")),
        "attoseconds": (np.array([1, 2], "M8[as]"), np.array([3, 4], "M8[as]")),
        "years": (np.array([1, 2], "m8[Y]"), np.array([3, 4], "m8[Y]")),
        "text": (np.array(OURS, "U30"), np.array(THEIRS, "U30")),
        "narrow text": (np.array(OURS, ">U3"), np.array(THEIRS, ">U3")),
        "octets": (np.array(OURS, "S30"), np.array(THEIRS, "S30")),
        "void": (np.array([b"abc", b"def"], "V3"), np.array([b"xyz", b""], "V3")),
        "no size": (np.zeros(3, "V0"), np.zeros(3, "V0")),
        "record": (one, other),
        "strings": (np.array(OURS, strings), np.array([None, *THEIRS[1:]], strings)),
        "0-d": (np.array(5.0), np.array(6.0)),
        "none": (np.empty((0, 3)), np.empty((0, 3))),
        "Fortran": (np.asfortranarray(NUMBERS.reshape(4, 3)), NUMBERS.reshape(3, 4).T[::-1]),
        "scalar": (np.float32(1.5), np.float32(-3)),
        "scalar bool": (np.bool_(True), np.bool_(False)),
        "scalar time": (np.datetime64("2020", "Y"), np.datetime64("1900", "Y")),
        "scalar text": (np.str_("private-0"), np.str_("confidential-xx")),
        "scalar octets": (np.bytes_(b"private-0"), np.bytes_(b"x")),
        "scalar record": (one[0], other[0]),
    }


def torch_pairs() -> dict[str, tuple[Any, Any]]:
    kinds = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16"]
    kinds += ["bfloat16", "float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"]
    kinds += ["float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
    one, other = torch.arange(12.0).reshape(4, 3), 3 - torch.arange(12.0).reshape(4, 3)
    pairs: dict[str, tuple[Any, Any]] = {
        kind: (one.to(getattr(torch, kind)), other.abs().to(getattr(torch, kind)))
        for kind in kinds
        if hasattr(torch, kind)
    }
    return pairs | {
        "0-d": (torch.tensor(1.5), torch.tensor(2.5)),
        "grad": (one.clone().requires_grad_(), other.clone().requires_grad_()),
        "parameter": (torch.nn.Parameter(one), torch.nn.Parameter(other)),
        "frozen": (torch.nn.Parameter(one, False), torch.nn.Parameter(other, False)),
        "missing": (torch.tensor([1.0, torch.nan]), torch.tensor([torch.nan, 3.0])),
        "images": (torch.ones(2, 3, 4, 5), torch.zeros(2, 3, 4, 5)),
    }


def pandas_columns() -> dict[str, tuple[Any, Any]]:
    days = pd.date_range("1999-01-01", periods=ROWS, freq="D")
    irregular = pd.to_datetime(["2020-05-05", None, "2021"] * 4, format="ISO8601")
    arrow = pd.ArrowDtype(pa.list_(pa.int64()))
    half = [None if number % 2 else number for number in range(ROWS)]
    return {
        "ints": (NUMBERS * 1000, NUMBERS * -7),
        "int8": (NUMBERS.astype("i1"), -NUMBERS.astype("i1")),
        "floats": (NUMBERS * 0.5, np.full(ROWS, np.nan)),
        "bool": (NUMBERS > 3, NUMBERS > 30),
        "complex": (NUMBERS * 1j, NUMBERS * 2.0 + 0j),
        "text": (pd.array(OURS, dtype="str"), pd.array([None, *THEIRS[1:]], dtype="str")),
        "string": (pd.array(OURS, dtype="string[python]"), pd.array(THEIRS, dtype="string[python]")),
        "arrow text": (pd.array(OURS, dtype="string[pyarrow]"), pd.array(THEIRS, dtype="string[pyarrow]")),
        "objects": (pd.Series(OURS, dtype=object), pd.Series([None, *THEIRS[1:]], dtype=object)),
        "mixed": (pd.Series([1, *OURS[1:]], dtype=object), pd.Series([2.5, *THEIRS[1:]], dtype=object)),
        "dates": (
            pd.Series([dt.date(1950, 1, 1)] * ROWS, dtype=object),
            pd.Series([dt.date(2050, 1, 1), None] * 6, dtype=object),
        ),
        "lists": (pd.Series([["private-0"]] * ROWS, dtype=object), pd.Series([["x"]] * ROWS, dtype=object)),
        "category": (pd.Categorical(OURS), pd.Categorical([*THEIRS[1:], None])),
        "ordered": (pd.Categorical(NUMBERS, ordered=True), pd.Categorical(NUMBERS // 6, ordered=True)),
        "datetime": (days, irregular),
        "zoned": (days.tz_localize(PARIS), irregular.tz_localize(PARIS)),
        "seconds": (days.as_unit("s"), irregular.as_unit("s")),
        "timedelta": (days - days[3], irregular - days[3]),
        "period": (days.to_period("M"), irregular.to_period("M")),
        "interval": (pd.interval_range(0, 12), pd.IntervalIndex.from_breaks(np.arange(13) ** 2)),
        "interval of days": (
            pd.interval_range(days[0], periods=ROWS, freq="D"),
            pd.interval_range(days[5], periods=ROWS, freq="2D"),
        ),
        "Int8": (pd.array(half, dtype="Int8"), pd.array(NUMBERS, dtype="Int8")),
        "UInt64": (pd.array(half, dtype="UInt64"), pd.array(NUMBERS, dtype="UInt64")),
        "Float32": (pd.array(half, dtype="Float32"), pd.array(NUMBERS, dtype="Float32")),
        "boolean": (pd.array([True, None] * 6, dtype="boolean"), pd.array([False] * 12, dtype="boolean")),
        "arrow int": (pd.array(half, dtype="int64[pyarrow]"), pd.array(NUMBERS, dtype="int64[pyarrow]")),
        "arrow list": (
            pd.array([[1]] * ROWS, dtype=arrow),
            pd.array([None, [2, 3], []] * 4, dtype=arrow),
        ),
    }


def pandas_pairs() -> dict[str, tuple[Any, Any]]:
    columns = pandas_columns()
    one, other = (
        pd.DataFrame(
            {name: pd.Series(np.asarray(v) if isinstance(v, range) else v) for name, v in side.items()}
        )
        for side in ({name: pair[number] for name, pair in columns.items()} for number in (0, 1))
    )
    annotated = one.copy()
    annotated.attrs = {"note": "private-0"}
    tuples = [("a", 1), ("b", 2)] * 6
    levels = (
        pd.MultiIndex.from_tuples(tuples, names=["x", None]),
        pd.MultiIndex.from_arrays([OURS, NUMBERS], names=["x", None]),
    )
    wide = pd.DataFrame(np.ones((2, 2)), columns=pd.MultiIndex.from_product([["a"], ["b", "c"]]))
    narrowed = pd.DataFrame(
        np.zeros((2, 3)), columns=pd.MultiIndex.from_product([["a"], ["b", "c", "private-0"]])
    ).iloc[:, :2]
    pairs: dict[str, tuple[Any, Any]] = {
        "frame": (one, other),
        "attrs": (annotated, other),
        "columns twice": tuple(
            pd.DataFrame(np.full((3, 3), fill), columns=["a", "a", "b"]) for fill in (1.0, 2.0)
        ),
        "columns left out": (wide, narrowed),
        "strange names": (
            pd.DataFrame({1: [1], None: [2], (1, 2): [3]}),
            pd.DataFrame({1: [4], None: [5], (1, 2): [6]}),
        ),
        "rows only": (pd.DataFrame(index=range(4)), pd.DataFrame(index=range(7, 11))),
        "columns only": (pd.DataFrame({"a": []}), pd.DataFrame({"a": []})),
        "nothing": (pd.DataFrame(), pd.DataFrame()),
        "multi": tuple(pd.DataFrame({"v": NUMBERS * k}, index=index) for k, index in enumerate(levels)),
        "named series": (pd.Series(NUMBERS, name="n"), pd.Series(-NUMBERS, name="n")),
        "range": (pd.RangeIndex(5, 0, -1, name="r"), pd.RangeIndex(0, 10, 2, name="r")),
        "multi index": levels,
        "small index": (pd.Index(np.arange(200, dtype="u1")), pd.Index(np.zeros(200, "u1"))),
    }
    indexed = {
        "ints",
        "int8",
        "floats",
        "bool",
        "text",
        "string",
        "arrow text",
        "objects",
        "category",
        "ordered",
        "datetime",
        "zoned",
        "seconds",
        "timedelta",
        "period",
        "interval",
        "interval of days",
        "Int8",
        "Float32",
        "boolean",
        "arrow int",
    }
    for name, pair in columns.items():
        pairs[f"series {name}"] = tuple(pd.Series(side) for side in pair)
        if name in indexed:
            pairs[f"index {name}"] = tuple(pd.Index(side, name="i") for side in pair)
            pairs[f"indexed by {name}"] = tuple(
                pd.DataFrame({"v": NUMBERS * k}, index=pd.Index(side)) for k, side in enumerate(pair)
            )
    return pairs


def polars_pairs() -> dict[str, tuple[Any, Any]]:
    one = {
        "enum": pl.Series(OURS, dtype=pl.Enum(sorted(set(OURS)))),
        "category": pl.Series(OURS, dtype=pl.Categorical),
        "decimal": pl.Series([decimal.Decimal("1.20")] * ROWS, dtype=pl.Decimal(10, 2)),
        "list": [[1], [2, 3], None] * 4,
        "struct": [{"a": 1, "b": ["private-0"]}] * ROWS,
        "zoned": pl.Series([dt.datetime(1950, 1, 1)] * ROWS).dt.replace_time_zone("Europe/Paris"),
        "ms": pl.Series([dt.datetime(1950, 1, 1)] * ROWS, dtype=pl.Datetime("ms")),
        "date": [dt.date(1950, 1, 1)] * ROWS,
        "time": [dt.time(1)] * ROWS,
        "duration": [dt.timedelta(1)] * ROWS,
        "bytes": [text.encode() for text in OURS],
        "null": [None] * ROWS,
        "text": OURS,
        "array": pl.Series([[1, 2]] * ROWS, dtype=pl.Array(pl.Int8, 2)),
        "deep array": pl.Series([[[1, 2], [3, 4]]] * ROWS, dtype=pl.Array(pl.Int8, (2, 2))),
        "nested enum": pl.Series([["private-0"], []] * 6, dtype=pl.List(pl.Enum(["private-0", "b"]))),
        "nested category": pl.Series([["private-0"], []] * 6, dtype=pl.List(pl.Categorical)),
        "float": [float("nan"), None, -0.0] * 4,
        "u8": pl.Series(NUMBERS, dtype=pl.UInt8),
        "bool": [True] * ROWS,
    }
    other = {
        "enum": pl.Series(THEIRS, dtype=pl.Enum(THEIRS)),
        "category": pl.Series([None, *THEIRS[1:]], dtype=pl.Categorical),
        "decimal": pl.Series([None, decimal.Decimal(9)] * 6, dtype=pl.Decimal(10, 2)),
        "list": [[4, 5, 6]] * ROWS,
        "struct": pl.Series(
            [{"a": None, "b": []}, None] * 6, dtype=pl.Struct({"a": pl.Int64, "b": pl.List(pl.String)})
        ),
        "zoned": pl.Series([dt.datetime(2050, 1, 1)] * ROWS).dt.replace_time_zone("Europe/Paris"),
        "ms": pl.Series([dt.datetime(2050, 1, 1), None] * 6, dtype=pl.Datetime("ms")),
        "date": [dt.date(2050, 1, 1), None] * 6,
        "time": [dt.time.max, None] * 6,
        "duration": [dt.timedelta(9), None] * 6,
        "bytes": [None, *(text.encode() for text in THEIRS[1:])],
        "null": [None] * ROWS,
        "text": [None, *THEIRS[1:]],
        "array": pl.Series([[9, 8], None] * 6, dtype=pl.Array(pl.Int8, 2)),
        "deep array": pl.Series([[[9, 2], [3, 4]], None] * 6, dtype=pl.Array(pl.Int8, (2, 2))),
        "nested enum": pl.Series([["z"], ["z"]] * 6, dtype=pl.List(pl.Enum(["z"]))),
        "nested category": pl.Series([["z"], ["y"]] * 6, dtype=pl.List(pl.Categorical)),
        "float": [1.0] * ROWS,
        "u8": pl.Series([None, *NUMBERS[1:]], dtype=pl.UInt8),
        "bool": [False, None] * 6,
    }
    frames = pl.DataFrame(one), pl.DataFrame(other)
    pairs: dict[str, tuple[Any, Any]] = {
        "frame": frames,
        "empty": (frames[0].head(0), frames[1].head(0)),
        "nothing": (pl.DataFrame(), pl.DataFrame()),
    }
    return pairs | {f"series {name}": (frames[0][name], frames[1][name]) for name in one}


def arrow_columns() -> dict[str, tuple[Any, Any]]:
    tagged = pa.field("item", pa.string(), metadata={"note": "private-0"})
    text, other_text = pa.array(OURS), pa.array([None, *THEIRS[1:]])
    codes = pa.array(NUMBERS % 2, pa.int8())
    pairs: dict[str, tuple[Any, Any]] = {
        "null": (pa.nulls(ROWS), pa.nulls(ROWS)),
        "bool": (pa.array([True] * ROWS), pa.array([False, None] * 6)),
        "decimal": tuple(pa.array([decimal.Decimal(x)] * ROWS, pa.decimal128(38, 2)) for x in ("1.5", "-7")),
        "decimal256": tuple(
            pa.array([decimal.Decimal(x)] * ROWS, pa.decimal256(70, 3)) for x in ("1.5", "-7")
        ),
        "dictionary": (text.dictionary_encode(), other_text.dictionary_encode()),
        "dictionary of ints": (
            pa.array(NUMBERS).dictionary_encode(),
            pa.array(NUMBERS // 9).dictionary_encode(),
        ),
        "list": (pa.array([OURS[:1]] * ROWS), pa.array([None, THEIRS] * 6)),
        "tagged list": (pa.array([OURS[:1]] * ROWS, pa.list_(tagged)), pa.array([None, THEIRS] * 6)),
        "large list": (
            pa.array([[1]] * ROWS, pa.large_list(pa.int8())),
            pa.array([[]] * ROWS, pa.large_list(pa.int8())),
        ),
        "list view": (
            pa.array([[1]] * ROWS, pa.list_view(pa.int8())),
            pa.array([[]] * ROWS, pa.list_view(pa.int8())),
        ),
        "fixed list": (
            pa.array([[1, 2]] * ROWS, pa.list_(pa.int8(), 2)),
            pa.array([None] * ROWS, pa.list_(pa.int8(), 2)),
        ),
        "struct": (
            pa.array([{"a": {"b": "private-0"}}] * ROWS),
            pa.array([None, {"a": {"b": None}}, {"a": {"b": "z"}}] * 4),
        ),
        "map": (
            pa.array([[("private-0", 1)]] * ROWS, pa.map_(pa.string(), pa.int8())),
            pa.array([[]] * ROWS, pa.map_(pa.string(), pa.int8())),
        ),
        "sparse union": tuple(
            pa.UnionArray.from_sparse(codes, [side, pa.array(NUMBERS)]) for side in (text, other_text)
        ),
        "dense union": tuple(
            pa.UnionArray.from_dense(codes, pa.array(NUMBERS, pa.int32()), [side, pa.array(NUMBERS)])
            for side in (text, other_text)
        ),
        "runs": (
            pa.RunEndEncodedArray.from_arrays([2, 12], ["private-0", "b"]),
            pa.RunEndEncodedArray.from_arrays([12], ["c"]),
        ),
        "uuid": tuple(
            pa.ExtensionArray.from_storage(pa.uuid(), pa.array([octets * 16] * ROWS, pa.binary(16)))
            for octets in (b"p", b"c")
        ),
        "fixed bytes": (pa.array([b"priv"] * ROWS, pa.binary(4)), pa.array([b"conf"] * ROWS, pa.binary(4))),
        "time32": (pa.array([dt.time(1)] * ROWS, pa.time32("s")), pa.array([None] * ROWS, pa.time32("s"))),
        "time64": (pa.array([dt.time(1)] * ROWS, pa.time64("ns")), pa.array([None] * ROWS, pa.time64("ns"))),
        "date64": tuple(pa.array([dt.date(year, 1, 1)] * ROWS, pa.date64()) for year in (1950, 2050)),
        "date32": tuple(pa.array([dt.date(year, 1, 1)] * ROWS, pa.date32()) for year in (1950, 2050)),
        "duration": tuple(pa.array([dt.timedelta(days)] * ROWS, pa.duration("ms")) for days in (1, 500)),
        "interval": tuple(pa.array([pa.MonthDayNano([x, x, x])] * ROWS) for x in (1, 2)),
        "zoned": tuple(
            pa.array([dt.datetime(year, 1, 1)] * ROWS, pa.timestamp("us", "Europe/Paris"))
            for year in (1950, 2050)
        ),
    }
    for type_ in (
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.binary_view(),
    ):
        pairs[str(type_)] = (
            pa.array(OURS, pa.string()).cast(type_),
            pa.array(THEIRS, pa.string()).cast(type_),
        )
    for number in (pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()):
        dtype = number.to_pandas_dtype()
        pairs[str(number)] = (pa.array(NUMBERS.astype(dtype)), pa.array((NUMBERS // 5).astype(dtype)))
    return pairs


def arrow_pairs() -> dict[str, tuple[Any, Any]]:
    columns = arrow_columns()
    metadata = {"owner": "private-0"}
    one, other = (pa.table({name: pair[number] for name, pair in columns.items()}) for number in (0, 1))
    one = one.replace_schema_metadata(metadata)
    pairs: dict[str, tuple[Any, Any]] = {
        "table": (one, other),
        "slice": (one.slice(3, 5), other.slice(1, 5)),
        "batch": (one.to_batches()[0], other.combine_chunks().to_batches()[0]),
        "chunked": (pa.chunked_array([OURS[:3], OURS[3:]]), pa.chunked_array([THEIRS])),
        "no chunks": (pa.chunked_array([], pa.int8()), pa.chunked_array([], pa.int8())),
        "nothing": (pa.table({}), pa.table({})),
        "scalar": (pa.scalar("private-0"), pa.scalar("b")),
        "struct scalar": (pa.scalar({"a": ["private-0"]}), pa.scalar({"a": [None, "b"]})),
        "required": tuple(
            pa.table([side], schema=pa.schema([pa.field("a", side.type, False)])) for side in columns["int8"]
        ),
    }
    return pairs | columns


def builtin_pairs() -> dict[str, tuple[Any, Any]]:
    zoned = [dt.datetime(2021, 10, 31, tzinfo=PARIS), dt.datetime(1950, 1, 1, tzinfo=PARIS)]
    frames = [pd.DataFrame({"a": NUMBERS * k, "b": [f"private-{k}"] * ROWS}) for k in (1, 2)]
    return {
        **{
            type(one).__name__: (one, other)
            for one, other in (
                (True, False),
                (7, 2**70),
                (1.5, float("nan")),
                (1j, 2j),
                ("private-0", ""),
                (b"private-0", b"x" * 500),
                (bytearray(b"private-0"), bytearray()),
                (None, None),
                (dt.date.min, dt.date.max),
                (dt.datetime.min, dt.datetime.max),
                (dt.time.min, dt.time.max),
                (dt.timedelta.min, dt.timedelta.max),
                (decimal.Decimal("1.5"), decimal.Decimal("NaN")),
                (uuid.UUID(int=1), uuid.UUID(int=2)),
            )
        },
        "zoned": (zoned[0], zoned[1]),
        "zoned list": (zoned, zoned[::-1]),
        "ints": ([1, 2, None], [4, 5, 6]),
        "floats": ([1.0, None, 3], [float("nan"), 2.0, 4.0]),
        "texts": (OURS, THEIRS),
        "unknown": ([None, None], [None, None]),
        "empty": ([], []),
        "matrix": ([[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]),
        "ragged": ([["private-0"], []], [["a", "b"], ["c"]]),
        "tuple": ((1, "private-0"), (5, "b")),
        "rows": ([(1, "private-0", None)] * 3, [(2, "b", "c"), (None, "b", "d"), (3, None, None)]),
        "records": ([{"a": 1, "b": "private-0"}] * 3, [{"a": 5, "b": None}] * 3),
        "a record": ({"private-0": 1, "private-1": 2}, {"x": 5, "y": 6}),
        "by number": ({7: "private-0", 9: "private-1"}, {1: "b", 2: "c"}),
        "table": ({"a": [1, 2], "b": ["private-0", None]}, {"a": [3, 4], "b": ["x", "y"]}),
        "state": (
            OrderedDict(w=torch.ones(2, 3), b=torch.ones(2), n=torch.tensor(1)),
            OrderedDict(w=torch.zeros(2, 3), b=torch.zeros(2), n=torch.tensor(5)),
        ),
        "split": ((NUMBERS.reshape(6, 2), NUMBERS > 3), (-NUMBERS.reshape(6, 2), NUMBERS > 5)),
        "list of arrays": ([np.ones(3), np.ones((2, 2))], [np.zeros(3), np.zeros((2, 2))]),
        "frames": ({"train": frames[0], "test": frames[0][:3]}, {"train": frames[1], "test": frames[1][:3]}),
        "named things": ({"private-0": NUMBERS, "n": 3}, {"x": NUMBERS * 2, "m": 4}),
        "NumPy items": ([np.float32(1), np.float32(2)], [np.float32(5), np.float32(6)]),
    }


PAIRS = {
    "numpy": numpy_pairs(),
    "torch": torch_pairs(),
    "pandas": pandas_pairs(),
    "polars": polars_pairs(),
    "arrow": arrow_pairs(),
    "builtins": builtin_pairs(),
}
