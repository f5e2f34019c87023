"""Members of one epoch within one process, which make secure sums together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.secure.participants import Participants
from duetlink.testing.transports import MemoryNetwork

KEYS = [bytes([number]) * 32 for number in range(16)]


class Epoch:
    """One epoch; a seat stands for a member in all of its epochs."""

    def __init__(self, number: int, seats: Sequence[int]) -> None:
        self.network = MemoryNetwork(len(seats))
        self.seats = list(seats)
        self.party = Participants(number, tuple(KEYS[seat] for seat in seats))
        names = [f"member {seat}" for seat in seats]
        self.members = [Collectives(transport, names=names) for transport in self.network.transports]

    async def all(self, call: Callable[[int], Awaitable[object]]) -> list[object]:
        """What the call gives for every rank; an error where it raises one."""
        async with asyncio.timeout(60):
            calls = (call(rank) for rank in range(len(self.seats)))
            return await asyncio.gather(*calls, return_exceptions=True)


MakeEpoch = Callable[..., Epoch]


@pytest.fixture
async def make_epoch() -> AsyncIterator[MakeEpoch]:
    made: list[Epoch] = []

    def make(seats: Sequence[int], number: int = 1) -> Epoch:
        made.append(Epoch(number, seats))
        return made[-1]

    yield make
    for epoch in made:
        await asyncio.gather(*(member.close() for member in epoch.members))
