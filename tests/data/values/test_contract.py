"""Every library's objects, through the contract that third parties run."""

from __future__ import annotations

import datetime as dt
import struct
import uuid
import zoneinfo
from collections import OrderedDict
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import torch

from duetlink.testing.values import ValueContract

PARIS = zoneinfo.ZoneInfo("Europe/Paris")
EXTENDED_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_00AB))[0]


class TestBuiltins(ValueContract):
    def samples(self) -> dict[str, Any]:
        zoned = dt.datetime(2021, 10, 31, 2, 30, 0, 7, tzinfo=PARIS, fold=1)
        values: tuple[Any, ...] = (
            *(None, True, False, 0, -1, 2**63 - 1, -(2**63), 2**63, -(2**70), 10**400, ...),
            *(1.5, -0.0, float("inf"), float("nan"), EXTENDED_NAN, complex(-0.0, EXTENDED_NAN)),
            *(
                "",
                "é\0",
                "\ud800 lone",
                "long " * 100,
                b"",
                b"\0",
                b"long" * 100,
                bytearray(b"x"),
                bytearray(500),
            ),
            *(
                [],
                [1, [2, "x"]],
                (),
                (1, (2,)),
                {},
                {"b": 1, "a": 2, (1, 2): 3, None: 4},
                {1, 2},
                frozenset({"x"}),
            ),
            OrderedDict([("z", 1), ("a", 2)]),
            *(range(3), range(10, 0, -(2**80)), slice(None), slice(1, None, "x")),
            *(dt.date.min, dt.date.max, dt.time.max, dt.time(1, fold=1, tzinfo=dt.UTC), dt.timedelta.min),
            *(dt.timedelta.max, dt.datetime.min, dt.datetime.max, zoned, dt.UTC, PARIS),
            *(dt.timezone(dt.timedelta(hours=-3, microseconds=5)), dt.timezone(dt.timedelta(0), "mine")),
            *(Decimal("-0.00"), Decimal("NaN12"), Decimal("sNaN"), Decimal("1E+999"), uuid.UUID(int=5)),
        )
        return {repr(value)[:40]: value for value in values}

    def equal(self, left: Any, right: Any) -> bool:
        if isinstance(left, (float, complex)):
            return _bits(left) == _bits(right)
        if isinstance(left, (dt.datetime, dt.time)) and left.fold != right.fold:
            return False
        if isinstance(left, Decimal):
            return bool(left.as_tuple() == right.as_tuple())
        if isinstance(left, dict):
            return list(left.items()) == list(right.items())
        return repr(left) == repr(right) if isinstance(left, dt.timezone) else bool(left == right)


def _bits(number: complex) -> bytes:
    return struct.pack("<dd", number.real, number.imag)


