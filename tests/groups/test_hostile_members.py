"""Members, and whoever launched, that say what is not for them to say: put out or ignored, the others go on.

What a member may send within operations is in `test_mesh.py` and `collectives/test_collective_failures.py`,
wrong codes and strangers are in `test_group.py`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from duetlink.base.wire import schema_pb2 as wire_pb
from duetlink.errors import DuetError, NoMajority, PeerLost, PutOut, RemoteProtocolError
from duetlink.groups.api import shared_state
from duetlink.groups.collectives.same_host import host_memory
from duetlink.groups.lifecycle import exit as way_out
from duetlink.groups.lifecycle import life
from duetlink.groups.membership import messages
from duetlink.groups.membership import schema_pb2 as pb
from duetlink.groups.membership.messages import Accept, Commit, Epoch, Message, Prepare, Promise, Proposal
from duetlink.groups.membership.roster import Entry
from duetlink.testing.faults import set_constants
from tests.groups.memory_links import MemoryMember, Network, grown


def agreement(message: Message) -> bytes:
    return pb.GroupMessage(agreement=messages.to_wire(message)).SerializeToString()


def said(**body: Any) -> bytes:
    return pb.GroupMessage(**body).SerializeToString()


def key() -> bytes:
    return X25519PrivateKey.generate().public_key().public_bytes_raw()


@pytest.fixture
async def network() -> AsyncIterator[Network]:
    network = Network(seed=3)
    yield network
    await network.close()


async def end(members: list[MemoryMember]) -> None:
    await asyncio.gather(*(member.close() for member in members))


async def sums(members: list[MemoryMember], timeout_s: float = 10.0) -> list[Any]:
    """What a sum of ones gives at each; an error in the place of a result."""

    async def one(member: MemoryMember) -> Any:
        async with asyncio.timeout(timeout_s):
            return await member.life.running.operate(lambda collectives: collectives.all_reduce(1))

    return await asyncio.gather(*map(one, members), return_exceptions=True)


FORBIDDEN = {
    "no message": b"\xff\xff\xff",
    "nothing": b"",
    "a seat, which whoever launched gives": said(seated=pb.Seated(entries=[pb.Entry(key=bytes(32))])),
    "a newcomer, whom whoever launched announces": said(newcomer=pb.Entry(key=key(), name="eve")),
    "links of another": said(linked=pb.Linked(seat=1)),
    "a pair of one": said(agreement=pb.Agreement(epoch=1, lost=pb.Lost(one=1, other=1))),
    "a seat beyond all": said(agreement=pb.Agreement(epoch=1, lost=pb.Lost(one=1, other=9999))),
    "another's ballot": agreement(Prepare(1, (1, 0), ())),
    "acceptance under another's ballot": agreement(Accept(1, (1, 1), Proposal((0, 1)))),
    "seventeen members": said(agreement=pb.Agreement(epoch=1, prepare=pb.Prepare(without=range(17)))),
    "an epoch of nobody": said(agreement=pb.Agreement(epoch=2, commit=pb.Proposal())),
    "an epoch out of order": said(agreement=pb.Agreement(epoch=2, commit=pb.Proposal(members=[2, 1, 0]))),
    "an epoch with one twice": said(agreement=pb.Agreement(epoch=2, commit=pb.Proposal(members=[1, 1, 2]))),
    "an epoch of seats that nobody has": agreement(Commit(2, Proposal((0, 1, 200)))),
    "an agreement on nothing": said(agreement=pb.Agreement(epoch=1)),
}


@pytest.mark.parametrize("what", FORBIDDEN)
async def test_who_says_what_no_member_says_is_put_out_and_the_others_go_on(
    network: Network, what: str
) -> None:
    members = await grown(network, 3)
    assert await sums(members) == [3, 3, 3]
    hostile, honest = members[2], members[:2]
    for seat in (0, 1):
        link = hostile.life.peers[seat].link
        assert link is not None
        link.rpc.tell_nowait(wire_pb.GroupNotice(content=FORBIDDEN[what]))
    lost = await sums(honest)
    assert [(type(error), error.rank, error.name) for error in lost] == [(PeerLost, 2, "member 2")] * 2
    assert await sums(honest) == [2, 2]
    assert [member.epoch for member in honest] == [Epoch(2, (0, 1))] * 2
    assert isinstance((await sums([hostile]))[0], PutOut | NoMajority)
    await end(members)


OLD_OR_EARLY = {
    "an epoch that has been": agreement(Commit(1, Proposal((0, 1, 2)))),
    "a ballot of another epoch": agreement(Prepare(99, (7, 2), (0, 1))),
    "a promise that nobody asked for": agreement(Promise(1, (5, 2), 3, None)),
    "an epoch of the far future": agreement(Commit(40, Proposal((1, 2)))),
    "a greeting once more": said(greeting=pb.Greeting()),
}


@pytest.mark.parametrize("what", OLD_OR_EARLY)
async def test_what_is_repeated_or_of_another_epoch_changes_nothing(network: Network, what: str) -> None:
    members = await grown(network, 3)
    for _ in range(3):
        for seat in (0, 1):
            link = members[2].life.peers[seat].link
            assert link is not None
            link.rpc.tell_nowait(wire_pb.GroupNotice(content=OLD_OR_EARLY[what]))
    assert await sums(members) == [3, 3, 3]
    assert [member.epoch for member in members] == [Epoch(1, (0, 1, 2))] * 3
    await end(members)


async def test_any_bytes_from_a_member_are_taken_or_end_its_link(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member can keep the others waiting, and what it says of others is believed; but nothing breaks."""
    set_constants(monkeypatch, life, LEAVING_S=0.01)
    set_constants(monkeypatch, way_out, LEAVING_S=0.01)  # some wait for an agreement that does not come
    dice = random.Random(5)
    defects: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: defects.append(context))
    for _ in range(20):
        members = await grown(network, 3)
        link = members[2].life.peers[dice.randrange(2)].link
        assert link is not None
        for _ in range(5):
            content = bytearray(
                dice.choice([*FORBIDDEN.values(), *OLD_OR_EARLY.values(), dice.randbytes(20)])
            )
            for _ in range(dice.randrange(4)):
                if content:
                    content[dice.randrange(len(content))] = dice.randrange(256)
            link.rpc.tell_nowait(wire_pb.GroupNotice(content=bytes(content)))
        for found in await sums(members[:2], timeout_s=0.2):
            assert isinstance(found, DuetError | TimeoutError) or found in (1, 2, 3)
        await end(members)
    assert defects == []


