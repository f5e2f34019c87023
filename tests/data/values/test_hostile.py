"""Bodies from a hostile peer: refused by name, without a crash, a hang or a large allocation."""

from __future__ import annotations

import contextlib
import struct
import sys
import time
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.data.values import NotFlat, decode, encode, libraries
from duetlink.data.values import body as layout
from duetlink.data.values import schema_pb2 as wire
from duetlink.errors import LimitExceeded, MalformedValue, MissingLibrary, UnsupportedValue
from duetlink.testing.values import REFUSALS, joined
from tests.data.values.test_contract import (
    TestArrow,
    TestBuiltins,
    TestNumpy,
    TestPandas,
    TestPolars,
    TestTorch,
)

BODIES = [
    bytes(joined(encode(sample)))
    for contract in (TestBuiltins, TestNumpy, TestTorch, TestArrow, TestPolars, TestPandas)
    for sample in contract().samples().values()
]
del TestArrow, TestBuiltins, TestNumpy, TestPandas, TestPolars, TestTorch  # or pytest would run them here


def made(*nodes: wire.Node, segments: tuple[bytes, ...] = ()) -> bytearray:
    head = layout.prefix([node.SerializeToString() for node in nodes], [len(segment) for segment in segments])
    return bytearray(b"".join(layout.gather(head, [[memoryview(segment)] for segment in segments])))


def decode_or_refuse(body: bytes) -> None:
    with contextlib.suppress(*REFUSALS):
        decode(bytearray(body))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes(data: bytes) -> None:
    decode_or_refuse(data)
    decode_or_refuse(b"DLV1" + struct.pack("<I", len(data)) + data)


@settings(max_examples=1500, deadline=None)
@given(st.sampled_from(BODIES), st.data())
def test_mutated_bodies(body: bytes, data: st.DataObject) -> None:
    changed = bytearray(body)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(changed) - 1))
        changed[position] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, changed[position] ^ 1]))
    decode_or_refuse(bytes(changed))


def test_every_byte_of_an_arrow_stream_changed() -> None:
    body = joined(
        encode(
            pa.table({"s": ["a", "bc"], "l": [[1], [2, 3]], "d": pa.array(["x", "y"]).dictionary_encode()})
        )
    )
    for position in range(len(body)):
        kept = body[position]
        for value in (0, 0xFF, kept ^ 0x10):
            body[position] = value
            decode_or_refuse(bytes(body))
        body[position] = kept


@pytest.mark.parametrize("size", [2**31, 2**32, 2**63, 2**64 - 1])
def test_segment_sizes_beyond_the_body(size: int) -> None:
    head = layout.prefix([wire.Node(long_octets=wire.Empty()).SerializeToString()], [size])
    with pytest.raises(MalformedValue, match="ends after"):
        decode(bytearray(head + bytes(200)))


def test_no_two_leaves_share_memory_and_none_is_left() -> None:
    leaf = wire.Node(long_octets=wire.Empty())
    with pytest.raises(MalformedValue, match="before all of its arrays"):
        decode(made(wire.Node(list=2), leaf, leaf, segments=(bytes(300),)))
    with pytest.raises(MalformedValue, match="nothing refers to"):
        decode(made(leaf, segments=(bytes(300), bytes(300))))
    with pytest.raises(MalformedValue, match="nothing refers to"):
        decode(made(wire.Node(integer=1), wire.Node(integer=2)))


def test_bytes_between_and_after_segments_are_refused() -> None:
    body = joined(encode(bytes(300)))
    with pytest.raises(MalformedValue, match="value ends at"):
        decode(body + b"\0")
    body[60] = 1
    with pytest.raises(MalformedValue, match="not zero"):
        decode(body)


@pytest.mark.parametrize("count", [2, 2**32, 2**63, 2**64 - 1])
@pytest.mark.parametrize("kind", ["list", "tuple", "dict", "set", "frozenset", "multi_index"])
def test_counts_beyond_the_parts(kind: str, count: int) -> None:
    with pytest.raises(MalformedValue):
        decode(made(wire.Node(**{kind: count}), wire.Node(list=0)))  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [[1], [2, 2], [2**32, 2**32], [0, 2**40], [1] * 40 + [2]])
