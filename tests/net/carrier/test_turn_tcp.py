"""RFC 6062 with a real coturn, and with servers that behave otherwise."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aioice import stun

from duetlink.errors import DuetError, PathUnavailable, RemoteProtocolError
from duetlink.net.carrier import stream_relay, turn_tcp
from duetlink.net.carrier.driver import Session
from duetlink.net.carrier.server_url import ServerUrl
from duetlink.net.carrier.stream_relay import establish
from duetlink.net.carrier.turn_tcp import TcpAllocation, TurnRefused
from duetlink.net.carrier.wire import Wire
from duetlink.settings import IceServer
from tests.net.carrier.conftest import establish_both, make_sessions
from tests.net.carrier.drivers import carries_both_ways, established
from tests.turn_server import CREDENTIAL, USERNAME, TurnServer


def parsed(url: str, username: str | None = USERNAME, credential: str | None = CREDENTIAL) -> ServerUrl:
    return ServerUrl.parse(url, IceServer((url,), username, credential))


@pytest.fixture(autouse=True)
def trusting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "turn_server" in request.fixturenames:
        server: TurnServer = request.getfixturevalue("turn_server")
        monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))


@pytest.fixture
def loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of these tests relays on loopback, which a peer's word would not be taken for."""
    monkeypatch.setattr(stream_relay, "read_address", lambda entry: tuple(entry) if entry else None)


# -- allocations ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["udp", "tcp", "tls"])
async def test_who_is_permitted_gets_a_stream(turn_server: TurnServer, transport: str) -> None:
    streams: asyncio.Queue[Wire] = asyncio.Queue()
    async with asyncio.timeout(60):
        allocation = await TcpAllocation.open(parsed(getattr(turn_server, transport)), streams.put_nowait)
        await allocation.permit("127.0.0.1")
        outer = await Wire.open(allocation.relayed, None, "")
        inner = await streams.get()
        inner.write(b"from inside")
        outer.write(b"from outside")
        assert await outer.read(11) == b"from inside"
        assert await inner.read(12) == b"from outside"
        await allocation.close()
        with pytest.raises(OSError):  # the streams end with the allocation
            await outer.read(1)
    for wire in (outer, inner):
        wire.abort()


async def test_who_is_not_permitted_gets_none(turn_server: TurnServer) -> None:
    streams: asyncio.Queue[Wire] = asyncio.Queue()
    async with asyncio.timeout(60):
        allocation = await TcpAllocation.open(parsed(turn_server.tcp), streams.put_nowait)
        with pytest.raises(OSError):
            await (await Wire.open(allocation.relayed, None, "")).read(1)
        assert streams.empty()
        await allocation.close()


