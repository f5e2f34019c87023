"""Drivers `udp` and `relay`, both sides in one process: real sockets, a real coturn."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from aioice import ice, stun, turn

from duetlink.errors import DuetError, PathUnavailable, RemoteProtocolError
from duetlink.net.carrier.drivers import ice as driver
from duetlink.net.carrier.drivers import takeover
from duetlink.net.carrier.drivers.driver import MAX_SIGNAL_BYTES
from duetlink.net.carrier.drivers.ice import establish_direct, establish_relayed
from duetlink.net.carrier.drivers.ice_signals import read_candidate
from duetlink.net.carrier.drivers.takeover import check_aioice
from duetlink.net.tunnel.udp_port import UdpPort
from duetlink.settings import IceServer
from tests.net.carrier.conftest import Carried, establish_both, make_sessions
from tests.turn_server import CREDENTIAL, USERNAME, TurnServer


def turn_at(*urls: str, credential: str = CREDENTIAL) -> tuple[IceServer, ...]:
    return (IceServer(urls, USERNAME, credential),)


@pytest.fixture
def dead_port() -> Iterator[int]:
    """A UDP port that takes everything and answers nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        yield silent.getsockname()[1]


@pytest.fixture
def no_host_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a network that lets no UDP out: only what is relayed through TCP remains."""
    monkeypatch.setattr(ice, "get_host_addresses", lambda use_ipv4, use_ipv6: [])


# -- udp -----------------------------------------------------------------------------------------------------


async def test_bytes_go_both_ways(carry: Any) -> None:
    carried = await carry(establish_direct, make_sessions())
    assert carried.ends[0].description.startswith("UDP, ")
    await asyncio.gather(carried.exchange(0, os.urandom(2_000_000)), carried.exchange(1, os.urandom(300_000)))


async def test_a_stun_server_that_is_dead_delays_nothing(
    carry: Any, dead_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # were it waited for, the attempt would fail: it has 7 s
    monkeypatch.setattr(driver, "MAPPED_TIMEOUT_S", 1000.0)
    servers = (IceServer((f"stun:127.0.0.1:{dead_port}", "stun:nowhere.invalid:1")),)
    carried = await carry(establish_direct, make_sessions(servers, servers))
    await carried.exchange(0, b"hello")


async def test_without_any_way_the_reason_is_told(
    no_host_addresses: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PathUnavailable, match=r"0 addresses here, 0 at the peer\): UDP is blocked or a NAT"):
        await establish_both(establish_direct, make_sessions())


async def test_a_peer_that_says_nothing_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "CONNECT_TIMEOUT_S", 0.3)
    with pytest.raises(PathUnavailable, match="did not answer"):
        await establish_direct(make_sessions()[0])


@pytest.fixture
def socks(monkeypatch: pytest.MonkeyPatch) -> list[socket.socket]:
    """Those of the tunnels: each side's leads to the other."""
    made: list[socket.socket] = []

    def note(sock: socket.socket, **more: Any) -> UdpPort:
        made.append(sock)
        return UdpPort(sock, **more)

    monkeypatch.setattr(takeover, "UdpPort", note)
    return made


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> dict[bool, Any]:
    """Those of aioice, by whether they are of the side that controls, which is the first one."""
    made: dict[bool, Any] = {}
    make = takeover.make_connection

    def note(*, controlling: bool) -> Any:
        made[controlling] = make(controlling=controlling)
        return made[controlling]

    monkeypatch.setattr(driver, "make_connection", note)
    return made


async def test_strangers_do_not_reach_the_tunnel(carry: Any, socks: list[socket.socket]) -> None:
    carried: Carried = await carry(establish_direct, make_sessions())
    host, port = socks[0].getsockname()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for _ in range(200):
            stranger.sendto(os.urandom(200), (host, port))
            stranger.sendto(b"\xc0" + os.urandom(100), (host, port))
    await carried.exchange(0, os.urandom(100_000))
    assert carried.transports[0].receiver.dropped == {}


