"""Both drivers of the rung `punched` on this machine's own network address."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aioice.ice import get_host_addresses
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.errors import DuetError, PathUnavailable, RemoteProtocolError
from duetlink.net.carrier.drivers import punch
from duetlink.net.carrier.drivers.driver import MAX_SIGNAL_BYTES, Session
from duetlink.net.carrier.drivers.local_port import LocalPort
from duetlink.net.carrier.drivers.punch import establish
from duetlink.net.carrier.drivers.wire import TcpConnection
from duetlink.settings import IceServer
from tests.net.carrier.conftest import establish_both, make_sessions
from tests.net.carrier.drivers import carries_both_ways, established, slowly, telling
from tests.turn_server import TurnServer


@pytest.fixture(autouse=True)
def own_address() -> str:
    addresses = get_host_addresses(use_ipv4=True, use_ipv6=False)
    if not addresses:
        pytest.skip("this machine has no network")
    return addresses[0]


@pytest.mark.parametrize("delay_s", [0.0, 0.05])
async def test_a_connection_carries_both_ways(delay_s: float) -> None:
    sessions = [slowly(session, delay_s) for session in make_sessions()]
    async with asyncio.timeout(60), established(establish, sessions) as ways:
        assert ways[0].description.startswith("TCP, ")
        one, other = ways[0].description.removeprefix("TCP, ").split(" to ")
        assert ways[1].description == f"TCP, {other} to {one}"
        await carries_both_ways(ways)


async def test_the_peer_is_told_what_a_stun_server_sees(turn_server: TurnServer) -> None:
    told: list[bytes] = []
    one, other = make_sessions((IceServer((turn_server.udp,)),), ())
    async with asyncio.timeout(60), established(establish, [telling(one, told), other]):
        addresses = json.loads(told[0])["addresses"]
        assert all(host != "127.0.0.1" for host, _ in addresses)  # which it does here: of no use to a peer
        assert len({port for _, port in addresses}) == 1
        assert all(len(payload) < MAX_SIGNAL_BYTES for payload in told)


async def test_a_dead_stun_server_costs_its_moment_and_no_more() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = IceServer((f"stun:127.0.0.1:{silent.getsockname()[1]}",))
        async with asyncio.timeout(60), established(establish, make_sessions((server,))):
            pass


# -- one port ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_simultaneous_open_makes_one_connection(host: str) -> None:
    ports = LocalPort(), LocalPort()
    arrived: list[TcpConnection] = []
    wires: list[TcpConnection] = []

    async def dial(port: LocalPort, other: LocalPort) -> None:
        with contextlib.suppress(OSError):  # as soon as the other has come in by the listener
            wires.append(await port.dial((host, other.number)))

    for port in ports:
        await port.listen(arrived.append)
    async with asyncio.timeout(60):
        await asyncio.gather(dial(*ports), dial(*reversed(ports)))
        while len(wires) + len(arrived) < 2:
            await asyncio.sleep(0)
    ends = [*wires, *arrived]
    assert {end.local for end in ends} == {(host, port.number) for port in ports}
    assert ends[0].peer == ends[1].local
    for wire in ends:
        wire.abort()
    for port in ports:
        port.close()


def test_a_port_is_one_number_for_both_families() -> None:
    port = LocalPort()
    with port.socket(socket.AF_INET) as four:
        assert four.getsockname()[1] == port.number
    if socket.has_ipv6:
        with port.socket(socket.AF_INET6) as six:
            assert six.getsockname()[1] == port.number
    port.close()
    port.close()


def test_a_port_may_be_of_one_address_alone() -> None:
    port = LocalPort("127.0.0.2")
    with port.socket(socket.AF_INET) as four:
        assert four.getsockname() == ("127.0.0.2", port.number)
    with pytest.raises(OSError, match="other family"):
        port.socket(socket.AF_INET6)
    port.close()


# -- hostile -------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def alone(*, controlling: bool) -> AsyncIterator[tuple[Session, asyncio.Task[Any], list[Any]]]:
    """One driver, and the session of a peer that does what a test wants; with the addresses it was told."""
    sessions = make_sessions()
    ours, theirs = sessions if controlling else reversed(sessions)
    running = asyncio.ensure_future(establish(ours))
    addresses = json.loads(await theirs.receive())["addresses"]
    try:
        yield theirs, running, addresses
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("payload", [b"", b"{", b"\xff", b"[" * 4000])
async def test_a_peer_that_sends_no_message_ends_the_attempt(payload: bytes) -> None:
    async with alone(controlling=True) as (theirs, running, _):
        await theirs.send(payload)
        with pytest.raises(RemoteProtocolError):
            await running


_entries = st.lists(
    st.one_of(st.none(), st.integers(), st.text(max_size=8), st.lists(st.integers(), max_size=3))
)


_entry = st.one_of(st.none(), st.integers(), st.text(max_size=8), st.lists(st.integers(), max_size=3))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["addresses", "ping", "pong", "round", "x"]),
            st.one_of(st.none(), st.booleans(), st.integers(-3, 10), st.text(max_size=5), st.lists(_entry)),
            max_size=3,
        ),
        max_size=8,
    ),
    st.booleans(),
)
def test_what_a_peer_says_in_json_never_breaks_this_side(messages: list[Any], controlling: bool) -> None:
    async def run() -> None:
        async with alone(controlling=controlling) as (theirs, running, _):
            for message in messages:
                await theirs.send(json.dumps(message).encode())
            for _ in range(5):
                await asyncio.sleep(0)
            assert not running.done() or isinstance(running.exception(), DuetError)

    asyncio.run(run())


async def test_a_peer_names_no_more_addresses_than_are_dialled(monkeypatch: pytest.MonkeyPatch) -> None:
    dialled = []

    async def dial(self: LocalPort, address: Any) -> TcpConnection:
        dialled.append(address)
        never: asyncio.Future[TcpConnection] = asyncio.get_running_loop().create_future()
        return await never

    monkeypatch.setattr(LocalPort, "dial", dial)
    async with alone(controlling=False) as (theirs, _, _):
        for third in range(10):
            addresses = [[f"10.0.{third}.{last}", 4000] for last in range(1, 30)]
            await theirs.send(json.dumps({"addresses": addresses}).encode())
        await theirs.send(b'{"round": 0}')
        while len(dialled) < punch.MAX_ADDRESSES:
            await asyncio.sleep(0)
        await theirs.send(b'{"round": 1}')
        while len(dialled) < 2 * punch.MAX_ADDRESSES:
            await asyncio.sleep(0)
    assert len(set(dialled)) == punch.MAX_ADDRESSES
    assert len(dialled) == 2 * punch.MAX_ADDRESSES


async def test_strangers_at_the_listener_do_not_keep_the_peer_out(own_address: str) -> None:
    one, other = (slowly(session, 0.2) for session in make_sessions())
    told: list[bytes] = []
    async with contextlib.AsyncExitStack() as stack:
        async with asyncio.timeout(60):
            running = [asyncio.ensure_future(establish(session)) for session in (telling(one, told), other)]
            while not told:
                await asyncio.sleep(0)
            port = json.loads(told[0])["addresses"][0][1]
            for number in range(100):
                sock = stack.enter_context(socket.socket())
                sock.setblocking(False)
                await asyncio.get_running_loop().sock_connect(sock, (own_address, port))
                if number % 2:
                    sock.send(b"GET / HTTP/1.1\r\n\r\n" * 100)
            ways = await asyncio.gather(*running)
        await carries_both_ways(ways)
        for way in ways:
            await way.close()


# -- ends ----------------------------------------------------------------------------------------------------


async def test_a_peer_that_says_nothing_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(punch, "CONNECT_TIMEOUT_S", 0.3)
    with pytest.raises(PathUnavailable, match="helper did not answer"):
        await establish(make_sessions()[0])


async def test_no_way_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(punch, "ROUND_S", 0.1)
    monkeypatch.setattr(punch, "get_host_addresses", lambda **families: ["203.0.113.1"])
    with pytest.raises(PathUnavailable, match=r"1 addresses here, 1 at the peer.*no STUN server"):
        await establish_both(establish, make_sessions())


async def test_a_cancelled_attempt_leaves_nothing() -> None:
    sessions = [slowly(session, 0.01) for session in make_sessions()]
    for steps in (0, 1, 2, 5, 20, 50):
        running = [asyncio.ensure_future(establish(session)) for session in sessions]
        for _ in range(steps):
            await asyncio.sleep(0.001)
        for task in running:
            task.cancel()
        for done in await asyncio.gather(*running, return_exceptions=True):
            if not isinstance(done, BaseException):
                await done.close()
            else:
                assert isinstance(done, asyncio.CancelledError)