NEWCOMERS = {
    "nothing": pb.GroupMessage(),
    "a greeting": pb.GroupMessage(greeting=pb.Greeting()),
    "a short key": pb.GroupMessage(newcomer=pb.Entry(key=bytes(31), name="eve")),
    "a key that gives no secret": pb.GroupMessage(newcomer=pb.Entry(key=bytes(32), name="eve")),
}


@pytest.mark.parametrize("what", [*NEWCOMERS, "the key of another member"])
async def test_a_newcomer_that_breaks_the_protocol_gets_no_seat(network: Network, what: str) -> None:
    members = await grown(network, 2)
    mine, theirs = network.link("eve", members[0].name)
    mine.notice(wire_pb.GroupNotice, lambda notice: None)
    mine.start()
    members[0].life.entrance.seat(theirs)  # type: ignore[arg-type]
    message = NEWCOMERS.get(what)
    if message is None:  # who takes another's rank would need its key
        entry = members[0].life.roster.entries[1]
        message = pb.GroupMessage(newcomer=pb.Entry(key=entry.key, name=entry.name))
    mine.tell_nowait(wire_pb.GroupNotice(content=message.SerializeToString()))
    async with asyncio.timeout(60):
        while not theirs.ended:
            await asyncio.sleep(0)
    assert len(members[0].life.roster) == 2
    dave = MemoryMember(network, "dave")
    await dave.join(members[0])
    assert await sums(members) == [2, 2]
    await end([*members, dave])


def seats(me: Entry) -> dict[str, pb.Seated]:
    """What no honest opener tells a newcomer."""
    first = pb.Entry(key=key(), name="ann")
    mine = pb.Entry(key=me.key, name=me.name)
    return {
        "no seat": pb.Seated(entries=[first], members=[0]),
        "a seat of another key": pb.Seated(entries=[first, pb.Entry(key=key(), name=me.name)], members=[0]),
        "a seat of another name": pb.Seated(entries=[first, pb.Entry(key=me.key, name="x")], members=[0]),
        "the first seat": pb.Seated(entries=[mine], members=[0]),
        "two of one key": pb.Seated(entries=[first, first, mine], members=[0]),
        "a key of no use": pb.Seated(entries=[pb.Entry(key=bytes(32)), mine], members=[0]),
        "an epoch of nobody": pb.Seated(entries=[first, mine]),
        "an epoch of who has no seat": pb.Seated(entries=[first, mine], members=[0, 5]),
        "an epoch with the newcomer in it": pb.Seated(entries=[first, mine], members=[0, 1]),
        "links to who has no seat": pb.Seated(entries=[first, mine], members=[0], present=[3]),
        "a link to itself": pb.Seated(entries=[first, mine], members=[0], present=[1]),
        "three hundred seats": pb.Seated(
            entries=[first, *(pb.Entry(key=key(), name=str(n)) for n in range(300)), mine], members=[0]
        ),
    }


async def test_a_newcomer_takes_no_seat_that_cannot_be(network: Network) -> None:
    life = MemoryMember(network, "eve").life
    for what, seated in seats(life.links.me).items():
        with pytest.raises(RemoteProtocolError):
            life.receive(0, pb.GroupMessage(seated=seated))
        assert life.member_state is None, what


async def test_what_is_nested_deeper_than_python_reads_is_the_members_error() -> None:
    deep = b"[" * 100_000

    class Hostile:
        async def all_gather_bytes(self, mine: bytes, *, call: str) -> list[bytes]:
            return [mine, deep]

    collectives: Any = Hostile()
    with pytest.raises(RemoteProtocolError, match="digests that cannot be read"):
        await shared_state.sync(collectives, np.zeros(1), "a.py:1")
    assert host_memory.open_others([deep], 1) == [None]
