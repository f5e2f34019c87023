"""The two buffers of a stream, against plain byte strings, at positions around 2^32 and far beyond."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.net.tunnel.reassembly import Reassembly
from duetlink.net.tunnel.send_buffer import SendBuffer

starts = st.sampled_from([0, 2**32 - 500, 2**32, 2**53 - 3, 2**62])


@given(st.integers(0, 2**32), starts)
@settings(max_examples=60, deadline=None)
def test_reassembly_agrees_with_a_byte_string(seed: int, start: int) -> None:
    chance = random.Random(seed)
    capacity = chance.choice([64, 1000, 5000])
    stream = chance.randbytes(4 * capacity)
    incoming = Reassembly(capacity, start)
    known = bytearray(len(stream))  # which bytes have been accepted
    taken = b""
    for _ in range(80):
        if chance.random() < 0.2:
            incoming.settle()
        elif chance.random() < 0.4:
            taken += incoming.take()
            assert taken == stream[: len(taken)]
            assert incoming.taken == incoming.complete == start + len(taken)
        else:
            width, count = chance.randint(1, 40), chance.randint(1, 5)
            begin = max(0, incoming.complete - start + chance.choice([0, 0, chance.randint(-90, 200)]))
            piece = stream[begin : begin + width * count]
            rows = np.frombuffer(piece, np.uint8)[: len(piece) // width * width].reshape(-1, width).copy()
            if not rows.size:
                continue
            fits = start + begin + rows.size <= start + len(taken) + capacity
            assert incoming.insert(start + begin, rows) == fits
            if fits:
                known[begin : begin + rows.size] = b"\1" * rows.size
                if incoming.furthest > incoming.complete or chance.random() < 0.5:
                    incoming.settle()
                    rows[:] = 0  # memory of the port, which uses it again
        complete = known.find(0)
        assert incoming.complete - start == (complete if complete >= 0 else len(known))
        furthest = known.rfind(1) + 1
        assert incoming.furthest - start == max(furthest, complete)
        assert incoming.limit == start + len(taken) + capacity


def test_what_is_taken_belongs_to_the_taker() -> None:
    incoming = Reassembly(100, 0)
    rows = np.full((2, 10), 1, np.uint8)
    incoming.insert(0, rows)
    taken = incoming.take()
    rows[:] = 2
    incoming.insert(20, rows)
    assert taken == bytes([1]) * 20


def test_holes_are_bounded_but_the_run_goes_on() -> None:
    incoming = Reassembly(1 << 20, 0)
    one = np.ones((1, 1), np.uint8)
    accepted = sum(incoming.insert(2 * hole + 1, one) for hole in range(20_000))
    assert accepted == 16_384
    assert incoming.insert(0, np.ones((1, 40_000), np.uint8))
    assert incoming.complete == 40_000


@given(st.integers(0, 2**32), starts)
@settings(max_examples=60, deadline=None)
def test_send_buffer_agrees_with_a_byte_string(seed: int, start: int) -> None:
    chance = random.Random(seed)
    capacity, row_bytes = chance.choice([(100, 40), (1000, 50), (4096, 1000)])
    outgoing = SendBuffer(capacity, row_bytes, start)
    stream = b""
    lost: dict[int, int] = {}

    def rest_of_lost() -> set[int]:
        return {byte for at, size in lost.items() for byte in range(at, at + size)}

    for _ in range(80):
        match chance.choice(["write", "fresh", "fresh", "release", "lose", "again", "found"]):
            case "write":
                piece = chance.randbytes(chance.randint(1, 2 * capacity))
                outgoing.write(chance.choice([bytes, bytearray, memoryview])(piece))
                stream += piece
            case "fresh":
                size, limit = chance.randint(1, row_bytes), outgoing.sent + chance.randint(0, capacity)
                rows = outgoing.fresh(size, chance.randint(1, 9), limit)
                at = outgoing.sent - start
                assert rows.tobytes() == stream[at : at + rows.size]
                assert rows.shape[1] <= size
                assert outgoing.sent + rows.size <= min(limit, start + len(stream))
                assert rows.size or outgoing.available_bytes == 0 or limit == outgoing.sent
                outgoing.advance(rows.size)
            case "release":
                position = chance.randint(outgoing.acknowledged, outgoing.sent)
                outgoing.release(position)
                for at in sorted(lost):
                    left = at + lost[at] - position
                    if at < position:
                        del lost[at]
                        if left > 0:
                            lost[position] = max(left, lost.get(position, 0))
            case "lose" if outgoing.sent > outgoing.acknowledged:
                at = chance.randrange(outgoing.acknowledged, outgoing.sent)
                size = chance.randint(1, min(row_bytes, outgoing.sent - at))
                outgoing.lose(at, size)
                lost[at] = max(size, lost.get(at, 0))
            case "found" if lost:
                at = chance.choice(list(lost))
                size = chance.choice([lost[at], lost[at] - 1])
                outgoing.found(at, size)
                if size == lost[at]:
                    del lost[at]
            case "again" if lost:
                size, before = chance.randint(1, row_bytes), rest_of_lost()
                first = min(lost)
                positions, rows = outgoing.again(size, chance.randint(1, 5))
                assert positions[0] == first
                for position, row in zip(positions.tolist(), rows, strict=True):
                    assert row.tobytes() == stream[position - start : position - start + len(row)]
                    left = lost.pop(position) - len(row)
                    assert len(row) <= size
                    if left:
                        lost[position + len(row)] = max(left, lost.get(position + len(row), 0))
                sent = {
                    byte
                    for position in positions.tolist()
                    for byte in range(position, position + rows.shape[1])
                }
                assert before <= sent | rest_of_lost()
        assert outgoing.has_lost == bool(lost)
        assert outgoing.end == start + len(stream)
        assert outgoing.unsent_bytes == start + len(stream) - outgoing.sent


@pytest.mark.parametrize("start", [0, 2**32 - 100])
def test_rows_cross_the_end_of_the_ring(start: int) -> None:
    outgoing = SendBuffer(1000, 100, start)
    stream = bytes(range(256)) * 20
    for at in range(0, 5000, 70):
        outgoing.write(stream[at : at + 70])
        rows = outgoing.fresh(70, 1, start + 10**6)
        assert rows.tobytes() == stream[at : at + 70]
        outgoing.advance(70)
        outgoing.lose(start + at, 70)
        assert outgoing.again(70, 1)[1].tobytes() == stream[at : at + 70]
        outgoing.release(outgoing.sent)
