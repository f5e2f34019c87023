"""Rebuild an object from untrusted bytes: counts, depth and sizes are checked before anything is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import DecodeError

from duetlink.data.values import body as layout
from duetlink.data.values.base import MAX_DEPTH, MAX_NODES
from duetlink.data.values.flat import NotFlat, is_flat
from duetlink.data.values.registry import library_of_node, registered, value_type
from duetlink.data.values.schema_pb2 import Node
from duetlink.errors import DuetError, LimitExceeded, MalformedChunk, MalformedValue, UnknownCodec

T = TypeVar("T")

MAX_DECODED_BYTES = 1 << 30


@dataclass(slots=True)
class DecodeBudget:
    """The memory that decoded arrays may take in addition to the body."""

    left_bytes: int


class BodyReader:
    """The `Reader` of one body."""

    def __init__(
        self,
        nodes: Sequence[bytes],
        segments: Sequence[memoryview],
        max_depth: int,
        room: DecodeBudget,
        gradients: bool,
        only_flat: bool,
    ) -> None:
        self.gradients = gradients
        self._only_flat = only_flat
        self._room = room
        self._nodes = nodes
        self._segments = segments
        self._max_depth = max_depth
        self._next_node = 0
        self._next_segment = 0
        self._depth = -1

    def value(self) -> object:
        if self._next_node >= len(self._nodes):
            raise MalformedValue("the value ends before all of its parts")
        if self._depth >= self._max_depth:
            raise LimitExceeded(f"the value is nested deeper than {self._max_depth} levels")
        try:
            node = Node.FromString(self._nodes[self._next_node])
        except DecodeError as error:
            raise MalformedValue(f"part {self._next_node} of the value cannot be parsed") from error
        self._next_node += 1
        kind = node.WhichOneof("kind")
        if kind is None:
            raise MalformedValue(
                f"part {self._next_node - 1} is of an unknown kind; update duetlink on this side"
            )
        if self._only_flat and not is_flat(node, kind):
            raise NotFlat(kind)
        self._depth += 1
        obj = value_type(library_of_node(node, kind)).read(node, self)
        self._depth -= 1
        return obj

    def expect(self, type_: type[T]) -> T:
        obj = self.value()
        if type(obj) is not type_:
            raise MalformedValue(f"expected a {type_.__name__}, got a {type(obj).__name__}")
        return obj

    def children(self, count: int) -> Iterator[object]:
        if count > len(self._nodes) - self._next_node:
            raise MalformedValue(
                f"{count:,} parts are announced, but only {len(self._nodes) - self._next_node:,} came"
            )
        return (self.value() for _ in range(count))

    def segment(self) -> memoryview:
        if self._next_segment >= len(self._segments):
            raise MalformedValue("the value ends before all of its arrays")
        self._next_segment += 1
        return self._segments[self._next_segment - 1]

    def decoded(self, size_bytes: int) -> memoryview:
        data = self.segment()
        if size_bytes > self._room.left_bytes:
            raise LimitExceeded(
                f"an array of {size_bytes:,} bytes in {len(data):,}; {self._room.left_bytes:,} are allowed"
            )
        self._room.left_bytes -= size_bytes
        from duetlink.data.codecs import chunk  # imported here, since it imports NumPy

        try:
            array, header = chunk.decode(data, size_bytes)
        except (MalformedChunk, UnknownCodec) as error:
            raise MalformedValue(f"an array of the value does not decode: {error}") from None
        if header.array_bytes != size_bytes:
            raise MalformedValue(f"an array of {size_bytes:,} bytes came as one of {header.array_bytes:,}")
        return chunk.as_bytes(array if array.flags.writeable else array.copy())

    def finish(self) -> None:
        if self._next_node != len(self._nodes) or self._next_segment != len(self._segments):
            raise MalformedValue("the value has parts that nothing refers to")


def decode(
    body: memoryview | bytearray | bytes,
    *,
    max_nodes: int = MAX_NODES,
    max_depth: int = MAX_DEPTH,
    room: DecodeBudget | None = None,
    gradients: bool = True,
    only_flat: bool = False,
) -> object:
    """Return the object in `body`.

    Its arrays are views of `body`, writable if `body` and the sender's array are. Arrays that were sent
    encoded are no views: they take memory from `room`, 1 GiB by default. A torch tensor, which cannot be
    read-only, is copied out of a read-only body; with `gradients` false no tensor requires gradients.

    Raises:
        MalformedValue, LimitExceeded, MissingLibrary: the only errors, whatever the bytes.
        NotFlat: with `only_flat`, for a value that is not flat (see `flat.py`), before a library has seen
            that part.
    """
    registered()  # load all value types now: the bytes must not decide what is loaded
    view = memoryview(body)
    if view.ndim != 1 or view.format != "B" or not view.c_contiguous:
        view = view.cast("B")
    header, segments = layout.split(view, max_nodes)
    reader = BodyReader(
        header.nodes, segments, max_depth, room or DecodeBudget(MAX_DECODED_BYTES), gradients, only_flat
    )
    try:
        obj = reader.value()
        reader.finish()
    except (DuetError, NotFlat):
        raise
    except RecursionError as error:
        raise LimitExceeded("the value is nested deeper than Python's stack allows") from error
    except Exception as error:
        # This hides no defect: numpy, torch, pyarrow, pandas and polars raise other errors for nonsense.
        raise MalformedValue(f"the value cannot be rebuilt: {type(error).__name__}: {error}") from error
    return obj
