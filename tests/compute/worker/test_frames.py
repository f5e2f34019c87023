"""The frames between kernel and worker: found however the stream is cut; what is no frame is refused."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetlink.compute.worker.protocol.frames import MAX_CONTENT_BYTES, MAX_FDS, Frame, FrameReader, head
from duetlink.errors import LimitExceeded, RemoteProtocolError

HEADERS = st.dictionaries(
    st.text(max_size=10), st.integers() | st.text(max_size=20) | st.booleans(), max_size=4
)


@given(st.lists(st.tuples(HEADERS, st.binary(max_size=300)), max_size=5), st.data())
def test_frames_are_found_however_the_stream_is_cut(frames: Any, data: Any) -> None:
    stream = b"".join(head(header, len(content)) + content for header, content in frames)
    reader = FrameReader()
    found: list[Frame] = []
    while stream:
        cut = data.draw(st.integers(1, len(stream)))
        found += reader.feed(stream[:cut])
        stream = stream[cut:]
    assert [(frame.header, frame.content) for frame in found] == frames


@given(st.lists(st.integers(0, 3), min_size=1, max_size=5))
def test_descriptors_go_to_the_frame_that_they_came_with(counts: list[int]) -> None:
    reader, fd = FrameReader(), 100
    found: list[Frame] = []
    for count in counts:
        fds = list(range(fd, fd + count))
        fd += count
        start = head({}, 2, count)
        found += reader.feed(start[:3], fds)  # with the first byte
        found += reader.feed(start[3:] + b"ab")
    assert [len(frame.fds) for frame in found] == counts
    assert [number for frame in found for number in frame.fds] == list(range(100, fd))
    assert reader.release() == []


@given(st.binary(max_size=200))
def test_bytes_that_are_no_frames_are_refused_or_waited_for(garbage: bytes) -> None:
    reader = FrameReader()
    try:
        for frame in reader.feed(garbage):
            assert isinstance(frame.header, dict)
    except RemoteProtocolError:
        pass


@given(st.binary(max_size=100))
def test_a_header_is_a_json_object_or_refused(text: bytes) -> None:
    stream = struct.pack("!IIB", len(text), 0, 0) + text
    try:
        (frame,) = FrameReader().feed(stream)
    except RemoteProtocolError:
        return
    assert frame.header == json.loads(text)
    assert type(frame.header) is dict


def test_a_header_that_is_nested_deeply_is_refused() -> None:
    text = b'{"a":' + b"[" * 30_000 + b"]" * 30_000 + b"}"
    with pytest.raises(RemoteProtocolError, match="no JSON"):
        list(FrameReader().feed(struct.pack("!IIB", len(text), 0, 0) + text))


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((64 * 1024 + 1, 0, 0), "header of 65,537 bytes"),
        ((2, 64 * 1024 * 1024 + 1, 0), "67,108,865 bytes of content"),
        ((2, 0, 17), "17 descriptors are over 16"),
        ((4294967295, 4294967295, 255), "header of 4,294,967,295"),
    ],
)
def test_a_frame_over_the_limits_is_refused_by_its_first_bytes(sizes: tuple[int, ...], words: str) -> None:
    with pytest.raises(LimitExceeded, match=words):
        list(FrameReader().feed(struct.pack("!IIB", *sizes)))


def test_no_frame_over_the_limits_is_made() -> None:
    with pytest.raises(LimitExceeded, match="put them into shared memory"):
        head({}, MAX_CONTENT_BYTES + 1)
    with pytest.raises(LimitExceeded, match="descriptors"):
        head({}, 0, MAX_FDS + 1)
    with pytest.raises(LimitExceeded, match="header"):
        head({"command": "x" * 100_000})


def test_a_frame_whose_descriptors_are_missing_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="without them"):
        list(FrameReader().feed(head({}, 0, 1)))


@pytest.mark.parametrize("beginning", [b"", head({})[:4], head({}, 5)])
def test_descriptors_that_no_frame_speaks_of_are_refused_and_given_up(beginning: bytes) -> None:
    reader = FrameReader(max_fds=0)
    with pytest.raises(RemoteProtocolError, match="1 descriptors have come with a frame of 0"):
        list(reader.feed(beginning, [77]))
    assert reader.release() == [77]


def test_a_frame_holds_its_own_bytes() -> None:
    reader = FrameReader()
    first, second = reader.feed(head({"n": 1}, 2) + b"ab" + head({"n": 2}, 2) + b"cd")
    assert (first, second) == (Frame({"n": 1}, b"ab", ()), Frame({"n": 2}, b"cd", ()))
