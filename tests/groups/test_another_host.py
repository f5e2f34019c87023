"""Newcomers come in by the code for as long as anybody is in: another member takes the door over."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import duetlink
from duetlink import errors
from duetlink.groups.api.group import Group
from duetlink.groups.links.meeting.door import Door
from duetlink.groups.membership import events
from duetlink.net.signaling.server import MailboxServer
from duetlink.settings import Settings
from duetlink.testing.faults import life_of, replace_function, run_inside

from .conftest import QUICK, TIMEOUT_S, MakeGroup, together, until


@pytest.fixture
def external() -> Iterator[Settings]:
    """Settings that name a signaling server which belongs to no member."""
    loop, server = asyncio.new_event_loop(), MailboxServer()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    host, port = asyncio.run_coroutine_threadsafe(server.start(), loop).result(TIMEOUT_S)
    yield dataclasses.replace(QUICK, signaling=f"ws://{host}:{port}")
    asyncio.run_coroutine_threadsafe(server.stop(), loop).result(TIMEOUT_S)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def admitted(newcomer: Group, others: list[Group]) -> None:
    """All members let it in."""
    until(lambda: any(member.state == "waiting for the next epoch" for member in others[0].members))
    together(
        [*others, newcomer], lambda group: group.wait_ready(TIMEOUT_S) if group is newcomer else admit(group)
    )


def admit(group: Group) -> None:
    while len([member for member in group.members if member.state != "lost"]) > group.size:
        group.admit()


def test_when_the_opener_has_gone_newcomers_come_in_by_the_same_code(
    make_group: MakeGroup, external: Settings
) -> None:
    groups = make_group(3, settings=external)
    code, words = groups[0].code, groups[1].verifier
    groups[0].close()
    rest = groups[1:]
    assert together(rest, lambda group: group.all_reduce(1)) == [2, 2]
    with duetlink.group(code, name="dora", settings=external) as dora:
        admitted(dora, rest)
        everybody = [*rest, dora]
        assert together(everybody, lambda group: group.all_reduce(1)) == [3, 3, 3]
        assert [group.rank for group in everybody] == [0, 1, 2]
        assert len({group.verifier for group in everybody} | {words}) == 2  # somebody new has come
        with pytest.raises(errors.GroupFull):
            duetlink.group(code, settings=external)
        rest[0].close()  # the second host, too
        left = [rest[1], dora]
        assert together(left, lambda group: group.all_reduce(1)) == [2, 2]
        with duetlink.group(code, name="emil", settings=external) as emil:
            admitted(emil, left)
            assert together([*left, emil], lambda group: group.all_reduce(1)) == [3, 3, 3]


def test_a_member_that_was_put_out_comes_in_again(make_group: MakeGroup, external: Settings) -> None:
    groups = make_group(3, settings=external)

    async def lose() -> None:
        for seat in (1, 2):
            life_of(groups[0]).links.end(seat, "lost")
            life_of(groups[0]).feed(events.Gone(seat))

    run_inside(groups[0], lose())  # the host itself
    with pytest.raises(errors.GroupOver, match=r"group\.rejoin\(\)"):
        groups[0].barrier()
    rest = groups[1:]
    found = together(rest, lambda group: group.all_reduce(1))
    assert [type(error) for error in found] == [errors.PeerLost] * 2
    assert together(rest, lambda group: group.all_reduce(1)) == [2, 2]
    with pytest.raises(errors.GroupError, match="only a member that is out of its group"):
        rest[0].rejoin()
    with groups[0].rejoin() as again:
        admitted(again, rest)
        assert together([*rest, again], lambda group: group.all_reduce(1)) == [3, 3, 3]
        assert again.rank == 2
    assert groups[0].state.startswith("closed")


def test_shut_doors_stay_shut_at_the_next_host(make_group: MakeGroup, external: Settings) -> None:
    groups = make_group(3, settings=external)
    groups[0].close_doors()
    together(groups, lambda group: group.barrier())
    groups[0].close()
    assert together(groups[1:], lambda group: group.all_reduce(1)) == [2, 2]
    with pytest.raises((errors.CodeUsed, errors.UnknownCode)):
        duetlink.group(groups[1].code, settings=external)


def test_the_code_of_a_group_lives_for_as_long_as_the_group_does(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    seats = {"begun": 0, "ended": 0}

    async def note(door: Door, *seat: Any) -> None:
        seats["begun"] += 1
        try:
            await wait_at(door, *seat)
        finally:
            seats["ended"] += 1

    wait_at = replace_function(monkeypatch, Door, "wait_at", note)
    settings = dataclasses.replace(QUICK, code_lifetime_s=4.0)
    groups = make_group(2, settings=settings)
    before = seats["ended"]
    until(lambda: before < seats["ended"] < seats["begun"])  # the time of its seat is over
    with pytest.raises(errors.GroupFull):
        duetlink.group(groups[1].code, settings=settings)
