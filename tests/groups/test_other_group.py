"""Codes and frames of one group, brought to another one: refused with a type, and nobody else disturbed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import duetlink
from duetlink import errors
from duetlink.base.wire import schema_pb2 as wire_pb
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.membership.schema_pb2 import GroupMessage
from duetlink.net.signaling import SessionCode
from duetlink.testing.faults import stream_to
from tests.groups.conftest import QUICK, MakeGroup, together
from tests.groups.memory_links import MemoryLink, MemoryMember, MemoryStream, Network, grown


def test_the_code_of_one_group_opens_no_seat_of_another(make_group: MakeGroup) -> None:
    """Not its words at the other one's number; and its own group is full."""
    theirs = make_group(2)
    with duetlink.group(size=3, name="ann", settings=QUICK) as ann:
        ben = duetlink.group(ann.code, name="ben", settings=QUICK)
        right, foreign = SessionCode.parse(str(ann.code)), SessionCode.parse(str(theirs[0].code))
        with pytest.raises(errors.GroupFull):
            duetlink.group(str(foreign), settings=QUICK)
        with pytest.raises(errors.WrongCode):
            duetlink.group(str(SessionCode(right.nameplate, foreign.words, right.server)), settings=QUICK)
        with pytest.raises(errors.WrongCode, match="seats that were left are burnt"):
            ann.wait_ready(10)
        ann.close_doors()
        assert (ann.wait_ready(10).size, ben.wait_ready(10).size) == (2, 2)
        assert together([ann, ben], lambda group: group.all_reduce(1)) == [2, 2]
        assert together(theirs, lambda group: group.all_reduce(1)) == [2, 2]
        ben.close()


async def sums(members: list[MemoryMember]) -> list[Any]:
    async def one(member: MemoryMember) -> Any:
        async with asyncio.timeout(60):
            return await member.life.running.operate(
                lambda collectives: collectives.all_reduce(1, ReduceOptions(algorithm="ring"))
            )

    return await asyncio.gather(*map(one, members), return_exceptions=True)


@pytest.mark.parametrize("of", [1, 2], ids=["another's", "its own"])
async def test_frames_of_another_group_put_out_whoever_repeats_them(
    monkeypatch: pytest.MonkeyPatch, of: int
) -> None:
    """The member with rank 2 is in both groups: same epoch, same ranks, same calls, other links."""
    network = Network(seed=6)
    first, second = await grown(network, 3), await grown(network, 3)
    frames: dict[int, tuple[bytes, bytes]] = {}
    original = MemoryStream.send

    async def send(self: MemoryStream, head: bytes, body: memoryview) -> None:
        frames[int(self._link.here.split()[1])] = bytes(head), bytes(body)
        await original(self, head, body)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryStream, "send", send)
        assert await sums(first) == [3] * 3
    assert await sums(second) == [3] * 3
    epoch: Any = second[2].life.open_epoch
    mesh = epoch.mesh
    stream = await stream_to(mesh, 0)
    head, body = frames[of]
    await stream.send(head, memoryview(body))
    found = await sums(second[:2])
    assert all(isinstance(each, errors.PeerLost | errors.RemoteProtocolError) for each in found)
    assert await sums(second[:2]) == [2] * 2
    assert await sums(first) == [3] * 3
    await asyncio.gather(*(member.close() for member in [*first, *second]))
    await network.close()


async def test_agreements_of_another_group_said_again_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a member of both told the first one until its first epoch, told again in the second one."""
    network = Network(seed=7)
    told: list[wire_pb.GroupNotice] = []
    original = MemoryLink.tell_nowait

    def tell(self: MemoryLink, notice: wire_pb.GroupNotice) -> None:
        if self.here == "member 2" and GroupMessage.FromString(notice.content).HasField("agreement"):
            told.append(notice)
        original(self, notice)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryLink, "tell_nowait", tell)
        first = await grown(network, 3)
    assert len(told) >= 2  # its promise, and the epoch to both others
    second = await grown(network, 3)
    for seat in (0, 1):
        link: Any = second[2].life.peers[seat].link
        for notice in told:
            link.tell_nowait(notice)
    assert await sums(second) == [3] * 3
    assert [member.epoch.number for member in second] == [1] * 3
    await asyncio.gather(*(member.close() for member in [*first, *second]))
    await network.close()
