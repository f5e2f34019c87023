"""Encoded streams: the same bytes arrive whatever is encoded how, and nothing that does not decode lands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetlink.base.runtime.cpu import Stopwatch
from duetlink.data.codecs import chunk, named
from duetlink.data.codecs.base import Array, Bound, Codec
from duetlink.data.codecs.element import BY_NAME, FLOAT32, Element
from duetlink.data.tuning import Choice, RateCap
from duetlink.data.values import encode
from duetlink.errors import TransferFailed, UndecodableChunk
from duetlink.net.flight import sending
from duetlink.net.flight.body import Outgoing, ReceiveBuffer
from duetlink.net.flight.layout import Run
from duetlink.net.flight.receiving import CODED, Decoding, Receiving
from duetlink.net.flight.sending import FlightBatch, Order, PlainController, Sending, StreamController

ZSTD = Choice(named("zstd"), 1)
RAW = Choice(named("raw"), 0)


class Turns(PlainController):
    """Chooses in turn, and keeps what it is told."""

    def __init__(self, *choices: Choice, chunk_bytes: int = 4096) -> None:
        super().__init__(chunk_bytes, workers=2)
        self.choices = choices
        self.taken = 0
        self.failures: list[Choice] = []
        self.wire_bytes = 0

    def choose(self, array: Array, element: Element, now_s: float, *others: object) -> Choice:
        self.taken += 1
        return self.choices[self.taken % len(self.choices)]

    def encoded(self, choice: Choice, raw_bytes: int, encoded_bytes: int, elapsed_s: float) -> None:
        assert raw_bytes > 0

    def failed(self, choice: Choice) -> None:
        self.failures.append(choice)

    def sent(self, raw_bytes: int, wire_bytes: int, elapsed_s: float, now_s: float) -> None:
        self.wire_bytes += wire_bytes


class Broken(Codec):
    """Fails on everything."""

    number, name, kind = 0x8001, "broken", "bytes"

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        raise OSError("no more memory")

    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        raise OSError("no more memory")


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def outgoing(obj: Any) -> Outgoing:
    encoded = encode(obj)
    return Outgoing(encoded.segments, encoded.size_bytes, encoded.parts)


def batches(
    body: Outgoing,
    course: StreamController,
    pool: ThreadPoolExecutor,
    ranges: Sequence[tuple[int, int]] | None = None,
) -> list[FlightBatch]:
    order = Order(ranges or body.whole, lambda now_s: course)
    sending = Sending(body, order, pool, RateCap(), 1 << 20)
    return list(sending.batches())


def test_a_sample_is_of_what_comes_next_of_the_same_kind() -> None:
    columns = np.repeat(np.arange(40.0), 16 * 1024)  # 128 KiB each
    body = outgoing([columns, np.full(100_000, 7, np.int32)])
    floats = next(run for run in body.runs if run.element.name == "float64")

    def columns_in_sample(column: int, ahead_bytes: int) -> list[float]:
        start = floats.start_bytes + column * 128 * 1024
        sample = body.sample(Run(start, start + 128 * 1024, floats.element), ahead_bytes)
        assert sample.nbytes == 64 * 1024
        return sorted(set(sample.tolist()))

    assert columns_in_sample(3, 0) == [3.0]  # of the block itself at least
    assert columns_in_sample(3, 8 * 128 * 1024) == [3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]
    assert columns_in_sample(38, 1 << 30) == [38.0, 39.0]  # what lies behind are other items


class Reader:
    """A Flight stream that holds these (bytes, metadata)."""

    def __init__(self, chunks: Sequence[tuple[bytes | memoryview, bytes]]) -> None:
        self._chunks = iter(chunks)

    def read_chunk(self) -> tuple[pa.RecordBatch, pa.Buffer | None]:
        data, metadata = next(self._chunks)
        column = pa.Array.from_buffers(pa.uint8(), len(data), [None, pa.py_buffer(data)])
        return pa.RecordBatch.from_arrays([column], ["chunk"]), pa.py_buffer(metadata) if metadata else None


def receive(receive_buffer: ReceiveBuffer, sent: Sequence[FlightBatch], pool: ThreadPoolExecutor) -> None:
    reader = Reader([(batch.data, CODED if batch.coded else b"") for batch in sent])
    Receiving(reader, receive_buffer, Decoding(pool, 2)).receive()


def test_what_a_call_takes_is_no_speed_of_decoding(pool: ThreadPoolExecutor) -> None:
    decoding = Decoding(pool, 2)
    for items in (100, 20_000):
        array = np.arange(items, dtype=np.float64)
        decoding.decode(memoryview(chunk.encode(array, named("zstd"), 1, BY_NAME["float64"])))
    assert [raw_bytes for raw_bytes, _ in decoding.take().values()] == [160_000]


@given(
    st.lists(st.tuples(st.sampled_from(["u1", "f4", "f8", "i8", "?"]), st.integers(0, 5000)), max_size=4),
    st.integers(64, 20_000),
    st.lists(st.sampled_from(["raw", "zstd"]), min_size=1, max_size=5),
)
def test_a_body_arrives_whatever_is_encoded(
    pool: ThreadPoolExecutor, arrays: list[tuple[str, int]], chunk_bytes: int, names: list[str]
) -> None:
    body = outgoing([np.arange(size).astype(dtype) for dtype, size in arrays])
    choices = [Choice(named(name), named(name).level) for name in names]
    course = Turns(*choices, chunk_bytes=chunk_bytes)
    receive_buffer = ReceiveBuffer(body.size_bytes)
    receive(receive_buffer, batches(body, course, pool), pool)
    assert receive_buffer.complete
    assert receive_buffer.digest() == body.fingerprint


@pytest.mark.parametrize("choice", [RAW, ZSTD], ids=str)
def test_what_lies_in_many_places_is_gathered_once(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, choice: Choice
) -> None:
    gathered: list[Run] = []
    gather = Outgoing.array

    def counted(self: Outgoing, run: Run) -> Array:
        gathered.append(run)
        return gather(self, run)

    monkeypatch.setattr(Outgoing, "array", counted)
    noise = memoryview(np.random.default_rng(0).bytes(10_000))  # no codec makes it smaller
    body = Outgoing([noise[start : start + 100] for start in range(0, 10_000, 100)], 10_000)
    sent = batches(body, Turns(choice), pool)
    assert b"".join(batch.data for batch in sent) == noise
    assert [run.end_bytes - run.start_bytes for run in gathered] == [4096, 4096, 1808]


def test_what_does_not_become_smaller_goes_as_it_is(pool: ThreadPoolExecutor) -> None:
    noise = np.random.default_rng(0).integers(0, 256, 100_000, np.uint8)
    sent = batches(outgoing(noise), Turns(ZSTD, chunk_bytes=50_000), pool)
    assert [batch.coded for batch in sent] == [False, False, False]


def test_a_codec_that_fails_in_the_middle_costs_nothing(pool: ThreadPoolExecutor) -> None:
    body = outgoing(np.zeros(10_000))
    broken = Choice(Broken(), 0)
    course = Turns(ZSTD, ZSTD, broken)
    receive_buffer = ReceiveBuffer(body.size_bytes)
    receive(receive_buffer, batches(body, course, pool), pool)
    assert receive_buffer.digest() == body.fingerprint
    assert course.failures
    assert set(course.failures) == {broken}


def test_the_course_hears_what_went_over_the_wire(pool: ThreadPoolExecutor) -> None:
    course = Turns(ZSTD)
    sent = batches(outgoing(np.zeros(10_000)), course, pool)
    assert course.wire_bytes == sum(len(batch.data) for batch in sent if batch.steered) < 8000


@pytest.mark.parametrize(
    "coded",
    [
        b"not a chunk",
        chunk.encode(np.zeros(100, "f4"), named("zstd"))[:-1],
        chunk.encode(np.zeros(2 << 20, "f4"), named("zstd")),  # more than a block has
        chunk.frame(named("raw"), FLOAT32, (2,), Bound(0.1), bytes(8)),
    ],
    ids=["noise", "cut short", "too large", "lossy"],
)
def test_what_does_not_decode_is_not_stored(pool: ThreadPoolExecutor, coded: bytes) -> None:
    receive_buffer = ReceiveBuffer(100_000_000)
    with pytest.raises(UndecodableChunk):
        receive(
            receive_buffer,
            [FlightBatch(memoryview(bytes(1000)), False, 1000), FlightBatch(memoryview(coded), True, 8)],
            pool,
        )
    assert receive_buffer.position_bytes == 1000


def test_a_codec_that_does_not_load_here_is_told_as_such(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(codec: object) -> None:
        raise ImportError("libbeauty.so.3: cannot open shared object file")

    monkeypatch.setattr(type(ZSTD.codec), "load", load)
    coded = memoryview(chunk.encode(np.zeros(100, "f4"), ZSTD.codec))
    with pytest.raises(UndecodableChunk, match="installed here, but does not load: libbeauty"):
        receive(ReceiveBuffer(1000), [FlightBatch(coded, True, 400)], pool)


class Late(Broken):
    """Its library is loaded when it is first needed, which fails."""

    name = "late"

    def load(self) -> None:
        raise ImportError("libbeauty.so.3: cannot open shared object file")


def test_what_is_chosen_and_does_not_load_goes_as_it_is(pool: ThreadPoolExecutor) -> None:
    choice = Choice(Late(), 0)
    course = Turns(choice)
    body = outgoing(np.arange(500))
    assert not any(batch.coded for batch in batches(body, course, pool))
    assert course.failures == [choice]


def test_to_load_a_codec_is_not_part_of_its_speed(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    class Watch(Stopwatch):
        def __init__(self) -> None:
            done.append("the watch runs")
            super().__init__()

    monkeypatch.setattr(type(ZSTD.codec), "load", lambda codec: done.append("loaded"))
    monkeypatch.setattr(sending, "Stopwatch", Watch)
    batches(outgoing(np.arange(500)), Turns(ZSTD), pool)
    assert done == ["loaded", "the watch runs"]


def test_nothing_lands_behind_what_does_not_decode(pool: ThreadPoolExecutor) -> None:
    """Also where blocks are decoded and landed side by side: the position is where it goes on."""
    body = outgoing(np.arange(5_000_000))
    sent = batches(body, Turns(ZSTD, chunk_bytes=1 << 20), pool)
    assert body.size_bytes > 16 << 20
    broken = FlightBatch(memoryview(bytes(sent[5].data[:-1])), True, sent[5].raw_bytes)
    receive_buffer = ReceiveBuffer(body.size_bytes)
    with pytest.raises(UndecodableChunk):
        receive(receive_buffer, [*sent[:5], broken, *sent[6:]], pool)
    assert receive_buffer.position_bytes == sum(batch.raw_bytes for batch in sent[:5])
    receive(receive_buffer, batches(body, Turns(RAW), pool, receive_buffer.missing), pool)
    assert receive_buffer.digest() == body.fingerprint


def test_more_than_was_announced_is_not_stored(pool: ThreadPoolExecutor) -> None:
    coded = memoryview(chunk.encode(np.zeros(100, np.uint8), named("zstd")))
    receive_buffer = ReceiveBuffer(99)
    with pytest.raises(TransferFailed, match="100 bytes of a value that it announced with 99"):
        receive(receive_buffer, [FlightBatch(coded, True, 100)], pool)


def test_an_unknown_mark_is_refused(pool: ThreadPoolExecutor) -> None:
    receive_buffer = ReceiveBuffer(3)
    with pytest.raises(TransferFailed, match="unknown kind"):
        Receiving(Reader([(b"abc", b"\x02")]), receive_buffer, Decoding(pool, 2)).receive()


# -- only what is missing ------------------------------------------------------------------------------------


@given(st.data())
def test_what_is_there_already_does_not_move(pool: ThreadPoolExecutor, data: st.DataObject) -> None:
    array = np.random.default_rng(1).integers(0, 256, 50_000, np.uint8)
    body = outgoing(array)
    whole = memoryview(body.read())
    cuts = data.draw(st.lists(st.integers(0, body.size_bytes), max_size=8, unique=True).map(sorted))
    held = [(start, whole[start:end]) for start, end in zip(cuts[::2], cuts[1::2], strict=False)]
    counted: list[tuple[int, int]] = []
    receive_buffer = ReceiveBuffer(
        body.size_bytes, lambda raw_bytes, wire_bytes: counted.append((raw_bytes, wire_bytes))
    )
    receive_buffer.adopt(held)
    missing = receive_buffer.missing
    assert sum(end - start for start, end in missing) == body.size_bytes - sum(
        len(piece) for _, piece in held
    )
    receive(receive_buffer, batches(body, Turns(RAW, ZSTD), pool, missing), pool) if missing else None
    assert receive_buffer.complete
    assert receive_buffer.digest() == body.fingerprint
    assert bytes(receive_buffer.body()) == whole
    assert sum(raw for raw, _ in counted) == body.size_bytes


def test_bytes_that_were_not_asked_for_are_refused() -> None:
    receive_buffer = ReceiveBuffer(10)
    receive_buffer.adopt([(4, memoryview(b"held"))])
    with pytest.raises(TransferFailed, match="at 4 that were not asked for"):
        receive_buffer.write(memoryview(b"too long"))


def test_a_rate_cap_is_kept_in_the_middle_of_a_stream(pool: ThreadPoolExecutor) -> None:
    """The pauses asked for are those of the cap; the clock of the machine is not looked at."""
    asked = []

    class Cap(RateCap):
        def delay_s(self, wire_bytes: int, now_s: float) -> float:
            asked.append(wire_bytes)
            return 0.0

    body = outgoing(np.zeros(20_000))
    order = Order(body.whole, lambda now_s: Turns(RAW, ZSTD))
    sent = list(Sending(body, order, pool, Cap(), 1 << 20).batches())
    assert asked == [len(batch.data) for batch in sent]