async def test_stun_that_is_none_does_no_harm(
    carry: Any, socks: list[socket.socket], connections: dict[bool, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs: dict[bool, Any] = {}
    build = ice.Connection.build_request

    def note(connection: Any, pair: Any, nominate: bool) -> Any:
        pairs[connection.ice_controlling] = pair
        return build(connection, pair, nominate)

    monkeypatch.setattr(ice.Connection, "build_request", note)
    carried: Carried = await carry(establish_direct, make_sessions())
    sock = socks[1]  # leads to the first side, as if the peer were hostile
    generator = random.Random(3)
    good = bytes(build(connections[False], pairs[False], True))
    for _ in range(500):
        data = bytearray(good)
        for _ in range(generator.randrange(1, 6)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        sock.send(bytes([data[0] % 4]) + data[1 : generator.randrange(2, len(data))])
    await carried.exchange(0, os.urandom(100_000))


# -- relay ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["udp", "tcp", "tls"])
async def test_one_side_with_a_turn_server_is_enough(
    carry: Any, turn_server: TurnServer, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(turn_server.certificate))
    carried = await carry(establish_relayed, make_sessions((), turn_at(getattr(turn_server, by))))
    assert f"by {by.upper()}" in carried.ends[1].description
    assert "the peer's relay" in carried.ends[0].description
    await asyncio.gather(carried.exchange(0, os.urandom(2_000_000)), carried.exchange(1, os.urandom(300_000)))


@pytest.mark.parametrize("by", ["udp", "tcp", "tls"])
async def test_relay_to_relay_where_nothing_else_passes(
    carry: Any, turn_server: TurnServer, by: str, no_host_addresses: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(turn_server.certificate))
    servers = turn_at(getattr(turn_server, by))
    carried = await carry(establish_relayed, make_sessions(servers, servers))
    assert all(f"by {by.upper()}" in end.description for end in carried.ends)
    await asyncio.gather(carried.exchange(0, os.urandom(2_000_000)), carried.exchange(1, os.urandom(300_000)))


async def test_a_dead_first_url_does_not_hide_the_second(
    carry: Any, turn_server: TurnServer, dead_port: int
) -> None:
    servers = turn_at(f"turn:127.0.0.1:{dead_port}", "turn:127.0.0.1:1?transport=tcp", turn_server.tcp)
    async with asyncio.timeout(60):
        carried = await carry(establish_relayed, make_sessions(servers))
    assert "by TCP" in carried.ends[0].description
    await carried.exchange(0, b"hello")


async def test_wrong_credentials_are_told_by_both_sides(turn_server: TurnServer) -> None:
    servers = turn_at(turn_server.udp, turn_server.tcp, credential="wrong")
    with pytest.raises(PathUnavailable) as failure:
        await establish_both(establish_relayed, make_sessions(servers, ()))
    assert f"turn:127.0.0.1:{turn_server.port} by UDP: it refuses the credentials (401)" in str(failure.value)
    assert f"turn:127.0.0.1:{turn_server.port} by TCP: it refuses the credentials (401)" in str(failure.value)
    assert "no TURN server is set" in str(failure.value)


async def test_a_certificate_that_nobody_vouches_for_is_told(turn_server: TurnServer) -> None:
    with pytest.raises(PathUnavailable, match="its certificate is self-signed"):
        await establish_both(establish_relayed, make_sessions(turn_at(turn_server.tls), ()))


async def test_servers_that_cannot_be_reached_are_told() -> None:
    servers = turn_at(
        "turn:127.0.0.1:1?transport=tcp", "turn:nowhere.invalid", "turns:127.0.0.1?transport=udp"
    )
    with pytest.raises(PathUnavailable) as failure:
        await establish_both(establish_relayed, make_sessions(servers, ()))
    assert "turn:127.0.0.1:1 by TCP: " in str(failure.value)
    assert "turn:nowhere.invalid:3478 by UDP: " in str(failure.value)
    assert "TURN over DTLS is not supported" in str(failure.value)


async def test_nothing_goes_straight_where_a_relay_is_asked_for(carry: Any, turn_server: TurnServer) -> None:
    carried = await carry(
        establish_relayed, make_sessions(turn_at(turn_server.udp), turn_at(turn_server.udp))
    )
    assert sum("through turn:" in end.description for end in carried.ends) >= 1


# -- consent -------------------------------------------------------------------------------------------------


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ice, "CONSENT_INTERVAL", 0.05)
    monkeypatch.setattr(stun, "RETRY_RTO", 0.1)


@pytest.mark.parametrize("way", ["direct", "udp", "tcp"])
async def test_consent_goes_on_below_the_tunnel(
    carry: Any, request: pytest.FixtureRequest, soon: None, way: str
) -> None:
    if way == "direct":
        carried = await carry(establish_direct, make_sessions())
    else:
        server = request.getfixturevalue("turn_server")
        carried = await carry(establish_relayed, make_sessions(turn_at(getattr(server, way))))
    lost = [asyncio.ensure_future(end.wait_lost()) for end in carried.ends]
    # some twenty rounds, of which six without an answer would end it
    for _ in range(4):
        await asyncio.wait(lost, timeout=0.25)
        await carried.exchange(0, os.urandom(50_000))
    assert not any(one.done() for one in lost)
    for one in lost:
        one.cancel()


async def test_lost_consent_is_told(carry: Any, soon: None, connections: dict[bool, Any]) -> None:
    carried: Carried = await carry(establish_direct, make_sessions())
    await connections[False].close()  # the other side answers no longer
    assert "has not answered" in await carried.ends[0].wait_lost()


# -- a hostile peer ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"7",
        b"[]",
        b"\xff",
        b"[" * 4000,
        b'{"ufrag": 7, "password": "x"}',
        b'{"ufrag": "abcd"}',
        b'{"ufrag": "' + b"a" * 2000 + b'", "password": "x"}',
        b'{"candidates": "x"}',
        b'{"candidates": ' + json.dumps(["x"] * 61).encode() + b"}",
    ],
)
async def test_a_signal_that_is_none_is_a_typed_error(message: bytes) -> None:
    assert len(message) <= MAX_SIGNAL_BYTES
    session, other = make_sessions()
    await other.send(message)
    with pytest.raises(RemoteProtocolError, match="helper"):
        await establish_direct(session)


