"""The contract of a value type: one library's objects become nodes and segments, and come back.

A value type is one file with one instance of a class that follows `ValueType`, listed in `registry.py`. It
never sees the layout of the body: it writes to a `Writer` and reads from a `Reader`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from duetlink.errors import UnsupportedValue

if TYPE_CHECKING:
    from duetlink.data.values.schema_pb2 import Node

T = TypeVar("T")

MAX_NODES = 1_000_000
MAX_DEPTH = 64


@dataclass(frozen=True, slots=True)
class Summary:
    """The description of a value, without any of its content."""

    kind: str  # e.g. "pandas.DataFrame"
    detail: str  # e.g. "569 rows × 31 columns"; may be empty
    size_bytes: int  # of the encoded value
    elements: int | None = None  # see `ValueType.elements`; None if it has parts that cannot be counted


@dataclass(frozen=True, slots=True)
class Part:
    """A section of an encoded value with items of one type, for the codecs.

    `element` is a name of `codecs.element`. `row_bytes` is the size by which an array grows when a row is
    added, 0 if there are no rows.
    """

    start_bytes: int
    size_bytes: int
    element: str = "uint8"
    row_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Encoded:
    """A value as one byte string, in pieces: joined, the segments are the input of `decode`.

    The segments are read-only byte views. Those of arrays are the object's own memory and keep it alive:
    changing the array while it is sent changes the bytes that arrive.
    """

    segments: tuple[memoryview, ...]
    size_bytes: int
    summary: Summary
    parts: tuple[Part, ...] = ()  # the parts of arrays, in order; everything between them is bytes
    lossy: str = ""  # the codec that changed its arrays, and its bound; empty if they are unchanged


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 row`, `1,000 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class Writer(Protocol):
    """The output of a value type, which writes only what can be seen of an object."""

    @property
    def plain_nan(self) -> bool:
        """True if all NaNs must get the same bits: their sign and payload could hide data."""

    def node(self, **kind: Any) -> None:
        """Append a node; the one keyword is the field of `Node`."""

    def value(self, obj: object, step: str) -> None:
        """Append a child; `step` is the source text that leads from the parent to it, such as `[3]`."""

    def at(self, step: str) -> AbstractContextManager[None]:
        """Extend the path by `step` within the block: for parts that are no objects of their own."""

    def segment(
        self,
        size_bytes: int,
        gather: Callable[[], Iterable[memoryview]],
        *,
        element: str = "uint8",
        row_bytes: int = 0,
    ) -> None:
        """Append memory of the last node; `gather` is not called for a summary. See `Part` for the rest."""

    def coded(self, element: str, shape: tuple[int, ...], memory: Callable[[], memoryview]) -> bytes | None:
        """Encode an array's memory as a chunk if the sender has marked the object as lossy; else None."""

    def unsupported(self, obj: object, remedy: str) -> UnsupportedValue:
        """Return the error to raise for an object that cannot be sent; it names the object's path."""


class Reader(Protocol):
    """The input of a value type, in the order in which the object was written."""

    @property
    def gradients(self) -> bool:
        """True if tensors that require gradients at the sender shall require them here."""

    def value(self) -> object:
        """Return the next child."""

    def expect(self, type_: type[T]) -> T:
        """Return the next child; raise MalformedValue unless it is exactly of this type."""

    def children(self, count: int) -> Iterable[object]:
        """Return the next `count` children; raise MalformedValue at once if there are fewer nodes."""

    def segment(self) -> memoryview:
        """Return the next segment, a view of the body."""

    def decoded(self, size_bytes: int) -> memoryview:
        """Decode the next segment, a chunk, into array memory of `size_bytes`."""


class ValueType(Protocol):
    """The handler of one library's objects.

    `read` may raise anything for malicious nodes: the caller raises it as MalformedValue.
    """

    def describe(self, obj: Any) -> str:
        """Return `Summary.detail`: shape, dtype, number of items, never content."""

    def elements(self, obj: Any) -> int | None:
        """Return how many numbers an object holds: items, cells, or characters of a text.

        0 for a container whose parts are counted. None if there is no such number.
        """

    def write(self, obj: Any, writer: Writer) -> None:
        """Write `obj`; raise `writer.unsupported(…)` for an object that cannot be restored exactly."""

    def read(self, node: Node, reader: Reader) -> object:
        """Return the object that `write` wrote. The registry assigns this kind of node to this type."""