def test_objects_that_do_not_fit_their_array(shape: list[int]) -> None:
    items = (wire.Node(list=2), wire.Node(integer=1), wire.Node(none=wire.Empty()))
    with pytest.raises(MalformedValue):
        decode(made(wire.Node(object_array=wire.ObjectArray(shape=shape)), *items))
    with pytest.raises(MalformedValue):
        decode(made(wire.Node(object_array=wire.ObjectArray(shape=[2])), wire.Node(integer=2)))


def test_limits_are_the_caller_s() -> None:
    with pytest.raises(LimitExceeded, match="4 parts, more than 3"):
        decode(joined(encode([1, 2, 3])), max_nodes=3)
    assert decode(joined(encode([1, 2, 3])), max_nodes=4) == [1, 2, 3]
    with pytest.raises(LimitExceeded, match="deeper than 1"):
        decode(joined(encode([[1]])), max_depth=1)
    deep = [wire.Node(list=1)] * 5000 + [wire.Node(list=0)]
    with pytest.raises(LimitExceeded, match="deeper than 64"):
        decode(made(*deep))
    with pytest.raises(LimitExceeded, match="stack"):
        decode(made(*deep), max_depth=10_000)


def test_keys_that_collide_are_refused_quickly() -> None:
    keys = [wire.Node(big_integer=(number * (2**61 - 1)).to_bytes(12, "little")) for number in range(20_000)]
    started = time.perf_counter()
    with pytest.raises(MalformedValue, match="same hash"):
        decode(made(wire.Node(set=len(keys)), *keys))
    assert time.perf_counter() - started < 5


def test_keys_that_cannot_be_keys_or_come_twice() -> None:
    with pytest.raises(MalformedValue, match="unhashable"):
        decode(made(wire.Node(dict=1), wire.Node(list=0), wire.Node(integer=1)))
    with pytest.raises(MalformedValue, match="twice"):
        decode(made(wire.Node(set=2), wire.Node(integer=1), wire.Node(boolean=True)))


def test_an_integer_that_python_would_not_write_is_refused() -> None:
    body = made(wire.Node(big_integer=bytes(1_787)))
    with pytest.raises(MalformedValue, match="an integer of 1,787 bytes is over 14,280 bits"):
        decode(body)


def test_a_time_zone_s_name_opens_no_file_and_imports_nothing() -> None:
    for name in ("../../etc/passwd", "/etc/passwd", "os.path", "__init__", "", "Europe"):
        with pytest.raises(MalformedValue, match="no time zone"):
            decode(made(wire.Node(zone=name)))


@pytest.mark.parametrize(
    "array",
    [
        wire.Array(dtype=wire.DType(kind=wire.DType.FLOAT, size_bytes=8), shape=[2**62, 2**62]),
        wire.Array(dtype=wire.DType(kind=wire.DType.FLOAT, size_bytes=8), shape=[2**63, 0]),
        wire.Array(dtype=wire.DType(kind=wire.DType.FLOAT, size_bytes=3), shape=[1]),
        wire.Array(dtype=wire.DType(kind=wire.DType.TEXT, size_bytes=2**40), shape=[0]),
        wire.Array(dtype=wire.DType(kind=99, size_bytes=8), shape=[0]),  # type: ignore[arg-type]
        wire.Array(
            dtype=wire.DType(kind=wire.DType.DATETIME, size_bytes=8, unit="x]", unit_count=1), shape=[0]
        ),
        wire.Array(dtype=wire.DType(kind=wire.DType.STRUCT, size_bytes=4), shape=[1]),
        wire.Array(dtype=wire.DType(), shape=[]),
        wire.Array(dtype=wire.DType(kind=wire.DType.INT, size_bytes=8), shape=[1] * 200),
    ],
)
def test_impossible_arrays(array: wire.Array) -> None:
    with pytest.raises(MalformedValue):
        decode(made(wire.Node(array=array), segments=(b"",)))


