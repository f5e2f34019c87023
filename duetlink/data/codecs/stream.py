"""Byte strings as a stream of chunks: the interface of the standard library's `bz2` and `lzma`.

A stream is a series of chunks of up to 1 MiB, and an empty one at its end. A chunk that its codec would make
larger is stored raw. On both sides, memory is bounded by the caller's data and one chunk.
"""

from __future__ import annotations

import sys

from duetlink.data.codecs import chunk
from duetlink.data.codecs.base import BYTES, TENSOR, Codec, Octets
from duetlink.data.codecs.element import UINT8
from duetlink.data.codecs.raw import Raw
from duetlink.data.codecs.registry import by_number, named
from duetlink.errors import LimitExceeded, LocalProtocolError, MalformedChunk

CHUNK_BYTES = 1 << 20
DEFAULT_MAX_BYTES = 1 << 30
_HEADER_BYTES = chunk.MIN_BYTES + 8  # header of a chunk of one dimension


def compress(data: Octets, codec: str = "zstd", level: int | None = None) -> bytes:
    """Return all of `data` as one stream.

    Raises:
        UnknownCodec: there is no codec of that name.
        LocalProtocolError: the codec is lossy, does not accept bytes, or has no such level.
    """
    compressor = Compressor(codec, level)
    return compressor.compress(data) + compressor.flush()


def decompress(data: Octets, max_bytes: int = DEFAULT_MAX_BYTES) -> bytes:
    """Return the bytes of one stream, or of several one after another.

    Raises:
        MalformedChunk: `data` is no stream, was altered, or ends too early.
        LimitExceeded: it holds more than `max_bytes`; no more than that and one chunk was made.
        UnknownCodec: a chunk's codec is not installed here.
    """
    rest = memoryview(data).cast("B")
    parts: list[memoryview] = []
    while (size := _next_bytes(rest)) <= len(rest):
        parts.append(_decode(rest[:size]))
        rest = rest[size:]
        max_bytes -= len(parts[-1])
        if max_bytes < 0:
            raise LimitExceeded("the stream holds more than `max_bytes`; allow more, or read it in pieces")
    if len(rest) or not parts or len(parts[-1]):
        raise MalformedChunk("the stream ends before its end is marked")
    return b"".join(parts)


class Compressor:
    """Makes one stream, piece by piece. For one thread at a time."""

    def __init__(self, codec: str = "zstd", level: int | None = None) -> None:
        self._codec = named(codec)
        self._level = self._codec.level if level is None else level
        if not _takes_bytes(self._codec):
            raise LocalProtocolError(f"codec {codec} does not keep bytes as they are; a stream must")
        if self._level not in self._codec.levels:
            levels = self._codec.levels
            raise LocalProtocolError(f"codec {codec} has levels {levels[0]} to {levels[-1]}, not {level!r}")
        self._held = bytearray()
        self._flushed = False

    def compress(self, data: Octets) -> bytes:
        """Add `data`; return the part of the stream that is complete, which may be empty."""
        self._check_open()
        made = []
        view = memoryview(data).cast("B")
        if self._held:
            missing = CHUNK_BYTES - len(self._held)
            self._held += view[:missing]
            view = view[missing:]
            if len(self._held) == CHUNK_BYTES:
                made.append(self._encode(self._held))
                self._held = bytearray()
        whole = len(view) - len(view) % CHUNK_BYTES
        made += [self._encode(view[at : at + CHUNK_BYTES]) for at in range(0, whole, CHUNK_BYTES)]
        self._held += view[whole:]
        return b"".join(made)

    def flush(self) -> bytes:
        """Return the rest of the stream and its end. The compressor cannot be used afterwards."""
        self._check_open()
        self._flushed = True
        rest = self._encode(self._held) if self._held else b""
        self._held = bytearray()
        return rest + chunk.encode(chunk.octets(b""), Raw())

    def _check_open(self) -> None:
        if self._flushed:
            raise LocalProtocolError("the compressor has been flushed; make another")

    def _encode(self, data: Octets) -> bytes:
        made = chunk.encode(chunk.octets(data), self._codec, self._level)
        return made if len(made) < _HEADER_BYTES + len(data) else chunk.encode(chunk.octets(data), Raw())


class Decompressor:
    """Reads one stream, piece by piece. For one thread at a time."""

    def __init__(self) -> None:
        self._held = bytearray()  # encoded, from the beginning of a chunk
        self._made = memoryview(b"")  # decoded, not yet returned
        self.eof = False
        self.unused_data = b""

    @property
    def needs_input(self) -> bool:
        """True if `decompress` can return nothing more before it gets more of the stream."""
        return not self.eof and not self._made and _next_bytes(self._held) > len(self._held)

    def decompress(self, data: Octets, max_length: int = -1) -> bytes:
        """Add `data`; return what it decodes to, at most `max_length` bytes if that is not negative.

        The remainder comes with the next calls, which may pass b"".

        Raises:
            EOFError: an earlier call reached the end.
            MalformedChunk, LimitExceeded, UnknownCodec: as `decode` raises them; the decompressor is unusable
                then.
        """
        if self.eof:
            raise EOFError("the end of the stream was reached")
        self._held += data
        given: list[memoryview] = []
        room = max_length if max_length >= 0 else sys.maxsize
        while not self.eof and (room or not self._made):
            if not self._made and not self._decode_next():
                break
            given.append(self._made[:room])
            self._made = self._made[room:]
            room -= len(given[-1])
        return b"".join(given)

    def _decode_next(self) -> bool:
        """Decode the next chunk; return False if it is not complete yet."""
        size = _next_bytes(self._held)
        if size > len(self._held):
            return False
        self._made = _decode(self._held[:size])
        del self._held[:size]  # moves nothing
        if not self._made:
            self.eof = True
            self.unused_data = bytes(self._held)
            self._held = bytearray()
        return True


def _next_bytes(data: Octets) -> int:
    """Return the size of the chunk at the beginning of `data`, or of its header if that is incomplete."""
    start = bytes(data[:_HEADER_BYTES])
    if not chunk.MAGIC.startswith(start[: len(chunk.MAGIC)]):
        raise MalformedChunk("the stream does not go on with a chunk")
    if len(start) < _HEADER_BYTES:
        return _HEADER_BYTES
    header = chunk.read_header(memoryview(start), CHUNK_BYTES)
    if header.element != UINT8 or len(header.shape) != 1 or not header.bound.lossless:
        raise MalformedChunk(f"a stream's chunk of {header.shape} {header.element.name}")
    return header.chunk_bytes


def _decode(data: Octets) -> memoryview:
    array, _ = chunk.decode(data, CHUNK_BYTES, codecs=_decoder)
    return chunk.as_bytes(array)


def _decoder(number: int) -> Codec:
    codec = by_number(number)
    if not _takes_bytes(codec):
        raise MalformedChunk(f"codec {codec.name} has no place in a stream")
    return codec


def _takes_bytes(codec: Codec) -> bool:
    return codec.lossless and codec.kind in (BYTES, TENSOR) and codec.accepts(UINT8)
