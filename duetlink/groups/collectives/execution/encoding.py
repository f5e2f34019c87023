"""Pieces of arrays encoded for a link by a lossless codec, and decoded.

The sender decides for each piece whether the chunk is small enough to be sent in place of the piece. The
receiver needs no flag: a body as long as the piece is the piece itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from duetlink.data.codecs import chunk, registry
from duetlink.data.codecs.base import Codec
from duetlink.data.codecs.element import Element
from duetlink.errors import MalformedChunk, UnknownCodec, UnsupportedValue
from duetlink.groups.collectives.execution.elements import Array

# Encoding has to save 5 % to be worth its time. After the first piece that saves less, the rest of the
# operation is sent as it is, since its pieces are much alike.
WORTHWHILE = 0.95


@dataclass(frozen=True, slots=True)
class Encoding:
    """A lossless codec for items of one kind."""

    codec: Codec
    element: Element

    @classmethod
    def of(cls, name: str, element: Element) -> Encoding:
        """Raises UnknownCodec, or UnsupportedValue if the codec is not lossless or takes no such items."""
        codec = registry.named(name)
        if not codec.lossless:
            raise UnsupportedValue(f"codec {name} changes values; a sum needs a lossless one")
        if not codec.accepts(element):
            raise UnsupportedValue(f"codec {name} takes no {element.name}")
        return cls(codec, element)

    def encode(self, piece: Array) -> bytes | None:
        """Encode the piece as a chunk; None if that saves less than 5 %."""
        encoded = chunk.encode(piece, self.codec, element=self.element)
        return encoded if len(encoded) <= WORTHWHILE * piece.nbytes else None

    def decode(self, body: memoryview, size_bytes: int) -> Array:
        """Decode a chunk into a piece of `size_bytes`.

        Raises:
            MalformedChunk, LimitExceeded, UnknownCodec: it is not a chunk of such a piece by this codec.
        """
        array, header = chunk.decode(body, size_bytes, codecs=self._only)
        if header.element != self.element or array.nbytes != size_bytes:
            raise MalformedChunk(f"a chunk of {array.nbytes} bytes of {header.element.name}")
        return array.reshape(-1)

    def _only(self, number: int) -> Codec:
        if number != self.codec.number:
            raise UnknownCodec(f"codec {number}, where {self.codec.name} was agreed")
        return self.codec
