"""Lossy marks: encode arrays that the sender allows to change a little.

Unmarked objects travel bit for bit. Marked ones are encoded before they are fingerprinted: the lossy value is
what is sent and verified, and its description says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from duetlink.data.codecs import chunk
from duetlink.data.codecs.base import Array, Bound, Codec
from duetlink.data.codecs.element import FLOAT32, Element
from duetlink.data.codecs.gradients.compressor import GradientCompressor, TensorState
from duetlink.data.codecs.registry import named
from duetlink.errors import SettingError

MIN_ITEMS = 64  # smaller arrays, scales and counters mostly, stay exact


class Lossy(Protocol):
    """The encoding of the floating point arrays of one marked object."""

    words: str  # for the user: the codec and its bound
    bound: Bound

    def encode(self, array: Array, element: Element, path: str) -> bytes | None:
        """Return a chunk, or None if this array stays exact. `path` leads from the object to the array."""

    def undo(self) -> None:
        """Restore the memory after a failed delivery."""


class LossyCodec:
    """Encodes each array by itself, with a codec of `duetlink.codecs` that states its bound."""

    def __init__(self, codec: Codec, level: int | None = None) -> None:
        self._codec = codec
        self._level = codec.level if level is None else level
        self.bound = codec.bound(FLOAT32, self._level)
        self.words = f"{codec.name}: {self.bound}"

    def encode(self, array: Array, element: Element, path: str) -> bytes | None:
        if not element.is_float or array.size < MIN_ITEMS or not self._codec.accepts(element):
            return None
        return chunk.encode(array, self._codec, self._level, element)

    def undo(self) -> None:
        """Do nothing: a codec has no memory."""


class LossyGradient:
    """Encodes with a compressor, which remembers what it left out of each tensor (codecs.gradients)."""

    def __init__(self, compressor: GradientCompressor, name: str) -> None:
        self._compressor = compressor
        self._name = name
        self._before: dict[str, TensorState | None] = {}
        self.bound = Bound(math.inf, math.inf)
        self.words = f"{compressor.name}: a gradient, what is left out comes with later ones"

    def encode(self, array: Array, element: Element, path: str) -> bytes | None:
        if element is not FLOAT32:
            return None
        name = self._name + path.removeprefix("value")
        before = self._compressor.remembered(name)
        data = self._compressor.compress(array, name)
        self._before[name] = before
        return data

    def undo(self) -> None:
        """Restore the compressor, so that the next gradient contains what this one did not deliver."""
        for name, before in self._before.items():
            self._compressor.restore(name, before)


@contextmanager
def undone_where_it_fails(mark: Lossy | None) -> Iterator[None]:
    """Undo the mark's encoding if the block, which encodes and delivers, raises."""
    try:
        yield
    except BaseException:
        if mark is not None:
            mark.undo()
        raise


def lossy(mark: str | GradientCompressor, name: str) -> Lossy:
    """Return the encoding for a sender's mark on the object `name`: a codec's name, or a gradient compressor.

    Raises:
        UnknownCodec: there is no such codec.
        SettingError: the codec is not lossy, or `mark` has another type.
    """
    if isinstance(mark, GradientCompressor):
        return LossyGradient(mark, name)
    if not isinstance(mark, str):
        raise SettingError(
            f"lossy= takes a codec's name or a gradient compressor, got a {type(mark).__name__}"
        )
    codec = named(mark)
    if codec.lossless:
        raise SettingError(f"codec {mark!r} changes nothing; lossless codecs are chosen by duet.compression")
    return LossyCodec(codec)
