"""A link that is late costs nobody the group, as long as other members hear both of its ends.

Members are whole `GroupLife`s on links in memory, which lose each other when a test says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from duetlink.errors import PeerLost
from duetlink.groups.collectives.same_host import host_memory
from duetlink.groups.membership import events
from duetlink.groups.membership.messages import Epoch
from tests.groups.memory_links import MemoryLink, MemoryMember, Network, grown

PATIENCE_S = 0.2


@pytest.fixture
async def members(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[MemoryMember]]:
    monkeypatch.setattr(host_memory, "supported", lambda: False)
    network = Network(3)
    made = await grown(network, 4, patience_s=PATIENCE_S)
    async with asyncio.timeout(60):
        yield made
        await asyncio.gather(*(member.close() for member in made))
        await network.close()


def ends(one: MemoryMember, other: MemoryMember) -> list[MemoryLink]:
    found: list[object] = [one.life.peers[other.seat].link, other.life.peers[one.seat].link]
    return [link for link in found if isinstance(link, MemoryLink)]


def lose(one: MemoryMember, other: MemoryMember) -> None:
    for link in ends(one, other):
        link.owner.lost("nothing was heard")


def find(one: MemoryMember, other: MemoryMember) -> None:
    for link in ends(one, other):
        link.owner.restored()


async def until_waited_for(one: MemoryMember, other: MemoryMember) -> None:
    """The patience of the first is over, and others hear the second."""
    while other.seat not in one.life.member_state.waited_for:  # type: ignore[union-attr]
        await one.life.wait_change(0.01)


async def add(member: MemoryMember) -> object:
    return await member.life.running.operate(lambda collectives: collectives.all_reduce(1))


async def test_two_that_miss_only_each_other_are_waited_for_and_stay(members: list[MemoryMember]) -> None:
    lose(members[2], members[3])
    await until_waited_for(members[2], members[3])
    find(members[2], members[3])
    assert await asyncio.gather(*map(add, members)) == [4, 4, 4, 4]
    assert {member.epoch for member in members} == {Epoch(1, (0, 1, 2, 3))}


async def test_of_two_that_stay_apart_the_one_that_was_stopped_goes(members: list[MemoryMember]) -> None:
    members[2].life.note_reachability(events.Missed(members[2].seat))
    lose(members[2], members[3])
    healthy = [members[0], members[1], members[3]]
    found = await asyncio.gather(*map(add_until_two_epochs, healthy))
    assert found == [3, 3, 3]
    assert {member.epoch for member in healthy} == {Epoch(2, (0, 1, 3))}


async def add_until_two_epochs(member: MemoryMember) -> object:
    while member.epoch.number < 2:
        await member.life.wait_change()
    with pytest.raises(PeerLost, match=r"rank 2 \(member 2\) is lost"):
        await add(member)
    return await add(member)


async def test_a_member_that_all_miss_is_given_up_without_a_second_wait(members: list[MemoryMember]) -> None:
    for other in (0, 1, 2):
        lose(members[3], members[other])
    while members[0].epoch.number < 2:
        assert not members[0].life.member_state.waited_for  # type: ignore[union-attr]
        await members[0].life.wait_change()
    assert members[0].epoch == Epoch(2, (0, 1, 2))
