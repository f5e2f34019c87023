"""A gate that blocks pass, and a stream that meets it shut."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from duetlink.data.codecs import named
from duetlink.data.codecs.base import Array
from duetlink.data.codecs.element import Element
from duetlink.data.tuning import Choice, RateCap
from duetlink.data.values import encode
from duetlink.errors import AssetChanged
from duetlink.net.flight.body import Outgoing
from duetlink.net.flight.gate import Gate
from duetlink.net.flight.sending import FlightBatch, Order, PlainController, Sending

ZSTD = Choice(named("zstd"), 1)
CHUNK = 64 * 1024


class Noting(PlainController):
    """Encodes all, and keeps what it is told."""

    def __init__(self) -> None:
        super().__init__(CHUNK, workers=2)
        self.told: list[str] = []

    def choose(self, array: Array, element: Element, now_s: float, *others: object) -> Choice:
        return ZSTD

    def encoded(self, choice: Choice, raw_bytes: int, encoded_bytes: int, elapsed_s: float) -> None:
        pass

    def sent(self, raw_bytes: int, wire_bytes: int, elapsed_s: float, now_s: float) -> None:
        self.told.append("sent")

    def rested(self, now_s: float) -> None:
        self.told.append("rested")

    def finished(self, now_s: float) -> None:
        self.told.append("finished")


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def array() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 50, 1_000_000, np.uint8)


def sending(array: np.ndarray, gate: Gate, pool: ThreadPoolExecutor, course: PlainController) -> Sending:
    encoded = encode(array)
    body = Outgoing(encoded.segments, encoded.size_bytes, encoded.parts)
    return Sending(body, Order(body.whole, lambda now_s: course, gate=gate), pool, RateCap(), 1 << 20)


def test_what_is_sent_with_pauses_is_what_is_sent_without(
    array: np.ndarray, pool: ThreadPoolExecutor
) -> None:
    whole = [bytes(batch.data) for batch in sending(array, Gate(), pool, PlainController(CHUNK)).batches()]
    gate, paused = Gate(), []
    for batch in sending(array, gate, pool, PlainController(CHUNK)).batches():
        paused.append(bytes(batch.data))
        gate.pause(True)
        threading.Timer(0.001, gate.pause, (False,)).start()
    assert paused == whole


def test_the_course_hears_of_the_rest_and_of_nothing_that_did_not_leave(
    array: np.ndarray, pool: ThreadPoolExecutor
) -> None:
    gate, course = Gate(), Noting()
    batches = sending(array, gate, pool, course).batches()
    first: list[FlightBatch] = [next(batches), next(batches)]
    assert sum(batch.raw_bytes for batch in first) < len(array)
    gate.pause(True)
    threading.Timer(0.01, gate.pause, (False,)).start()
    rest = list(batches)
    sent = sum(batch.steered for batch in (*first, *rest))
    before = sum(batch.steered for batch in first)
    assert course.told == ["sent"] * before + ["rested"] + ["sent"] * (sent - before) + ["finished"]
    assert sum(batch.raw_bytes for batch in (*first, *rest)) >= len(array)


def test_a_gate_that_ends_ends_its_stream_without_an_error(
    array: np.ndarray, pool: ThreadPoolExecutor
) -> None:
    for paused in (False, True):
        gate, course = Gate(), Noting()
        batches = sending(array, gate, pool, course).batches()
        next(batches)
        gate.pause(paused)
        threading.Timer(0.01, gate.end).start() if paused else gate.end()
        assert list(batches) == []
        assert course.told[-1] == "finished"
        gate.pause(False)
        assert gate.shut  # for good


def test_what_changes_during_a_pause_does_not_leave(array: np.ndarray, pool: ThreadPoolExecutor) -> None:
    gate = Gate()
    batches = sending(array, gate, pool, Noting()).batches()
    next(batches)
    gate.pause(True)
    array[-1] ^= 255  # in the leaf that was looked at before, of which some was made ahead
    threading.Timer(0.01, gate.pause, (False,)).start()
    with pytest.raises(AssetChanged):
        next(batches)


def test_a_stream_that_nobody_wants_any_more_does_not_wait(
    array: np.ndarray, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetlink.net.flight.gate._CHECK_S", 0.01)
    gate = Gate()
    gate.pause(True)
    assert not gate.wait_open(lambda: True)
    assert gate.shut
