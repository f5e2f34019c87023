"""The contract of a value type: how one library's objects become nodes and segments, and come back.

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
    """What a value is, without any of its content."""

    kind: str  # e.g. "pandas.DataFrame"
    detail: str  # e.g. "569 rows × 31 columns"; may be empty
    size_bytes: int  # of the encoded value
    elements: int | None = None  # see `ValueType.elements`; None: it has parts that nobody counts


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of an encoded value that holds items of one kind, for those who compress it.

    `element` is a name of `codecs.element`; `row_bytes` is what an array grows by when a row is added to it,
    0 where there are no rows.
    """

    start_bytes: int
    size_bytes: int
    element: str = "uint8"
    row_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Encoded:
    """A value as one byte string, in pieces: joined, the segments are what `decode` takes.

    The segments are read-only byte views. Those of arrays are the object's own memory and keep it alive;
    whoever changes the array while it travels changes what arrives.
    """

    segments: tuple[memoryview, ...]
    size_bytes: int
    summary: Summary
    parts: tuple[Part, ...] = ()  # those of arrays, in order; the rest is bytes
    lossy: str = ""  # by what its arrays were changed, and how far; empty: not at all


def counted(number: int, noun: str) -> str:
    """`1 row`, `1,000 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class Writer(Protocol):
    """Where a value type writes an object: what can be seen of it, and nothing else that is in its memory."""

    @property
    def plain_nan(self) -> bool:
        """Whether all NaNs get the same bits: their sign and payload could carry what nobody sees."""

    def node(self, **kind: Any) -> None:
        """Append a node; the one keyword is the field of `Node`."""

    def value(self, obj: object, step: str) -> None:
        """Append a child; `step` is how a user gets from the parent to it, such as `[3]`."""

    def at(self, step: str) -> AbstractContextManager[None]:
        """What is written within belongs to the part that `step` leads to: for parts that are no object."""

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
        """An array's memory as a chunk, if the object's sender allows its items to change; else None."""

    def unsupported(self, obj: object, remedy: str) -> UnsupportedValue:
        """The error to raise for an object that cannot travel: it says where it sits."""


class Reader(Protocol):
    """Where a value type reads an object, in the order in which it was written."""

    @property
    def gradients(self) -> bool:
        """Whether tensors that require gradients shall do so here."""

    def value(self) -> object:
        """The next child."""

    def expect(self, type_: type[T]) -> T:
        """The next child, which must be exactly of this type; raises MalformedValue."""

    def children(self, count: int) -> Iterable[object]:
        """The next `count` children; raises MalformedValue at once if there cannot be so many."""

    def segment(self) -> memoryview:
        """The next segment, a view of the body."""

    def decoded(self, size_bytes: int) -> memoryview:
        """The array memory that the next segment, a chunk, stands for."""


class ValueType(Protocol):
    """One library's objects. `read` may raise anything for hostile nodes: it arrives as MalformedValue."""

    def describe(self, obj: Any) -> str:
        """`Summary.detail`: shape, dtype, number of items, never a content value."""

    def elements(self, obj: Any) -> int | None:
        """How much data it is, in numbers: the items of an array, the cells of a table, the characters of a
        text. 0 for what holds none itself: its parts are counted. None where there is no such number.
        """

    def write(self, obj: Any, writer: Writer) -> None:
        """Write `obj`; raises `writer.unsupported(…)` for what cannot travel exactly."""

    def read(self, node: Node, reader: Reader) -> object:
        """The object that `write` wrote. The node's kind is one that the registry gives to this type."""