@pytest.mark.parametrize(
    "sdp",
    [
        None,
        7,
        "",
        "x",
        "1 1 udp 1 peer.example.org 5 typ host",
        "1 1 udp 1 4f3c2e11-0000.local 5 typ host",
        "1 1 udp 1 224.0.0.1 5 typ host",
        "1 1 udp 1 0.0.0.0 5 typ host",
        "1 1 udp 1 10.0.0.1 0 typ host",
        "1 1 udp 1 10.0.0.1 65536 typ host",
        "1 2 udp 1 10.0.0.1 5 typ host",
        "1 1 tcp 1 10.0.0.1 5 typ host",
        "1 1 udp 1 10.0.0.1 5 typ prflx",
        "1 1 udp x 10.0.0.1 5 typ host",
        "1 1 udp 1 10.0.0.1 5 typ host rport x",
    ],
)
def test_what_names_no_single_machine_is_no_candidate(sdp: object) -> None:
    assert read_candidate(sdp) is None


def test_any_text_is_a_candidate_or_none() -> None:
    generator = random.Random(5)
    good = "6815297761 1 udp 659136 10.0.0.1 31102 typ host raddr 10.0.0.2 rport 5 generation 0"
    assert read_candidate(good) is not None
    for _ in range(2000):
        text = list(good)
        for _ in range(generator.randrange(1, 5)):
            text[generator.randrange(len(text))] = chr(generator.choice([32, 46, 48, 58, 0x660, 0xD7FF, 65]))
        read_candidate("".join(text))


async def test_more_candidates_than_allowed_are_passed_over(connections: dict[bool, Any]) -> None:
    sessions = make_sessions()
    for batch in range(5):
        hosts = [f"10.9.{batch}.{host}" for host in range(1, 41)]
        candidates = [f"1 1 udp 1 {host} 5 typ host" for host in hosts]
        await sessions[1].send(json.dumps({"candidates": candidates}).encode())
    connecting = asyncio.ensure_future(establish_direct(sessions[0]))
    while not connections or len(connections[True].remote_candidates) < 60:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    assert len(connections[True].remote_candidates) == 60
    connecting.cancel()
    await asyncio.gather(connecting, return_exceptions=True)


# -- another aioice ------------------------------------------------------------------------------------------


async def test_another_aioice_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    check_aioice()
    original = turn.TurnTransport.__init__

    def renamed(self: Any, inner: Any) -> None:
        original(self, inner)
        del self.__dict__["_TurnTransport__inner_protocol"]

    monkeypatch.setattr(turn.TurnTransport, "__init__", renamed)
    with pytest.raises(DuetError, match=r"does not know aioice \d+\.\d+"):
        await establish_relayed(make_sessions()[0])