@pytest.mark.parametrize("dtype", ["<U2", ">U2", [("n", "u1"), ("t", [("x", "<U3", (2,))])]])
def test_text_beyond_unicode(dtype: Any) -> None:
    array = np.zeros(3, dtype)
    assert decode(joined(encode(array))).tobytes() == array.tobytes()  # type: ignore[attr-defined]
    array.view(np.uint8)[-4:] = 0xFF
    with pytest.raises(MalformedValue, match="do not exist"):
        decode(joined(encode(array)))


def test_a_dtype_nested_without_end() -> None:
    dtype = wire.DType(kind=wire.DType.INT, size_bytes=1)
    for _ in range(30):
        dtype = wire.DType(kind=wire.DType.SUBARRAY, base=dtype, shape=[1])
    with pytest.raises(MalformedValue, match="nested deeper"):
        decode(made(wire.Node(array=wire.Array(dtype=dtype)), segments=(b"\0",)))


@pytest.mark.parametrize(
    "tensor",
    [
        wire.Tensor(dtype="Tensor", shape=[1]),
        wire.Tensor(dtype="float32", shape=[2**63, 2**63]),
        wire.Tensor(dtype="float32", shape=[0, 2**63]),
        wire.Tensor(dtype="float32", shape=[1], order=[3]),
        wire.Tensor(dtype="int32", shape=[1], requires_grad=True),
    ],
)
def test_impossible_tensors(tensor: wire.Tensor) -> None:
    with pytest.raises(MalformedValue):
        decode(made(wire.Node(tensor=tensor), segments=(bytes(4 if 0 not in tensor.shape else 0),)))


def field(offset: int, kind: Any, size_bytes: int) -> wire.Field:
    return wire.Field(name=b"%d" % offset, offset=offset, dtype=wire.DType(kind=kind, size_bytes=size_bytes))


WINDOW = wire.DType(
    kind=wire.DType.SUBARRAY, base=wire.DType(kind=wire.DType.FLOAT, size_bytes=8), shape=[2**28 - 1]
)


@pytest.mark.parametrize(
    "fields",
    [
        [field(2**31 - 1, wire.DType.OCTETS, 8)],
        [field(8, wire.DType.OCTETS, 2**31 - 8)],
        [field(9, wire.DType.OCTETS, 8)],
        [field(0, wire.DType.OCTETS, 17)],
        [field(2**64 - 1, wire.DType.OCTETS, 1)],
        [field(0, wire.DType.INT, 4), wire.Field(name=b"window", offset=8, dtype=WINDOW)],
        [field(0, wire.DType.INT, 4), field(0, wire.DType.INT, 4)],
    ],
)
@pytest.mark.parametrize("levels", [1, 2])
def test_a_field_lies_within_its_item_in_every_level(fields: list[wire.Field], levels: int) -> None:
    # numpy adds offset and size as C integers: 8 + 2,147,483,640 is less than 16
    dtype = wire.DType(kind=wire.DType.STRUCT, size_bytes=16, fields=fields)
    for _ in range(levels - 1):
        dtype = wire.DType(kind=wire.DType.STRUCT, size_bytes=16, fields=[wire.Field(name=b"x", dtype=dtype)])
    with pytest.raises(MalformedValue, match=r"a field at|the same name"):
        decode(made(wire.Node(array=wire.Array(dtype=dtype, shape=[1])), segments=(bytes(16),)))
    with pytest.raises(MalformedValue, match=r"a field at|the same name"):
        decode(made(wire.Node(scalar=wire.Scalar(dtype=dtype, data=bytes(16)))))


