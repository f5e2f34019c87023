"""A newcomer whose host is lost before it was admitted comes again, and is let in by the next host.

Members are whole `GroupLife`s on links in memory.
"""

from __future__ import annotations

import asyncio

import pytest

from duetlink.errors import GroupOver, PeerLost
from duetlink.groups.collectives.same_host import host_memory
from duetlink.groups.membership.messages import Epoch
from duetlink.net.link.link import Link
from tests.groups.memory_links import MemoryMember, Network, grown


@pytest.fixture(autouse=True)
def by_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_memory, "supported", lambda: False)


@pytest.fixture
def network() -> Network:
    return Network(5)


async def end(members: list[MemoryMember], network: Network) -> None:
    await asyncio.gather(*(member.close() for member in members))
    await network.close()


async def point(member: MemoryMember) -> object:
    """The next point at which somebody comes in, and a sum after it; a loss is passed over."""
    before = member.epoch
    while member.epoch.members[-1] == before.members[-1]:
        try:
            await member.life.join_points.admit_newcomers("here")
        except PeerLost:
            continue
    return await add(member)


async def add(member: MemoryMember) -> object:
    return await member.life.running.operate(lambda collectives: collectives.all_reduce(1))


async def test_a_newcomer_comes_again_when_the_host_dies_before_it_was_admitted(network: Network) -> None:
    members = await grown(network, 4)
    came: list[str] = []

    async def knock() -> tuple[Link, str]:
        while not (hosts := [member for member in members[1:] if member.is_host]):
            await asyncio.sleep(0)
        mine, theirs = network.link("newcomer", hosts[0].name)
        hosts[0].life.entrance.seat(theirs)  # type: ignore[arg-type]
        came.append(hosts[0].name)
        return mine, "memory"  # type: ignore[return-value]

    newcomer = MemoryMember(network, "newcomer", knock=knock)
    await newcomer.join(members[0])
    async with asyncio.timeout(60):
        members[0].kill()
        rest = [*members[1:], newcomer]
        assert await asyncio.gather(*map(point, members[1:]), add(newcomer)) == [4, 4, 4, 4]
    assert came == ["member 1"]
    assert {member.epoch.members[:3] for member in rest} == {(1, 2, 3)}
    assert newcomer.seat == newcomer.epoch.members[3] > 3
    await end([*members, newcomer], network)


async def test_a_newcomer_that_cannot_come_again_is_told_so(network: Network) -> None:
    members = await grown(network, 4)
    newcomer = MemoryMember(network, "newcomer")
    await newcomer.join(members[0])
    async with asyncio.timeout(60):
        members[0].kill()
        with pytest.raises(GroupOver, match=r"before this one was admitted.*group\.rejoin\(\)"):
            await newcomer.life.wait_ready()
    await end([*members, newcomer], network)


async def test_one_that_stumbles_before_the_group_begins_does_not_cost_the_others_theirs(
    network: Network,
) -> None:
    members = [MemoryMember(network, f"member {number}") for number in range(4)]
    members[0].found()
    for member in members[1:]:
        await member.join(members[0])
    members[2].kill()
    async with asyncio.timeout(60):
        while (
            len(members[0].life.links.newcomers()) != 2
            or members[2].seat in members[0].life.links.newcomers()
        ):
            await members[0].life.wait_change(0.01)
        again = MemoryMember(network, "member 2 again")
        await again.join(members[0])
        everybody = [members[0], members[1], members[3], again]
        while len(members[0].life.links.newcomers()) != 3:
            await members[0].life.wait_change(0.01)
        await asyncio.gather(*(member.life.join_points.admit_newcomers("begin") for member in everybody))
    assert {member.epoch for member in everybody} == {Epoch(1, (0, 1, 3, 4))}
    await end([*members, again], network)


async def test_a_newcomer_waits_for_no_greeting_of_a_member_that_has_died(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = await grown(network, 4)
    monkeypatch.setattr(members[3].life.links, "send", lambda seat, message: None)  # its greeting gets lost
    newcomer = MemoryMember(network, "newcomer")
    mine, theirs = network.link(newcomer.name, members[0].name)
    members[0].life.entrance.seat(theirs)  # type: ignore[arg-type]
    newcomer.joining.join(mine, "memory")  # type: ignore[arg-type]
    async with asyncio.timeout(20):
        peers = newcomer.life.peers
        while not (len(peers) == 4 and peers[1].is_greeted and peers[2].is_greeted and peers[3].link):
            await asyncio.sleep(0)
        # after the last greeting that comes, and the newcomer knows of it before the host does
        peers[3].link.end(PeerLost("member 3 was killed"))  # type: ignore[attr-defined]
        members[3].kill()
        while not members[0].life.links.newcomers():
            await members[0].life.wait_change(0.01)
    await end([*members, newcomer], network)


async def test_a_newcomer_is_not_told_of_a_former_member_whose_seat_is_void(network: Network) -> None:
    members = await grown(network, 4)
    new_host, last = members[1], members[3]
    end_of_last = next(
        link for link in network.links if (link.here, link.there) == (new_host.name, last.name)
    )
    async with asyncio.timeout(60):
        # the new host still has its link to the last member when the newcomer comes
        end_of_last.end = lambda error: None  # type: ignore[method-assign]
        leaving = [asyncio.ensure_future(member.close()) for member in (members[0], last)]
        while not new_host.is_host or last.seat in new_host.epoch.members:
            await asyncio.sleep(0)
        assert new_host.life.peers[last.seat].link is not None
        newcomer = MemoryMember(network, "newcomer")
        await newcomer.join(new_host)
        assert newcomer.life.why_closed is None
        rest = [new_host, members[2]]
        assert await asyncio.gather(*map(point, rest), add(newcomer)) == [3, 3, 3]
        assert new_host.epoch.members == (1, 2, newcomer.seat)
        await asyncio.gather(*leaving)
    await end([*members, newcomer], network)
