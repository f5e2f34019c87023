"""Streams between two whole links on loopback: by every path, and on by another one when that is cut."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np
import pytest

from duetlink.base.wire import schema_pb2 as pb
from duetlink.errors import LinkClosed, PathUnavailable
from duetlink.net.link.link import Link
from duetlink.net.streams.frames import ACCEPT, Frame, FrameBatch
from duetlink.net.streams.stream import WINDOW_BYTES, Stream
from duetlink.settings import Settings
from duetlink.testing.faults import end_of, hang_up, inlet_of, kept_counts, outlet_of

MIB = 1024 * 1024


async def echo(stream: Stream) -> None:
    while True:
        message = await stream.receive()
        await stream.send(message.head, message.body)


async def round_trips(stream: Stream, sizes: list[int]) -> None:
    """Send bodies of these sizes side by side, and compare what comes back."""
    bodies = [np.random.default_rng(size).integers(0, 256, size, np.uint8) for size in sizes]
    sending = [
        asyncio.ensure_future(stream.send(b"%d" % number, body.data)) for number, body in enumerate(bodies)
    ]
    for number, body in enumerate(bodies):
        message = await stream.receive()
        assert message.head == b"%d" % number
        assert np.array_equal(np.frombuffer(message.body, np.uint8), body)
        assert message.body.readonly
    await asyncio.gather(*sending)


@pytest.mark.parametrize("path", ["tcp", "channel"])
async def test_messages_cross_by_the_path(make_pair: Any, path: str) -> None:
    one, other = await make_pair(Settings(only=(path,)))
    other.streams.on_open("echo", echo)
    stream = await one.streams.open("echo")
    await round_trips(stream, [0, 1, 1000, 100_000, 300_000, 2 * MIB + 1])


async def test_both_sides_open_streams_and_statistics_count_them(make_pair: Any) -> None:
    one, other = await make_pair()  # with shared memory, which carries none
    for link in (one, other):
        link.streams.on_open("echo", echo)
    streams = [await link.streams.open("echo") for link in (one, other, one)]
    await asyncio.gather(*(round_trips(stream, [1000, 300_000]) for stream in streams))
    assert one.statistics("").received_bytes == 903_006
    while one.statistics("").sent_bytes < 903_006:  # the peer says soon that the last one arrived
        await asyncio.sleep(0.01)
    assert one.statistics("").sent_bytes == 903_006


async def cut_tcp(link: Link, far: Link) -> None:
    """Break every connection by which `link` pulls from `far`, and let `tcp` not open again."""
    path = link.path_selector.named("tcp")

    async def fail() -> None:
        raise PathUnavailable("the cable was cut")

    path.open = fail  # type: ignore[method-assign]
    await asyncio.to_thread(hang_up, far)


async def test_a_stream_goes_on_by_another_path_and_nothing_is_lost(make_pair: Any) -> None:
    one, other = await make_pair(Settings(only=("tcp", "channel")))
    other.streams.on_open("echo", echo)
    for link in (one, other):
        await link.path_selector.wait_settled()
    stream = await one.streams.open("echo")
    bodies = [np.random.default_rng(n).integers(0, 256, 300_000, np.uint8) for n in range(12)]
    sending = [asyncio.ensure_future(stream.send(b"", body.data)) for body in bodies]
    for number, body in enumerate(bodies):
        if number == 3:
            await cut_tcp(one, other)
        elif number == 6:
            await cut_tcp(other, one)
        assert np.array_equal(np.frombuffer((await stream.receive()).body, np.uint8), body)
    await asyncio.gather(*sending)
    for link in (one, other):
        assert {path.name: path.state for path in link.path_selector.statuses()} == {
            "tcp": "down",
            "channel": "up",
        }


async def test_a_stream_outlives_the_connection(make_pair: Any) -> None:
    one, other = await make_pair(Settings(only=("tcp",)))
    other.streams.on_open("echo", echo)
    stream = await one.streams.open("echo")
    for link in (one, other):  # the network is away for a moment
        link.connection_lost("a test")
        link.path_selector.mark_down(link.path_selector.named("tcp"), PathUnavailable("a test"))
    sending = asyncio.ensure_future(round_trips(stream, [1000, 300_000]))
    for link in (one, other):
        link.connection_restored()
    await asyncio.wait_for(sending, 20)


async def test_streams_keep_to_the_rate_cap(make_pair: Any) -> None:
    one, other = await make_pair(Settings(only=("tcp",)))
    other.streams.on_open("echo", echo)
    stream = await one.streams.open("echo")
    await round_trips(stream, [10])
    one.tuning.rate_cap.set_rate(4e6, time.monotonic())
    start_s = time.monotonic()
    await round_trips(stream, [200_000] * 10)
    assert time.monotonic() - start_s > 0.3  # 2 MB at 4 MB/s, less the first of them and a burst


async def test_a_path_that_says_nothing_is_left_with_more_patience_each_time(
    make_pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetlink.net.streams.inlet.BEAT_S", 0.01)
    monkeypatch.setattr("duetlink.net.streams.inlet._SILENT_S", 0.05)
    one, other = await make_pair(Settings(only=("tcp", "channel")))
    for link in (one, other):
        await link.path_selector.wait_settled()
    other.streams.on_open("echo", echo)
    for name in ("tcp", "channel"):  # connected, and nothing comes by it
        path = one.path_selector.named(name)

        async def hang(ticket: bytes, take: Any, stop: Any) -> None:
            await asyncio.Event().wait()

        path.follow = hang
    opening = asyncio.ensure_future(one.streams.open("echo"))
    with pytest.raises(PathUnavailable, match=r"no path to the peer works .*nothing came over it"):
        await opening
    assert kept_counts(inlet_of(one.streams))["patience_s"] == 2  # both were found out
    for name in ("tcp", "channel"):
        del one.path_selector.named(name).follow
    await round_trips(await one.streams.open("echo"), [10])


async def test_the_end_of_the_link_ends_its_streams_on_both_sides(make_pair: Any) -> None:
    one, other = await make_pair(Settings(only=("tcp",)))
    taken: asyncio.Future[Stream] = asyncio.get_running_loop().create_future()

    async def hold(stream: Stream) -> None:
        taken.set_result(stream)
        await asyncio.Event().wait()

    other.streams.on_open("hold", hold)
    stream = await one.streams.open("hold")
    receiving = asyncio.ensure_future(stream.receive())
    await other.close("enough")
    with pytest.raises(LinkClosed, match="enough"):
        await receiving
    with pytest.raises(LinkClosed):
        await (await taken).receive()
    with pytest.raises(LinkClosed):
        await one.streams.open("hold")


async def test_a_frame_that_is_not_allowed_ends_the_link_and_both_sides_know(make_pair: Any) -> None:
    attacker, victim = await make_pair(Settings(only=("tcp",)))
    victim.streams.on_open("echo", echo)
    await attacker.streams.open("echo")
    outlet_of(attacker.streams).put(Frame(4, 99, 1))
    assert "stream 99" in str(await asyncio.wait_for(end_of(victim), 60))
    assert isinstance(await asyncio.wait_for(end_of(attacker), 60), LinkClosed)


async def test_a_peer_that_lies_about_how_far_it_has_come_is_refused(make_pair: Any) -> None:
    attacker, _ = await make_pair(Settings(only=("tcp",)))
    with pytest.raises(Exception, match="confirms frame 5 of 0"):
        await attacker.rpc.call(pb.FeedQuery(path="tcp", arrived=5), pb.Ticket)


async def test_shared_memory_carries_no_streams(make_pair: Any) -> None:
    one, _ = await make_pair()
    with pytest.raises(PathUnavailable, match="carries no streams"):
        await one.rpc.call(pb.FeedQuery(path="local"), pb.Ticket)


async def test_an_acceptance_that_crosses_with_a_cancellation_is_no_violation(make_pair: Any) -> None:
    link, _ = await make_pair(Settings(only=("tcp",)))
    opening = asyncio.ensure_future(link.streams.open("nobody takes this"))
    await asyncio.sleep(0)
    opening.cancel()
    inlet = inlet_of(link.streams)
    inlet.take(FrameBatch(inlet.arrived + 1, 0, [Frame(ACCEPT, 2, WINDOW_BYTES)]))
    with pytest.raises(asyncio.CancelledError):
        await opening
