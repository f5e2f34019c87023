"""Meeting again: the place at the mailbox server, and what is said there."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator

import pytest

from duetlink.errors import LinkClosed, RemoteProtocolError, SignalingRefused, WrongCode
from duetlink.net.signaling import Role, SessionKey, WebSocketMailbox
from duetlink.net.signaling.memory import MemoryMailbox
from duetlink.net.signaling.reunion import Meeting, meeting_place
from duetlink.net.signaling.server import MailboxServer

SECRET = bytes(range(32))


def keys() -> tuple[SessionKey, SessionKey]:
    return SessionKey.from_secret(SECRET, Role.OWNER), SessionKey.from_secret(SECRET, Role.SCIENTIST)


async def meetings() -> tuple[Meeting, Meeting]:
    owner_end, scientist_end = MemoryMailbox.pair()
    owner_key, scientist_key = keys()
    owner, scientist = await asyncio.gather(
        Meeting.wait(owner_end, owner_key), Meeting.wait(scientist_end, scientist_key)
    )
    return owner, scientist


async def test_both_sides_of_a_key_know_the_same_place_and_nobody_else() -> None:
    owner, scientist = keys()
    assert meeting_place(owner) == meeting_place(scientist)
    other = SessionKey.from_secret(bytes(32), Role.OWNER)
    assert meeting_place(other) != meeting_place(owner)


async def test_what_one_side_says_the_other_reads() -> None:
    owner, scientist = await meetings()
    await scientist.send(b"offer")
    assert await owner.receive() == b"offer"
    await owner.send(b"answer")
    assert await scientist.receive() == b"answer"


async def test_what_was_said_at_one_meeting_does_not_open_at_another() -> None:
    owner_end, scientist_end = MemoryMailbox.pair()
    owner_key, scientist_key = keys()
    _, scientist = await asyncio.gather(
        Meeting.wait(owner_end, owner_key), Meeting.wait(scientist_end, scientist_key)
    )
    await scientist.send(b"offer")
    recorded = await owner_end.receive()
    again_end, forged_end = MemoryMailbox.pair()
    again = asyncio.ensure_future(Meeting.wait(again_end, keys()[0]))
    await forged_end.send(secrets.token_bytes(32))
    await forged_end.send(recorded)
    with pytest.raises(WrongCode):
        await (await again).receive()


async def test_a_stranger_at_the_place_is_noticed() -> None:
    owner_end, stranger = MemoryMailbox.pair()
    waiting = asyncio.ensure_future(Meeting.wait(owner_end, keys()[0]))
    await stranger.send(b"no nonce")
    with pytest.raises(RemoteProtocolError, match="8"):
        await waiting


# -- the place, on a real server ---------------------------------------------------------------------------


@pytest.fixture
async def url() -> AsyncIterator[str]:
    server = MailboxServer()
    host, port = await server.start()
    yield f"ws://{host}:{port}"
    await server.stop()


PLACE = bytes(32)


async def test_either_side_may_come_first_and_as_often_as_it_likes(url: str) -> None:
    for first, second in ((Role.OWNER, Role.SCIENTIST), (Role.SCIENTIST, Role.OWNER)) * 2:
        async with await WebSocketMailbox.meet(url, PLACE, first) as one:
            await one.send(b"I am here")
            async with await WebSocketMailbox.meet(url, PLACE, second) as other:
                assert await asyncio.wait_for(other.receive(), 60) == b"I am here"
                await other.send(b"me too")
                assert await asyncio.wait_for(one.receive(), 60) == b"me too"


async def test_a_side_that_comes_again_takes_the_place_of_its_own_broken_connection(url: str) -> None:
    stale = await WebSocketMailbox.meet(url, PLACE, Role.OWNER)
    await stale.send(b"of a network that is gone")
    fresh = await WebSocketMailbox.meet(url, PLACE, Role.OWNER)
    with pytest.raises(LinkClosed):
        await asyncio.wait_for(stale.receive(), 60)
    await fresh.send(b"fresh")
    async with await WebSocketMailbox.meet(url, PLACE, Role.SCIENTIST) as other:
        assert await asyncio.wait_for(other.receive(), 60) == b"fresh"
    await fresh.close()
    await stale.close()


async def test_a_side_whose_peer_starts_over_is_told(url: str) -> None:
    one = await WebSocketMailbox.meet(url, PLACE, Role.OWNER)
    other = await WebSocketMailbox.meet(url, PLACE, Role.SCIENTIST)
    again = await WebSocketMailbox.meet(url, PLACE, Role.OWNER)
    with pytest.raises(LinkClosed):
        await asyncio.wait_for(other.receive(), 60)
    for mailbox in (one, other, again):
        await mailbox.close()


@pytest.mark.parametrize("size_bytes", [0, 31, 33, 1000])
async def test_a_place_of_another_size_is_refused(url: str, size_bytes: int) -> None:
    with pytest.raises(SignalingRefused, match=f"32 bytes, this has {size_bytes}"):
        await WebSocketMailbox.meet(url, bytes(size_bytes), Role.OWNER)
