"""Streams over paths in memory that break at any moment: every message once, whole, in order."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.base.wire import schema_pb2 as pb
from duetlink.errors import (
    CallTimeout,
    LimitExceeded,
    LinkClosed,
    LocalProtocolError,
    PathUnavailable,
    PeerLost,
    RemoteProtocolError,
    StreamClosed,
)
from duetlink.net.flight.tickets import Feed
from duetlink.net.streams.frames import ACCEPT, CLOSE, CREDIT, OPEN, PART, Frame, FrameBatch
from duetlink.net.streams.outlet import Outlet
from duetlink.net.streams.stream import MOST_BODY_BYTES, Stream
from duetlink.net.streams.streams import Streams
from duetlink.testing.faults import inlet_of, kept_counts, outlet_of

KIB = 1024


class NoRpc:
    """Streams of these tests are pulled by the test itself."""

    def handle(self, kind: Any, handler: Any) -> None:
        pass

    async def call(self, query: pb.FeedQuery, reply: Any) -> pb.Ticket:
        raise PathUnavailable("the test pulls")


class NoLadder:
    paused = False

    def __init__(self) -> None:
        self.down = asyncio.Event()

    async def wait_best(self, avoid: Any) -> Any:
        await self.down.wait()
        self.down.clear()
        raise PathUnavailable("no path to the peer works")


class NoTickets:
    def issue_feed(self, feed: Feed) -> bytes:
        return b""


class Ends:
    """Two sides. `step` moves one batch; `cut` is a path that breaks: what it held is lost."""

    def __init__(self, *, call_timeout_s: float = 5) -> None:
        self.violations: list[RemoteProtocolError] = []
        self.ladders = NoLadder(), NoLadder()
        self.sides = [
            Streams(
                NoRpc(),  # type: ignore[arg-type]
                path_selector,  # type: ignore[arg-type]
                NoTickets(),  # type: ignore[arg-type]
                self.violations.append,
                lambda direction, size_bytes: None,
                initiator=initiator,
                call_timeout_s=call_timeout_s,
            )
            for initiator, path_selector in zip((True, False), self.ladders, strict=True)
        ]
        self.feeds = [outlet_of(side).feed(0) for side in self.sides]
        self.moved_bytes = 0

    def cut(self, sender: int) -> None:
        """The receiver asks anew, from where it is."""
        self.feeds[sender] = outlet_of(self.sides[sender]).feed(inlet_of(self.sides[1 - sender]).arrived)

    def step(self, sender: int, *, lost: bool = False) -> bool:
        """Pull one batch, by the bytes; whether there was anything in it."""
        outlet = outlet_of(self.sides[sender])
        outlet.acknowledge(inlet_of(self.sides[sender]).arrived, at_once=True)  # so that it does not wait
        batch = outlet.take(self.feeds[sender], 0)
        assert batch is not None
        table, bodies = batch.to_wire()
        self.moved_bytes += len(bodies)
        if not lost:
            arrived = FrameBatch.from_wire(table, memoryview(bytes(bodies)))
            inlet_of(self.sides[1 - sender]).take(arrived)
        return bool(batch.frames)

    async def settle(self) -> None:
        """Move everything, until nothing moves any more."""
        quiet = 0
        while quiet < 3:
            moved = [self.step(sender) for sender in (0, 1)]
            for _ in range(5):
                await asyncio.sleep(0)
            quiet = 0 if any(moved) else quiet + 1

    async def open(self, purpose: str = "test", **options: Any) -> tuple[Stream, Stream]:
        theirs: asyncio.Future[Stream] = asyncio.get_running_loop().create_future()

        async def keep(stream: Stream) -> None:
            theirs.set_result(stream)
            await asyncio.Event().wait()

        self.sides[1].on_open(purpose, keep, **options)
        opening = asyncio.ensure_future(self.sides[0].open(purpose))
        await asyncio.sleep(0)
        await self.settle()
        return await opening, await theirs

    async def close(self) -> None:
        for side in self.sides:
            await side.close(LinkClosed("the test is over"))


@pytest.fixture
async def ends_closed() -> Ends:
    """With a stream that was open, and frames that nobody has confirmed."""
    ends = Ends()
    _, other = await ends.open()
    await other.send(b"", memoryview(b"unconfirmed"))
    await ends.close()
    return ends


SIZES = st.sampled_from([0, 1, 1000, 100 * KIB, 300 * KIB, 2100 * KIB])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), SIZES), min_size=1, max_size=12),
    st.lists(st.sampled_from(["step", "step", "step", "lose", "cut"]), max_size=60),
    st.integers(0, 9),
)
def test_every_message_arrives_once_whole_and_in_order_over_paths_that_break(
    sends: list[tuple[int, int, int]], steps: list[str], seed: int
) -> None:
    async def play() -> None:
        ends = Ends()
        choose = random.Random(seed)
        pairs = [await ends.open(f"purpose {number}") for number in range(3)]
        sent: dict[tuple[int, int], list[tuple[bytes, bytes]]] = {}
        received: dict[tuple[int, int], list[tuple[bytes, bytes]]] = {}

        async def receive(to: int, number: int) -> None:
            while True:
                message = await pairs[number][to].receive()
                received.setdefault((1 - to, number), []).append((message.head, bytes(message.body)))

        receiving = [asyncio.ensure_future(receive(to, n)) for to in (0, 1) for n in range(3)]
        sending = []
        for index, (sender, number, size) in enumerate(sends):
            head, body = b"%d" % index, choose.randbytes(size)
            sent.setdefault((sender, number), []).append((head, body))
            sending.append(asyncio.ensure_future(pairs[number][sender].send(head, memoryview(body))))
        for step in steps:
            await asyncio.sleep(0)
            sender = choose.randrange(2)
            if step == "step":
                ends.step(sender)
            elif step == "lose":  # it was on its way when the path broke
                ends.step(sender, lost=True)
                ends.cut(sender)
            else:
                ends.cut(sender)
        await ends.settle()
        assert received == sent
        assert all(task.done() for task in sending)
        await asyncio.gather(*sending)
        assert ends.violations == []
        for side in ends.sides:
            assert kept_counts(outlet_of(side))["frames"] == 0  # everything is confirmed
        for task in receiving:
            task.cancel()
        await ends.close()

    asyncio.run(play())


async def test_the_memory_of_a_large_body_is_free_once_send_returns() -> None:
    ends = Ends()
    one, other = await ends.open()
    body = bytearray(300 * KIB)
    sending = asyncio.ensure_future(one.send(b"", memoryview(body)))
    await asyncio.sleep(0)
    ends.step(0, lost=True)  # it left, and was lost with its path: the peer has nothing
    ends.cut(0)
    await asyncio.sleep(0)
    assert not sending.done()
    await ends.settle()
    await sending
    body[:] = b"x" * len(body)
    assert bytes((await other.receive()).body) == bytes(300 * KIB)
    await ends.close()


async def test_a_small_body_is_free_at_once_though_its_path_breaks() -> None:
    ends = Ends()
    one, other = await ends.open()
    body = bytearray(b"first")
    await one.send(b"", memoryview(body))
    body[:] = b"other"
    ends.step(0, lost=True)
    ends.cut(0)
    await ends.settle()
    assert bytes((await other.receive()).body) == b"first"
    await ends.close()


async def test_a_sender_waits_while_the_peer_does_not_receive_and_others_pass() -> None:
    ends = Ends()
    slow, slow_end = await ends.open("slow", window_bytes=128 * KIB)
    fast, fast_end = await ends.open("fast")
    sending = [asyncio.ensure_future(slow.send(b"", memoryview(bytes(60 * KIB)))) for _ in range(5)]
    await asyncio.sleep(0)
    await ends.settle()
    assert [task.done() for task in sending] == [True, True, False, False, False]
    await fast.send(b"", memoryview(b"passes"))
    await ends.settle()
    assert bytes((await fast_end.receive()).body) == b"passes"
    for _ in range(5):
        assert len((await slow_end.receive()).body) == 60 * KIB
        await ends.settle()
    assert all(task.done() for task in sending)
    await ends.close()


async def test_what_no_path_takes_is_bounded() -> None:
    ends = Ends()
    pairs = [await ends.open(f"{number}") for number in range(3)]
    sending = [
        asyncio.ensure_future(one.send(b"", memoryview(bytes(250 * KIB))))
        for _ in range(20)
        for one, _ in pairs
    ]
    await asyncio.sleep(0)
    sent = sum(task.done() for task in sending)
    assert 16 <= sent <= 20  # 4 MiB of 15
    for _, other in pairs:
        for _ in range(20):
            receiving = asyncio.ensure_future(other.receive())
            while not receiving.done():
                await ends.settle()
    assert all(task.done() for task in sending)
    await ends.close()


async def test_frames_that_an_earlier_path_brought_after_all_are_not_sent_again() -> None:
    outlet = Outlet()
    for number in range(1, 6):
        outlet.put(Frame(CREDIT, 2, number))
    feed = outlet.feed(0)
    outlet.confirm(3)  # the peer has said so by the way, and this feed has not given them
    batch = outlet.take(feed, 0)
    assert batch is not None
    assert (batch.first, [frame.value for frame in batch.frames]) == (4, [4, 5])
    outlet.close(LinkClosed("the test is over"))


async def test_a_message_larger_than_the_window_comes_only_while_somebody_waits_for_it() -> None:
    ends = Ends()
    one, other = await ends.open(window_bytes=128 * KIB)
    sending = asyncio.ensure_future(one.send(b"", memoryview(bytes(3000 * KIB))))
    await asyncio.sleep(0)
    await ends.settle()
    assert ends.moved_bytes < 200 * KIB
    receiving = asyncio.ensure_future(other.receive())
    await asyncio.sleep(0)
    await ends.settle()
    assert len((await receiving).body) == 3000 * KIB
    await sending
    await ends.close()


async def test_what_was_sent_before_the_end_arrives_and_then_the_reason() -> None:
    ends = Ends()
    one, other = await ends.open()
    await one.send(b"last", memoryview(b""))
    one.close("that was all")
    await ends.settle()
    assert (await other.receive()).head == b"last"
    with pytest.raises(StreamClosed, match="the peer closed the stream 'test': that was all"):
        await other.receive()
    with pytest.raises(StreamClosed, match="peer"):
        await other.send(b"", memoryview(b"x"))
    with pytest.raises(StreamClosed, match="this side closed the stream 'test': that was all"):
        await one.receive()
    assert kept_counts(ends.sides[0])["open"] == 0
    await ends.close()


async def test_what_comes_for_a_stream_that_was_just_closed_is_dropped() -> None:
    ends = Ends()
    one, other = await ends.open()
    await other.send(b"", memoryview(b"too late"))
    one.close()
    await ends.settle()
    assert ends.violations == []
    await ends.close()


async def test_a_send_that_is_cancelled_before_anything_left_sends_nothing() -> None:
    ends = Ends()
    one, other = await ends.open(window_bytes=128 * KIB)
    await one.send(b"first", memoryview(bytes(100 * KIB)))
    waiting = asyncio.ensure_future(one.send(b"second", memoryview(bytes(100 * KIB))))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await ends.settle()
    assert (await other.receive()).head == b"first"
    await ends.settle()
    await one.send(b"third", memoryview(b""))
    await ends.settle()
    assert (await other.receive()).head == b"third"
    await ends.close()


async def test_a_send_that_is_cancelled_in_the_middle_closes_the_stream() -> None:
    ends = Ends()
    one, other = await ends.open(window_bytes=128 * KIB)
    sending = asyncio.ensure_future(one.send(b"", memoryview(bytes(3000 * KIB))))
    await asyncio.sleep(0)
    await ends.settle()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    await ends.settle()
    with pytest.raises(StreamClosed, match="cancelled in the middle"):
        await other.receive()
    await ends.close()


async def test_a_large_send_that_is_cancelled_when_all_of_it_has_left_arrives_as_it_was() -> None:
    ends = Ends()
    one, other = await ends.open()
    body = bytearray(300 * KIB)
    sending = asyncio.ensure_future(one.send(b"", memoryview(body)))
    await asyncio.sleep(0)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    body[:] = b"x" * len(body)
    await ends.settle()
    assert bytes((await other.receive()).body) == bytes(300 * KIB)
    await ends.close()


async def test_a_stream_for_which_nobody_is_there_yet_waits() -> None:
    ends = Ends()
    opening = asyncio.ensure_future(ends.sides[0].open("later"))
    await asyncio.sleep(0)
    await ends.settle()
    assert not opening.done()

    async def answer(stream: Stream) -> None:
        await stream.send(b"here", memoryview(b""))

    ends.sides[1].on_open("later", answer)
    await ends.settle()
    assert (await (await opening).receive()).head == b"here"
    await ends.close()


async def test_a_stream_that_nobody_takes_times_out_and_is_forgotten_on_both_sides() -> None:
    ends = Ends(call_timeout_s=0.05)
    opening = asyncio.ensure_future(ends.sides[0].open("nobody"))
    await asyncio.sleep(0)
    await ends.settle()
    with pytest.raises(CallTimeout, match=r"'nobody' within 0.05 s"):
        await opening
    await ends.settle()
    assert kept_counts(ends.sides[1])["pending"] == 0
    assert kept_counts(ends.sides[0])["open"] == 0
    await ends.close()


async def test_more_streams_than_a_purpose_allows_are_refused_until_one_ends() -> None:
    ends = Ends()
    ended = asyncio.Event()

    async def hold(stream: Stream) -> None:
        await ended.wait()

    ends.sides[1].on_open("few", hold, most=2)
    openings = [asyncio.ensure_future(ends.sides[0].open("few")) for _ in range(3)]
    await asyncio.sleep(0)
    await ends.settle()
    with pytest.raises(StreamClosed, match="2 of this purpose are open"):
        await openings[2]
    ended.set()
    await ends.settle()
    opening = asyncio.ensure_future(ends.sides[0].open("few"))
    await asyncio.sleep(0)
    await ends.settle()
    assert (await opening).purpose == "few"
    await ends.close()


async def test_streams_that_nobody_takes_are_bounded() -> None:
    ends = Ends()
    openings = [asyncio.ensure_future(ends.sides[0].open(f"unknown {n}")) for n in range(70)]
    await asyncio.sleep(0)
    await ends.settle()
    assert kept_counts(ends.sides[1])["pending"] == 64
    refused = [task for task in openings if task.done()]
    assert len(refused) == 6
    await ends.close()
    outcomes = await asyncio.gather(*openings, return_exceptions=True)
    assert sum(isinstance(outcome, StreamClosed) for outcome in outcomes) == 6
    assert sum(isinstance(outcome, LinkClosed) for outcome in outcomes) == 64


async def test_a_handler_that_ends_closes_its_stream_and_one_that_fails_is_told() -> None:
    ends = Ends()
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))

    async def fail(stream: Stream) -> None:
        raise ValueError("row 17")

    ends.sides[1].on_open("fails", fail)
    opening = asyncio.ensure_future(ends.sides[0].open("fails"))
    await asyncio.sleep(0)
    await ends.settle()
    with pytest.raises(StreamClosed) as caught:
        await (await opening).receive()
    assert "17" not in str(caught.value)
    assert isinstance(told[0]["exception"], ValueError)
    await ends.close()


async def test_the_end_of_the_link_ends_every_stream_with_its_error() -> None:
    ends = Ends()
    one, other = await ends.open()
    await other.send(b"before", memoryview(b""))
    await ends.settle()
    opening = asyncio.ensure_future(ends.sides[0].open("unknown"))
    sending = asyncio.ensure_future(one.send(b"", memoryview(bytes(300 * KIB))))
    await asyncio.sleep(0)
    await ends.sides[0].close(PeerLost("the peer is gone"))
    assert (await one.receive()).head == b"before"
    for waiting in (one.receive(), opening, sending, one.send(b"", memoryview(b"")), ends.sides[0].open("x")):
        with pytest.raises(PeerLost, match="the peer is gone"):
            await waiting
    await ends.close()


async def test_what_comes_after_the_end_of_the_link_is_left(ends_closed: Ends) -> None:
    victim = ends_closed.sides[1]
    frames = [Frame(OPEN, 4, 1 << 20, b"test"), Frame(PART, 2, 0, b"", b"late")]
    inlet_of(victim).take(FrameBatch(inlet_of(victim).arrived + 1, 0, frames))
    assert kept_counts(victim)["open"] == kept_counts(victim)["tasks"] == 0
    assert ends_closed.violations == []


async def test_where_no_path_works_for_long_streams_end_and_later_ones_go_on() -> None:
    ends = Ends()
    one, _ = await ends.open()
    ends.ladders[0].down.set()
    with pytest.raises(PathUnavailable, match="no path"):
        await one.receive()
    await ends.settle()
    again, again_end = await ends.open()
    await again.send(b"hello", memoryview(b""))
    await ends.settle()
    assert (await again_end.receive()).head == b"hello"
    await ends.close()


async def test_a_message_out_of_bounds_is_refused_before_anything_is_sent() -> None:
    ends = Ends()
    one, _ = await ends.open()
    with pytest.raises(LocalProtocolError, match="16384 bytes of head"):
        await one.send(bytes(16 * KIB + 1), memoryview(b""))
    with pytest.raises(LocalProtocolError, match="purpose"):
        await ends.sides[0].open("")
    with pytest.raises(LocalProtocolError, match="window"):
        await ends.sides[0].open("x", window_bytes=1000)
    await ends.close()


# -- a peer that breaks the rules --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ([Frame(PART, 8)], "stream 8, which was never open"),
        ([Frame(CREDIT, 4, 1)], "stream 4, which was never open"),
        ([Frame(CLOSE, 0)], "stream 0, which was never open"),
        ([Frame(OPEN, 3, 1 << 20, b"x")], "not its own"),  # ours are odd
        ([Frame(OPEN, 2, 1 << 20, b"x")], "is open"),  # again
        ([Frame(OPEN, 4, 1 << 20, b"")], "purpose of 0 bytes"),
        ([Frame(OPEN, 4, 1 << 20, b"x" * 201)], "purpose of 201 bytes"),
        ([Frame(OPEN, 4, 1 << 20, b"\xff")], "purpose of 1 bytes"),
        ([Frame(OPEN, 4, 5, b"x")], "window of 5 bytes"),
        ([Frame(ACCEPT, 2, 1 << 20)], "accepted stream 2"),
        ([Frame(CREDIT, 2, 1 << 50)], "granted"),
        ([Frame(PART, 2, MOST_BODY_BYTES, b"", b"x")], "1073741825 bytes"),
        ([Frame(PART, 2, 5, b"", b"x"), Frame(PART, 2, 5, b"", b"x")], "announced 5 more"),
        ([Frame(PART, 2, 5, b"", b"x"), Frame(PART, 2, 5)], "0 bytes and announced 5"),
        ([Frame(PART, 2, 5, b"", b"x"), Frame(PART, 2, 4, b"head", b"x")], "announced 4 more"),
        ([Frame(PART, 2, 0, b"", bytes(60_000))] * 3, "without credit"),
        ([Frame(PART, 2)] * 5000, "without credit"),  # empty ones are not free either
    ],
)
async def test_frames_that_are_not_allowed_are_refused(frames: list[Frame], words: str) -> None:
    ends = Ends()
    _, victim = await ends.open(window_bytes=128 * KIB)
    assert victim.number == 2
    with pytest.raises(RemoteProtocolError, match=words):
        inlet_of(ends.sides[1]).take(FrameBatch(inlet_of(ends.sides[1]).arrived + 1, 0, frames))
    await ends.close()


@pytest.mark.parametrize(("first", "arrived"), [(7, 0), (1, 0), (0, 0), (3, 1 << 60)])
async def test_wrong_numbers_are_refused(first: int, arrived: int) -> None:
    ends = Ends()
    await ends.open()
    assert inlet_of(ends.sides[1]).arrived == 1
    with pytest.raises(RemoteProtocolError):
        inlet_of(ends.sides[1]).take(FrameBatch(first, arrived, [Frame(CREDIT, 2, 1)]))
    await ends.close()


async def test_a_peer_cannot_ask_again_for_what_it_has_confirmed_nor_for_what_was_never_sent() -> None:
    outlet = Outlet()
    for _ in range(3):
        outlet.put(Frame(CREDIT, 2, 1))
    outlet.feed(2)
    with pytest.raises(RemoteProtocolError, match="which it has confirmed"):
        outlet.feed(1)
    with pytest.raises(RemoteProtocolError, match="confirms frame 4 of 3"):
        outlet.feed(4)
    outlet.close(LinkClosed("the test is over"))


async def test_a_peer_that_confirms_nothing_and_makes_this_side_answer_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("duetlink.net.streams.streams.MOST_KEPT_BYTES", 100_000)
    ends = Ends()
    victim = ends.sides[1]
    number = 0
    with pytest.raises(LimitExceeded, match="confirms nothing"):
        while number < 20_000:  # each is refused, and each refusal is kept
            frames = [Frame(OPEN, number + 2 * n, 1 << 20, b"nobody") for n in range(1, 201)]
            number += 400
            inlet_of(victim).take(FrameBatch(inlet_of(victim).arrived + 1, 0, frames))
    await ends.close()


async def test_a_confirmation_that_comes_after_the_end_changes_nothing() -> None:
    outlet = Outlet()
    outlet.put(Frame(OPEN, 0, 0, b"late"))
    outlet.close(LinkClosed("over"))
    outlet.confirm(1)  # a batch of the peer's may have been on its way to the loop thread
    with pytest.raises(LinkClosed, match="over"):
        await outlet.wait_confirmed(1)
