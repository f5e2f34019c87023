"""`compress`, `decompress`, `Compressor`, `Decompressor`: what bz2 and lzma do, under hostile input too."""

from __future__ import annotations

import bz2
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.data.codecs import Compressor, Decompressor, chunk, compress, decompress, named
from duetlink.data.codecs.base import LOSSLESS
from duetlink.data.codecs.element import BY_NAME, UINT8
from duetlink.errors import LimitExceeded, LocalProtocolError, MalformedChunk, UnknownCodec

MIB = 1 << 20
TEXT = b"the same again, and " * 200_000  # 4 MB: four chunks
END = chunk.encode(np.array([], np.uint8), named("raw"))


@pytest.mark.parametrize("name", ["raw", "zlib", "lzma", "zstd", "lz4", "pcodec", "planes", "sparse"])
def test_bytes_come_back(name: str) -> None:
    for data in (b"", b"x", TEXT[:1000], np.random.default_rng(1).bytes(3000)):
        small = compress(data, name)
        assert decompress(small) == data
        assert len(small) <= len(data) + 2 * len(END)  # one header, and the end, which is one


def test_a_stream_is_chunks_of_one_mebibyte_and_an_empty_one() -> None:
    data = compress(bytes(2 * MIB + 5), "zstd", 3)
    shapes = []
    view = memoryview(data)
    while len(view):
        header = chunk.read_header(view)
        shapes.append(header.shape)
        view = view[header.chunk_bytes :]
    assert shapes == [(MIB,), (MIB,), (5,), (0,)]


def test_any_buffer_is_taken() -> None:
    words = np.arange(1000, dtype=np.int32)
    for data in (bytearray(b"abc"), memoryview(b"abc"), words.data):
        assert decompress(bytearray(compress(data))) == bytes(data)


def test_streams_one_after_another_are_one() -> None:
    assert decompress(compress(b"one ") + compress(b"") + compress(b"two", "lzma")) == b"one two"


def test_a_codec_or_level_that_cannot_be_used_is_refused() -> None:
    with pytest.raises(UnknownCodec, match="zstd"):
        compress(b"", "nothing")
    with pytest.raises(LocalProtocolError, match="levels 1 to 19"):
        compress(b"", "zstd", 99)
    with pytest.raises(LocalProtocolError, match="keep bytes"):
        compress(b"", "delta")


def test_a_flushed_compressor_is_of_no_use() -> None:
    compressor = Compressor()
    compressor.flush()
    with pytest.raises(LocalProtocolError, match="flushed"):
        compressor.compress(b"x")
    with pytest.raises(LocalProtocolError, match="flushed"):
        compressor.flush()


@settings(deadline=None, max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 3 * MIB // 2), max_size=5),
    cut=st.integers(1, MIB),
    room=st.integers(1, 2 * MIB),
)
def test_pieces_of_any_size_make_one_stream(sizes: list[int], cut: int, room: int) -> None:
    compressor = Compressor("lz4")
    data = TEXT * 2
    starts = np.cumsum([0, *sizes])
    pieces = [data[start : start + size] for start, size in zip(starts, sizes, strict=False)]
    stream = b"".join(compressor.compress(piece) for piece in pieces) + compressor.flush()
    decompressor = Decompressor()
    received = []
    waiting = [stream[at : at + cut] for at in range(0, len(stream), cut)]
    while not decompressor.eof:
        more = waiting.pop(0) if decompressor.needs_input else b""
        received.append(decompressor.decompress(more, room))
        assert len(received[-1]) <= room
    assert b"".join(received) == b"".join(pieces)
    assert not waiting


@pytest.mark.parametrize("other", [False, True], ids=["ours", "bz2"])
def test_the_decompressor_does_what_that_of_bz2_does(other: bool) -> None:
    small = bz2.compress(b"ab" * 50) if other else compress(b"ab" * 50)
    decompressor = bz2.BZ2Decompressor() if other else Decompressor()
    assert (decompressor.needs_input, decompressor.eof) == (True, False)
    assert decompressor.decompress(small[:10]) == b""
    assert decompressor.decompress(small[10:] + b"more", 5) == b"ababa"
    assert (decompressor.needs_input, decompressor.eof) == (False, False)
    assert decompressor.decompress(b"", 3) == b"bab"
    assert decompressor.decompress(b"") == b"ab" * 46
    assert (decompressor.needs_input, decompressor.eof, decompressor.unused_data) == (False, True, b"more")
    with pytest.raises(EOFError):
        decompressor.decompress(b"")


def test_no_room_gives_nothing_and_loses_nothing() -> None:
    decompressor = Decompressor()
    assert decompressor.decompress(compress(b"abc"), 0) == b""
    assert not decompressor.needs_input
    assert decompressor.decompress(b"") == b"abc"


def test_every_prefix_is_refused() -> None:
    small = compress(b"x" * 100)
    for size in range(len(small)):
        with pytest.raises(MalformedChunk):
            decompress(small[:size])


def test_every_flipped_bit_is_refused() -> None:
    small = compress(b"a few bytes")
    for position in range(8 * len(small)):
        broken = bytearray(small)
        broken[position // 8] ^= 1 << position % 8
        with pytest.raises((MalformedChunk, LimitExceeded, UnknownCodec)):
            decompress(broken)


def test_what_is_no_stream_is_refused_at_its_first_bytes() -> None:
    with pytest.raises(MalformedChunk):
        Decompressor().decompress(b"DLX")
    with pytest.raises(MalformedChunk):
        decompress(compress(b"x") + b"\0")


def test_a_stream_of_more_than_allowed_is_not_made() -> None:
    bomb = compress(bytes(16 * MIB))
    assert len(bomb) < 20_000
    tracemalloc.start()
    with pytest.raises(LimitExceeded, match="max_bytes"):
        decompress(bomb, max_bytes=3 * MIB)
    assert len(Decompressor().decompress(bomb, MIB)) == MIB
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * MIB
    assert decompress(bomb, max_bytes=16 * MIB) == bytes(16 * MIB)


@pytest.mark.parametrize(
    ("element", "shape"), [("uint8", (MIB + 1,)), ("int8", (3,)), ("uint8", (3, 1)), ("uint8", ())]
)
def test_chunks_that_a_compressor_does_not_make_are_refused(element: str, shape: tuple[int, ...]) -> None:
    array = np.zeros(shape, element)
    with pytest.raises((MalformedChunk, LimitExceeded)):
        Decompressor().decompress(chunk.encode(array, named("zstd")) + END)


def test_a_chunk_of_a_delta_is_refused() -> None:
    hostile = chunk.frame(
        named("delta"),
        UINT8,
        (3,),
        LOSSLESS,
        bytes(16) + chunk.encode(np.zeros(3, np.uint8), named("raw"), element=BY_NAME["uint8"]),
    )
    with pytest.raises(MalformedChunk, match="no place"):
        decompress(hostile + END)