@pytest.mark.parametrize("shape", [[2**28], [2**63, 2], [2**31, 0], [2**16, 2**16, 0], [1] * 65])
def test_impossible_subarrays(shape: list[int]) -> None:
    base = wire.DType(kind=wire.DType.FLOAT, size_bytes=8)
    window = wire.DType(kind=wire.DType.SUBARRAY, base=base, shape=shape)
    dtype = wire.DType(kind=wire.DType.STRUCT, size_bytes=0, fields=[wire.Field(name=b"x", dtype=window)])
    with pytest.raises(MalformedValue, match="a subarray of shape"):
        decode(made(wire.Node(array=wire.Array(dtype=dtype, shape=[1])), segments=(b"",)))


def test_a_dtype_has_so_many_fields_at_most() -> None:
    one = wire.DType(kind=wire.DType.OCTETS, size_bytes=1)
    fields = [wire.Field(name=b"%d" % number, dtype=one) for number in range(40_000)]
    half = wire.DType(kind=wire.DType.STRUCT, size_bytes=1, fields=fields)
    both = [wire.Field(name=b"a", dtype=half), wire.Field(name=b"b", dtype=half)]
    dtype = wire.DType(kind=wire.DType.STRUCT, size_bytes=1, fields=both)
    with pytest.raises(MalformedValue, match="more than 65,536 fields"):
        decode(made(wire.Node(array=wire.Array(dtype=dtype, shape=[1])), segments=(b"x",)))


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        (wire.DType(kind=wire.DType.OCTETS), [3, 2**62]),
        (wire.DType(kind=wire.DType.VOID), [2**31]),
        (wire.DType(kind=wire.DType.FLOAT, size_bytes=8), [2**40, 0]),
    ],
)
def test_items_without_memory_are_limited(dtype: wire.DType, shape: list[int]) -> None:
    with pytest.raises(MalformedValue, match="in 0 bytes"):
        decode(made(wire.Node(array=wire.Array(dtype=dtype, shape=shape)), segments=(b"",)))


def test_what_overlapping_fields_show_is_limited() -> None:
    whole = wire.DType(kind=wire.DType.OCTETS, size_bytes=100_000)
    fields = [wire.Field(name=b"%d" % number, dtype=whole) for number in range(1000)]
    dtype = wire.DType(kind=wire.DType.STRUCT, size_bytes=100_000, fields=fields)
    with pytest.raises(MalformedValue, match="shows 100,000,000 items or bytes in 100,000 bytes"):
        decode(made(wire.Node(array=wire.Array(dtype=dtype, shape=[1])), segments=(bytes(100_000),)))


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((1_000_000, 0)),
        np.zeros((0, 10**9)),
        np.zeros(1_000_000, "S0"),
        np.zeros(3, {"names": ["all", "low"], "formats": ["<u4", "<u2"], "offsets": [0, 0]}),
        np.zeros(2, [("x", "f8", (0, 3))]),
    ],
)
def test_arrays_with_little_memory_that_people_have(array: Any) -> None:
    found: Any = decode(joined(encode(array)))
    assert (found.shape, found.dtype) == (array.shape, array.dtype)


def test_what_no_receiver_takes_is_refused_by_the_sender() -> None:
    with pytest.raises(UnsupportedValue, match="which no receiver takes"):
        encode(np.zeros((2**40, 0)))


@pytest.mark.parametrize("null", [(255, 0, 7, 0), (-5, 0, 0, 0), (100, 0, 0, 2**31 - 1), (13, 0, -1, 0)])
@pytest.mark.parametrize("type_", [pa.string_view(), pa.binary_view()])
@pytest.mark.parametrize("nested", [False, True])
def test_the_view_of_a_null_item_is_looked_at_too(null: Any, type_: Any, nested: bool) -> None:
    views = np.zeros((3, 4), "<i4")
    views[1] = null
    column = pa.Array.from_buffers(type_, 3, [pa.py_buffer(b"\x05"), pa.py_buffer(views.tobytes())])
    column.validate(full=True)  # Arrow sees nothing in it; polars reads past the memory
    column = pa.ListArray.from_arrays(pa.array([0, 3], pa.int32()), column) if nested else column
    with pytest.raises(MalformedValue, match="outside of its memory"):
        decode(arrow_body(stream_of(pa.table({"v": column}))))


