"""Each path alone, through the contract; then what is particular to one."""

from __future__ import annotations

import asyncio
import os
import struct
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from duetlink.base.events import Sink
from duetlink.base.runtime import shared_memory
from duetlink.base.wire import schema_pb2 as pb
from duetlink.data.values import decode, encode
from duetlink.data.values.empty import empty_like, seal
from duetlink.errors import (
    AssetChanged,
    LinkClosed,
    PathUnavailable,
    TransferFailed,
)
from duetlink.net.flight.body import Outgoing
from duetlink.net.flight.client import FlightClient
from duetlink.net.link import exports as exports_module
from duetlink.net.link.link import Link
from duetlink.net.link.pull import Pull
from duetlink.net.link.transfer import Transfer
from duetlink.net.paths import local as local_module
from duetlink.net.paths.path_selector import DOWN, IDLE, OPENING, UP, PathSelector, Speed
from duetlink.net.paths.shared_memory import Region, SharedMemory, open_region
from duetlink.net.paths.tcp import TcpPath
from duetlink.settings import Settings
from duetlink.testing.faults import context_of, end_of, replace_function, send_bulk, set_constants
from duetlink.testing.paths import PathContract

MIB = 1024 * 1024


def only(name: str) -> Settings:
    return Settings(only=(name,))


def outgoing(array: np.ndarray) -> Outgoing:
    return Outgoing([array.data.cast("B")], array.nbytes)


async def pull(receiver: Link, sender: Link, body: Outgoing, name: str = "x") -> memoryview:
    offer = await sender.exports.offer(name, body)
    return await receiver.imports.pull(name, offer, 1 << 40)


class TestLocal(PathContract):
    @pytest.fixture
    async def links(self, make_pair: Any) -> Any:
        return await make_pair(only("local"))


class TestTcp(PathContract):
    @pytest.fixture
    async def links(self, make_pair: Any) -> Any:
        return await make_pair(only("tcp"))


class TestChannel(PathContract):
    @pytest.fixture
    async def links(self, make_pair: Any) -> Any:
        return await make_pair(only("channel"))


# -- local -----------------------------------------------------------------------------------------------


async def test_a_mapped_value_is_the_readers_own(make_pair: Any) -> None:
    receiver, sender = await make_pair(only("local"))
    array = np.arange(MIB, dtype=np.uint8)
    body = outgoing(array)
    mine = np.frombuffer(await pull(receiver, sender, body), np.uint8)
    mine[:] = 7
    assert array[1] == 1
    again = np.frombuffer(await pull(receiver, sender, body), np.uint8)
    assert again[1] == 1


async def test_a_change_after_sharing_is_noticed_before_anything_leaves(make_pair: Any) -> None:
    receiver, sender = await make_pair(only("local"))
    array = np.zeros(MIB, np.uint8)
    body = outgoing(array)
    array[500_000] = 1
    with pytest.raises(AssetChanged, match="share it again"):
        await pull(receiver, sender, body)


