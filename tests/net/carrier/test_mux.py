"""The mux between two sockets: what goes in on one side comes out on the other, within its bounds."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from duetlink.net.carrier.multiplexing import mux as mux_module
from duetlink.net.carrier.multiplexing.frames import MAGIC, MAX_DATA_BYTES, VERSION, MuxFrameKind, header
from duetlink.net.carrier.multiplexing.mux import MAX_STREAMS, Mux
from duetlink.net.carrier.multiplexing.splice import WINDOW_BYTES
from duetlink.testing.faults import kept_counts, replace_function, set_constants

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

HELLO = header(MuxFrameKind.HELLO, MAGIC, VERSION)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


def same(mux: Mux) -> Mux:
    return mux


class Sides:
    """Two muxes on a socket pair; dialling `port` reaches the server of the other side."""

    def __init__(self) -> None:
        self.muxes: list[Mux] = []
        self.ports: list[int] = []
        self._servers: list[asyncio.Server] = []
        self._writers: list[asyncio.StreamWriter] = []
        self._serving: set[asyncio.Task[Any]] = set()

    async def open(self, serve: Serve = echo) -> None:
        async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._serving.add(task)
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await serve(reader, writer)
            writer.close()
            self._serving.discard(task)

        loop = asyncio.get_running_loop()
        flight = await asyncio.start_server(guarded, "127.0.0.1", 0)
        self._servers.append(flight)
        for index, sock in enumerate(socket.socketpair()):
            mux = Mux(controlling=index == 0, flight_port=flight.sockets[0].getsockname()[1])
            await loop.create_connection(partial(same, mux), sock=sock)
            listener = await loop.create_server(mux.accept, "127.0.0.1", 0)
            self._servers.append(listener)
            self.muxes.append(mux)
            self.ports.append(listener.sockets[0].getsockname()[1])
        await asyncio.gather(*(mux.ready for mux in self.muxes))

    async def dial(self, index: int = 0) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.ports[index])
        self._writers.append(writer)
        return reader, writer

    async def close(self) -> None:
        for mux in self.muxes:
            mux.close("the test has ended")
        for writer in self._writers:
            writer.close()
        for server in self._servers:
            server.close()
        while self._serving:
            await asyncio.sleep(0.01)


@pytest.fixture
async def sides() -> AsyncIterator[Sides]:
    made = Sides()
    yield made
    await made.close()


async def send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("size_bytes", [1, 100_000, 40_000_000])
async def test_bytes_come_back_as_they_went(sides: Sides, index: int, size_bytes: int) -> None:
    await sides.open()
    data = hashlib.shake_128(b"x").digest(min(size_bytes, 65_537)) * (size_bytes // 65_537 + 1)
    reader, writer = await sides.dial(index)
    sending = asyncio.ensure_future(send(writer, data[:size_bytes]))
    assert await reader.readexactly(size_bytes) == data[:size_bytes]
    await sending


async def test_streams_do_not_mix(sides: Sides) -> None:
    await sides.open()

    async def exchange(index: int) -> None:
        reader, writer = await sides.dial(index % 2)
        data = bytes([index]) * 3_000_000
        sending = asyncio.ensure_future(send(writer, data))
        assert await reader.readexactly(len(data)) == data
        await sending

    await asyncio.gather(*(exchange(index) for index in range(MAX_STREAMS)))


async def test_what_was_sent_before_the_end_arrives_before_the_end(sides: Sides) -> None:
    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        writer.write(b"z" * 5_000_000)
        writer.close()

    await sides.open(pour)
    reader, writer = await sides.dial()
    writer.write(b"!")
    assert await reader.read(-1) == b"z" * 5_000_000


async def test_one_end_that_does_not_read_holds_up_no_other(sides: Sides) -> None:
    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        while True:
            writer.write(bytes(1_000_000))
            await writer.drain()

    await sides.open(pour)
    _, lazy = await sides.dial()
    lazy.write(b"!")
    reader, writer = await sides.dial()
    writer.write(b"!")
    # ten windows pass by the one that is full
    for _ in range(10):
        assert len(await reader.readexactly(WINDOW_BYTES)) == WINDOW_BYTES


async def test_what_waits_for_an_end_that_does_not_read_is_bounded(sides: Sides) -> None:
    sent = 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readexactly(1)
        while True:
            writer.write(bytes(100_000))
            await writer.drain()
            sent += 100_000

    await sides.open(pour)
    _, lazy = await sides.dial()
    lazy.write(b"!")
    before = -1
    while sent != before:
        before = sent
        await asyncio.sleep(0.3)
    # the window, and what the four sockets on the way hold
    assert WINDOW_BYTES / 2 < sent < WINDOW_BYTES + 20_000_000


async def test_streams_take_turns(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    async def drink(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1 << 20):
            pass

    await sides.open(drink)
    order: list[int] = []

    def noting(self: Mux, splice: Any) -> None:
        order.append(splice.number)
        original(self, splice)

    original = replace_function(monkeypatch, Mux, "send_chunk", noting)
    writers = [(await sides.dial())[1] for _ in range(6)]
    await asyncio.gather(*(send(writer, bytes(8_000_000)) for writer in writers))
    # in the midst of it no stream waits for more than a few turns of the others
    middle = order[len(order) // 4 : len(order) // 2]
    assert {middle.count(number) for number in set(middle)} <= set(
        range(len(middle) // 6 - 4, len(middle) // 6 + 5)
    )
    assert len(set(middle)) == 6


async def test_a_refused_connection_ends_its_stream_only(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sides.open()
    set_constants(monkeypatch, sides.muxes[1], flight_port=1)  # nobody listens there
    reader, writer = await sides.dial(0)
    writer.write(b"hello")
    assert await reader.read() == b""
    reader, writer = await sides.dial(1)
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"hello"


# -- strangers on this machine -------------------------------------------------------------------------------


async def test_connections_that_say_nothing_take_no_streams(sides: Sides) -> None:
    await sides.open()
    for _ in range(60):
        await sides.dial()
    talking = [await sides.dial() for _ in range(MAX_STREAMS // 2)]
    for reader, writer in talking:
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"


async def test_more_streams_than_allowed_are_closed_at_once(sides: Sides) -> None:
    await sides.open()
    talking = [await sides.dial() for _ in range(MAX_STREAMS // 2)]
    for reader, writer in talking:
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
    reader, writer = await sides.dial()
    writer.write(b"hello")
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""
    assert not sides.muxes[0].ended.done()


# -- a hostile peer ------------------------------------------------------------------------------------------


class Raw:
    """A mux whose other side is the test itself."""

    def __init__(self) -> None:
        self.theirs, mine = socket.socketpair()
        self._mine = mine
        self.theirs.setblocking(False)

    async def open(self) -> None:
        self._flight = await asyncio.start_server(echo, "127.0.0.1", 0)
        self.mux = Mux(controlling=True, flight_port=self._flight.sockets[0].getsockname()[1])
        loop = asyncio.get_running_loop()
        self.transport, _ = await loop.create_connection(lambda: self.mux, sock=self._mine)

    async def say(self, *frames: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.theirs, b"".join(frames))

    async def close(self) -> None:
        self.mux.close("the test has ended")
        self._flight.close()
        self.theirs.close()
        await asyncio.sleep(0.05)  # the echo servers read the end of their connections


@pytest.fixture
async def raw() -> AsyncIterator[Raw]:
    made = Raw()
    await made.open()
    yield made
    await made.close()


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ((b"GET / HTTP/1.1\r\n",), "changed on the way"),
        ((header(MuxFrameKind.HELLO, MAGIC, VERSION + 1),), "another protocol"),
        ((header(MuxFrameKind.OPEN, 1),), "another protocol"),
        ((HELLO, HELLO), "began twice"),
        ((HELLO, header(MuxFrameKind.OPEN, 0)), "opened stream 0 where 1 comes next"),
        (
            (HELLO, header(MuxFrameKind.OPEN, 1), header(MuxFrameKind.OPEN, 1)),
            "opened stream 1 where 3 comes next",
        ),
        ((HELLO, header(MuxFrameKind.OPEN, 5)), "opened stream 5"),
        ((HELLO, header(MuxFrameKind.DATA, 1, 3), b"abc"), "never opened"),
        ((HELLO, header(MuxFrameKind.END, 2)), "never opened"),
        ((HELLO, header(MuxFrameKind.OPEN, 1), header(MuxFrameKind.CREDIT, 1, 1)), "granted 16777217 bytes"),
        ((HELLO, *(header(MuxFrameKind.OPEN, 1 + 2 * n) for n in range(9))), "over 8 streams"),
    ],
)
async def test_a_break_of_the_protocol_ends_the_stream_in_words(
    raw: Raw, frames: tuple[bytes, ...], words: str
) -> None:
    await raw.say(*frames)
    assert words in await raw.mux.ended


async def test_more_than_the_credit_ends_the_stream(raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    never: asyncio.Future[Any] = loop.create_future()
    with monkeypatch.context() as patch:
        patch.setattr(loop, "create_connection", lambda *_: never)  # nothing can be taken meanwhile
        await raw.say(HELLO, header(MuxFrameKind.OPEN, 1))
        chunk = header(MuxFrameKind.DATA, 1, MAX_DATA_BYTES) + bytes(MAX_DATA_BYTES)
        with contextlib.suppress(OSError):
            for _ in range(WINDOW_BYTES // MAX_DATA_BYTES + 1):
                await raw.say(chunk)
        assert "without credit" in await raw.mux.ended
    never.cancel()


async def test_a_peer_that_opens_and_ends_without_end_takes_no_more_than_its_share(raw: Raw) -> None:
    await raw.say(HELLO)
    for number in range(1, 4001, 2):
        await raw.say(header(MuxFrameKind.OPEN, number), header(MuxFrameKind.END, number))
    await raw.say(header(MuxFrameKind.OPEN, 4001), header(MuxFrameKind.DATA, 4001, 3), b"abc")
    said, answers = (
        b"",
        (b"abc", header(MuxFrameKind.END, 4001)),
    )  # the last one is served, or is one too many
    while not any(answer in said for answer in answers):
        said += await asyncio.get_running_loop().sock_recv(raw.theirs, 65536)
        assert kept_counts(raw.mux)["dials"] <= 4 * MAX_STREAMS
    assert not raw.mux.ended.done()


async def test_a_peer_that_asks_and_does_not_read_is_cut_off(
    raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_constants(monkeypatch, mux_module, FLOOD_BYTES=2_000)
    raw.transport.set_write_buffer_limits(high=1_000)
    raw._mine.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    set_constants(monkeypatch, raw.mux, flight_port=1)  # every opening is answered by an end
    dialled: list[Any] = []

    async def noting(mux: Mux, splice: Any) -> None:
        await dial(mux, splice)
        dialled.append(splice)

    dial = replace_function(monkeypatch, Mux, "dial", noting)
    await raw.say(HELLO)
    asked = 0
    with contextlib.suppress(OSError):
        while not raw.mux.ended.done():
            await raw.say(header(MuxFrameKind.OPEN, 1 + 2 * asked))
            asked += 1
            while not raw.mux.ended.done() and len(dialled) < asked:
                await asyncio.sleep(0)
    assert await raw.mux.ended == "the peer asks faster than it reads the answers"


async def test_frames_of_a_stream_that_ended_here_are_passed_over(raw: Raw) -> None:
    await raw.say(HELLO, header(MuxFrameKind.OPEN, 1), header(MuxFrameKind.END, 1))
    await raw.say(
        header(MuxFrameKind.DATA, 1, 3),
        b"abc",
        header(MuxFrameKind.CREDIT, 1, 5),
        header(MuxFrameKind.END, 1),
    )
    await raw.say(header(MuxFrameKind.OPEN, 3), header(MuxFrameKind.DATA, 3, 3), b"abc")
    loop = asyncio.get_running_loop()
    received = b""
    while b"abc" not in received:
        received += await loop.sock_recv(raw.theirs, 1000)
    assert not raw.mux.ended.done()


async def test_the_end_of_the_stream_closes_what_was_on_it(sides: Sides) -> None:
    await sides.open()
    reader, writer = await sides.dial()
    writer.write(b"hello")
    await reader.readexactly(5)
    sides.muxes[1].close("enough")
    assert await sides.muxes[0].ended == "the peer's side of this path has ended"
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""


async def test_silence_ends_the_stream(raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mux_module, "BEAT_INTERVAL_S", 0.05)
    monkeypatch.setattr(mux_module, "SILENCE_LIMIT_S", 0.2)
    await raw.say(HELLO)
    assert "nothing has come by this path" in await raw.mux.ended


async def test_beats_keep_an_idle_stream(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mux_module, "BEAT_INTERVAL_S", 0.05)
    monkeypatch.setattr(mux_module, "SILENCE_LIMIT_S", 1.2)
    await sides.open()
    await asyncio.wait([mux.ended for mux in sides.muxes], timeout=1.5)
    assert not any(mux.ended.done() for mux in sides.muxes)
