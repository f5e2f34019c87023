"""Choosing among configured STUN and TURN servers: fakes for the choice, a real coturn for the protocol."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

import duetlink
from duetlink.errors import RemoteProtocolError, SettingError
from duetlink.net.peer.connection import PeerConnection
from duetlink.net.peer.ice_servers import choose_ice_servers
from duetlink.settings import IceServer, Settings
from tests.turn_server import TurnServer


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A UDP socket that takes everything and answers nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        yield silent


@pytest.fixture
def dead_port(silent: socket.socket) -> int:
    return int(silent.getsockname()[1])


@pytest.fixture
def coturn(turn_server: TurnServer) -> int:
    return turn_server.port


async def test_no_servers_take_no_time_and_give_none() -> None:
    assert await choose_ice_servers((), 60.0) == ([], [])


async def test_a_dead_first_url_does_not_hide_the_second(dead_port: int, coturn: int) -> None:
    servers = (
        IceServer((f"stun:127.0.0.1:{dead_port}", f"stun:127.0.0.1:{coturn}")),
        IceServer(
            (f"turn:127.0.0.1:{dead_port}", f"turn:127.0.0.1:{coturn}?transport=tcp"),
            username="u",
            credential="p",
        ),
    )
    # a coturn that has just started answers some source ports later than others
    for _ in range(20):
        chosen, probed = await choose_ice_servers(servers, 0.5)
        if len(chosen) == 2:
            break
    assert [server.urls for server in chosen] == [
        f"stun:127.0.0.1:{coturn}",
        f"turn:127.0.0.1:{coturn}?transport=tcp",
    ]
    assert [one.reachable for one in probed] == [False, True, False, True]


async def test_dead_servers_are_asked_at_once_and_given_up(silent: socket.socket, dead_port: int) -> None:
    servers = tuple(IceServer((f"stun:127.0.0.1:{dead_port}",)) for _ in range(10))
    chosen, _ = await choose_ice_servers(servers, 0.3)
    assert chosen == []
    sources = [silent.recvfrom(2048)[1] for _ in range(10)]
    # one after another, the first would have been asked again before the second was asked at all
    assert sources[0] != sources[1]


async def test_a_relayed_candidate_comes_from_a_real_turn_server(coturn: int) -> None:
    turn = IceServer((f"turn:127.0.0.1:{coturn}",), username="u", credential="p")
    relayed = False
    for _ in range(5):  # as above
        chosen, _ = await choose_ice_servers((turn,), 2.0)
        connection = PeerConnection(chosen)
        async with asyncio.timeout(20):
            relayed = b"typ relay" in await connection.offer()
        await connection.close()
        if relayed:
            break
    assert relayed


def test_pairing_goes_on_without_a_stun_server_that_does_not_answer(dead_port: int) -> None:
    settings = Settings(ice_servers=(IceServer((f"stun:127.0.0.1:{dead_port}",)),), ice_probe_timeout_s=0.2)
    with (
        duetlink.launch(settings=settings) as owner,
        duetlink.join(str(owner.code), settings=settings) as scientist,
    ):
        assert scientist.state == "connected"


@pytest.mark.parametrize("url", ["stun:nowhere.invalid:1", "stun:%%%", "turn:127.0.0.1:1?transport=tcp"])
async def test_urls_that_cannot_answer_are_unreachable(url: str) -> None:
    chosen, probed = await choose_ice_servers((IceServer((url,)),), 1.0)
    assert chosen == []
    assert not probed[0].reachable


# -- descriptions of a hostile peer --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "description",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"type": "answer", "sdp": "v=0"}',
        b'{"type": "offer", "sdp": 7}',
        b'{"type": "offer", "sdp": "garbage"}',
        b'{"type": "offer", "sdp": "v=0\\r\\nm=application x y z\\r\\n"}',
        b"\xff" * 100,
        b"x" * 100_000,
    ],
)
async def test_a_malformed_description_is_a_typed_error(description: bytes) -> None:
    connection = PeerConnection([])
    try:
        with pytest.raises(RemoteProtocolError, match="description"):
            await connection.answer(description)
    finally:
        await connection.close()


# -- settings ------------------------------------------------------------------------------------------------


def test_ice_servers_come_from_the_environment_in_the_shape_of_webrtc() -> None:
    text = '[{"urls": ["stun:a", "stun:b"]}, {"urls": "turns:c:443", "username": "u", "credential": "p"}]'
    servers = Settings.from_environment({"DUETLINK_ICE_SERVERS": text}).ice_servers
    assert servers == (IceServer(("stun:a", "stun:b")), IceServer(("turns:c:443",), "u", "p"))
    assert "'p'" not in repr(servers)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("DUETLINK_ICE_SERVERS", "{"),
        ("DUETLINK_ICE_SERVERS", '[{"urls": "http://x"}]'),
        ("DUETLINK_ICE_SERVERS", '[{"url": "stun:x"}]'),
        ("DUETLINK_ICE_SERVERS", "7"),
        ("DUETLINK_SIGNALING", "example.org"),
        ("DUETLINK_ONLY", "local,pigeon"),
        ("DUETLINK_MAX_VALUE_BYTES", "much"),
        ("DUETLINK_CODE_LIFETIME_S", "-1"),
    ],
)
def test_a_bad_variable_is_named(variable: str, value: str) -> None:
    with pytest.raises(SettingError):
        Settings.from_environment({variable: value})