async def test_full_shared_memory_falls_back_to_tcp(make_pair: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    write = SharedMemory.write

    def full(self: SharedMemory, piece: memoryview, offset_bytes: int) -> None:
        if len(piece) != local_module.NONCE_BYTES:  # the proof of being on one host
            raise PathUnavailable("shared memory is full")
        write(self, piece, offset_bytes)

    monkeypatch.setattr(SharedMemory, "write", full)
    receiver, sender = await make_pair(Settings(only=("local", "tcp")))
    array = np.arange(MIB, dtype=np.uint8)
    assert bytes(await pull(receiver, sender, outgoing(array))) == array.tobytes()
    assert receiver.statistics("").transfers[-1].path == "tcp"


async def test_memory_beyond_what_is_available_is_refused_by_figure(
    make_pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver, sender = await make_pair(only("local"))
    monkeypatch.setattr(shared_memory, "available_bytes", lambda: 1000)
    with pytest.raises(TransferFailed, match="1048576 bytes asked, 1000 available"):
        await pull(receiver, sender, outgoing(np.zeros(MIB, np.uint8)))


def test_a_foreign_file_is_not_mapped() -> None:
    with open("/etc/hostname", "rb") as file:
        size_bytes = os.fstat(file.fileno()).st_size
        region = Region(os.getpid(), file.fileno(), bytes(16), size_bytes, 0, size_bytes)
        with pytest.raises(PathUnavailable, match="not visible"):
            open_region(region)


def test_an_unsealed_memfd_is_not_mapped() -> None:
    memory = SharedMemory(bytes(16), 10)
    memory.write(memoryview(bytes(10)), 0)
    with pytest.raises(TransferFailed, match="not sealed"):
        open_region(memory.region)
    memory.close()


def test_a_memfd_of_another_size_is_not_mapped() -> None:
    memory = SharedMemory(bytes(16), 10)
    memory.write(memoryview(bytes(10)), 0)
    memory.seal()
    with pytest.raises(TransferFailed, match="announced size"):
        open_region(replace(memory.region, size_bytes=11, total_bytes=11))
    memory.close()


@pytest.mark.parametrize(
    ("start_bytes", "total_bytes"), [(0, 9), (8, 17), (4, 14), (1 << 63, 1 << 63), (0, (1 << 17) + 11)]
)
def test_a_value_that_is_not_in_its_memory_or_in_much_more_is_not_mapped(
    start_bytes: int, total_bytes: int
) -> None:
    memory = SharedMemory(bytes(16), 10)
    memory.write(memoryview(bytes(10)), 0)
    memory.seal()
    with pytest.raises(TransferFailed, match="cannot hold a value of 10 bytes"):
        open_region(replace(memory.region, start_bytes=start_bytes, total_bytes=total_bytes))
    memory.close()


async def test_the_receiver_is_told_how_far_the_copy_of_a_large_body_is(
    make_pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    write = SharedMemory.write

    def slow(self: SharedMemory, piece: memoryview, offset_bytes: int) -> None:
        if offset_bytes >= MIB:
            go_on.wait(30)
        write(self, piece, offset_bytes)

    receiver, sender = await make_pair(only("local"))
    set_constants(monkeypatch, local_module, LONG_BYTES=MIB)
    set_constants(monkeypatch, exports_module, PLACING_S=0.001)
    monkeypatch.setattr(SharedMemory, "write", slow)
    array = np.arange(2 * MIB, dtype=np.uint8)
    body = outgoing(array)
    offer = await sender.exports.offer("x", body, "local")
    assert not offer.HasField("ticket")
    pulling = asyncio.ensure_future(receiver.imports.pull("x", offer, 1 << 40))
    while not (of := receiver.statistics("").transfers) or not of[-1].placed_bytes:
        await asyncio.sleep(0.001)
    (coming,) = receiver.statistics("").transfers
    assert (coming.placed_bytes, coming.done_bytes, coming.state) == (MIB, 0, "running")
    go_on.set()
    assert bytes(await pulling) == array.tobytes()
    again = await sender.exports.offer("x", body, "local")
    assert again.HasField("ticket")  # it is in shared memory now
    sender.exports.withdraw(again)


@pytest.mark.parametrize(("said_bytes", "shown_bytes"), [(5, 5), (1 << 63, 10)])
async def test_what_the_peer_says_of_its_copy_is_shown_up_to_the_announced_size(
    make_pair: Any, said_bytes: int, shown_bytes: int
) -> None:
    receiver, _ = await make_pair(only("local"))
    pulls, transfer = receiver.imports.pulls, Transfer("x", "in", 10)
    placing = pb.TransferPlacing(transfer_id=bytes(16), placed_bytes=said_bytes)
    pulls.peer_places(placing)  # of a transfer that is not known: ignored
    pulls.add(bytes(16), Pull(transfer))
    pulls.peer_places(placing)
    assert (transfer.placed_bytes, transfer.done_bytes) == (shown_bytes, 0)


def sealed_array(value: np.ndarray) -> Outgoing:
    """A body that `duetlink.empty` has made room for, sealed where it is."""
    array = empty_like(value)
    array[...] = value
    encoded, sealed = seal(encode(array))
    assert sealed is not None
    return Outgoing(encoded.segments, encoded.size_bytes, encoded.parts, sealed=sealed)


async def test_a_body_in_sealed_memory_is_mapped_and_not_written(
    make_pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver, sender = await make_pair(only("local"))
    value = np.arange(MIB // 4, dtype=np.float64)
    body = sealed_array(value)
    monkeypatch.setattr(shared_memory, "available_bytes", lambda: 1000)  # so that writing it is refused
    for _ in range(2):
        arrived: Any = decode(await pull(receiver, sender, body))
        np.testing.assert_array_equal(arrived, value)
        arrived[:] = 7
    assert bytes(body.read()) == b"".join(encode(value).segments)


async def test_a_body_in_sealed_memory_goes_by_any_other_path_too(make_pair: Any) -> None:
    receiver, sender = await make_pair(only("tcp"))
    value = np.arange(MIB // 4, dtype=np.float64)
    np.testing.assert_array_equal(decode(await pull(receiver, sender, sealed_array(value))), value)


async def test_a_body_in_sealed_memory_is_prepared_whatever_its_size(make_pair: Any) -> None:
    _, sender = await make_pair(Settings(only=("local",), prepare_limit_bytes=1))
    await sender.path_selector.wait_settled()
    body, ordinary = sealed_array(np.zeros(MIB)), outgoing(np.zeros(MIB))
    for each in (body, ordinary):
        each.held.keep("it is tested")
        await sender.path_selector.prepare(each)
    assert [held.title for held in sender.holdings] == ["shared memory of a value"]
    body.held.let_go("it is tested")
    assert list(sender.holdings) == []


def test_a_closed_memfd_is_gone() -> None:
    memory = SharedMemory(bytes(16), 10)
    region = memory.region
    memory.close()
    memory.close()
    with pytest.raises(PathUnavailable):
        open_region(region)


# -- tcp -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "dialled"),
    [
        ("192.0.2.7", True),
        ("127.0.0.1", True),
        ("2001:db8::1", True),
        ("example.org", False),
        ("224.0.0.1", False),
        ("0.0.0.0", False),
        ("169.254.169.254/latest", False),
        ("", False),
    ],
)
async def test_only_addresses_of_one_machine_are_dialled(
    host: str, dialled: bool, make_pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dial(self: TcpPath, host: str, port: int) -> FlightClient:
        asked.append((host, port))
        raise PathUnavailable("nobody is there")

    async def where(query: pb.FlightAddressQuery) -> pb.FlightAddress:
        return pb.FlightAddress(hosts=[host], port=80)

    asked: list[tuple[str, int]] = []
    attacker, victim = await make_pair(only("channel"))
    replace_function(monkeypatch, TcpPath, "dial", dial)
    path = TcpPath(context_of(victim.path_selector.named("channel")))
    attacker.rpc.handle(pb.FlightAddressQuery, where)
    with pytest.raises(PathUnavailable, match="nobody is there" if dialled else "no address that could be"):
        await path.open()
    assert asked == [(host, 80)] * dialled


async def test_a_path_that_one_side_forbids_is_down_with_a_reason(make_pair: Any) -> None:
    both, _without = await make_pair(Settings(only=("tcp", "channel")), only("channel"))
    path = await both.path_selector.wait_best({})
    assert path.name == "channel"
    while both.path_selector.statuses()[0].state != DOWN:
        await asyncio.sleep(0.01)
    assert "allows only these paths: channel" in both.path_selector.statuses()[0].why


# -- channel ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x02\x00",
        struct.pack("!BI", 9, 0),
        struct.pack("!BI", 1, 0),  # a stream number of the other side's
    ],
)
async def test_garbage_on_the_bulk_channel_ends_the_link_with_a_reason(make_pair: Any, frame: bytes) -> None:
    attacker, victim = await make_pair(only("channel"))
    await victim.path_selector.wait_best({})
    # of whichever stream is open
    for number in range(10) if frame[:1] == b"\x09" else (0,):
        await send_bulk(attacker, frame[:-1] + bytes([number]) if number else frame)
    error = await asyncio.wait_for(end_of(victim), 60)
    assert isinstance(error, LinkClosed)
    assert "the peer" in str(error)


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ([struct.pack("!BI", 2, 98) + bytes(50_000)] * 6, "without credit"),
        ([struct.pack("!BII", 3, 98, 1)], "granted 262145 bytes, over 262144"),
    ],
    ids=["data", "credit"],
)
async def test_more_than_the_window_is_a_violation(
    make_pair: Any, monkeypatch: pytest.MonkeyPatch, frames: list[bytes], words: str
) -> None:
    async def takes_nothing(host: str, port: int) -> Any:
        await asyncio.Event().wait()

    attacker, victim = await make_pair(only("channel"))
    await victim.path_selector.wait_settled()
    await attacker.path_selector.wait_settled()
    monkeypatch.setattr(asyncio, "open_connection", takes_nothing)
    for frame in (struct.pack("!BI", 1, 98), *frames):
        await send_bulk(attacker, frame)
    assert words in str(await asyncio.wait_for(end_of(victim), 60))


# -- ladder ----------------------------------------------------------------------------------------------


class _Scripted:
    """A path that opens as told."""

    costly = False
    measurable = True
    loss = None

    def __init__(self, name: str, *outcomes: Exception | None) -> None:
        self.name = name
        self._outcomes = list(outcomes)
        self.broken: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

    async def open(self) -> None:
        outcome = self._outcomes.pop(0) if self._outcomes else None
        if outcome is not None:
            raise outcome

    async def wait_down(self) -> Exception:
        return await asyncio.shield(self.broken)

    async def close(self) -> None:
        pass


async def test_the_first_of_the_list_that_is_up_is_best() -> None:
    paths: list[Any] = [_Scripted("a", PathUnavailable("no a")), _Scripted("b"), _Scripted("c")]
    path_selector = PathSelector(paths, Sink())
    path_selector.start()
    assert (await path_selector.wait_best({})).name == "b"
    assert (await path_selector.wait_best({"b": "it broke"})).name == "c"
    assert [status.state for status in path_selector.statuses()] == [DOWN, UP, UP]
    await path_selector.close()


async def test_what_a_path_loses_is_told_as_it_is_now() -> None:
    tunnel = _Scripted("a")
    path_selector = await ladder_of(tunnel, _Scripted("b"))
    tunnel.loss = 0.02  # type: ignore[assignment]
    assert [status.loss for status in path_selector.statuses()] == [0.02, None]
    tunnel.loss = None
    assert [status.loss for status in path_selector.statuses()] == [None, None]
    await path_selector.close()


async def test_a_path_that_comes_up_later_is_announced() -> None:
    path_selector = PathSelector([_Scripted("a", PathUnavailable("not yet")), _Scripted("b")], Sink())  # type: ignore[list-item]
    path_selector.start()
    worse = await path_selector.wait_best({})
    assert worse.name == "b"
    better = await asyncio.wait_for(path_selector.wait_better_than(worse, {}), 60)
    assert better.name == "a"
    avoiding = asyncio.ensure_future(path_selector.wait_better_than(worse, {"a": "of no use here"}))
    await asyncio.sleep(0)
    assert not avoiding.done()
    avoiding.cancel()
    await path_selector.close()


async def test_every_reason_is_told_where_nothing_works() -> None:
    no_a, no_b = PathUnavailable("the cable is cut"), PathUnavailable("the air is thick")
    path_selector = PathSelector([_Scripted("a", no_a, no_a), _Scripted("b", no_b, no_b)], Sink())  # type: ignore[list-item]
    path_selector.start()
    with pytest.raises(PathUnavailable, match=r"a: the cable is cut; b: the air is thick"):
        await path_selector.wait_best({}, grace_s=0.1)
    await path_selector.close()


async def ladder_of(*paths: _Scripted, speeds: dict[str, float] | None = None) -> PathSelector:
    """A started ladder, every path of which has been opened and measured."""
    known = speeds or {}

    async def measure(path: Any) -> Speed | None:
        return Speed(known[path.name], alone=True) if path.name in known else None

    path_selector = PathSelector(paths, Sink(), measure)  # type: ignore[arg-type]
    path_selector.start()
    await path_selector.wait_settled()
    while any(status.bytes_per_s != known.get(status.name) for status in path_selector.statuses()):
        await asyncio.sleep(0)
    return path_selector


async def test_a_path_known_to_be_much_faster_is_preferred() -> None:
    path_selector = await ladder_of(_Scripted("a"), _Scripted("b"), speeds={"a": 10e6, "b": 21e6})
    assert path_selector.best.name == "b"  # type: ignore[union-attr]
    await path_selector.close()


async def test_a_path_that_is_a_little_faster_is_not() -> None:
    path_selector = await ladder_of(_Scripted("a"), _Scripted("b"), speeds={"a": 10e6, "b": 19e6})
    assert path_selector.best.name == "a"  # type: ignore[union-attr]
    await path_selector.close()


@pytest.mark.parametrize(("relay", "best"), [(39e6, "udp"), (41e6, "relay")])
async def test_a_relay_is_preferred_only_where_it_is_four_times_as_fast(relay: float, best: str) -> None:
    path_selector = await ladder_of(
        _Scripted("udp"), _Scripted("relay"), speeds={"udp": 10e6, "relay": relay}
    )
    assert path_selector.best.name == best  # type: ignore[union-attr]
    await path_selector.close()


async def test_twice_as_fast_is_enough_to_be_preferred_to_a_relay() -> None:
    path_selector = await ladder_of(_Scripted("relay"), _Scripted("b"), speeds={"relay": 10e6, "b": 21e6})
    assert path_selector.best.name == "b"  # type: ignore[union-attr]
    await path_selector.close()


async def test_what_was_measured_beside_other_traffic_does_not_speak_against_a_path() -> None:
    speeds = {"a": Speed(1e6, alone=False), "b": Speed(10e6, alone=True)}

    async def measure(path: Any) -> Speed | None:
        return speeds[path.name]

    path_selector = PathSelector([_Scripted("a"), _Scripted("b")], Sink(), measure)  # type: ignore[list-item]
    path_selector.start()
    while any(status.bytes_per_s is None for status in path_selector.statuses()):
        await asyncio.sleep(0)
    assert path_selector.best.name == "a"  # type: ignore[union-attr]
    assert [status.at_least for status in path_selector.statuses()] == [True, False]
    await path_selector.close()


async def test_a_preferred_path_is_passed_over_only_after_a_second_look() -> None:
    looks = {"a": [1e6, 9e6], "b": [10e6]}

    async def measure(path: Any) -> Speed | None:
        return Speed(looks[path.name].pop(0), alone=True)

    path_selector = PathSelector([_Scripted("a"), _Scripted("b")], Sink(), measure)  # type: ignore[list-item]
    path_selector.start()
    while looks["a"]:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [status.bytes_per_s for status in path_selector.statuses()] == [9e6, 10e6]
    assert path_selector.best.name == "a"  # type: ignore[union-attr]
    await path_selector.close()


async def test_a_path_that_becomes_slow_is_left_for_a_faster_one() -> None:
    speeds = {"a": 10e6, "b": 8e6}
    path_selector = await ladder_of(_Scripted("a"), _Scripted("b"), speeds=speeds)
    best = await path_selector.wait_best({})
    assert best.name == "a"
    speeds["a"] = 2e6
    path_selector.note_speed(best, 2e6)
    assert (await asyncio.wait_for(path_selector.wait_better_than(best, {}), 60)).name == "b"
    await path_selector.close()


async def test_a_costly_path_is_not_opened_while_local_is_up_and_is_when_it_is_not() -> None:
    local, costly = _Scripted("local"), _Scripted("costly")
    costly.costly = True
    path_selector = PathSelector([local, costly], Sink())  # type: ignore[list-item]
    path_selector.start()
    while path_selector.statuses()[1].state == OPENING:
        await asyncio.sleep(0.01)
    assert [status.state for status in path_selector.statuses()] == [UP, IDLE]
    local._outcomes = [PathUnavailable("gone")]
    path_selector.mark_down(local, PathUnavailable("gone"))  # type: ignore[arg-type]
    assert (await asyncio.wait_for(path_selector.wait_best({}), 60)).name == "costly"
    await path_selector.close()


async def test_a_costly_path_waits_until_a_busy_host_has_tried_local() -> None:
    """However late that is: a process for each link of a large group would make the host busier still."""
    tried = asyncio.Event()

    class Slow(_Scripted):
        async def open(self) -> None:
            await tried.wait()
            await super().open()

    opened: list[str] = []

    class Costly(_Scripted):
        costly = True

        async def open(self) -> None:
            opened.append(self.name)

    path_selector = PathSelector([Slow("local"), Costly("punched"), _Scripted("tcp")], Sink())  # type: ignore[list-item]
    path_selector.start()
    assert (await path_selector.wait_best({})).name == "tcp"
    for _ in range(40):  # longer than any pause before the first try
        await asyncio.sleep(0.01)
    assert [status.state for status in path_selector.statuses()] == [OPENING, OPENING, UP]
    tried.set()
    while path_selector.statuses()[1].state == OPENING:
        await asyncio.sleep(0)
    assert [status.state for status in path_selector.statuses()] == [UP, IDLE, UP]
    assert opened == []
    await path_selector.close()


async def test_a_path_that_says_that_it_broke_is_opened_again() -> None:
    path = _Scripted("a")
    path_selector = await ladder_of(path)
    path.broken.set_result(PathUnavailable("its process ended"))
    while path_selector.statuses()[0].state == UP:
        await asyncio.sleep(0)
    path.broken = asyncio.get_running_loop().create_future()
    assert (path_selector.statuses()[0].state, path_selector.statuses()[0].why) == (DOWN, "its process ended")
    assert (await asyncio.wait_for(path_selector.wait_best({}), 60)).name == "a"
    await path_selector.close()


async def test_nobody_gives_up_while_the_peer_is_out_of_reach() -> None:
    no_a = PathUnavailable("the cable is cut")
    path = _Scripted("a", *[no_a] * 100)
    path_selector = PathSelector([path], Sink())  # type: ignore[list-item]
    path_selector.start()
    await path_selector.wait_settled()
    path_selector.pause()
    waiting = asyncio.ensure_future(path_selector.wait_best({}, grace_s=0.5))
    await asyncio.wait((waiting,), timeout=1.0)
    assert not waiting.done()
    path._outcomes.clear()
    path_selector.resume()
    assert (await asyncio.wait_for(waiting, 60)).name == "a"
    await path_selector.close()
