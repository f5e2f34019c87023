"""Frames: whatever was written is read back, however it is cut; whatever else comes is refused in words."""

from __future__ import annotations

import os
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetlink.errors import RemoteProtocolError
from duetlink.net.carrier.multiplexing.frames import (
    MAGIC,
    MAX_DATA_BYTES,
    VERSION,
    FrameReader,
    MuxFrameKind,
    header,
)

_NUMBERS = st.integers(0, 2**32 - 1)
_FRAMES = st.one_of(
    st.tuples(st.sampled_from([MuxFrameKind.HELLO, MuxFrameKind.CREDIT]), _NUMBERS, _NUMBERS, st.just(b"")),
    st.tuples(
        st.sampled_from([MuxFrameKind.OPEN, MuxFrameKind.END, MuxFrameKind.BEAT]),
        _NUMBERS,
        st.just(0),
        st.just(b""),
    ),
    st.binary(min_size=1, max_size=300).flatmap(
        lambda data: st.tuples(st.just(MuxFrameKind.DATA), _NUMBERS, st.just(len(data)), st.just(data))
    ),
)


def read(reader: FrameReader, data: bytes) -> list[tuple[MuxFrameKind, int, bytes]]:
    return [(kind, number, bytes(payload)) for kind, number, _, payload in reader.feed(data)]


def test_the_first_bytes_of_a_stream_are_for_ever() -> None:
    assert header(MuxFrameKind.HELLO, MAGIC, VERSION) == b"\x01DLM\n\x00\x00\x00\x01"
    assert header(MuxFrameKind.DATA, 3, 5) == b"\x03\x00\x00\x00\x03\x00\x00\x00\x05"


@given(st.lists(_FRAMES, max_size=8), st.lists(st.integers(0, 4000), max_size=6))
def test_what_was_written_is_read_however_it_was_cut(
    frames: list[tuple[MuxFrameKind, int, int, bytes]], cuts: list[int]
) -> None:
    stream = b"".join(header(kind, number, amount) + payload for kind, number, amount, payload in frames)
    reader = FrameReader()
    found: list[tuple[MuxFrameKind, int, bytes]] = []
    at = 0
    for cut in [*sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]:
        for kind, number, payload in read(reader, stream[at:cut]):
            if (
                kind == MuxFrameKind.DATA
                and found
                and found[-1][:2] == (kind, number)
                and found[-1][2] != b""
            ):
                found[-1] = (kind, number, found[-1][2] + payload)
            else:
                found.append((kind, number, payload))
        at = cut
    joined: list[tuple[MuxFrameKind, int, bytes]] = []
    for kind, number, _, payload in frames:  # neighbours of one stream are one in what was found
        if kind == MuxFrameKind.DATA and joined and joined[-1][:2] == (kind, number):
            joined[-1] = (kind, number, joined[-1][2] + payload)
        else:
            joined.append((kind, number, payload))
    assert found == joined


def test_a_payload_is_a_view_of_what_was_fed() -> None:
    data = bytearray(header(MuxFrameKind.DATA, 1, 4) + b"abcd")
    (frame,) = FrameReader().feed(data)
    data[-1] = ord("x")
    assert bytes(frame.payload) == b"abcx"


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack("!BII", 0, 0, 0),
        struct.pack("!BII", 7, 0, 0),
        struct.pack("!BII", MuxFrameKind.DATA, 1, 0),
        struct.pack("!BII", MuxFrameKind.DATA, 1, MAX_DATA_BYTES + 1),
        struct.pack("!BII", MuxFrameKind.END, 1, 1),
        b"HTTP/1.1 400 Bad Request",
    ],
)
def test_what_is_no_frame_is_refused_in_words(frame: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="changed on the way"):
        list(FrameReader().feed(frame))


def test_any_bytes_give_frames_or_a_typed_error() -> None:
    generator = random.Random(1)
    good = (
        header(MuxFrameKind.HELLO, MAGIC, VERSION)
        + header(MuxFrameKind.OPEN, 0)
        + header(MuxFrameKind.DATA, 0, 50)
        + bytes(50)
    )
    for _ in range(3000):
        data = bytearray(good * 3)
        for _ in range(generator.randrange(4)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        reader = FrameReader()
        try:
            frames = list(reader.feed(bytes(data) + os.urandom(generator.randrange(30))))
        except RemoteProtocolError:
            continue
        assert sum(len(frame.payload) for frame in frames) <= len(data) + 30
