"""Groups within one process: their members' operations, run together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.figures_agreement import Figures
from duetlink.groups.collectives.same_host import host_memory
from duetlink.groups.collectives.same_host.host_memory import Memory
from duetlink.testing.transports import MemoryNetwork


class Group:
    """All members of one group."""

    def __init__(self, network: MemoryNetwork, figures: Figures | None = None) -> None:
        self.network = network
        names = [f"member {rank}" for rank in range(network.size)]
        self.members = [
            Collectives(transport, names=names, figures=figures) for transport in network.transports
        ]

    async def all(self, call: Callable[..., Awaitable[Any]]) -> list[Any]:
        """What the call gives at every member, by rank; an exception where it raises one."""
        calls = (asyncio.ensure_future(call(member)) for member in self.members)
        async with asyncio.timeout(60):
            return await asyncio.gather(*calls, return_exceptions=True)

    async def close(self) -> None:
        await asyncio.gather(*(member.close() for member in self.members))


MakeGroup = Callable[[int], Group]


def put_on_hosts(
    monkeypatch: pytest.MonkeyPatch, *hosts: tuple[int, ...], blind: tuple[int, int] | None = None
) -> None:
    """Let members map the memory of those on their host alone, and rank `blind[0]` not that of `blind[1]`.

    Really all of them are in this process.
    """
    real = host_memory.open_others

    def open_others(addresses: Sequence[bytes], rank: int) -> list[Memory | None]:
        (host,) = (each for each in hosts if rank in each)
        seen = [of in host and (rank, of) != blind for of in range(len(addresses))]
        return real([address if sees else b"" for address, sees in zip(addresses, seen, strict=True)], rank)

    monkeypatch.setattr(host_memory, "open_others", open_others)


@pytest.fixture
async def make_group() -> AsyncIterator[MakeGroup]:
    groups: list[Group] = []

    def make(size: int) -> Group:
        groups.append(Group(MemoryNetwork(size)))
        return groups[-1]

    yield make
    for group in groups:
        await group.close()
