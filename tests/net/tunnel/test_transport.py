"""The tunnel over a network that loses, repeats, reorders, changes and goes away; its clock is virtual."""

from __future__ import annotations

import asyncio
import random

import numpy as np
import pytest

from duetlink.net.tunnel import transport as transport_module
from duetlink.net.tunnel.datagram import DatagramKind, DatagramSealer

from .network import KEY, Endpoint, FixedController, Path, connect, run_virtually

MB = 1_000_000


def some_bytes(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


@pytest.mark.parametrize(
    ("path", "size"),
    [
        (Path(), 3 * MB),
        (Path(loss=0.05), 3 * MB),
        (Path(loss=0.3), MB),
        (Path(duplicates=0.3), 2 * MB),
        (Path(jitter_s=0.02), 3 * MB),
        (Path(loss=0.02, duplicates=0.05, jitter_s=0.005, corrupted=0.02), 3 * MB),
        (Path(delay_s=0.3, loss=0.01), 3 * MB),
        (Path(delay_s=0.0, rate_bytes_per_s=1e9), 4 * MB),
        (Path(rate_bytes_per_s=1e6, queue_s=0.03), 2 * MB),
        (Path(mtu_bytes=1228), MB),
    ],
    ids=lambda value: repr(value) if isinstance(value, Path) else str(value),
)
@pytest.mark.parametrize("seed", [1, 2])
def test_both_streams_arrive_intact_and_end_in_order(path: Path, size: int, seed: int) -> None:
    async def main() -> None:
        there, back = some_bytes(size, seed), some_bytes(size // 4, seed + 7)
        first, second = Endpoint(there, then_close=False), Endpoint(back, then_close=False)
        connect(first, second, path, path, seed=seed)
        assert await second.wait_received(len(there)) == there
        assert await first.wait_received(len(back)) == back
        first.transport.close()
        assert await second.lost is None
        assert await first.lost is None
        assert second.events == ["made", "eof", "lost"]
        assert first.events == ["made", "lost"]

    run_virtually(main())


def test_what_was_written_before_close_arrives_before_the_end() -> None:
    async def main() -> None:
        payload = some_bytes(3 * MB)
        first, second = Endpoint(payload, then_close=True), Endpoint()
        connect(first, second, Path(loss=0.1), Path(loss=0.1))
        assert await second.lost is None
        assert second.received == payload
        assert await first.lost is None

    run_virtually(main())


@pytest.mark.parametrize("start", [2**32 - 10_000, 2**32 + 5, 2**53 - 7, 2**62])
def test_positions_have_64_bits(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "FIRST_POSITION", start)

    async def main() -> None:
        payload = some_bytes(MB)
        first, second = Endpoint(payload, then_close=True), Endpoint()
        connect(first, second, Path(loss=0.05), Path(loss=0.05))
        assert await second.lost is None
        assert second.received == payload

    run_virtually(main())


@pytest.mark.parametrize("cut_s", [2.0, 7.0, 20.0])
def test_an_outage_costs_little_more_than_it_lasted(cut_s: float) -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        payload = some_bytes(3 * MB)
        there, back = Path(), Path()
        first, second = Endpoint(payload), Endpoint()
        connect(first, second, there, back, make_controller=FixedController)
        await second.wait_received(MB)
        there.is_cut = back.is_cut = True
        await asyncio.sleep(cut_s)
        there.is_cut = back.is_cut = False
        before, mended_s = len(second.received), loop.time()
        await second.wait_received(before + 1)
        resumed_s = loop.time() - mended_s
        assert await second.wait_received(len(payload)) == payload
        first.transport.abort()
        return resumed_s

    assert run_virtually(main()) < 0.4


def test_silence_is_the_end_and_says_so() -> None:
    async def main() -> None:
        path = Path()
        first, second = Endpoint(), Endpoint()
        ports = connect(first, second, path, path, silence_s=12.0)
        await asyncio.sleep(60.0)
        assert not first.lost.done()  # keep-alives go both ways
        path.is_cut = True
        began_s = asyncio.get_running_loop().time()
        first.transport.write(b"x" * 10_000)
        with pytest.raises(ConnectionError, match="nothing was received from the other side for 12 s"):
            raise await first.lost or AssertionError
        assert asyncio.get_running_loop().time() - began_s < 18.0
        assert isinstance(await second.lost, ConnectionError)
        assert ports[0].is_closed
        assert ports[1].is_closed

    run_virtually(main())


def test_abort_ends_both_sides_at_once() -> None:
    async def main() -> None:
        first, second = Endpoint(some_bytes(MB)), Endpoint()
        ports = connect(first, second)
        await second.wait_received(1000)
        first.transport.abort()
        assert await first.lost is None
        with pytest.raises(ConnectionResetError, match="the other side broke the tunnel off"):
            raise await second.lost or AssertionError
        assert second.events == ["made", "lost"]
        assert all(port.is_closed for port in ports)
        first.transport.write(b"into the void")
        first.transport.close()
        first.transport.abort()

    run_virtually(main())


def test_one_side_may_end_its_stream_and_go_on_reading() -> None:
    async def main() -> None:
        first, second = Endpoint(), Endpoint()
        second.keep_open = True
        connect(first, second)
        await asyncio.sleep(0.1)
        first.transport.write(b"question")
        first.transport.write_eof()
        with pytest.raises(RuntimeError, match="write_eof"):
            first.transport.write(b"more")
        await second.has_eof.wait()
        assert second.received == b"question"
        second.transport.write(b"answer")
        second.transport.close()
        assert await second.lost is None
        assert first.received == b"answer"
        assert await first.lost is None

    run_virtually(main())


def test_the_side_that_is_left_behind_ends_in_order_though_its_last_answer_is_lost() -> None:
    async def main() -> None:
        there, back = Path(), Path()
        first, second = Endpoint(b"all of it", then_close=True), Endpoint()
        connect(first, second, there, back)
        await second.has_eof.wait()
        there.is_cut = True  # from now on, first hears second, and second hears nothing
        assert await first.lost is None
        assert await second.lost is None
        assert second.received == b"all of it"

    run_virtually(main())


def test_a_reader_that_pauses_holds_the_writer_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "CAPACITY_BYTES", 2 * MB)

    async def main() -> None:
        payload = some_bytes(6 * MB)
        first, second = Endpoint(payload), Endpoint()
        connect(first, second, Path(rate_bytes_per_s=1e9), Path(rate_bytes_per_s=1e9))
        await second.wait_received(MB)
        second.transport.pause_reading()
        at_pause = len(second.received)
        await asyncio.sleep(20.0)
        assert len(second.received) == at_pause
        sent = first.transport.sender.outgoing.sent - transport_module.FIRST_POSITION
        assert at_pause + MB < sent <= at_pause + 2 * MB
        assert first.transport.get_write_buffer_size() <= 2 * MB
        second.transport.resume_reading()
        assert await second.wait_received(len(payload)) == payload

    run_virtually(main())


def test_news_of_room_may_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "CAPACITY_BYTES", 2 * MB)

    async def main() -> None:
        payload = some_bytes(4 * MB)
        back = Path()
        first, second = Endpoint(payload), Endpoint()
        connect(first, second, Path(), back)
        await second.wait_received(MB)
        second.transport.pause_reading()
        await asyncio.sleep(20.0)
        back.is_cut = True
        second.transport.resume_reading()
        await asyncio.sleep(1.0)
        back.is_cut = False
        assert await second.wait_received(len(payload)) == payload

    run_virtually(main())


