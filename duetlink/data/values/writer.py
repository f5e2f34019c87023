"""Walk an object and write nodes and segments in preorder, tracking depth, cycles and paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from duetlink.data.values import body
from duetlink.data.values.base import MAX_DEPTH, MAX_NODES, Encoded, Part, Summary
from duetlink.data.values.registry import library_of, value_type
from duetlink.data.values.remedy import noun_of, remedy_of
from duetlink.data.values.schema_pb2 import Node
from duetlink.errors import UnsupportedValue

if TYPE_CHECKING:
    from duetlink.data.values.lossy import Lossy


def kind_of(obj: object) -> str:
    """Return the name under which a user knows the type: `pandas.DataFrame`, `dict`."""
    type_ = type(obj)
    library = library_of(type_)
    module = str(type_.__module__)
    if module == "builtins":
        return type_.__name__
    if library in (None, "builtins"):
        return f"{module}.{type_.__qualname__}"
    name = "nn.Parameter" if module == "torch.nn.parameter" else type_.__qualname__
    return f"{library}.{name}"


class ObjectWriter:
    """The `Writer` of one object. Without `gather`, sizes are recorded and no memory is read."""

    def __init__(self, *, gather: bool, lossy: Lossy | None = None, plain_nan: bool = False) -> None:
        self.plain_nan = plain_nan
        self._gather = gather
        self._lossy = lossy
        self._is_lossy = False  # True once an array was changed
        self._nodes: list[bytes] = []
        self._sizes: list[int] = []
        self._kinds: list[tuple[str, int]] = []  # element and row size of each segment
        self._segments: list[list[memoryview]] = []
        self._path: list[str] = ["value"]
        self._open: set[int] = set()
        self._elements: int | None = 0
        self._counting = True  # False within an object that was counted as a whole

    def node(self, **kind: Any) -> None:
        if len(self._nodes) >= MAX_NODES:
            raise UnsupportedValue(f"the value has more than {MAX_NODES:,} parts; use arrays or frames")
        self._nodes.append(Node(**kind).SerializeToString())

    def value(self, obj: object, step: str) -> None:
        self._path.append(step)
        if len(self._path) > MAX_DEPTH + 1:
            raise self.unsupported(obj, f"it is nested deeper than {MAX_DEPTH} levels; flatten the value")
        self._write(obj)
        self._path.pop()

    @contextmanager
    def at(self, step: str) -> Iterator[None]:
        self._path.append(step)
        yield
        self._path.pop()

    def root(self, obj: object) -> None:
        self._write(obj)

    def _write(self, obj: object) -> None:
        library = library_of(type(obj))
        if library is None:
            raise self.unsupported(obj, remedy_of(obj))
        handler = value_type(library)
        counting = self._counting
        if counting:
            own = handler.elements(obj)
            self._elements = None if own is None or self._elements is None else self._elements + own
            self._counting = own == 0
        with self._not_in_itself(obj):
            handler.write(obj, self)
        self._counting = counting

    @contextmanager
    def _not_in_itself(self, obj: object) -> Iterator[None]:
        if type(obj).__module__ not in ("builtins", "collections"):  # only containers can hold themselves
            yield
            return
        if not isinstance(obj, (list, tuple, dict, set, frozenset)):
            yield
            return
        if id(obj) in self._open:
            raise self.unsupported(obj, "it contains itself; break the cycle")
        self._open.add(id(obj))
        yield
        self._open.discard(id(obj))

    def segment(
        self,
        size_bytes: int,
        gather: Callable[[], Iterable[memoryview]],
        *,
        element: str = "uint8",
        row_bytes: int = 0,
    ) -> None:
        self._sizes.append(size_bytes)
        self._kinds.append((element, row_bytes))
        if self._gather:
            pieces = [piece.toreadonly() for piece in gather()]
            if sum(piece.nbytes for piece in pieces) != size_bytes:
                raise RuntimeError(f"a segment of {size_bytes} bytes was announced with another size")
            self._segments.append(pieces)

    def coded(self, element: str, shape: tuple[int, ...], memory: Callable[[], memoryview]) -> bytes | None:
        if self._lossy is None:
            return None
        import numpy as np  # as in reader.py: builtins alone need no array library

        from duetlink.data.codecs.element import BY_NAME

        kind = BY_NAME[element]
        array = np.frombuffer(memory(), kind.storage).reshape(shape)
        chunk = self._lossy.encode(array, kind, "".join(self._path))
        self._is_lossy |= chunk is not None
        return chunk

    def unsupported(self, obj: object, remedy: str) -> UnsupportedValue:
        return UnsupportedValue(f"{''.join(self._path)} is a {noun_of(obj)}: {remedy}")

    def finish(self, obj: object, detail: str) -> tuple[bytes, Summary]:
        try:
            head = body.prefix(self._nodes, self._sizes)
        except OverflowError as error:
            raise UnsupportedValue(
                f"the value's small parts need {error}, too many; use arrays or frames"
            ) from error
        return head, Summary(kind_of(obj), detail, body.size_bytes(len(head), self._sizes), self._elements)

    def encoded(self, head: bytes, summary: Summary) -> Encoded:
        starts = body.starts(len(head), self._sizes)
        parts = tuple(
            Part(start, size, *kind)
            for start, size, kind in zip(starts, self._sizes, self._kinds, strict=True)
            if kind[1]
        )
        words = self._lossy.words if self._lossy is not None and self._is_lossy else ""
        return Encoded(body.gather(head, self._segments), summary.size_bytes, summary, parts, words)


def encode(obj: object, lossy: Lossy | None = None, *, plain_nan: bool = False) -> Encoded:
    """Return `obj` as one byte string in pieces, without copying contiguous arrays; raise UnsupportedValue.

    Bytes that cannot be seen of `obj` are not included: under nulls, between fields, outside a slice. With
    `lossy`, floating point arrays are encoded by it, and change within its bound. With `plain_nan`, all NaNs
    have the same bits, as in results of programs that a peer has written.
    """
    writer = ObjectWriter(gather=True, lossy=lossy, plain_nan=plain_nan)
    return writer.encoded(*_walk(obj, writer))


def summarise(obj: object) -> Summary:
    """Return `encode(obj).summary` without reading array data; raise UnsupportedValue."""
    return _walk(obj, ObjectWriter(gather=False))[1]


def _walk(obj: object, writer: ObjectWriter) -> tuple[bytes, Summary]:
    writer.root(obj)
    library = library_of(type(obj))
    detail = value_type(library).describe(obj) if library else ""
    return writer.finish(obj, detail)
