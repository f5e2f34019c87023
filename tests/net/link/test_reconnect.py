"""A link whose connection is lost: what waits, what is kept, what comes back, and when it gives up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from duetlink.base.events import Event, LinkLost, LinkRestored, ReconnectFailed, listen
from duetlink.base.wire import schema_pb2 as pb
from duetlink.errors import CallTimeout, PeerLost, PeerUnreachable
from duetlink.net.flight.body import Outgoing
from duetlink.net.link.link import Link, LinkOwner
from duetlink.net.link.reconnector import Reconnector
from duetlink.net.peer.connection import PeerConnection
from duetlink.net.streams.stream import Stream
from duetlink.settings import Settings
from duetlink.testing.datagrams import send_until
from duetlink.testing.faults import end_of

MIB = 1024 * 1024
QUICK = Settings(heartbeat_interval_s=0.1, heartbeat_timeout_s=0.6, only=("channel",))


class Reuniting:
    """Where the two links of a test meet again: one describes its connection to the other."""

    def __init__(self) -> None:
        self._offers: asyncio.Queue[tuple[bytes, asyncio.Future[bytes]]] = asyncio.Queue()
        self.open = asyncio.Event()

    async def offer(self) -> PeerConnection:
        await self.open.wait()
        connection = PeerConnection([])
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        try:
            self._offers.put_nowait((await connection.offer(), answered))
            await connection.accept(await answered)
        except BaseException:
            answered.cancel()
            await connection.close()
            raise
        return connection

    async def answer(self) -> PeerConnection:
        await self.open.wait()
        while True:
            offer, answered = await self._offers.get()
            if not answered.cancelled():
                break
        connection = PeerConnection([])
        answered.set_result(await connection.answer(offer))
        return connection


@pytest.fixture
def reuniting() -> Reuniting:
    return Reuniting()


@pytest.fixture
async def links(make_pair: Any, reuniting: Reuniting, cut: Any) -> tuple[Link, Link]:
    one, other = await make_pair(QUICK, start=False)
    one.reconnect, other.reconnect = reuniting.offer, reuniting.answer
    for link in (one, other):
        link.start()
    return one, other


def seen(link: Link) -> tuple[asyncio.Event, asyncio.Event]:
    """Events that are set when the link is lost, and when it is restored."""
    lost, restored = asyncio.Event(), asyncio.Event()
    link.belong_to(LinkOwner(lost=lambda why: lost.set(), restored=restored.set))
    return lost, restored


async def soon(waiting: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(waiting, 30)


async def test_messages_of_both_sides_arrive_once_and_in_order_over_a_new_connection(
    links: tuple[Link, Link], reuniting: Reuniting, cut: Any
) -> None:
    arrived: dict[Link, list[int]] = {link: [] for link in links}

    def note(link: Link) -> Callable[[pb.Withdraw], Awaitable[pb.Done]]:
        async def take(withdraw: pb.Withdraw) -> pb.Done:
            arrived[link].append(int.from_bytes(withdraw.request_id, "big"))
            return pb.Done()

        return take

    calls = []
    restored = [seen(link)[1] for link in links]
    for link in links:
        link.rpc.handle(pb.Withdraw, note(link))
    for number in range(600):
        if number == 200:
            cut(links[0])
        if number == 400:
            reuniting.open.set()
        message = pb.Withdraw(request_id=number.to_bytes(4, "big"))
        calls += [asyncio.ensure_future(link.rpc.call(message, pb.Done)) for link in links]
        await asyncio.sleep(0.005)
    await soon(asyncio.gather(*calls))
    assert [arrived[link] for link in links] == [list(range(600))] * 2
    await soon(asyncio.gather(*(event.wait() for event in restored)))
    assert [link.statistics("").reconnects for link in links] == [1, 1]


async def begin_pull(receiver: Link, sender: Link) -> tuple[np.ndarray, asyncio.Future[Any]]:
    """A transfer of 6 MiB, of which one or more have arrived."""
    array = np.random.default_rng(0).integers(0, 256, 6 * MIB, np.uint8)
    offer = await sender.exports.offer("x", Outgoing([array.data], array.nbytes))
    pulling = asyncio.ensure_future(receiver.imports.pull("x", offer, 1 << 40))
    while receiver.statistics("").received_bytes < MIB:
        await asyncio.sleep(0.001)
    return array, pulling


async def test_a_transfer_goes_on_over_the_new_connection(
    links: tuple[Link, Link], reuniting: Reuniting, cut: Any
) -> None:
    receiver, sender = links
    array, pulling = await begin_pull(receiver, sender)
    reuniting.open.set()
    cut(sender)
    assert np.array_equal(np.frombuffer(await soon(pulling), np.uint8), array)
    assert receiver.statistics("").reconnects == 1


async def test_a_stream_goes_on_over_the_new_connection(
    links: tuple[Link, Link], reuniting: Reuniting, cut: Any
) -> None:
    one, other = links
    got: list[bytes] = []

    async def take(stream: Stream) -> None:
        while True:
            got.append(bytes((await stream.receive()).body))

    other.streams.on_open("numbers", take)
    stream = await one.streams.open("numbers")
    restored = [seen(link)[1] for link in links]
    for number in range(40):
        if number == 10:
            cut(one)
        if number == 20:
            reuniting.open.set()
        await stream.send(b"", memoryview(b"%d" % number * 10_000))
        await asyncio.sleep(0.005)
    await soon(asyncio.gather(*(event.wait() for event in restored)))
    while len(got) < 40:
        await asyncio.sleep(0.01)
    assert got == [b"%d" % number * 10_000 for number in range(40)]


async def test_datagrams_pass_over_the_new_connection(
    links: tuple[Link, Link], reuniting: Reuniting, cut: Any
) -> None:
    one, other = links
    await send_until(one.datagrams, other.datagrams, b"before")
    restored = [seen(link)[1] for link in links]
    reuniting.open.set()
    cut(one)
    await soon(asyncio.gather(*(event.wait() for event in restored)))
    await soon(send_until(one.datagrams, other.datagrams, b"after"))


@pytest.mark.parametrize("side", ["receiver", "sender"])
async def test_a_pause_outlasts_the_connection(
    links: tuple[Link, Link], reuniting: Reuniting, cut: Any, side: str
) -> None:
    receiver, sender = links
    array, pulling = await begin_pull(receiver, sender)
    (incoming,), (outgoing,) = receiver.traffic.transfers, sender.traffic.transfers
    paused = incoming if side == "receiver" else outgoing
    lost, restored = seen(receiver)
    cut(sender)
    paused.pause(True)  # said while nobody can hear it
    await soon(lost.wait())
    reuniting.open.set()
    await soon(restored.wait())
    await soon(receiver.ping())
    await soon(sender.ping())
    assert (incoming.paused_here, incoming.paused_there) == (side == "receiver", side == "sender")
    assert (outgoing.paused_here, outgoing.paused_there) == (side == "sender", side == "receiver")
    while incoming.done_bytes < outgoing.done_bytes:  # what had left before
        await asyncio.sleep(0.001)
    assert incoming.done_bytes < array.nbytes
    before = incoming.done_bytes
    await soon(receiver.ping())
    assert (incoming.done_bytes, outgoing.done_bytes) == (before, before)
    paused.pause(False)
    assert np.array_equal(np.frombuffer(await soon(pulling), np.uint8), array)


async def test_the_old_connection_is_kept_where_it_comes_back_first(
    links: tuple[Link, Link], cut: Any
) -> None:
    events = [seen(link) for link in links]
    heal = cut(links[0])
    await soon(asyncio.gather(*(lost.wait() for lost, _ in events)))
    heal()
    await soon(asyncio.gather(*(restored.wait() for _, restored in events)))
    assert await soon(links[0].ping()) > 0
    assert [link.statistics("").reconnects for link in links] == [0, 0]


async def test_several_losses_in_a_row(links: tuple[Link, Link], reuniting: Reuniting, cut: Any) -> None:
    reuniting.open.set()
    for _ in range(3):
        restored = [seen(link)[1] for link in links]
        cut(links[1])
        await soon(asyncio.gather(*(event.wait() for event in restored)))
        await soon(asyncio.gather(*(link.ping() for link in links)))
    assert [link.statistics("").reconnects for link in links] == [3, 3]


async def test_the_time_that_a_call_has_stands_still_meanwhile(
    links: tuple[Link, Link], reuniting: Reuniting, cut: Any
) -> None:
    async def done(withdraw: pb.Withdraw) -> pb.Done:
        return pb.Done()

    links[1].rpc.handle(pb.Withdraw, done)
    lost, _ = seen(links[0])
    cut(links[0])
    await soon(lost.wait())
    calling = asyncio.ensure_future(links[0].rpc.call(pb.Withdraw(), pb.Done, timeout_s=0.5))
    await asyncio.wait((calling,), timeout=1.5)
    assert not calling.done()
    reuniting.open.set()
    assert isinstance(await soon(calling), pb.Done)
    with pytest.raises(CallTimeout):  # and then it runs again

        async def never(withdraw: pb.Withdraw) -> pb.Done:
            await asyncio.Event().wait()
            return pb.Done()

        links[1].rpc.handle(pb.Withdraw, never)
        await links[0].rpc.call(pb.Withdraw(), pb.Done, timeout_s=0.2)


async def test_it_gives_up_after_the_limit_and_says_why(
    make_pair: Any, reuniting: Reuniting, cut: Any
) -> None:
    settings = Settings(
        heartbeat_interval_s=0.1, heartbeat_timeout_s=0.4, reconnect_timeout_s=0.5, only=("channel",)
    )
    one, other = await make_pair(settings, start=False)
    one.reconnect, other.reconnect = reuniting.offer, reuniting.answer
    for link in (one, other):
        link.start()
    cut(one)
    error = await soon(end_of(other))
    assert isinstance(error, PeerLost)
    assert "silent" in str(error)
    assert "did not come back within 0.5 s" in str(error)


async def test_while_it_is_lost_no_path_is_up_and_the_silence_counts_on(
    links: tuple[Link, Link], cut: Any
) -> None:
    link = links[1]
    await soon(link.path_selector.wait_settled())
    assert [(path.name, path.state) for path in link.statistics("").paths] == [("channel", "up")]
    assert link.outage is None
    lost, _ = seen(link)
    cut(links[0])
    await soon(lost.wait())
    (path,) = link.statistics("").paths
    assert (path.state, path.why, link.statistics("").path) == (
        "unknown",
        "the peer is out of reach",
        None,
    )
    first = link.outage
    assert first is not None
    while (now := link.outage) is not None and (now.left_s > 3599 or now.why == first.why):
        await asyncio.sleep(0.01)
    assert now is not None
    assert silence_s(now.why) > silence_s(first.why) >= 0.6
    assert 3600 >= first.left_s > now.left_s > 3590


def silence_s(words: str) -> float:
    return float(words.removeprefix("the peer has been silent for ").split(" s ")[0])


async def test_whoever_is_in_a_hurry_begins_the_search_anew(
    make_pair: Any, reuniting: Reuniting, cut: Any
) -> None:
    one, other = await make_pair(QUICK, start=False)
    searches = []

    async def search() -> PeerConnection:
        searches.append("begun")
        return await reuniting.offer()

    one.reconnect, other.reconnect = search, reuniting.answer
    for link in (one, other):
        link.start()
    lost, restored = seen(one)
    cut(other)
    await soon(lost.wait())
    for begun in (1, 2, 3):
        while len(searches) < begun:
            await asyncio.sleep(0.001)
        one.hurry()
    reuniting.open.set()
    await soon(restored.wait())
    assert await soon(one.ping()) > 0


async def test_each_attempt_that_fails_is_an_event(make_pair: Any, reuniting: Reuniting, cut: Any) -> None:
    one, other = await make_pair(QUICK, start=False)
    failures = [OSError("no route"), PeerUnreachable("no path")]

    async def search() -> PeerConnection:
        if failures:
            raise failures.pop(0)
        return await reuniting.offer()

    one.reconnect, other.reconnect = search, reuniting.answer
    for link in (one, other):
        link.start()
    _, restored = seen(one)
    reuniting.open.set()
    told: list[Event] = []
    unlisten = listen(lambda event, source: told.append(event) if source == one.sink.source else None)
    cut(other)
    await soon(restored.wait())
    unlisten()
    link_events = [event for event in told if isinstance(event, LinkLost | LinkRestored | ReconnectFailed)]
    assert link_events[:-1] == [
        LinkLost(own_absence=False),
        ReconnectFailed(OSError),
        ReconnectFailed(PeerUnreachable),
    ]
    assert isinstance(link_events[-1], LinkRestored)
    assert link_events[-1].reconnects == 1


async def test_whoever_is_in_a_hurry_learns_soon_that_the_peer_is_lost(
    make_pair: Any, reuniting: Reuniting, cut: Any
) -> None:
    patient = Settings(heartbeat_interval_s=0.1, heartbeat_timeout_s=600.0, only=("channel",))
    one, other = await make_pair(patient, start=False)
    one.reconnect, other.reconnect = reuniting.offer, reuniting.answer
    for link in (one, other):
        link.start()
    await soon(one.ping())
    lost, _ = seen(one)
    cut(other)
    one.hurry()
    await soon(lost.wait())


async def test_closing_while_it_reconnects_ends_it_at_once(links: tuple[Link, Link], cut: Any) -> None:
    lost, _ = seen(links[0])
    cut(links[0])
    await soon(lost.wait())
    await asyncio.wait_for(links[0].close(), 60)


async def test_a_silence_is_told_as_long_as_it_was() -> None:
    """After this side was blocked, a peer has less time to be heard; that shortens no silence in the text."""

    class Silent:
        async def wait_ended(self) -> str:
            await asyncio.Event().wait()
            raise AssertionError

        async def close(self) -> None:
            pass

    class Owner:
        def __init__(self) -> None:
            self.ended: asyncio.Future[PeerLost] = asyncio.get_running_loop().create_future()

        def gave_up(self, error: PeerLost) -> None:
            self.ended.set_result(error)

        def round_trip_took(self, time_s: float) -> None:
            pass

    settings = Settings(heartbeat_interval_s=0.01, heartbeat_timeout_s=20.0)
    reconnector, owner = Reconnector(Silent(), settings, lambda error: None), Owner()  # type: ignore[arg-type]
    reconnector.hurry()
    reconnector.start(owner, None)  # type: ignore[arg-type]
    assert "silent for 0." in str(await asyncio.wait_for(owner.ended, 60))
    await reconnector.close("the test is over")
