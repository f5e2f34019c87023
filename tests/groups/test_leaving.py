"""A member that leaves serves what it has ended until the others have ended it too.

Members are whole `GroupLife`s on links in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from duetlink.errors import LinkClosed, PeerLost
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.same_host import host_memory
from duetlink.groups.lifecycle.open_epoch import OpenEpoch
from duetlink.groups.lifecycle.running import Running
from tests.groups.memory_links import MemoryMember, Network, grown

SIZE = 4
LONG_S = 1000.0  # a test that would have to wait for this fails by its own limit
LIMIT_S = 60

OPERATIONS: dict[str, Callable[[Collectives], Awaitable[Any]]] = {
    "broadcast": lambda c: c.broadcast(np.full(300_000, 7) if c.rank == 0 else None, 0),
    "all_reduce": lambda c: c.all_reduce(np.ones(300_000)),
    "reduce": lambda c: c.reduce(np.ones(300_000), 3),
}


@pytest.fixture
async def network(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Network]:
    monkeypatch.setattr(host_memory, "supported", lambda: False)
    network = Network(1)
    yield network
    await network.close()


async def group(network: Network, patience_s: float = LONG_S) -> list[MemoryMember]:
    """Members that wait for nobody in the next call but for its own sake: figures of links have been told."""
    members = await grown(network, SIZE)
    for member in members:
        member.life.patience_s = patience_s
    for _ in range(2):
        await asyncio.gather(*map(add, members))
    return members


async def add(member: MemoryMember) -> object:
    return await member.life.running.operate(lambda collectives: collectives.all_reduce(1))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", OPERATIONS)
async def test_an_operation_that_the_leaving_member_has_ended_ends_well_at_all(
    network: Network, name: str, seed: int
) -> None:
    network.random.seed(seed)
    members = await group(network)
    leaving = members[0]
    ended = asyncio.Event()

    async def once(member: MemoryMember) -> Any:
        if (
            name == "broadcast" and member is members[2]
        ):  # its notebook is slow: it comes when the root leaves
            await ended.wait()
        found = await member.life.running.operate(OPERATIONS[name])
        if member is leaving:
            ended.set()
            await member.close()
        return found

    async with asyncio.timeout(LIMIT_S):
        found = await asyncio.gather(*map(once, members))
    wanted = {"broadcast": 7.0, "all_reduce": 4.0, "reduce": None}[name]
    assert [None if value is None else float(value.mean()) for value in found[:3]] == [wanted] * 3
    assert float(found[3].mean()) == (wanted or 4.0)
    assert [member.life.running.losses.take_unraised("raise") for member in members] == [None] * SIZE
    assert await asyncio.gather(*map(add, members[1:])) == [3] * 3
    await asyncio.gather(*(member.close() for member in members))


async def test_a_member_does_not_wait_for_those_who_are_ahead_of_it(network: Network) -> None:
    members = await group(network)
    await asyncio.gather(*map(add, members))
    waiting = [asyncio.ensure_future(add(member)) for member in members[1:]]
    async with asyncio.timeout(LIMIT_S):
        await members[0].close()
        found = await asyncio.gather(*waiting, return_exceptions=True)
    assert [(type(each), str(each)) for each in found] == [
        (PeerLost, "rank 0 (member 0) has left the group")
    ] * 3
    await asyncio.gather(*(member.close() for member in members))


async def test_all_may_leave_at_once(network: Network) -> None:
    members = await group(network)
    await asyncio.gather(*map(add, members))
    async with asyncio.timeout(LIMIT_S):
        await asyncio.gather(*(member.close() for member in members))
    assert {str(member.life.why_closed).partition(";")[0] for member in members} <= {
        "this side closed the group",
        "all members leave",
    }


async def test_a_member_that_never_comes_is_waited_for_as_long_as_patience_says(network: Network) -> None:
    members = await group(network, 0.1)
    three = members[:3]
    async with asyncio.timeout(LIMIT_S):
        sent = asyncio.ensure_future(members[3].life.running.operate(lambda c: c.reduce(1, 0)))
        await sent  # its part is done; the root has not called this
        await members[3].close()
        found = await asyncio.gather(*map(add, three), return_exceptions=True)
    assert [(type(each), str(each)) for each in found] == [
        (PeerLost, "rank 3 (member 3) has left the group")
    ] * 3
    assert await asyncio.gather(*map(add, three)) == [3] * 3
    await asyncio.gather(*(member.close() for member in members))


async def test_what_a_member_still_ran_when_it_left_says_that_this_side_closed_the_group(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = await group(network, patience_s=0.0)
    begun, begin = asyncio.Event(), Running.begin

    async def note(running: Running) -> OpenEpoch:
        epoch = await begin(running)
        begun.set()
        return epoch

    monkeypatch.setattr(Running, "begin", note)
    running = asyncio.ensure_future(add(members[1]))
    await asyncio.wait_for(begun.wait(), LIMIT_S)
    async with asyncio.timeout(LIMIT_S):
        await members[1].close()
        with pytest.raises(LinkClosed, match="this side closed the group") as found:
            await running
    assert not isinstance(found.value, PeerLost)
    assert members[1].life.departures.latest == ()
    await asyncio.gather(*(member.close() for member in members))
