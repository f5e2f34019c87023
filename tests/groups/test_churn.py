"""Groups whose members come, leave and die at random: never a wrong sum, a hang or two groups.

Members are whole `GroupLife`s on links in memory. Each sums a vector of zeros with a one at its own seat, so
that a sum says of whom it is made. `DUETLINK_SEED` tries another fate; the one tried is printed.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable

import numpy as np
import pytest

from duetlink.errors import GroupError, LinkClosed
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.same_host import host_memory
from duetlink.groups.membership.messages import MOST_SEATS
from tests.groups.memory_links import MemoryMember, Network

CHANGES = int(os.environ.get("DUETLINK_CHANGES", "200"))
SEED = int(os.environ.get("DUETLINK_SEED", "1"))
MOST = 5  # members at once
PATIENCE_S = 30.0


class Churn:
    """One group after the other, until so many members have come, left and died."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.network = Network(seed)
        self.random = self.network.random
        self.members: list[MemoryMember] = []
        self.lists: dict[int, tuple[int, ...]] = {}  # of members, by epoch
        self.last: dict[str, tuple[int, int]] = {}  # of each: the epoch of its last sum, and how many it had
        self.sums = 0
        self.numbers = itertools.count(1)
        self.hosts_gone = 0
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.closing: list[asyncio.Task[None]] = []
        self.dead: list[MemoryMember] = []
        self.stirred = asyncio.Event()

    # -- what each member does -------------------------------------------------------------------------------

    async def work(self, member: MemoryMember) -> None:
        while member.life.why_closed is None:
            await asyncio.sleep(0)  # a group of one waits for nobody
            try:
                await member.life.join_points.admit_newcomers("here")
                await member.life.running.operate(lambda collectives: self.add(member, collectives))
            except (GroupError, LinkClosed):  # then all begin anew at the point
                continue
            self.sums += 1
            number, count = self.last.get(member.name, (0, 0))
            same = number == member.epoch.number
            self.last[member.name] = (member.epoch.number, count + 1 if same else 1)
            self.stirred.set()

    async def add(self, member: MemoryMember, collectives: Collectives) -> None:
        epoch = member.epoch
        assert self.lists.setdefault(epoch.number, epoch.members) == epoch.members, "two groups"
        mine = np.zeros(MOST_SEATS, np.int32)
        mine[member.seat] = 1
        total = await collectives.all_reduce(mine)
        assert isinstance(total, np.ndarray)
        assert tuple(np.flatnonzero(total)) == epoch.members, "a wrong sum"
        assert total.max() == 1, "a wrong sum"

    # -- what happens to them --------------------------------------------------------------------------------

    def begin(self) -> None:
        self.lists, self.last = {}, {}
        self.numbers = itertools.count(1)
        founder = MemoryMember(self.network, "member 0")
        founder.found()
        self.members = [founder]
        self.tasks = {founder.name: asyncio.ensure_future(self.work(founder))}

    async def join(self) -> None:
        while not (hosts := [member for member in self.members if member.is_host]):
            await asyncio.sleep(0)
        name = f"member {next(self.numbers)}"
        member = MemoryMember(self.network, name)
        self.members.append(member)
        await member.join(hosts[0])
        self.tasks[name] = asyncio.ensure_future(self.work(member))

    def leave(self, member: MemoryMember) -> None:
        self.members.remove(member)
        self.closing.append(asyncio.ensure_future(member.close()))

    def die(self, member: MemoryMember) -> None:
        self.members.remove(member)
        member.kill()
        self.dead.append(member)
        self.tasks.pop(member.name).cancel()

    async def settle(self) -> None:
        """Everybody who is there has summed with all of them, and with nobody else."""

        def done() -> bool:
            for each in list(self.members):  # who had not come in when the host went is turned away
                if each.life.why_closed is not None and each.name not in self.last:
                    self.leave(each)
            wanted = tuple(sorted(member.seat for member in self.members))
            for member in self.members:
                number, count = self.last.get(member.name, (0, 0))
                if not count or self.lists.get(number) != wanted or member.epoch.number != number:
                    return False
            return True

        while not done():
            for task in self.tasks.values():
                if task.done():
                    task.result()
            self.stirred.clear()
            await self.stirred.wait()

    async def run(self, changes: int) -> None:
        self.begin()
        done = 0
        while done < changes:
            may_die = len(self.members) >= 4  # of a group that has settled: a majority of its epoch is left
            for _ in range(self.random.randint(1, 3)):  # changes at once
                kind = self.random.random()
                inside = [member for member in self.members if member.name in self.last]
                others = [member for member in self.members if member is not inside[0]] if inside else []
                if (kind < 0.5 and len(self.members) < MOST) or len(self.members) < 3 or not others:
                    await self.within_patience(self.join())
                elif kind < 0.75 or not may_die:
                    self.leave(inside[0] if kind > 0.7 else self.random.choice(others))
                else:
                    may_die = False
                    self.die(inside[0] if kind > 0.9 else self.random.choice(others))
                self.hosts_gone += others != [] and (kind > 0.9 or 0.7 < kind < 0.75)
                done += 1
                for _ in range(self.random.randint(0, 150)):
                    await asyncio.sleep(0)
            await self.within_patience(self.settle())
            if self.members[0].life.roster.next_seat > MOST_SEATS - 8:
                await self.within_patience(self.end())
                self.begin()
        await self.within_patience(self.end())

    async def within_patience(self, work: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await work
        except TimeoutError:
            states = [
                (member.name, member.life.member_state, self.last.get(member.name)) for member in self.members
            ]
            raise AssertionError(f"seed {self.seed}: a hang: {states}") from None

    async def end(self) -> None:
        for member in (*self.members, *self.dead):
            self.closing.append(asyncio.ensure_future(member.close()))
        self.dead.clear()
        await asyncio.gather(*self.closing)
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


@pytest.mark.parametrize("shared", [False, True], ids=["by links", "in memory"])
async def test_two_hundred_members_come_and_go_while_the_others_sum(
    shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not shared:
        monkeypatch.setattr(host_memory, "supported", lambda: False)
    print(f"DUETLINK_SEED={SEED}")
    churn = Churn(SEED)
    changes = CHANGES // 8 if shared else CHANGES
    await churn.run(changes)
    await churn.network.close()
    assert churn.sums > changes
    assert shared or churn.hosts_gone > 3
