"""Parcels as bytes: what is put in comes out, and nothing else is taken."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.errors import LimitExceeded, RemoteProtocolError
from duetlink.net.streams.frames import (
    CLOSE,
    CREDIT,
    MOST_FRAMES,
    MOST_TABLE_BYTES,
    OPEN,
    PART,
    PART_BYTES,
    Frame,
    FrameBatch,
    Packing,
)

NUMBERS = struct.pack("!QQ", 1, 0)


def frame(kind: int, stream: int, value: int, head_bytes: int, body_bytes: int) -> bytes:
    return struct.pack("!BQQHI", kind, stream, value, head_bytes, body_bytes)


parts = st.builds(
    Frame, st.just(PART), st.integers(1, 99), st.integers(0, 1 << 40), st.binary(max_size=40), st.binary()
)
others = st.builds(
    Frame, st.sampled_from([OPEN, CREDIT, CLOSE]), st.integers(1, 99), st.just(7), st.binary(max_size=40)
)


@settings(max_examples=100, deadline=None)
@given(st.lists(parts | others, max_size=20))
def test_what_is_put_into_a_batch_comes_out(frames: list[Frame]) -> None:
    table, bodies = FrameBatch(8, 3, frames).to_wire()
    batch = FrameBatch.from_wire(table, memoryview(bodies))
    assert (batch.first, batch.arrived) == (8, 3)
    assert [(f.kind, f.stream, f.value, f.head, bytes(f.body)) for f in batch.frames] == [
        (f.kind, f.stream, f.value, f.head, f.body) for f in frames
    ]


def test_a_body_that_comes_alone_is_not_copied() -> None:
    bodies = memoryview(bytearray(b"abc"))
    table, _ = FrameBatch(1, 0, [Frame(PART, 1, body=b"abc")]).to_wire()
    bodies[0] = ord("x")
    assert bytes(FrameBatch.from_wire(table, bodies).frames[0].body) == b"xbc"


def test_a_body_is_of_unsigned_bytes_whatever_memory_it_came_in() -> None:
    frame = Frame(PART, 2, 0, b"", b"abc")
    table, bodies = FrameBatch(0, 0, [frame]).to_wire()
    (found,) = FrameBatch.from_wire(table, memoryview(bodies).cast("b")).frames
    assert isinstance(found.body, memoryview)
    assert found.body.format == "B"
    assert bytes(found.body) == b"abc"


def test_bodies_that_come_together_do_not_keep_each_other_in_memory() -> None:
    table, bodies = FrameBatch(1, 0, [Frame(PART, 1, body=b"a"), Frame(PART, 2, body=b"bc")]).to_wire()
    frames = FrameBatch.from_wire(table, memoryview(bodies)).frames
    assert [frame.body for frame in frames] == [b"a", b"bc"]


@pytest.mark.parametrize(
    ("table", "bodies", "words"),
    [
        (b"", b"", "0 bytes"),
        (NUMBERS + b"\x01", b"", "cut short"),
        (NUMBERS + frame(PART, 1, 0, 5, 0) + b"abc", b"", "5 bytes of head"),
        (NUMBERS + frame(PART, 1, 0, 20_000, 0) + bytes(20_000), b"", "20000 bytes of head"),
        (NUMBERS + frame(PART, 1, 0, 0, PART_BYTES + 1), bytes(PART_BYTES + 1), "1048577 of body"),
        (NUMBERS + frame(PART, 1, 0, 0, 5), b"abc", "bodies are cut short"),
        (NUMBERS + frame(PART, 1, 0, 0, 2), b"abc", "1 bytes that belong to no frame"),
        (NUMBERS + frame(9, 1, 0, 0, 0), b"", "kind 9"),
        (NUMBERS + frame(0, 1, 0, 0, 0), b"", "kind 0"),
        (NUMBERS + frame(CREDIT, 1, 9, 0, 3), b"abc", "kind 4 with 3 bytes"),
    ],
)
def test_what_is_no_batch_is_refused(table: bytes, bodies: bytes, words: str) -> None:
    with pytest.raises(RemoteProtocolError, match=words):
        FrameBatch.from_wire(table, memoryview(bodies))


@pytest.mark.parametrize(
    ("table", "bodies"),
    [
        (bytes(MOST_TABLE_BYTES + 1), b""),
        (NUMBERS, bytes(2 * PART_BYTES)),
        (NUMBERS + frame(CREDIT, 1, 1, 0, 0) * (MOST_FRAMES + 1), b""),
    ],
)
def test_too_much_in_one_batch_is_refused(table: bytes, bodies: bytes) -> None:
    with pytest.raises(LimitExceeded):
        FrameBatch.from_wire(table, memoryview(bodies))


@settings(max_examples=300, deadline=None)
@given(st.lists(parts | others, max_size=4), st.data())
def test_a_batch_that_was_altered_is_read_or_refused(frames: list[Frame], data: st.DataObject) -> None:
    table, bodies = FrameBatch(1, 0, frames).to_wire()
    altered = bytearray(table)
    for _ in range(data.draw(st.integers(1, 3))):
        altered[data.draw(st.integers(0, len(altered) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(altered)))
    try:
        batch = FrameBatch.from_wire(bytes(altered[:cut]), memoryview(bodies))
    except RemoteProtocolError:
        return
    assert sum(len(frame.body) for frame in batch.frames) == len(bodies)


def test_small_bodies_go_together_and_a_large_one_alone() -> None:
    packing = Packing()
    assert [packing.add(Frame(PART, 1, body=bytes(60_000))) for _ in range(6)] == [True] * 4 + [False] * 2
    packing = Packing()
    assert packing.add(Frame(PART, 1, body=bytes(PART_BYTES)))
    assert packing.add(Frame(CREDIT, 1, 5))  # it has no body
    assert not packing.add(Frame(PART, 1, body=b"x"))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 16 * 1024), st.integers(0, 100_000)), min_size=1, max_size=300))
def test_every_batch_that_is_packed_is_taken(sizes: list[tuple[int, int]]) -> None:
    left = [Frame(PART, 1, 0, bytes(head), bytes(body)) for head, body in sizes]
    while left:
        packing = Packing()
        while left and packing.add(left[0]):
            left.pop(0)
        table, bodies = FrameBatch(1, 0, packing.frames).to_wire()
        assert len(FrameBatch.from_wire(table, memoryview(bodies)).frames) == len(packing.frames) > 0
