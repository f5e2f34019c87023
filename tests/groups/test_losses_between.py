"""A member dies between two operations, or in one that others have ended: all who are left hear the same.

Members are whole `GroupLife`s on links in memory; one is killed at a random message. `DUETLINK_SEEDS` tries
more of them.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from functools import partial

import pytest

from duetlink.errors import PeerLost
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.same_host import host_memory
from tests.groups.memory_links import MemoryMember, Network, grown

SIZE = 4
STEPS = 4  # before the last one
SEEDS = int(os.environ.get("DUETLINK_SEEDS", "45"))


async def reduced(number: int, members: Collectives) -> object:
    return await members.reduce(number, call=f"step {number}")


async def steps(member: MemoryMember) -> str:
    """The name in the loss that a program hears of, which ends its steps; else "nothing"."""
    try:
        for number in range(STEPS):
            await member.life.running.operate(partial(reduced, number))
            for _ in range(member.network.random.randint(0, 60)):  # what a program does between two steps
                await asyncio.sleep(0)
    except PeerLost as lost:
        return lost.name
    return "nothing"


async def follow(member: MemoryMember) -> tuple[str, object]:
    """What a program hears that makes steps until a loss is raised, and then one step that all make."""
    heard = await steps(member)
    while True:
        try:
            return heard, await member.life.running.operate(
                lambda members: members.all_reduce(1, call="last step")
            )
        except PeerLost as lost:
            assert heard == "nothing"
            heard = lost.name


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_loss_that_operations_cannot_go_on_after_is_raised_at_all_or_at_none(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `on_loss="continue"`, also at a member that had ended what the loss interrupted at another."""
    monkeypatch.setattr(host_memory, "supported", lambda: False)
    network = Network(seed)
    members = await grown(network, SIZE, "continue")
    victim = network.random.choice(members)
    fatal = network.random.randint(0, 40)  # in some step, before the last one
    sent = itertools.count()

    def watch(of: str, to: str) -> None:
        if next(sent) == fatal and not doomed.done():
            victim.kill()

    network.on_message = watch
    doomed = asyncio.ensure_future(steps(victim))
    doomed.add_done_callback(lambda _: victim.kill())
    async with asyncio.timeout(60):
        others = [member for member in members if member is not victim]
        found = await asyncio.gather(*map(follow, others))
    assert found in ([("nothing", 3)] * 3, [(victim.name, 3)] * 3)
    await asyncio.gather(*(member.close() for member in members))
    await asyncio.gather(doomed, return_exceptions=True)
    await network.close()