@pytest.mark.parametrize("nested", [False, True])
def test_views_of_items_that_became_null_travel(nested: bool) -> None:
    long = "a text of more than twelve characters"
    texts = pa.array([long, long + "!", "short"], pa.string_view())
    _, *buffers = texts.buffers()
    column = pa.Array.from_buffers(pa.string_view(), 3, [pa.py_buffer(b"\x05"), *buffers])
    column = pa.ListArray.from_arrays(pa.array([0, 3], pa.int32()), column) if nested else column
    found: Any = decode(joined(encode(column)))
    assert found.to_pylist() == ([[long, None, "short"]] if nested else [long, None, "short"])


def arrow_body(stream: bytes) -> bytearray:
    return made(wire.Node(arrow=wire.Arrow(kind=wire.Arrow.TABLE)), segments=(stream,))


def stream_of(table: Any, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def test_an_arrow_stream_as_pyarrow_writes_it_is_read() -> None:
    table = pa.table({"a": [1, 2]})
    assert decode(arrow_body(stream_of(table))).equals(table)  # type: ignore[attr-defined]


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_arrow_streams_are_refused_before_anything_is_allocated(codec: str) -> None:
    bomb = stream_of(pa.table({"a": np.zeros(1_000_000)}), compression=codec)
    before = pa.total_allocated_bytes()
    with pytest.raises(MalformedValue, match="compressed"):
        decode(arrow_body(bomb))
    assert pa.total_allocated_bytes() == before


def test_dictionary_deltas_are_refused() -> None:
    schema = pa.schema([("d", pa.dictionary(pa.int8(), pa.string()))])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    ) as writer:
        for words in (["a"], ["a", "b"]):
            column = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), words)
            writer.write_batch(pa.record_batch([column], schema=schema))
    with pytest.raises(MalformedValue, match="delta"):
        decode(arrow_body(bytes(sink.getvalue())))


class Unpickling(pa.ExtensionType):  # type: ignore[misc]
    """What some libraries register: a type whose metadata is code."""

    built = 0

    def __init__(self) -> None:
        super().__init__(pa.int64(), "duetlink.test.unpickling")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"cos\nsystem\n(S'false'\ntR."

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: Any, data: bytes) -> Unpickling:
        cls.built += 1
        return cls()


def test_a_registered_extension_type_is_not_built_from_a_peer_s_bytes() -> None:
    column = pa.ExtensionArray.from_storage(Unpickling(), pa.array([1]))
    streams = [
        stream_of(pa.table({"a": column})),
        stream_of(pa.table({"a": pa.StructArray.from_arrays([column], ["x"])})),
        stream_of(pa.table({"a": pa.ListArray.from_arrays([0, 1], column)})),
    ]
    pa.register_extension_type(Unpickling())
    try:
        Unpickling.built = 0
        for stream in streams:
            with pytest.raises(MalformedValue, match=r"extension type b'duetlink\.test\.unpickling'"):
                decode(arrow_body(stream))
        assert Unpickling.built == 0
    finally:
        pa.unregister_extension_type("duetlink.test.unpickling")


def test_rows_without_memory_are_limited() -> None:
    stream = stream_of(pa.table({"n": pa.nulls(1 << 30)}))
    with pytest.raises(LimitExceeded, match="rows are in"):
        decode(arrow_body(stream))


def views_of_one_long_text(number: int) -> pl.Series:
    return pl.Series(["x" * 100_000]).gather([0] * number)


def test_text_views_that_show_the_same_memory_over_and_over_are_refused() -> None:
    table = pl.DataFrame({"v": views_of_one_long_text(50_000)}).to_arrow(compat_level=pl.CompatLevel.newest())
    assert table.schema.types == [pa.string_view()]
    with pytest.raises(LimitExceeded, match="far more"):
        decode(arrow_body(stream_of(table)))


