"""Rungs `udp` and `relay` through real links and real helper processes."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest

from duetlink.base.wire import schema_pb2 as pb
from duetlink.errors import LinkClosed, LocalProtocolError, PathUnavailable
from duetlink.net.carrier.drivers.driver import MAX_SIGNAL_BYTES, MAX_SIGNALS
from duetlink.net.flight.body import Outgoing
from duetlink.net.link.link import Link, LinkOwner
from duetlink.net.paths import attempt as attempt_module
from duetlink.net.paths.attempt import Attempt
from duetlink.net.paths.carried import CarriedPath
from duetlink.net.paths.path_selector import UP
from duetlink.settings import IceServer, Settings
from duetlink.testing.faults import attempt_of, helper_pid, lose_attempt
from duetlink.testing.paths import PathContract
from tests.turn_server import CREDENTIAL, USERNAME, TurnServer

MIB = 1024 * 1024


def only(*names: str, **fields: Any) -> Settings:
    return Settings(only=names, **fields)


def turn_at(*urls: str, credential: str = CREDENTIAL) -> tuple[IceServer, ...]:
    return (IceServer(urls, USERNAME, credential),)


def outgoing(array: np.ndarray) -> Outgoing:
    return Outgoing([array.data.cast("B")], array.nbytes)


async def pull(receiver: Link, sender: Link, array: np.ndarray) -> memoryview:
    return await receiver.imports.pull("x", await sender.exports.offer("x", outgoing(array)), 1 << 40)


def carried(link: Link, name: str = "udp") -> CarriedPath:
    path = link.path_selector.named(name)
    assert isinstance(path, CarriedPath)
    return path


def status(link: Link, name: str) -> Any:
    return next(status for status in link.path_selector.statuses() if status.name == name)


def helper(link: Link, name: str = "udp") -> psutil.Process:
    attempt = attempt_of(carried(link, name))
    assert attempt is not None
    return psutil.Process(helper_pid(attempt.child))


class TestUdp(PathContract):
    @pytest.fixture
    async def links(self, make_pair: Any) -> Any:
        return await make_pair(only("udp"))


@pytest.mark.slow
class TestRelayByUdp(PathContract):
    @pytest.fixture
    async def links(self, make_pair: Any, turn_server: TurnServer) -> Any:
        return await make_pair(only("relay"), only("relay", ice_servers=turn_at(turn_server.udp)))


@pytest.mark.slow
class TestRelayByTls(PathContract):
    @pytest.fixture
    async def links(self, make_pair: Any, turn_server: TurnServer, monkeypatch: pytest.MonkeyPatch) -> Any:
        monkeypatch.setenv("SSL_CERT_FILE", str(turn_server.certificate))
        return await make_pair(only("relay", ice_servers=turn_at(turn_server.tls)), only("relay"))


# -- relay ---------------------------------------------------------------------------------------------------


async def test_a_dead_first_url_does_not_hide_the_second(make_pair: Any, turn_server: TurnServer) -> None:
    servers = turn_at("turn:127.0.0.1:1?transport=tcp", turn_server.tcp)
    receiver, sender = await make_pair(only("relay", ice_servers=servers), only("relay"))
    array = np.arange(MIB, dtype=np.uint8)
    assert bytes(await pull(receiver, sender, array)) == array.tobytes()
    assert f"through turn:127.0.0.1:{turn_server.port} by TCP" in carried(receiver, "relay").description
    assert "the peer's relay" in carried(sender, "relay").description


async def test_without_a_turn_server_the_reason_says_how_to_set_one_and_no_process_starts(
    make_pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forbidden(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a helper was started")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", forbidden)
    links = await make_pair(only("relay", "channel"))
    for link in links:
        await link.path_selector.wait_settled()
        assert "neither side has a TURN server; set one in DUETLINK_ICE_SERVERS" in status(link, "relay").why


async def test_wrong_credentials_are_told_on_both_sides(make_pair: Any, turn_server: TurnServer) -> None:
    servers = turn_at(turn_server.udp, credential="wrong")
    links = await make_pair(only("relay", "channel", ice_servers=servers), only("relay", "channel"))
    for link in links:
        await link.path_selector.wait_settled()
        assert "it refuses the credentials (401)" in status(link, "relay").why


# -- what a helper does to its kernel ------------------------------------------------------------------------


async def test_a_helper_killed_in_mid_transfer_costs_the_path_and_not_the_value(
    make_pair: Any,
) -> None:
    receiver, sender = await make_pair(only("udp", "channel"))
    await asyncio.gather(*(link.path_selector.wait_settled() for link in (receiver, sender)))
    assert receiver.path_selector.best.name == "udp"
    array = np.random.default_rng(1).integers(0, 256, 24 * MIB, np.uint8)
    pulling = asyncio.ensure_future(pull(receiver, sender, array))
    while not receiver.traffic.statistics("", None, ()).received_bytes:
        await asyncio.sleep(0)
    victim = helper(sender)
    os.kill(victim.pid, signal.SIGKILL)
    assert bytes(await pulling) == array.tobytes()
    # both sides are told, and come together again by a new attempt
    while not (status(receiver, "udp").state == status(sender, "udp").state == UP):
        await asyncio.sleep(0.02)
    assert helper(sender).pid != victim.pid


async def test_a_crash_is_told_in_words(make_pair: Any) -> None:
    links = await make_pair(only("udp", "channel"))
    await asyncio.gather(*(link.path_selector.wait_settled() for link in links))
    breaking = [asyncio.ensure_future(carried(link).wait_down()) for link in links]
    await asyncio.sleep(0)
    os.kill(helper(links[0]).pid, signal.SIGSEGV)
    whys = [str(error) for error in await asyncio.wait_for(asyncio.gather(*breaking), 60)]
    assert "the helper process was ended by signal 11" in whys
    assert any("the other side" in why or "ended" in why for why in whys)


async def test_the_last_words_of_a_helper_are_kept(make_pair: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "nonsense")  # the interpreter refuses to start
    links = await make_pair(only("udp", "channel"))
    await links[0].path_selector.wait_settled()
    assert "the helper process ended with status 1: " in status(links[0], "udp").why
    assert "PYTHONHASHSEED" in status(links[0], "udp").why


async def test_closing_a_link_ends_its_helpers(make_pair: Any) -> None:
    links = await make_pair(only("udp"))
    await asyncio.gather(*(link.path_selector.wait_best({}) for link in links))
    helpers = [helper(link) for link in links]
    await asyncio.gather(*(link.close() for link in links))
    assert not any(process.is_running() for process in helpers)


async def test_a_link_that_is_closed_while_helpers_start_leaves_none(make_pair: Any) -> None:
    before = set(psutil.Process().children())
    links = await make_pair(only("udp", "channel"))
    while not set(psutil.Process().children()) - before:
        await asyncio.sleep(0.005)
    await asyncio.gather(*(link.close() for link in links))
    assert not set(psutil.Process().children()) - before


async def test_an_interrupt_of_the_notebook_does_not_reach_helpers(make_pair: Any) -> None:
    link, _ = await make_pair(only("udp"))
    await link.path_selector.wait_best({})
    assert os.getsid(helper(link).pid) != os.getsid(0)


async def test_secrets_are_in_no_command_line_and_no_environment(
    make_pair: Any, turn_server: TurnServer
) -> None:
    link, _ = await make_pair(only("relay", ice_servers=turn_at(turn_server.udp)))
    await link.path_selector.wait_best({})
    process = helper(link, "relay")
    assert not any("turn:" in word for word in [*process.cmdline(), *process.environ().values()])


# -- attempts ------------------------------------------------------------------------------------------------


async def test_both_sides_together_make_one_attempt(make_pair: Any) -> None:
    links = await make_pair(only("udp"))
    await asyncio.gather(*(link.path_selector.wait_best({}) for link in links))
    first = [attempt_of(carried(link)) for link in links]
    await asyncio.gather(*(carried(link).open() for link in links), *(carried(link).open() for link in links))
    assert [attempt_of(carried(link)) for link in links] == first
    assert first[0] is not None
    assert first[1] is not None
    assert first[0].id == first[1].id


async def test_an_attempt_begun_anew_replaces_the_one_before(make_pair: Any) -> None:
    initiator, other = await make_pair(only("udp"))
    await asyncio.gather(*(link.path_selector.wait_best({}) for link in (initiator, other)))
    before = attempt_of(carried(other))
    # the initiator has lost its attempt, and the news of that too
    path = carried(initiator)
    lose_attempt(path)
    while status(initiator, "udp").state == UP:
        await asyncio.sleep(0)
    while not (status(initiator, "udp").state == status(other, "udp").state == UP):
        await asyncio.sleep(0.01)
    await carried(other).open()
    after = attempt_of(carried(other))
    assert after is not None
    assert after is not before
    again = attempt_of(path)
    assert again is not None
    assert after.id == again.id
    array = np.arange(MIB, dtype=np.uint8)
    assert bytes(await pull(other, initiator, array)) == array.tobytes()
    assert bytes(await pull(initiator, other, array)) == array.tobytes()


async def test_the_side_that_does_not_begin_can_ask_for_it(make_pair: Any) -> None:
    initiator, other = await make_pair(only("udp"), start=False)
    initiator.rpc.start()
    other.rpc.start()
    await carried(other).open()
    assert attempt_of(carried(initiator)) is not None


async def test_a_path_that_one_side_forbids_is_refused_in_words(make_pair: Any) -> None:
    for settings in ((only("channel"), only("udp", "channel")), (only("udp", "channel"), only("channel"))):
        links = await make_pair(*settings)
        link = next(link for link in links if len(link.path_selector.statuses()) == 2)
        await link.path_selector.wait_settled()
        assert status(link, "udp").why == "the peer allows only these paths: channel"


async def test_a_peer_whose_helper_says_nothing_is_given_up(
    make_pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_module, "ATTEMPT_TIMEOUT_S", 1.5)
    initiator, other = await make_pair(only("udp"), start=False)

    async def open_nothing(opening: pb.CarrierOpen) -> pb.Done:
        return pb.Done()

    other.rpc.handle(pb.CarrierOpen, open_nothing)
    initiator.rpc.start()
    other.rpc.start()
    with pytest.raises(PathUnavailable, match=r"in 1\.5 s"):
        await carried(initiator).open()


# -- a hostile peer, a stranger on this machine -------------------------------------------------------------


async def test_a_stranger_who_dials_the_loopback_listener_stops_nothing(
    make_pair: Any,
) -> None:
    receiver, sender = await make_pair(only("udp"))
    await receiver.path_selector.wait_best({})
    attempt = attempt_of(carried(receiver))
    assert attempt is not None
    port = attempt.up.result()
    idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    array = np.arange(MIB, dtype=np.uint8)
    assert bytes(await pull(receiver, sender, array)) == array.tobytes()
    for _, one in [*idle, (reader, writer)]:
        one.close()


@pytest.mark.parametrize(
    "opening",
    [
        pb.CarrierOpen(path="udp"),
        pb.CarrierOpen(path="udp", attempt_id=bytes(16), key=bytes(31)),
        pb.CarrierOpen(path="udp", attempt_id=bytes(17), key=bytes(32)),
    ],
)
async def test_a_malformed_opening_is_refused(make_pair: Any, opening: pb.CarrierOpen) -> None:
    initiator, _ = await make_pair(only("udp", "channel"))
    with pytest.raises(LocalProtocolError, match="wrong length"):
        await initiator.rpc.call(opening, pb.Done)


async def test_a_peer_cannot_make_processes_start_one_after_another(make_pair: Any) -> None:
    initiator, _ = await make_pair(only("channel"), only("udp", "channel"))
    openings = [pb.CarrierOpen(path="udp", attempt_id=bytes([n]) * 16, key=bytes(32)) for n in range(20)]
    calls = (initiator.rpc.call(opening, pb.Done) for opening in openings)
    answers = await asyncio.gather(*calls, return_exceptions=True)
    refused = [str(answer) for answer in answers if isinstance(answer, PathUnavailable)]
    assert refused == ["it was tried a moment ago"] * 19


async def test_only_the_initiator_begins(make_pair: Any) -> None:
    initiator, other = await make_pair(only("udp", "channel"))
    opening = pb.CarrierOpen(path="udp", attempt_id=bytes(16), key=bytes(32))
    with pytest.raises(PathUnavailable, match="begun by the other side"):
        await other.rpc.call(opening, pb.Done)
    with pytest.raises(PathUnavailable, match="begun by the other side"):
        await initiator.rpc.call(pb.CarrierWanted(path="udp"), pb.Done)


async def test_signals_beyond_their_number_end_the_attempt(make_pair: Any) -> None:
    initiator, other = await make_pair(only("udp"))
    await asyncio.gather(*(link.path_selector.wait_best({}) for link in (initiator, other)))
    attempt = attempt_of(carried(other))
    assert attempt is not None
    for _ in range(MAX_SIGNALS + 1):
        initiator.rpc.tell_nowait(pb.CarrierSignal(path="udp", attempt_id=attempt.id, payload=b"{}"))
    await asyncio.wait((attempt.task,), timeout=5)
    assert attempt.task.done()


async def test_a_signal_beyond_its_size_closes_the_link(make_pair: Any) -> None:
    initiator, other = await make_pair(only("udp", "channel"))
    closed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    other.belong_to(LinkOwner(closed=lambda error: closed.set_result(str(error))))
    initiator.rpc.tell_nowait(pb.CarrierSignal(path="udp", payload=bytes(MAX_SIGNAL_BYTES + 1)))
    assert "the peer's helper sent a message of 4097 bytes" in await closed


async def test_notices_about_paths_and_attempts_that_are_not_there_are_passed_over(make_pair: Any) -> None:
    initiator, other = await make_pair(only("udp", "channel"))
    for path in ("udp", "pigeon"):
        initiator.rpc.tell_nowait(pb.CarrierSignal(path=path, attempt_id=b"?", payload=b"{}"))
        initiator.rpc.tell_nowait(pb.CarrierEnd(path=path, attempt_id=b"?", why="x" * 10_000))
    await initiator.ping()
    array = np.arange(MIB, dtype=np.uint8)
    assert bytes(await pull(initiator, other, array)) == array.tobytes()


async def test_an_attempt_that_fails_as_its_link_ends_leaves_no_exception_behind() -> None:
    """The link's end fails the call that the attempt waits for, and ends the attempt, in one moment."""
    unseen: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, what: unseen.append(what["message"]))
    answer: asyncio.Future[None] = loop.create_future()
    server: asyncio.Future[None] = loop.create_future()
    server.set_result(None)

    async def call(*_: Any) -> None:
        await answer

    rpc = SimpleNamespace(call=call, tell_nowait=lambda message: None)
    context: Any = SimpleNamespace(server=server, initiator=True, rpc=rpc)
    reasons: list[str] = []
    attempt = Attempt(context, pb.CarrierOpen(path="udp"), lambda _, why: reasons.append(why))
    for _ in range(5):
        await asyncio.sleep(0)  # it waits for the answer now
    answer.set_exception(LinkClosed("the peer closed the link"))
    await asyncio.sleep(0)
    attempt.end("this side has closed the path")
    await attempt.close()
    del attempt
    gc.collect()
    assert reasons == ["this side has closed the path"]
    assert unseen == []