class TestNumpy(ValueContract):
    def samples(self) -> dict[str, Any]:
        record = np.dtype([("a", "<i4"), ("b", ">f8", (2,)), ("c", [("d", "S3"), ("é", "U2")])])
        gaps = np.dtype({"names": ["x", "y"], "formats": ["u1", "<f4"], "offsets": [3, 8], "itemsize": 20})
        kinds = "?bBhHiIlLqQefdgFDG"
        return {
            **{f"dtype {kind}": np.arange(6).astype(kind).reshape(2, 3) for kind in kinds},
            "big-endian": np.arange(3, dtype=">i4"),
            "days": np.array(["2020-01-01", "NaT"], "M8[D]"),
            "25 s": np.array([1, 2], "m8[25s]"),
            "generic NaT": np.array(["NaT"], "M8"),
            "bytes": np.array([b"a", b"bcd"]),
            "text": np.array(["a", "bcd"], ">U3"),
            "void": np.array([b"abc"], "V3"),
            "size 0": np.zeros(3, "V0"),
            "struct": np.zeros(3, record),
            "gaps": np.ones(2, gaps),
            "aligned": np.zeros(2, np.dtype("u1,f8", align=True)),
            "0-d": np.array(5.0),
            "empty": np.empty((0, 3)),
            "Fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
            "strided": np.arange(12.0).reshape(3, 4)[:, ::2],
            "backwards": np.arange(5)[::-1],
            "strings": np.array([["a", "é" * 300], ["", "z"]], np.dtypes.StringDType()),
            "strings with None": np.array(["a", None], np.dtypes.StringDType(na_object=None)),
            "strings with NaN": np.array(["a", np.nan], np.dtypes.StringDType(na_object=np.nan)),
            "objects": np.array([["a", 1], [None, 2.5]], dtype=object),
            "an object": np.array("a", dtype=object),
            "no objects": np.zeros((0, 3), dtype=object),
            "no strings": np.array([], np.dtypes.StringDType()),
            "scalar": np.float32(1.5),
            "scalar bool": np.bool_(True),
            "scalar time": np.datetime64("2020", "Y"),
            "scalar text": np.str_("a\0"),
            "scalar bytes": np.bytes_(b"a\0"),
            "scalar struct": np.zeros(1, record)[0],
        }

    def equal(self, left: Any, right: Any) -> bool:
        if isinstance(left, (np.str_, np.bytes_)):
            return len(left) == len(right) and bool(left == right)
        if left.dtype != right.dtype or left.dtype.isalignedstruct != right.dtype.isalignedstruct:
            return False
        if isinstance(left, np.ndarray) and left.flags.f_contiguous != right.flags.f_contiguous:
            return left.size == 0 or not right.flags.contiguous
        if isinstance(left.dtype, np.dtypes.StringDType):
            return [repr(item) for item in left.flat] == [repr(item) for item in right.flat]
        if left.dtype == object:
            return left.shape == right.shape and bool((left == right).all())
        if left.dtype.names or left.dtype.char in "gG":  # not all bytes are part of an item
            return left.shape == right.shape and bool((left == right).all())
        return bool(left.shape == right.shape and left.tobytes() == right.tobytes())


class TestTorch(ValueContract):
    def samples(self) -> dict[str, Any]:
        image = torch.arange(120.0).reshape(2, 3, 4, 5)
        return {
            **{
                str(dtype): torch.arange(4).to(dtype)
                for dtype in (torch.bool, torch.uint8, torch.uint32, torch.int64, torch.half, torch.bfloat16)
            },
            **{
                str(dtype): torch.ones(4).to(dtype)
                for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64, torch.complex128)
            },
            "0-d": torch.tensor(1.5),
            "empty": torch.empty(0, 3),
            "channels_last": image.to(memory_format=torch.channels_last),
            "permuted": image.permute(3, 0, 2, 1),
            "strided": image[:, ::2],
            "expanded": torch.ones(3, 1).expand(3, 4),
            "conjugate": torch.tensor([1 + 2j]).conj(),
            "negative": torch.tensor([1 + 2j]).conj().imag,
            "grad": torch.ones(2, requires_grad=True),
            "parameter": torch.nn.Parameter(torch.ones(2)),
            "frozen parameter": torch.nn.Parameter(torch.ones(2), requires_grad=False),
        }

    def equal(self, left: Any, right: Any) -> bool:
        same = (left.dtype, left.shape, left.requires_grad) == (right.dtype, right.shape, right.requires_grad)
        return same and torch.equal(
            *(
                side.detach()
                .resolve_conj()
                .resolve_neg()
                .clone(memory_format=torch.contiguous_format)
                .view(torch.uint8)
                .reshape(-1)
                if side.dim()
                else side.detach()
                for side in (left, right)
            )
        )


