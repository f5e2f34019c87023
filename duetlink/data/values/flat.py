"""Which values are *flat*: rebuilt by our own reader, as views of memory whose size was checked.

Such a value is made of Python's builtins, read one by one, and of arrays that are one stretch of memory with
items of one kind that may have any bits: no offsets, no indices, no text that has to be valid. To decode and
use one cannot reach other memory, whatever the bytes. All others are read by a library that a hostile body
may end.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from duetlink.data.values import body as layout
from duetlink.data.values.base import MAX_NODES
from duetlink.data.values.registry import FOREIGN, library_of_kind, library_of_node
from duetlink.data.values.schema_pb2 import DType, Node
from duetlink.errors import MalformedValue

_ITEMS = frozenset(
    (
        *(DType.BOOL, DType.INT, DType.UINT, DType.FLOAT, DType.COMPLEX),
        *(DType.DATETIME, DType.TIMEDELTA, DType.OCTETS),
    )
)
# what a library's objects are made with
_NEEDS = {"pandas": ("pandas", "pyarrow"), "polars": ("polars", "pyarrow")}


class NotFlat(Exception):
    """A value that is not flat; it was not decoded."""


def is_flat(node: Node, kind: str) -> bool:
    """Whether a node, without those below it, is of a flat value."""
    if kind == "array":
        return node.array.dtype.kind in _ITEMS
    if kind == "scalar":
        return node.scalar.dtype.kind in _ITEMS
    if kind == FOREIGN:
        return False
    return kind in ("numpy_text", "numpy_octets", "object_array") or library_of_kind(kind) in (
        "builtins",
        "torch",
    )


def libraries(body: memoryview) -> frozenset[str]:
    """The libraries that a value needs to be decoded, beside value types of other packages. Raises
    MalformedValue, LimitExceeded, and MissingLibrary where such a value type is not here.
    """
    found: set[str] = set()
    header, _ = layout.split(body, MAX_NODES)
    for data in header.nodes:
        try:
            node = Node.FromString(data)
        except DecodeError as error:
            raise MalformedValue("a part of the value cannot be parsed") from error
        if (kind := node.WhichOneof("kind")) is not None:
            library = library_of_node(node, kind)
            if kind == FOREIGN:  # every room has what this process has
                continue
            found.update(_NEEDS.get(library, (library,)))
    return frozenset(found - {"builtins"})