async def test_the_server_connects_to_a_peer_on_request(turn_server: TurnServer) -> None:
    class Echo(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            self.transport.write(data)

    peer = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
    async with peer, asyncio.timeout(60):
        allocation = await TcpAllocation.open(parsed(turn_server.tcp), lambda wire: None)
        await allocation.permit("127.0.0.1")
        wire = await allocation.connect(peer.sockets[0].getsockname())
        wire.write(b"abc")
        assert await wire.read(3) == b"abc"
        wire.abort()
        await allocation.close()


@pytest.mark.parametrize("credential", ["wrong", None])
async def test_wrong_credentials_are_told(turn_server: TurnServer, credential: str | None) -> None:
    with pytest.raises(TurnRefused, match="refused the user name or password"):
        await TcpAllocation.open(parsed(turn_server.tcp, credential=credential), lambda wire: None)


# -- servers that are none -----------------------------------------------------------------------------------


class Server(asyncio.Protocol):
    """Answers requests as a test wants, on however many connections."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[stun.Message] = []
        self.transports: list[Any] = []

    def connection_made(self, transport: Any) -> None:
        self.transports.append(transport)

    def data_received(self, data: bytes) -> None:
        self.requests.append(stun.parse_message(data))  # one is small, and comes whole
        answer = self.answers.pop(0) if self.answers else b""
        self.transports[-1].write(answer(self.requests[-1]) if callable(answer) else answer)


@asynccontextmanager
async def serving(*answers: Any) -> AsyncIterator[tuple[Server, ServerUrl]]:
    server = Server(*answers)
    listener = await asyncio.get_running_loop().create_server(lambda: server, "127.0.0.1", 0)
    async with listener:
        yield server, parsed(f"turn:127.0.0.1:{listener.sockets[0].getsockname()[1]}?transport=tcp")
        for transport in server.transports:
            transport.abort()


def error(code: int, **attributes: Any) -> Any:
    def answer(request: stun.Message) -> bytes:
        return bytes(
            stun.Message(
                request.message_method,
                stun.Class.ERROR,
                request.transaction_id,
                {"ERROR-CODE": (code, "because"), **attributes},
            )
        )

    return answer


def granted(request: stun.Message) -> bytes:
    attributes = {
        "XOR-RELAYED-ADDRESS": ("203.0.113.7", 1),
        "XOR-MAPPED-ADDRESS": ("203.0.113.8", 2),
        "LIFETIME": 600,
    }
    answer = stun.Message(request.message_method, stun.Class.RESPONSE, request.transaction_id, attributes)
    if "NONCE" in request.attributes:
        answer.add_message_integrity(turn_tcp.make_integrity_key(USERNAME, "r", CREDENTIAL))
    return bytes(answer)


async def test_a_stale_nonce_is_replaced_once() -> None:
    async with serving(error(401, REALM="r", NONCE=b"1"), error(438, NONCE=b"2"), granted) as (server, url):
        allocation = await TcpAllocation.open(url, lambda wire: None)
        assert allocation.relayed == ("203.0.113.7", 1)
        assert [request.attributes.get("NONCE") for request in server.requests] == [None, b"1", b"2"]
        await allocation.close()
    stale = error(438, NONCE=b"2")
    async with serving(error(401, REALM="r", NONCE=b"1"), stale, stale) as (server, url):
        with pytest.raises(TurnRefused, match="438"):
            await TcpAllocation.open(url, lambda wire: None)


async def test_an_allocation_is_refreshed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_tcp, "_MIN_REFRESH_S", 0.01)
    monkeypatch.setattr(turn_tcp, "_LIFETIME_S", 0)

    def short(request: stun.Message) -> bytes:
        answer = stun.parse_message(granted(request))
        answer.attributes["LIFETIME"] = 0
        return bytes(answer)

    async with serving(*[short] * 5) as (server, url), asyncio.timeout(60):
        allocation = await TcpAllocation.open(url, lambda wire: None)
        while len(server.requests) < 3:
            await asyncio.sleep(0.01)
        assert [request.message_method for request in server.requests[1:3]] == [stun.Method.REFRESH] * 2
        await allocation.close()


@pytest.mark.parametrize(
    "answers",
    [
        [b"HTTP/1.1 400 Bad Request\r\n\r\n"],
        [bytes(20)],
        [error(442)],  # this server relays no TCP
        [error(401)],
        [error(401, REALM="r")],
        [error(401, REALM="r", NONCE=b"n" * 1000)],
        [error(401, REALM="r", NONCE=b"1")] * 2,
        # signed with something else
        [error(401, REALM="r", NONCE=b"1"), lambda r: bytes(stun.parse_message(granted(r)))[:-4] + bytes(4)],
        [error(401, REALM="other", NONCE=b"1"), granted],
        [lambda r: bytes(stun.Message(r.message_method, stun.Class.RESPONSE, r.transaction_id))],
    ],
)
async def test_a_server_that_does_not_do_it_is_an_error(answers: list[Any]) -> None:
    async with serving(*answers) as (_, url), asyncio.timeout(60):
        with pytest.raises((PathUnavailable, RemoteProtocolError, ConnectionAbortedError, TimeoutError)):
            await TcpAllocation.open(url, lambda wire: None)


async def test_a_server_that_ends_the_connection_is_noticed_at_once() -> None:
    async with serving(granted) as (_, url):
        allocation = await TcpAllocation.open(url, lambda wire: None)
        asking = asyncio.ensure_future(allocation.permit("203.0.113.1"))
        await asyncio.sleep(0)
        allocation._wire.abort()
        with pytest.raises(OSError):
            await asking
        await allocation.close()


def test_the_words_of_rfc_6062_are_known() -> None:
    for _ in range(2):
        turn_tcp._extend_stun()
    message = stun.Message(stun.Method(0xC), stun.Class.INDICATION, attributes={"CONNECTION-ID": 7})
    data = bytes(message)
    assert data[:2] == b"\x00\x1c"
    assert data[20:] == bytes.fromhex("002a000400000007")
    assert stun.parse_message(data).attributes == {"CONNECTION-ID": 7}


# -- both sides ----------------------------------------------------------------------------------------------


def ice_server(server: TurnServer) -> tuple[IceServer, ...]:
    return (IceServer((server.tcp,), USERNAME, CREDENTIAL),)


@pytest.mark.usefixtures("loopback")
@pytest.mark.parametrize("owners", ["both", "controlling", "controlled"])
async def test_one_turn_server_on_either_side_is_enough(turn_server: TurnServer, owners: str) -> None:
    turn, stun_only = ice_server(turn_server), (IceServer((f"stun:127.0.0.1:{turn_server.port}",)),)
    sides = [turn if owners in ("both", side) else stun_only for side in ("controlling", "controlled")]
    async with asyncio.timeout(60), established(establish, make_sessions(*sides)) as ways:
        assert all(way.description.startswith("TCP through ") for way in ways)
        await carries_both_ways(ways)


@pytest.mark.usefixtures("loopback")
async def test_a_network_that_lets_only_the_own_server_through_takes_the_detour(
    turn_server: TurnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def blocked(self: Any, address: Any) -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(stream_relay._Relaying, "_dial", blocked)
    sessions = make_sessions(ice_server(turn_server), ice_server(turn_server))
    async with asyncio.timeout(60), established(establish, sessions) as ways:
        await carries_both_ways(ways)


async def test_no_server_on_either_side_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_relay, "CONNECT_TIMEOUT_S", 1000.0)
    async with asyncio.timeout(60):
        with pytest.raises(PathUnavailable, match="no TCP through a TURN server"):
            await establish_both(establish, make_sessions())


async def test_wrong_credentials_are_the_reason(turn_server: TurnServer) -> None:
    wrong = (IceServer((turn_server.tcp,), USERNAME, "wrong"),)
    async with asyncio.timeout(60):
        with pytest.raises(PathUnavailable, match="refused the user name or password"):
            await establish_both(establish, make_sessions(wrong, ()))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"x",
        b"t[",
        b"t{}",
        b't{"hosts": 1}',
        b't{"hosts": [null, {}, "x"]}',
        b't{"relayed": ["127.0.0.1", 22]}',
        b't{"bound": false}',
    ],
)
async def test_nonsense_of_a_peer_is_an_error_or_nothing(payload: bytes) -> None:
    ours, theirs = make_sessions()
    running = asyncio.ensure_future(establish(ours))
    said = [await theirs.receive() for _ in range(2)]
    assert sorted(one[:1] for one in said) == [b"b", b"t"]  # of each direction
    assert all(list(json.loads(one[1:])) == ["hosts"] for one in said)
    await theirs.send(payload)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not running.done() or isinstance(running.exception(), DuetError)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_cancelled_attempt_leaves_nothing(turn_server: TurnServer) -> None:
    sessions: tuple[Session, ...] = make_sessions(ice_server(turn_server), ice_server(turn_server))
    for steps in (0, 1, 5, 20, 50):
        running = [asyncio.ensure_future(establish(session)) for session in sessions]
        for _ in range(steps):
            await asyncio.sleep(0.001)
        for task in running:
            task.cancel()
        for done in await asyncio.gather(*running, return_exceptions=True):
            if not isinstance(done, BaseException):
                await done.close()
