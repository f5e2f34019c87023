"""Zstandard (RFC 8878)."""

from __future__ import annotations

import threading
from typing import ClassVar

import numpy as np
import zstandard

from duetlink.data.codecs.base import BYTES, Array, Codec, array_bytes
from duetlink.data.codecs.element import Element
from duetlink.errors import MalformedChunk

ENTROPY = 0  # a level below zstd's own: Huffman codes, and only long and near matches

_held = threading.local()  # contexts are costly to make, and only one thread at a time may use one


class Zstd(Codec):
    """One frame, which contains its size; it must be that of the array."""

    number: ClassVar[int] = 3
    name: ClassVar[str] = "zstd"
    kind: ClassVar[str] = BYTES
    levels: ClassVar[range] = range(1, 20)
    level: ClassVar[int] = 1

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        return compress(array.reshape(-1).view(np.uint8).data, level)

    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        found = decompress(payload, array_bytes(element, shape))
        return np.frombuffer(found, element.storage).reshape(shape)


def compress(data: memoryview, level: int) -> bytes:
    """Return one frame with its content size, at level 1 to 19, or ENTROPY."""
    contexts: dict[int, zstandard.ZstdCompressor] = _held.__dict__.setdefault("compressors", {})
    if level not in contexts:
        contexts[level] = _entropy_coder() if level == ENTROPY else zstandard.ZstdCompressor(level=level)
    return contexts[level].compress(data)


def _entropy_coder() -> zstandard.ZstdCompressor:
    """Return a compressor that hardly searches for matches.

    On skewed but unordered bytes, short matches cost more than the Huffman codes they save.
    """
    parameters = zstandard.ZstdCompressionParameters(
        strategy=zstandard.STRATEGY_FAST,
        window_log=17,
        hash_log=6,
        chain_log=6,
        search_log=1,
        min_match=7,
        target_length=0,  # above 0, zstd leaves out the Huffman codes
    )
    return zstandard.ZstdCompressor(compression_params=parameters)


def decompress(frame: memoryview, size_bytes: int) -> bytes:
    """Return the content of one frame; raise MalformedChunk unless it has exactly `size_bytes`."""
    if not size_bytes and not len(frame):
        return b""
    if zstandard.get_frame_parameters(frame).content_size != size_bytes:
        raise MalformedChunk(f"a zstd frame that does not hold {size_bytes} bytes")
    if "decompressor" not in _held.__dict__:
        _held.decompressor = zstandard.ZstdDecompressor()
    found: bytes = _held.decompressor.decompress(frame, allow_extra_data=False)
    return found
