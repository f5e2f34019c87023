"""`python -m tests.fuzz.make_corpus`: the inputs that were written by hand."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa

from duetlink.data.values import body as layout
from duetlink.data.values.schema_pb2 import Array, Arrow, DType, Field, Node, Polars, Scalar
from tests.fuzz.runner import CORPUS

_OCTETS, _TEXT, _FLOAT, _INT = DType.OCTETS, DType.TEXT, DType.FLOAT, DType.INT


def body(nodes: list[Node], *segments: bytes) -> bytes:
    head = layout.prefix([node.SerializeToString() for node in nodes], [len(part) for part in segments])
    return b"".join(layout.gather(head, [[memoryview(part)] for part in segments]))


def item(*fields: tuple[int, DType], size_bytes: int = 16) -> DType:
    named = [Field(name=b"%d" % at, offset=offset, dtype=dtype) for at, (offset, dtype) in enumerate(fields)]
    return DType(kind=DType.STRUCT, size_bytes=size_bytes, fields=named)


def scalar(dtype: DType) -> bytes:
    return body([Node(scalar=Scalar(dtype=dtype, data=bytes(16)))])


def array(dtype: DType, shape: list[int], data: bytes = b"") -> bytes:
    return body([Node(array=Array(dtype=dtype, shape=shape))], data)


def stream(column: pa.Array) -> bytes:
    """As Arrow writes it, which looks at no null item."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([column], names=["v"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def views(*null: int) -> pa.Array:
    """Three views, of which the second is null and says this."""
    slots = np.zeros((3, 4), "<i4")
    slots[1] = null
    return pa.Array.from_buffers(pa.string_view(), 3, [pa.py_buffer(b"\x05"), pa.py_buffer(slots.tobytes())])


def made() -> dict[str, bytes]:
    wide = DType(kind=_TEXT, size_bytes=8)
    window = DType(kind=DType.SUBARRAY, base=DType(kind=_FLOAT, size_bytes=8), shape=[2**28 - 1])
    nested = item((2**31 - 16, item((0, DType(kind=_INT, size_bytes=4)))))
    past = {
        "text-past-its-item": item((2**31 - 1, wide)),
        "octets-past-their-item": item((8, DType(kind=_OCTETS, size_bytes=2**31 - 8))),
        "window-past-its-item": item((0, DType(kind=_INT, size_bytes=4)), (8, window)),
        "nested-past-its-item": nested,
    }
    series = Node(polars=Polars(series=True))
    listed = pa.ListArray.from_arrays(pa.array([0, 3], pa.int32()), views(255, 0, 7, 0))
    bad_views = {
        "null-view-without-buffer": views(255, 0, 7, 0),
        "null-view-of-negative-length": views(-5, 0, 0, 0),
        "null-view-past-its-buffer": views(100, 0, 0, 2**31 - 1),
        "null-view-in-a-list": listed,
    }
    return {
        **{f"values/{name}-scalar": scalar(dtype) for name, dtype in past.items()},
        **{f"values/{name}": array(dtype, [1], bytes(16)) for name, dtype in past.items()},
        "values/items-of-0-bytes": array(DType(kind=_OCTETS), [3, 2**62]),
        "values/records-of-0-bytes": array(DType(kind=DType.VOID), [2**31 - 16]),
        "values/rows-of-nothing": array(DType(kind=_FLOAT, size_bytes=8), [2**40, 0]),
        "values/fields-of-0-bytes": array(
            item((0, DType(kind=DType.SUBARRAY, base=DType(kind=_OCTETS), shape=[2**31 - 1])), size_bytes=1),
            [1],
            b"x",
        ),
        **{f"arrow/{name}-polars": body([series], stream(column)) for name, column in bad_views.items()},
        "arrow/null-view-without-buffer": body(
            [Node(arrow=Arrow(kind=Arrow.TABLE))], stream(bad_views["null-view-without-buffer"])
        ),
        "fragments/empty": struct.pack("<IH", 2_000_000, 1) + b"\x01",
        "fragments/joined-anew-each-time": struct.pack("<IH", 2_000_000, 1)
        + b"\x01"
        + struct.pack("<IH", 100_000, 1)
        + b"\x00",
    }


if __name__ == "__main__":
    for name, data in made().items():
        path = CORPUS / f"{name}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
