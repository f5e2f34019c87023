"""Pieces of arrays encoded for a link by a lossless codec, and back.

A piece travels encoded only if that makes it smaller: a body as long as the piece is the piece. Who sends
decides that, for each piece; who receives sees it by the length.
"""

from __future__ import annotations

from dataclasses import dataclass

from duetlink.data.codecs import chunk, registry
from duetlink.data.codecs.base import Codec
from duetlink.data.codecs.element import Element
from duetlink.errors import MalformedChunk, UnknownCodec, UnsupportedValue
from duetlink.groups.collectives.execution.elements import Array

# A piece that shrinks by less is not worth its time; the next ones of the operation are like it.
WORTHWHILE = 0.95


@dataclass(frozen=True, slots=True)
class Encoding:
    """A codec for items of one kind."""

    codec: Codec
    element: Element

    @classmethod
    def of(cls, name: str, element: Element) -> Encoding:
        """Raises UnknownCodec, and UnsupportedValue if it is not lossless or takes no such items."""
        codec = registry.named(name)
        if not codec.lossless:
            raise UnsupportedValue(f"codec {name} changes values; a sum needs a lossless one")
        if not codec.accepts(element):
            raise UnsupportedValue(f"codec {name} takes no {element.name}")
        return cls(codec, element)

    def encode(self, piece: Array) -> bytes | None:
        """The piece as a chunk; None if that is not worth it."""
        encoded = chunk.encode(piece, self.codec, element=self.element)
        return encoded if len(encoded) <= WORTHWHILE * piece.nbytes else None

    def decode(self, body: memoryview, size_bytes: int) -> Array:
        """The piece, which has that size. Raises MalformedChunk, LimitExceeded or UnknownCodec."""
        array, header = chunk.decode(body, size_bytes, codecs=self._only)
        if header.element != self.element or array.nbytes != size_bytes:
            raise MalformedChunk(f"a chunk of {array.nbytes} bytes of {header.element.name}")
        return array.reshape(-1)

    def _only(self, number: int) -> Codec:
        if number != self.codec.number:
            raise UnknownCodec(f"codec {number}, where {self.codec.name} was agreed")
        return self.codec
