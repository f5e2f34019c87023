"""A member that is believed about losses and agreements, and lies: what it can do, and what it cannot.

It can have others put out and, by a false agreement, divide the group: SECURITY.md says so. What is shown
here is that everybody is told of it, and that no sum is wrong all the same. Member n gives 2 ** n, so a sum
says whose values are in it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from duetlink.errors import DuetError, GroupOver, NoMajority, PeerLost, PutOut
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.lifecycle import exit as way_out
from duetlink.groups.lifecycle import life
from duetlink.groups.membership import messages
from duetlink.groups.membership import schema_pb2 as pb
from duetlink.groups.membership.messages import Commit, Epoch, Leaving, Lost, Message, Proposal
from duetlink.testing.faults import set_constants
from tests.groups.memory_links import MemoryMember, Network, grown

LIAR = 1
SIZE = 5


@pytest.fixture
async def network(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Network]:
    set_constants(monkeypatch, life, LEAVING_S=0.01)
    set_constants(monkeypatch, way_out, LEAVING_S=0.01)  # some wait for an agreement that does not come
    network = Network(seed=4)
    yield network
    await network.close()


async def end(members: list[MemoryMember]) -> None:
    await asyncio.gather(*(member.close() for member in members))


async def sums(members: list[MemoryMember], timeout_s: float = 10.0) -> list[Any]:
    """What each gets of a sum of `2 ** seat`, as a number; an error in the place of a result."""

    async def one(member: MemoryMember) -> int:
        given = np.array([2**member.seat])
        try:
            async with asyncio.timeout(timeout_s):
                result: Any = await member.life.running.operate(
                    lambda c: c.all_reduce(given, ReduceOptions(in_place=True))
                )
        except BaseException:
            assert given.tolist() == [2**member.seat]
            raise
        return int(result[0])

    return await asyncio.gather(*map(one, members), return_exceptions=True)


def hear(member: MemoryMember, message: Message) -> None:
    """What the liar says to that member, there at once."""
    member.life.receive(LIAR, pb.GroupMessage(agreement=messages.to_wire(message)))


@pytest.mark.parametrize(
    "pairs",
    [[(LIAR, 4)], [(0, 4), (2, 4), (3, 4)], [(2, 4)]],
    ids=["its own link", "the links of all others", "one link of two others"],
)
async def test_whoever_is_said_to_be_lost_is_put_out_and_no_other_harm_is_done(
    network: Network, pairs: list[tuple[int, int]]
) -> None:
    members = await grown(network, SIZE)
    assert await sums(members) == [31] * 5
    for one, other in pairs:
        hear(members[0], Lost(1, one, other))
    found = await sums(members)
    assert all(isinstance(error, PeerLost | GroupOver) for error in found)
    assert [(error.rank, error.name) for error in found[:4]] == [(4, "member 4")] * 4
    assert await sums(members[:4]) == [15] * 4
    assert [member.epoch for member in members[:4]] == [Epoch(2, (0, 1, 2, 3))] * 4
    for _ in range(2):  # it is told, and stays stopped
        (error,) = await sums(members[4:])
        assert isinstance(error, PutOut | NoMajority)
        assert "group.rejoin()" in str(error)
    await end(members)


async def test_lies_about_losses_never_make_two_groups_or_a_wrong_sum() -> None:
    """Any pair, told to any members: of each epoch there is one, and a sum is over its members or fails."""
    dice = random.Random(8)
    ended_well = 0
    for seed in range(12):
        network = Network(seed)
        members = await grown(network, SIZE)
        epochs: dict[int, tuple[int, ...]] = {1: (0, 1, 2, 3, 4)}
        for _ in range(3):
            for _ in range(dice.randrange(4)):
                one, other = dice.sample(range(SIZE), 2)
                for member in dice.sample(members, dice.randrange(1, SIZE)):
                    if member.seat != LIAR:
                        hear(member, Lost(1, one, other))
            found = await sums(members, timeout_s=0.5)
            for member, result in zip(members, found, strict=True):
                if isinstance(result, int):
                    ended_well += 1
                    assert result in {sum(2**seat for seat in each) for each in epochs.values()} | {
                        sum(2**seat for seat in member.epoch.members)
                    }
                else:
                    assert isinstance(result, DuetError | TimeoutError), result
                assert epochs.setdefault(member.epoch.number, member.epoch.members) == member.epoch.members
        await end(members)
        await network.close()
    assert ended_well > 12


async def test_who_leaves_by_its_own_word_is_told_by_nothing_whichever_word_comes_first(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = await grown(network, SIZE)
    assert await sums(members) == [31] * 5
    with monkeypatch.context() as patch:
        set_constants(patch, way_out, LEAVING_S=30.0)
        set_constants(patch, life, LEAVING_S=30.0)  # its own word comes, however busy the machine is
        for member in members[:4]:
            hear(member, Leaving(1, 4))
            hear(member, Lost(1, LIAR, 4))  # as whoever heard its word before the others says of its end
        await members[4].exit.close()
        assert await sums(members[:4]) == [15] * 4
    await end(members)


@pytest.mark.parametrize("announced", [False, True], ids=["unannounced", "as if some were leaving"])
async def test_a_false_agreement_divides_a_group_and_all_are_told_before_they_sum_again(
    network: Network, announced: bool
) -> None:
    members = await grown(network, SIZE)
    assert await sums(members) == [31] * 5
    if announced:
        for member in members:
            for seat in (0, 2, 3, 4):
                hear(member, Leaving(1, seat))
    for seat in (0, LIAR, 2):  # the liar itself goes with these
        hear(members[seat], Commit(2, Proposal((0, 1, 2))))
    for seat in (3, 4):
        hear(members[seat], Commit(2, Proposal((1, 3, 4))))
    epochs = [member.epoch for member in members]
    assert epochs == [Epoch(2, (0, 1, 2))] * 3 + [Epoch(2, (1, 3, 4))] * 2
    told = await sums(members)
    assert [(type(error), error.name) for error in told] == [(PeerLost, "member 3")] * 3 + [
        (PeerLost, "member 0")
    ] * 2
    assert await sums(members[:3]) == [7] * 3
    await end(members)
