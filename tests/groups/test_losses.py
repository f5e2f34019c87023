"""A member dies in the middle of each kind of operation: who it was, inputs as they were, and what follows.

Members are whole `GroupLife`s on links in memory; one is killed at a random message of the operation.
`test_killed_members.py` does the same with processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from duetlink.base.events import EpochBegan, Event, MemberLost, listen
from duetlink.errors import PeerLost
from duetlink.groups.api import shared_state
from duetlink.groups.collectives import averaging
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.collectives.same_host import host_memory
from tests.groups.memory_links import MemoryLink, MemoryMember, Network, grown

SIZE = 4
ITEMS = 400_000  # of float64: more than one part each
SEEDS = int(os.environ.get("DUETLINK_SEEDS", "1"))

Values = Any
Operation = Callable[[Collectives, Values], Awaitable[Any]]


async def pass_on(members: Collectives, values: Values) -> Any:
    return await asyncio.gather(
        members.send(values["x"], (members.rank + 1) % SIZE), members.recv((members.rank - 1) % SIZE)
    )


def quarters(values: Values) -> list[Any]:
    return list(np.split(values["x"], SIZE))


OPERATIONS: dict[str, Operation] = {
    "all_reduce": lambda c, v: c.all_reduce(v, ReduceOptions(in_place=True)),
    "all_reduce by a ring": lambda c, v: c.all_reduce(
        v["x"], ReduceOptions("max", in_place=True, algorithm="ring")
    ),
    "reduce": lambda c, v: c.reduce(v, 1),
    "broadcast": lambda c, v: c.broadcast(v, 1, in_place=True),
    "reduce_scatter": lambda c, v: c.reduce_scatter(quarters(v)),
    "all_gather": lambda c, v: c.all_gather(v),
    "gather": lambda c, v: c.gather(v, 1),
    "scatter": lambda c, v: c.scatter(quarters(v) if c.rank == 1 else None, 1),
    "all_to_all": lambda c, v: c.all_to_all(quarters(v)),
    "barrier": lambda c, v: c.barrier(),
    "send and recv": pass_on,
    "average": lambda c, v: averaging.average(c, v, c.rank + 1.0, ""),
    "sync": lambda c, v: shared_state.sync(c, v, ""),
}
WRITES = {"all_reduce", "all_reduce by a ring", "broadcast"}  # into what was given


def given(rank: int) -> Values:
    return {"x": np.full(ITEMS, rank + 1.0), "n": np.array([rank])}


@pytest.fixture
async def network(request: pytest.FixtureRequest) -> AsyncIterator[Network]:
    network = Network(seed=hash_of(request.node.name))
    yield network
    await network.close()


def discard(_: object) -> None:
    return None


def hash_of(name: str) -> int:
    return sum((index + 1) * ord(letter) for index, letter in enumerate(name))


async def survive(member: MemoryMember, work: Callable[[Collectives], Awaitable[Any]]) -> tuple[Any, Any]:
    """The losses that this member hears of until a sum among who is left has ended well; and that sum."""
    losses = []
    try:
        await member.life.running.operate(work)
    except PeerLost as lost:
        losses.append((lost.rank, lost.name))
    while True:
        try:
            return losses, await member.life.running.operate(lambda members: members.all_reduce(member.seat))
        except PeerLost as lost:
            losses.append((lost.rank, lost.name))


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_member_that_dies_at_any_message_is_named_and_the_others_go_on(
    network: Network, name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_memory, "supported", lambda: False)
    members = await grown(network, SIZE)
    victim = network.random.choice(members)
    operation = OPERATIONS[name]
    messages = itertools.count()
    network.on_message = lambda of, to: discard(next(messages))
    values = [given(rank) for rank in range(SIZE)]

    async def call(member: MemoryMember) -> Any:
        return await member.life.running.operate(
            lambda collectives: operation(collectives, values[member.seat])
        )

    await asyncio.gather(*(call(member) for member in members))  # the figures of links are known by now
    first = next(messages)
    await asyncio.gather(*(call(member) for member in members))
    count = next(messages) - first - 1
    values = [given(rank) for rank in range(SIZE)]
    fatal = network.random.randint(0, count - 1)
    sent = itertools.count()

    def watch(of: str, to: str) -> None:
        if next(sent) == fatal:
            victim.kill()

    def die_late(_: object) -> None:
        if not victim.is_dead:
            victim.kill()

    network.on_message = watch
    doomed = asyncio.ensure_future(call(victim))
    # the figures of links are not agreed on in every call: there may be fewer messages than were counted
    doomed.add_done_callback(die_late)
    others = [member for member in members if member is not victim]
    async with asyncio.timeout(60):
        found = await asyncio.gather(
            *(survive(each, lambda c: operation(c, values[members[c.rank].seat])) for each in others)
        )
    doomed.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await doomed
    left = sum(member.seat for member in others)
    assert found == [([(victim.seat, victim.name)], left)] * (SIZE - 1), f"killed at {fatal} of {count}"
    for member in others:
        now, before = values[member.seat], given(member.seat)
        if name in WRITES and (now["x"] != before["x"]).any():
            continue  # it had ended well there
        assert (now["x"] == before["x"]).all()
        assert (now["n"] == before["n"]).all()
    await asyncio.gather(*(member.close() for member in members))


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "send and recv"])
async def test_a_member_that_dies_before_its_part_is_in_shared_memory(network: Network, name: str) -> None:
    members = await grown(network, SIZE)
    await asyncio.gather(*(each.life.running.operate(lambda c: c.barrier()) for each in members))
    victim = network.random.choice(members)
    values = [given(rank) for rank in range(SIZE)]
    others = [member for member in members if member is not victim]
    running = [
        asyncio.ensure_future(survive(each, lambda c: OPERATIONS[name](c, values[c.rank]))) for each in others
    ]
    await asyncio.sleep(0.02)
    victim.kill()
    async with asyncio.timeout(60):
        found = await asyncio.gather(*running)
    left = sum(member.seat for member in others)
    assert found == [([(victim.seat, victim.name)], left)] * (SIZE - 1)
    for member in others:
        assert (values[member.seat]["x"] == given(member.seat)["x"]).all()
    await asyncio.gather(*(member.close() for member in members))


async def test_a_newcomer_is_seated_although_a_link_to_it_ends_before_it_has_begun(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = await grown(network, SIZE)
    late = MemoryMember(network, "late")
    meet = network.meet

    async def meet_and_die(place: bytes, name: str) -> MemoryLink:
        link = await meet(place, name)
        if (link.here, link.there) == ("late", "member 2"):
            link.end(PeerLost("member 2 was killed"))
        return link

    monkeypatch.setattr(network, "meet", meet_and_die)
    async with asyncio.timeout(60):
        await late.join(members[0])
    assert late.seat == SIZE
    await asyncio.gather(*(member.close() for member in (*members, late)))


async def test_a_newcomer_does_not_wait_for_the_greeting_of_one_that_has_left(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = await grown(network, SIZE)
    late, leaving = MemoryMember(network, "late"), members[2]
    meet = network.meet

    async def meet_and_say_nothing(place: bytes, name: str) -> MemoryLink:
        link = await meet(place, name)
        if (link.here, link.there) == (leaving.name, "late"):
            await asyncio.Event().wait()
        return link

    monkeypatch.setattr(network, "meet", meet_and_say_nothing)
    async with asyncio.timeout(60):
        joining = asyncio.ensure_future(late.join(members[0]))
        while leaving.seat not in late.life.peers or late.life.peers[leaving.seat].link is None:
            await asyncio.sleep(0)
        await leaving.close()
        await joining
    await asyncio.gather(*(member.close() for member in (*members, late)))


async def test_a_link_that_comes_back_within_patience_is_no_loss_and_one_that_does_not_is(
    network: Network,
) -> None:
    members = await grown(network, 3)
    link: Any = members[0].life.peers[1].link
    told: list[Event] = []
    here = members[0].life.sink.source
    unlisten = listen(lambda event, source: told.append(event) if source == here else None)
    members[0].life.patience_s = 1000.0
    link.owner.lost("the peer has been silent for 4 s")
    assert members[0].life.peers[1].losing is not None
    link.owner.restored()
    assert members[0].life.peers[1].losing is None
    async with asyncio.timeout(20):
        assert (
            await asyncio.gather(*(m.life.running.operate(lambda c: c.all_reduce(1)) for m in members))
            == [3] * 3
        )
        members[0].life.patience_s = 0.0
        link.owner.lost("the peer has been silent for 4 s")
        left = await asyncio.gather(*(survive(m, lambda c: c.barrier()) for m in (members[0], members[2])))
    unlisten()
    assert told == [MemberLost(1, PeerLost), EpochBegan(2, 2)]
    assert left == [([(1, "member 1")], 2)] * 2
    await asyncio.gather(*(member.close() for member in members))