class TestArrow(ValueContract):
    def samples(self) -> dict[str, Any]:
        table = pa.table(
            {"a": pa.array([1, None, 3]), "s": ["x", None, "z"], "n": pa.nulls(3)}, metadata={"owner": "me"}
        )
        storage = pa.array([b"0123456789abcdef"], pa.binary(16))
        return {
            "table": table,
            "slice": table.slice(1, 2),
            "no columns": pa.table({}),
            "rows without columns": pa.Table.from_batches([table.to_batches()[0].select([])]),
            "batch": table.to_batches()[0],
            "schema": table.schema,
            "chunked": pa.chunked_array([["a"], [], ["b", "c"]]),
            "no chunks": pa.chunked_array([], pa.int8()),
            "array": pa.array([[1], None, [2, 3]]),
            "dictionary": pa.array(["a", "b", "a"]).dictionary_encode(),
            "views": pa.array(["a", "a string of more than twelve"], pa.string_view()),
            "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8())),
            "struct": pa.array([{"a": {"b": 1}}]),
            "union": pa.UnionArray.from_sparse(
                pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])]
            ),
            "runs": pa.RunEndEncodedArray.from_arrays([2, 5], ["a", "b"]),
            "decimal": pa.array([Decimal("1.20"), None], pa.decimal128(10, 2)),
            "uuid": pa.ExtensionArray.from_storage(pa.uuid(), storage),
            "scalar": pa.scalar({"a": [1]}),
            "null scalar": pa.scalar(None),
        }

    def equal(self, left: Any, right: Any) -> bool:
        if isinstance(left, (pa.Table, pa.RecordBatch)) and left.num_rows != right.num_rows:
            return False
        if isinstance(left, (pa.Table, pa.RecordBatch, pa.Schema)):
            return bool(left.equals(right, check_metadata=True))
        if isinstance(left, pa.ChunkedArray):
            return [len(chunk) for chunk in left.chunks] == [
                len(chunk) for chunk in right.chunks
            ] and left.equals(right)
        return left.type == right.type and bool(left.equals(right))


class TestPolars(ValueContract):
    def samples(self) -> dict[str, Any]:
        frame = pl.DataFrame(
            {
                "enum": pl.Series(["a", "b", None], dtype=pl.Enum(["b", "a", "unused"])),
                "category": pl.Series(["x", "y", None], dtype=pl.Categorical),
                "decimal": pl.Series([Decimal("1.20"), None, Decimal(3)], dtype=pl.Decimal(10, 2)),
                "list": [[1], [2, 3], None],
                "struct": [{"a": 1, "b": ["x"]}, {"a": 2, "b": []}, None],
                "zoned": pl.Series([dt.datetime(2020, 1, 1)] * 3).dt.replace_time_zone("Europe/Paris"),
                "ms": pl.Series([dt.datetime(2020, 1, 1), None, None], dtype=pl.Datetime("ms")),
                "time": [dt.time(1), None, dt.time.max],
                "duration": [dt.timedelta(1), None, None],
                "bytes": [b"x", None, b""],
                "null": [None] * 3,
                "text": ["a", None, "more than twelve characters"],
                "array": pl.Series([[1, 2], [3, 4], None], dtype=pl.Array(pl.Int8, 2)),
                "nested enum": pl.Series([["a"], [], None], dtype=pl.List(pl.Enum(["a", "b"]))),
                "float": [float("nan"), None, -0.0],
            }
        )
        return {
            "frame": frame,
            "empty": frame.head(0),
            "nothing": pl.DataFrame(),
            "slice": frame.slice(1, 1),
            "a series without a name": pl.Series(["a", None]),
            "a column without a name": pl.DataFrame({"": [1, 2], "b": [3, 4]}),
            **{name: frame[name] for name in frame.columns},
        }

    def equal(self, left: Any, right: Any) -> bool:
        if isinstance(left, pl.DataFrame):
            return left.schema == right.schema and left.equals(right)
        return (left.dtype, left.name) == (right.dtype, right.name) and left.equals(right)


