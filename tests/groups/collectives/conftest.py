"""Groups within one process: their members' operations, run together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from duetlink.groups.collectives.collectives import Collectives
from duetlink.testing.transports import MemoryNetwork


class Group:
    """All members of one group."""

    def __init__(self, network: MemoryNetwork) -> None:
        self.network = network
        names = [f"member {rank}" for rank in range(network.size)]
        self.members = [Collectives(transport, names=names) for transport in network.transports]

    async def all(self, call: Callable[..., Awaitable[Any]]) -> list[Any]:
        """What the call gives at every member, by rank; an exception where it raises one."""
        calls = (asyncio.ensure_future(call(member)) for member in self.members)
        async with asyncio.timeout(60):
            return await asyncio.gather(*calls, return_exceptions=True)

    async def close(self) -> None:
        await asyncio.gather(*(member.close() for member in self.members))


MakeGroup = Callable[[int], Group]


@pytest.fixture
async def make_group() -> AsyncIterator[MakeGroup]:
    groups: list[Group] = []

    def make(size: int) -> Group:
        groups.append(Group(MemoryNetwork(size)))
        return groups[-1]

    yield make
    for group in groups:
        await group.close()