def test_what_the_receiver_would_refuse_is_refused_or_rewritten_by_the_sender() -> None:
    views = views_of_one_long_text(500)
    assert decode(joined(encode(views))).equals(views)  # type: ignore[attr-defined]
    table = pl.DataFrame({"v": views}).to_arrow(compat_level=pl.CompatLevel.newest())
    with pytest.raises(UnsupportedValue, match="far more"):
        encode(table)
    with pytest.raises(UnsupportedValue, match="rows"):
        encode(pa.nulls(1 << 30))
    colliding = {number * (2**61 - 1) for number in range(200)}
    with pytest.raises(UnsupportedValue, match="same hash"):
        encode(colliding)
    dtype: np.dtype[Any] = np.dtype("i1")
    for _ in range(30):
        dtype = np.dtype([("x", dtype)])
    with pytest.raises(UnsupportedValue, match="nested deeper"):
        encode(np.zeros(1, dtype))


def test_offsets_and_indices_outside_their_arrays_are_refused() -> None:
    body = joined(encode(pa.array(["a", "bc"])))
    changed = bytes(body).replace(struct.pack("<3i", 0, 1, 3), struct.pack("<3i", 0, 1, 2**30))
    with pytest.raises(MalformedValue):
        decode(bytearray(changed))


def test_pandas_metadata_of_a_peer_is_never_acted_upon(monkeypatch: pytest.MonkeyPatch) -> None:
    def called(*args: object, **kwargs: object) -> None:
        raise AssertionError("pyarrow's pandas metadata was parsed")

    import pyarrow.pandas_compat as compat

    monkeypatch.setattr(compat, "table_to_dataframe", called)
    monkeypatch.setattr(compat.ast, "literal_eval", called)
    frame = pd.DataFrame({("a", 1): [1], "__import__('os')": ["x"]}, index=pd.Index(["r"]))
    pd.testing.assert_frame_equal(decode(joined(encode(frame))), frame)
    table = pa.table({"a": [1]}).replace_schema_metadata(
        {"pandas": '{"columns": [{"numpy_type": "os.system"}]}'}
    )
    assert decode(joined(encode(table))).schema.metadata == table.schema.metadata  # type: ignore[attr-defined]


def test_parts_of_frames_that_do_not_fit() -> None:
    index = [
        wire.Node(range_index=wire.Empty()),
        wire.Node(none=wire.Empty()),
        *(wire.Node(integer=n) for n in (0, 2**60, 1)),
    ]
    frame = [wire.Node(frame=wire.Frame(columns=1)), *index, *index, wire.Node(dict=0), wire.Node(integer=1)]
    with pytest.raises(MalformedValue, match="names of its columns"):
        decode(made(*frame))
    with pytest.raises(MalformedValue):
        decode(
            made(
                wire.Node(series=wire.Series()), wire.Node(integer=1), wire.Node(integer=1), wire.Node(dict=0)
            )
        )


def test_a_value_type_that_nobody_has_registered_is_refused_by_name_and_imports_nothing() -> None:
    body = made(wire.Node(foreign=wire.Foreign(library="antigravity\n")))
    with pytest.raises(MissingLibrary, match=r"an object of 'antigravity\\n', for which no package here"):
        decode(body)
    with pytest.raises(NotFlat):
        decode(body, only_flat=True)
    with pytest.raises(MissingLibrary, match="antigravity"):
        libraries(memoryview(body))
    assert "antigravity" not in sys.modules


def test_memory_stays_a_small_multiple_of_the_body() -> None:
    head = wire.Header(nodes=[b""] * 2_000_000).SerializeToString()
    body = bytearray(b"DLV1" + struct.pack("<I", len(head)) + head)
    tracemalloc.start()
    try:
        with pytest.raises(LimitExceeded):
            decode(body)
        assert tracemalloc.get_traced_memory()[1] < 4 * len(body)
    finally:
        tracemalloc.stop()
