"""Who is named when a member is late, gone, or takes no part, where no membership tells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest

from duetlink.errors import DuetError, GroupError, OperationAborted, PeerLost
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.execution import engine
from duetlink.groups.collectives.execution.deadline import within
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.links.transport import Message
from duetlink.testing.transports import MemoryNetwork, MemoryTransport

SIZE = 5


class Watching(MemoryTransport):
    """Notices at a wish that a member is gone."""

    def __init__(self, network: MemoryNetwork, rank: int) -> None:
        super().__init__(network, rank)
        self.gone = asyncio.get_running_loop().create_future()

    async def receive(self, of: int) -> Message:
        receiving = asyncio.ensure_future(super().receive(of))
        await asyncio.wait([receiving, self.gone], return_when=asyncio.FIRST_COMPLETED)
        if receiving.done():
            return receiving.result()
        receiving.cancel()
        if of != self.gone.result():
            return await super().receive(of)
        raise PeerLost(f"rank {of} is gone: no heartbeat", rank=of, name=f"rank {of}")


Members = list[Collectives]


@pytest.fixture
async def members(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Members]:
    monkeypatch.setattr(engine, "WAIT_S", 0.05)
    network = MemoryNetwork(SIZE)
    names = [f"rank {rank}" for rank in range(SIZE)]
    made = [Collectives(Watching(network, rank), names=names, alone=True) for rank in range(SIZE)]
    yield made
    for member in made:
        await member.close()


CALLS: dict[str, Callable[[Collectives], Any]] = {
    "ring": lambda m: m.all_reduce(np.ones(SIZE), ReduceOptions(algorithm="ring")),
    "butterfly": lambda m: m.all_reduce(np.ones(SIZE), ReduceOptions(algorithm="butterfly")),
    "naive": lambda m: m.all_reduce(np.ones(SIZE), ReduceOptions(algorithm="naive")),
    "all_gather": lambda m: m.all_gather(np.ones(2)),
    "barrier": lambda m: m.barrier(),
}


@pytest.mark.parametrize("late", range(SIZE))
@pytest.mark.parametrize("name", CALLS)
async def test_who_is_late_is_named_to_all(members: Members, name: str, late: int) -> None:
    on_time = [member for member in members if member.rank != late]
    found = await asyncio.gather(
        *(within(member.engine, 0.5, CALLS[name](member), "call") for member in on_time),
        return_exceptions=True,
    )
    for error in found:
        assert isinstance(error, GroupError)
        assert f"Timed out after 0.5 s: rank {late} has not called it" in str(error)
    with pytest.raises(OperationAborted, match=f"rank {late} has not called it"):
        while True:  # what had come before the error is still taken
            await CALLS[name](members[late])


async def test_after_a_short_time_nothing_is_said_of_what_others_have_called(members: Members) -> None:
    with pytest.raises(GroupError, match=r"call: Timed out after 0\.01 s: nothing has come from rank 4"):
        await within(
            members[0].engine,
            0.01,
            members[0].all_reduce(np.ones(1), ReduceOptions(algorithm="ring")),
            "call",
        )


async def test_an_error_of_the_operation_is_no_lateness(members: Members) -> None:
    async def fails() -> None:
        raise TimeoutError("its own")

    with pytest.raises(GroupError, match=r"call: "):
        await within(members[0].engine, 5, fails(), "call")


async def test_a_loss_that_one_has_seen_is_the_same_for_all(members: Members) -> None:
    left = [member for member in members if member.rank != 3]
    running = [asyncio.ensure_future(member.all_reduce(np.ones(2))) for member in left]
    await asyncio.sleep(0)
    seen: Any = members[1].engine.transport
    seen.gone.set_result(3)
    for error in await asyncio.gather(*running, return_exceptions=True):
        assert isinstance(error, PeerLost)
        assert (error.rank, error.name) == (3, "rank 3")
        assert str(error).startswith("rank 3 is gone: no heartbeat")
    with pytest.raises(OperationAborted, match="rank 1"):  # that it is lost itself it does not believe
        await members[3].barrier()


async def test_a_root_waits_until_all_have_begun(members: Members) -> None:
    async def broadcast(member: Collectives) -> object:
        value = await member.broadcast(7 if member.rank == 2 else None, 2)
        if member.rank == 2:
            await member.engine.wait_begun("broadcast")
        return value

    assert await asyncio.gather(*map(broadcast, members)) == [7] * SIZE
    at_root = asyncio.ensure_future(within(members[2].engine, 0.5, broadcast(members[2]), "broadcast"))
    others = [asyncio.ensure_future(broadcast(members[rank])) for rank in (0, 1, 3)]
    with pytest.raises(GroupError, match=r"broadcast: Timed out after 0\.5 s: rank 4 has not called it"):
        await at_root
    await asyncio.gather(*others, return_exceptions=True)  # those that rank 4 passes it on to have nothing
    with pytest.raises(DuetError, match="rank 4 has not called it"):
        while True:
            await broadcast(members[4])