def test_the_writer_is_told_when_to_pause_and_to_resume() -> None:
    async def main() -> None:
        first, second = Endpoint(), Endpoint()
        connect(first, second)
        await asyncio.sleep(0.1)
        first.transport.set_write_buffer_limits(high=10_000, low=2_000)
        assert first.transport.get_write_buffer_limits() == (2_000, 10_000)
        first.transport.write(b"x" * 9_000)
        assert first._may_write
        first.transport.write(b"x" * 9_000)
        assert not first._may_write
        assert first.transport.get_write_buffer_size() == 18_000
        await second.wait_received(18_000)
        assert first._may_write
        with pytest.raises(ValueError, match="must be >="):
            first.transport.set_write_buffer_limits(high=1, low=2)

    run_virtually(main())


def test_the_size_of_datagrams_follows_the_path() -> None:
    async def main() -> None:
        there, back = Path(mtu_bytes=1440), Path(mtu_bytes=1440)
        payload = some_bytes(8 * MB)
        first, second = Endpoint(payload), Endpoint()
        connect(first, second, there, back)
        await second.wait_received(2 * MB)
        assert first.transport.sender.mtu.datagram_bytes == 1440
        there.mtu_bytes = back.mtu_bytes = 1300  # a black hole for what was fine until now
        await second.wait_received(6 * MB)
        await asyncio.sleep(3.0)
        assert first.transport.sender.mtu.datagram_bytes == 1280
        assert await second.wait_received(len(payload)) == payload

    run_virtually(main())