class TestPandas(ValueContract):
    def samples(self) -> dict[str, Any]:
        days = pd.date_range("2020", periods=3, freq="D", name="when")
        columns = {
            "ints": [1, 2, 3],
            "text": ["x", None, "z"],
            "category": pd.Categorical(["u", "v", None], ["v", "u", "w"], ordered=True),
            "zoned": pd.date_range("2020", periods=3, tz="Europe/Paris", unit="s"),
            "utc": pd.to_datetime(["2020", None, "2021"], utc=True),
            "Int8": pd.array([1, None, 3], dtype="Int8"),
            "boolean": pd.array([True, None, False], dtype="boolean"),
            "Float32": pd.array([1.5, None, 2], dtype="Float32"),
            "string": pd.array(["q", None, "é"], dtype="string[python]"),
            "string[pyarrow]": pd.array(["q", None, "é"], dtype="string[pyarrow]"),
            "objects": pd.Series(["s", None, float("nan")], dtype=object, index=days),
            "mixed": pd.Series([1, "x", None], dtype=object, index=days),
            "period": pd.period_range("2020", periods=3, freq="M"),
            "interval": pd.interval_range(0, 3, closed="both"),
            "arrow": pd.array([[1], None, [2]], dtype=pd.ArrowDtype(pa.list_(pa.int64()))),
            "delta": pd.to_timedelta([1, None, 3], unit="s"),
            "complex": [1j, 2, 3],
            "bool": [True, False, True],
        }
        frame = pd.DataFrame(columns, index=days)
        annotated = frame[["ints"]].copy()
        annotated.attrs = {"unit": {"ints": "m"}}
        pairs = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["x", ("y", 1)])
        return {
            "frame": frame,
            "attrs": annotated,
            "duplicates": pd.DataFrame(np.arange(6.0).reshape(2, 3), columns=["a", "a", "b"]),
            "duplicate rows": pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}, index=[7, 7]),
            "multi": pd.DataFrame(np.ones((2, 2)), index=pairs, columns=pairs),
            "strange labels": pd.DataFrame({1: [1], None: [2], (1, 2): [3], 2.5: [4]}),
            "unique": frame.set_flags(allows_duplicate_labels=False),
            "rows only": pd.DataFrame(index=range(4)),
            "columns only": pd.DataFrame({"a": []}),
            "nothing": pd.DataFrame(),
            "named columns": pd.DataFrame([[1]], columns=pd.Index(["a"], name="c")),
            **{f"series {name}": frame[name] for name in columns},
            "range": pd.RangeIndex(5, 0, -2, name=("a", None)),
            "days": days,
            "categories": pd.CategoricalIndex(["q", "r"]),
            "timestamp": pd.Timestamp("2021-10-31 02:30").tz_localize("Europe/Paris", ambiguous=False),
            "timestamp in s": pd.Timestamp("2020").as_unit("s"),
            "delta": pd.Timedelta(5, "s"),
            "NaT": pd.NaT,
            "NA": pd.NA,
        }

    def equal(self, left: Any, right: Any) -> bool:
        if left is right:
            return True
        if isinstance(left, pd.DataFrame):
            pd.testing.assert_frame_equal(left, right, check_exact=True, check_freq=True, check_flags=True)
            return left.attrs == right.attrs and all(
                _objects(left.iloc[:, number]) == _objects(right.iloc[:, number])
                for number in range(left.shape[1])
            )
        if isinstance(left, pd.Series):
            pd.testing.assert_series_equal(left, right, check_exact=True, check_freq=True)
            return _objects(left) == _objects(right)
        if isinstance(left, pd.Index):
            pd.testing.assert_index_equal(left, right, exact=True, check_exact=True)
            return bool(left.names == right.names)
        return (repr(left), left.unit) == (repr(right), right.unit)


def _objects(series: Any) -> list[str]:
    """None, NaN and NA are different objects, which pandas's own comparison does not see."""
    return [repr(item) for item in series] if series.dtype == object else []
