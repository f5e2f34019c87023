"""Who shares memory with whom: by what each member has mapped, the same at all, and nobody by one's word."""

from __future__ import annotations

import os
import random

import pytest

from duetlink.groups.collectives.planning.costs import HostRanks, LinkFigures
from duetlink.groups.collectives.same_host.hosts import hosts_of, report_of
from duetlink.testing.transports import MemoryNetwork
from tests.groups.collectives.conftest import Group, MakeGroup, put_on_hosts


def hosts(*mapped: set[int]) -> HostRanks:
    return hosts_of([report_of(ranks, len(mapped)) for ranks in mapped])


def test_members_that_have_mapped_each_other_are_on_one_host() -> None:
    assert hosts({0, 2}, {1, 3}, {0, 2}, {1, 3}, {4}) == ((0, 2), (1, 3), (4,))
    assert hosts({0, 1, 2}, {0, 1, 2}, {0, 1, 2}) == ((0, 1, 2),)


def test_unless_all_of_them_have_mapped_all_they_are_single() -> None:
    assert hosts({0, 1, 2}, {0, 1}, {0, 2}, {3, 4}, {3, 4}) == ((0,), (1,), (2,), (3, 4))


def test_a_member_that_claims_to_have_mapped_others_is_on_their_host_only_if_they_say_so() -> None:
    assert hosts({0, 1}, {0, 1}, {0, 1, 2, 3}, {3}) == ((0, 1), (2,), (3,))


@pytest.mark.parametrize("report", [b"", b"\xff\xff", b"yes", b"\xff" * 100])
def test_a_report_of_another_length_counts_as_empty(report: bytes) -> None:
    assert hosts_of([report_of({0, 1, 2}, 3), report_of({0, 1, 2}, 3), report]) == ((0, 1), (2,))


def test_any_reports_give_every_rank_one_host_of_members_that_all_have_mapped_each_other() -> None:
    dice = random.Random(3)
    for _ in range(2000):
        size = dice.randint(1, 9)
        reports = [dice.randbytes((size + 7) // 8) for _ in range(size)]
        found = hosts_of(reports)
        assert sorted(rank for host in found for rank in host) == list(range(size))
        for host in found:
            for rank in host:
                others = {each for each in host if each != rank}
                assert all(reports[rank][of // 8] >> of % 8 & 1 for of in others)


def memories_mapped() -> int:
    with open("/proc/self/maps") as maps:
        return sum("duetlink-group-" in line for line in maps)


async def test_each_member_keeps_the_memory_of_its_own_host_alone(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, descriptors = memories_mapped(), len(os.listdir("/proc/self/fd"))
    put_on_hosts(monkeypatch, (0, 1, 3), (2,), (4, 5))
    group = make_group(6)
    assert await group.all(lambda m: m.agree()) == [None] * 6
    assert memories_mapped() - before == 9 + 4
    assert await group.all(lambda m: m.all_reduce(1)) == [6] * 6
    await group.close()
    assert memories_mapped() == before
    assert len(os.listdir("/proc/self/fd")) == descriptors


async def test_a_member_that_cannot_map_one_of_its_host_leaves_all_of_them_single(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = memories_mapped()
    put_on_hosts(monkeypatch, (0, 1, 2), blind=(1, 2))
    group = make_group(3)
    assert await group.all(lambda m: m.agree()) == [None] * 3
    assert {m.explain("all_reduce", 1).chosen.algorithm for m in group.members} == {"butterfly"}
    assert memories_mapped() == before
    assert await group.all(lambda m: m.all_reduce(1)) == [3] * 3


async def test_later_agreements_on_figures_leave_the_hosts_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put_on_hosts(monkeypatch, (0, 1), (2, 3))
    before, agreed = memories_mapped(), 0

    async def figures() -> dict[int, LinkFigures]:
        nonlocal agreed
        agreed += 1
        return {}

    group = Group(MemoryNetwork(4), figures)
    for _ in range(4):
        assert await group.all(lambda m: m.all_reduce(1)) == [4] * 4
        assert memories_mapped() - before == 4 + 4
    assert agreed == 4 * 3  # at each member before the sums 1, 2 and 4
    await group.close()
    assert memories_mapped() == before