def test_a_sender_of_an_old_session_and_strangers_are_ignored() -> None:
    async def main() -> None:
        payload = some_bytes(MB)
        first, second = Endpoint(payload), Endpoint()
        ports = connect(first, second)
        old = DatagramSealer(bytes(32), initiator=True)
        noise = random.Random(5)
        while len(second.received) < len(payload):
            rows = old.seal(DatagramKind.DATA, np.full((4, 900), 7, np.uint8), np.arange(4) * 900)
            ports[1].arrive(*[row.tobytes() for row in rows])
            ports[1].arrive(old.seal(DatagramKind.RESET, np.empty((1, 0), np.uint8))[0].tobytes())
            ports[1].arrive(*[bytes([0xC0 | noise.randrange(64)]) + noise.randbytes(60) for _ in range(3)])
            ports[1].arrive(*ports[1].sent[-3:])  # its own
            ports[1].arrive(*ports[0].sent[:: max(1, len(ports[0].sent) // 20)])  # again
            await asyncio.sleep(0.02)
        assert second.received == payload
        dropped = second.transport.receiver.dropped
        assert dropped["of another session"] > 50
        assert dropped["replayed"] > 50
        assert dropped["truncated"] > 10
        assert not second.lost.done()

    run_virtually(main())


def test_what_a_peer_makes_up_is_counted_and_ignored() -> None:
    async def main() -> None:
        first, second = Endpoint(), Endpoint()
        ports = connect(first, second)
        await asyncio.sleep(1.0)
        liar = DatagramSealer(KEY, initiator=True)
        liar.next_packet_number = 5000
        nothing = np.empty((1, 0), np.uint8)
        made_up = [
            liar.seal(DatagramKind.ACK, np.frombuffer(b"short", np.uint8).reshape(1, -1)),
            liar.seal(
                DatagramKind.ACK,
                np.frombuffer(
                    b"".join(n.to_bytes(8) for n in (9999, 9999, 0, 0)) + bytes(4) + b"\x80", np.uint8
                ).reshape(1, -1),
            ),
            liar.seal(DatagramKind.DATA, np.zeros((2, 100), np.uint8), 2**62),
            liar.seal(DatagramKind.DATA, np.zeros((2, 100), np.uint8), 2**63 - 10),
            liar.seal(0xFF, nothing),
            liar.seal(DatagramKind.FIN, nothing, 2**62),
            liar.seal(DatagramKind.FIN, nothing, 3),
            liar.seal(DatagramKind.DATA, np.empty((3, 0), np.uint8), 50),
        ]
        for rows in made_up:
            ports[1].arrive(*[row.tobytes() for row in rows])
        await asyncio.sleep(1.0)
        assert second.received == b""
        assert second.transport.receiver.dropped == {
            "malformed": 2,
            "beyond the limit": 5,
            "of an unknown kind": 1,
        }
        assert not second.lost.done()

    run_virtually(main())


def test_a_protocol_that_raises_ends_its_tunnel() -> None:
    class Broken(Endpoint):
        def data_received(self, data: object) -> None:
            raise ZeroDivisionError("a fault")

    async def main() -> None:
        told: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
        first, second = Endpoint(b"hello"), Broken()
        connect(first, second)
        assert isinstance(await second.lost, ZeroDivisionError)
        assert isinstance(await first.lost, ConnectionResetError)
        assert [type(error) for error in told] == [ZeroDivisionError]

    run_virtually(main())


def test_a_port_that_closes_ends_the_tunnel() -> None:
    async def main() -> None:
        first, second = Endpoint(), Endpoint()
        ports = connect(first, second)
        await asyncio.sleep(0.1)
        ports[0].on_closed(None)
        with pytest.raises(ConnectionError, match="the connection that carried the tunnel is closed"):
            raise await first.lost or AssertionError

    run_virtually(main())
