"""The peer is met again wherever it comes, whichever servers are there meanwhile."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from duetlink.net import reunion
from duetlink.net.reunion import Reunion
from duetlink.net.signaling import Role, SessionKey
from duetlink.net.signaling.discovery import SignalingServer
from duetlink.net.signaling.server import MailboxServer
from duetlink.settings import Settings
from duetlink.testing.faults import set_constants
from tests.free_port import free_port

SECRET = bytes(range(32))
OWNER, SCIENTIST = Role.OWNER, Role.SCIENTIST

numbers = itertools.count(1)


class Connection:
    """Knows what it was told; a `PeerConnection` without a network."""

    open: ClassVar[set[Connection]] = set()

    def __init__(self, ice_servers: list[Any]) -> None:
        self.number, self.heard = next(numbers), b""
        self.open.add(self)

    async def offer(self) -> bytes:
        return b"offer %d" % self.number

    async def answer(self, offer: bytes) -> bytes:
        self.heard = offer
        return b"answer %d" % self.number

    async def accept(self, answer: bytes) -> None:
        self.heard = answer

    async def close(self) -> None:
        self.open.discard(self)


class Servers:
    """Signaling servers, and who finds which of them."""

    def __init__(self) -> None:
        self.running: list[MailboxServer] = []
        self._asked = asyncio.Semaphore(0)
        self.found: list[SignalingServer] = []

    async def start(self, port: int = 0) -> str:
        server = MailboxServer()
        host, port = await server.start("127.0.0.1", port)
        self.running.append(server)
        return f"ws://{host}:{port}"

    async def stop(self) -> None:
        for server in self.running:
            await server.stop()

    async def live(self) -> list[SignalingServer]:
        self._asked.release()
        return self.found

    async def asked(self, times: int) -> None:
        """Return when somebody has looked for servers so often."""
        for _ in range(times):
            await self._asked.acquire()


@pytest.fixture
async def servers(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Servers]:
    servers = Servers()

    async def choose(*arguments: object) -> tuple[list[Any], list[Any]]:
        return [], []

    monkeypatch.setattr(reunion, "live_servers", servers.live)
    monkeypatch.setattr(reunion, "choose_ice_servers", choose)
    monkeypatch.setattr(reunion, "PeerConnection", Connection)
    yield servers
    await servers.stop()
    Connection.open.clear()


def side(role: Role, url: str) -> asyncio.Task[Any]:
    return asyncio.ensure_future(Reunion(SessionKey.from_secret(SECRET, role), url, Settings()).connect())


async def both(owner: asyncio.Task[Any], scientist: asyncio.Task[Any]) -> None:
    """Both come back with the two ends of one connection, and nothing else is left open."""
    one, other = await asyncio.wait_for(asyncio.gather(owner, scientist), 20)
    assert one.heard == b"offer %d" % other.number
    assert other.heard == b"answer %d" % one.number
    assert Connection.open == {one, other}


async def waits(task: asyncio.Task[Any], server: MailboxServer) -> None:
    """Until this side sits at a place of that server."""
    while not len(server.mailboxes):
        assert not task.done()
        await asyncio.sleep(0.01)


async def test_a_side_that_waits_at_another_kernels_server_meets_a_peer_that_comes_back_to_its_own(
    servers: Servers,
) -> None:
    port = free_port()
    own, other = f"ws://127.0.0.1:{port}", await servers.start()
    servers.found = [SignalingServer(other)]
    scientist = side(SCIENTIST, own)
    await waits(scientist, servers.running[0])
    # the owner's kernel goes on, and with it the server of the code
    await servers.start(port)
    servers.found = []
    await both(side(OWNER, own), scientist)


async def test_they_meet_at_another_kernels_server_where_the_codes_is_gone(servers: Servers) -> None:
    own = f"ws://127.0.0.1:{free_port()}"
    servers.found = [SignalingServer(await servers.start())]
    await both(side(OWNER, own), side(SCIENTIST, own))


async def test_where_both_wait_at_several_servers_they_take_the_same_meeting(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_constants(monkeypatch, reunion, OWN_ALONE_S=0.0)
    own = await servers.start()
    servers.found = [SignalingServer(await servers.start()) for _ in range(3)]
    for _ in range(5):
        await both(side(OWNER, own), side(SCIENTIST, own))
        Connection.open.clear()


async def test_the_server_of_the_code_is_one_place_under_each_of_its_addresses(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_constants(monkeypatch, reunion, OWN_ALONE_S=0.0)
    own = await servers.start()
    servers.found = [SignalingServer(own.replace("127.0.0.1", "localhost"))]
    owner = side(OWNER, own)
    await waits(owner, servers.running[0])
    await asyncio.wait_for(servers.asked(2), 10)
    assert len(servers.running[0].mailboxes) == 1
    await both(owner, side(SCIENTIST, own))


async def test_a_cancelled_search_leaves_nothing_open(servers: Servers) -> None:
    own = await servers.start()
    scientist = side(SCIENTIST, own)
    await waits(scientist, servers.running[0])
    scientist.cancel()
    with pytest.raises(asyncio.CancelledError):
        await scientist
    assert Connection.open == set()
    await both(side(OWNER, own), side(SCIENTIST, own))
