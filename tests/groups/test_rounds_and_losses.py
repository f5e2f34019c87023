"""Rounds in a group that grows, while members come, die and leave at any message.

Members are whole `GroupLife`s on links in memory, and each gives 1 in every round. `DUETLINK_SEEDS` tries
more fates.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from duetlink.groups.api.rounds import Meeting, Rounds
from duetlink.groups.collectives.same_host import host_memory
from tests.groups.memory_links import MemoryMember, Network, grown

SIZE = 4
ROUNDS = 4
SEEDS = int(os.environ.get("DUETLINK_SEEDS", "17"))


class Count:
    """A part whose state is how much was given in all rounds."""

    form = bytes(32)
    gave = False

    def __init__(self) -> None:
        self.total = 0

    def state(self) -> int:
        return self.total

    def load(self, state: int) -> None:
        self.total = state

    async def exchange(self, meeting: Meeting) -> Any:
        self.gave = meeting.gives
        return await meeting.collectives.all_reduce(int(meeting.gives), call=meeting.call)

    def advance(self, found: int) -> frozenset[int]:
        self.total += found
        return frozenset()


class Caller:
    """One member's rounds, driven from the loop as `Rounds`' methods drive them from a user's thread."""

    def __init__(self, member: MemoryMember) -> None:
        self.member, self.part = member, Count()
        self._work: list[Coroutine[Any, Any, None]] = []
        thread: Any = SimpleNamespace(run=self._work.append)
        self.rounds = Rounds(member.life, member.exit, thread, _note, self.part, quorum=None, grace_s=30.0)

    async def run(self) -> tuple[int, int]:
        """How many rounds there were, and the state after them."""
        rounds = self.rounds
        await self._call(rounds.open)
        while rounds.number < ROUNDS:
            await self._call(rounds.give)
        await self._call(rounds.finish)
        return rounds.number, self.part.total

    async def _call(self, method: Callable[[], None]) -> None:
        method()
        await self._work.pop()


async def come_late(member: MemoryMember, founder: MemoryMember) -> tuple[int, int]:
    await member.join(founder)
    return await Caller(member).run()


async def _note(call: str, sent: Any) -> None:
    return None


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("fate", ["dies", "leaves"])
async def test_who_is_left_ends_all_rounds_in_one_state(
    fate: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_memory, "supported", lambda: False)
    network = Network(seed)
    members = await grown(network, SIZE)
    victim = network.random.choice(members[1:])
    late = MemoryMember(network, "late")
    until = network.random.randint(0, 2)  # the epoch: 2 is the one in which the late one comes in
    fatal = network.random.randint(0, (100, 40, 20)[until])

    async def meet_its_fate() -> None:
        while max(member.epoch.number for member in members) < until:
            await asyncio.sleep(0)
        for _ in range(fatal):
            await asyncio.sleep(0)
        if fate == "dies":
            victim.kill()
        else:
            await victim.close()

    others = [member for member in members if member is not victim]
    fated = asyncio.ensure_future(meet_its_fate())
    doomed = asyncio.ensure_future(Caller(victim).run())
    async with asyncio.timeout(60):
        found = await asyncio.gather(
            come_late(late, members[0]), *(Caller(member).run() for member in others)
        )
    assert len(set(found)) == 1
    assert found[0][0] >= ROUNDS
    await asyncio.gather(*(member.close() for member in (*members, late)), fated)
    await asyncio.gather(doomed, return_exceptions=True)
    await network.close()
