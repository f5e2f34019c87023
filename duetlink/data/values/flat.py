"""Recognise *flat* values, which our own reader rebuilds as views of memory whose size was checked.

A flat value consists of Python's builtins, which are read one by one, and of arrays that are one piece of
memory with items of one type for which any bits are valid: no offsets, no indices, no text that must be
valid. So decoding and using it cannot reach other memory, whatever the bytes. All others are read by a
library that a malicious body may crash.
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
# the libraries that are needed to make a library's objects
_NEEDS = {"pandas": ("pandas", "pyarrow"), "polars": ("polars", "pyarrow")}


class NotFlat(Exception):
    """The value is not flat; it was not decoded."""


def is_flat(node: Node, kind: str) -> bool:
    """Return True if a node, without those below it, belongs to a flat value."""
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
    """Return the libraries that decoding a value needs, except value types of other packages.

    Raises:
        MalformedValue, LimitExceeded: the body is malformed or too large.
        MissingLibrary: a value type of another package is not installed here.
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
            if kind == FOREIGN:  # every room (child process) has the same packages as this process
                continue
            found.update(_NEEDS.get(library, (library,)))
    return frozenset(found - {"builtins"})
