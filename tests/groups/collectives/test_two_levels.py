"""Sums by two levels: one copy on each line, the same bits at all members, errors like any other sum's."""

from __future__ import annotations

import asyncio
import functools
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from duetlink.errors import OperationAborted, OperationMismatch, PeerLost, SettingError
from duetlink.groups.collectives.averaging import average
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.execution import engine, layout
from duetlink.groups.collectives.planning.choice import Choice
from duetlink.groups.collectives.planning.costs import Costs, LinkFigures
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.collectives.same_host import shared, two_levels
from duetlink.groups.collectives.same_host.host_memory import Memory
from duetlink.groups.collectives.same_host.hosts import report_of
from duetlink.groups.links.transport import Message
from duetlink.testing.faults import set_constants
from tests.groups.collectives.conftest import Group, MakeGroup, put_on_hosts

TWO = ReduceOptions(algorithm="two_levels")
IN_PLACE = ReduceOptions(algorithm="two_levels", in_place=True)
PLACES = {
    "2 + 2": ((0, 1), (2, 3)),
    "4 + 4": ((0, 1, 2, 3), (4, 5, 6, 7)),
    "3 + 1 + 2": ((0, 1, 2), (3,), (4, 5)),
    "mixed": ((0, 3), (1,), (2, 4)),
    "1 + 3": ((0,), (1, 2, 3)),
}
SITES = PLACES["4 + 4"]


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let arrays of some 100 KB go in several pieces of several parts."""
    monkeypatch.setattr(shared, "DATA_BYTES", 64 * 1024)
    monkeypatch.setattr(two_levels, "DATA_BYTES", 64 * 1024)
    monkeypatch.setattr(layout, "FRAME_BYTES", 8 * 1024)
    set_constants(monkeypatch, shared, SMALL_BYTES=4096)


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "WAIT_S", 0.05)
    monkeypatch.setattr(engine, "WAIT_S", 0.05)


async def agreed(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch, hosts: tuple[tuple[int, ...], ...]
) -> Group:
    put_on_hosts(monkeypatch, *hosts)
    group = make_group(sum(map(len, hosts)))
    assert await group.all(lambda m: m.agree()) == [None] * group.network.size
    return group


def noise(rank: int, items: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng([rank, items]).normal(size=items).astype(np.float32)


def by_hosts(arrays: list[np.ndarray[Any, Any]], hosts: tuple[tuple[int, ...], ...]) -> Any:
    """The sum within each host in the order of the ranks, then over the hosts."""
    return functools.reduce(
        np.add, (functools.reduce(np.add, [arrays[rank] for rank in host]) for host in hosts)
    )


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("places", PLACES)
async def test_all_members_have_the_sum_in_the_same_bits(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch, places: str
) -> None:
    hosts = PLACES[places]
    group = await agreed(make_group, monkeypatch, hosts)
    size = group.network.size
    for items in (0, 1, 7, 1500, 20_000, 150_001):
        given = [noise(rank, items) for rank in range(size)]
        before = [each.copy() for each in given]
        found = await group.all(lambda m, a=given: m.all_reduce(a[m.rank], TWO))
        assert [each.tobytes() for each in found] == [found[0].tobytes()] * size
        exact = np.sum(given, axis=0, dtype=np.float64)
        np.testing.assert_allclose(found[0], exact, rtol=0, atol=size * 1e-6)  # float32 of some units
        if len(hosts) == 2:  # then the order of the two hosts does not matter
            assert found[0].tobytes() == by_hosts(given, hosts).tobytes()
        for each, old in zip(given, before, strict=True):
            np.testing.assert_array_equal(each, old)
        await group.all(lambda m, a=given: m.all_reduce(a[m.rank], IN_PLACE))
        for each in given:
            assert each.tobytes() == found[0].tobytes()


@pytest.mark.parametrize("places", PLACES)
async def test_other_operations_and_kinds_of_numbers(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch, places: str
) -> None:
    hosts = PLACES[places]
    group = await agreed(make_group, monkeypatch, hosts)
    size = group.network.size
    given = [np.arange(3000) * (rank + 1) % 1009 for rank in range(size)]

    async def found(op: str, value: Any) -> list[Any]:
        options = ReduceOptions(op, algorithm="two_levels")
        results = await group.all(lambda m: m.all_reduce(value(m.rank), options))
        assert [type(each) for each in results] == [type(results[0])] * size
        return results

    for each in await found("max", lambda rank: given[rank]):
        np.testing.assert_array_equal(each, np.max(given, axis=0), strict=True)
    for each in await found("mean", lambda rank: {"a": given[rank] * 2 * size, "b": np.float16(60_000)}):
        np.testing.assert_array_equal(each["a"], 2 * np.sum(given, axis=0), strict=True)
        assert each["b"] == np.float16(60_000)  # the sum is infinite in float16
    tensors = [torch.arange(200).to(torch.bfloat16) for _ in range(size)]
    for each in await found("sum", lambda rank: tensors[rank]):
        assert each.dtype == torch.bfloat16
        assert torch.equal(each[:5], tensors[0][:5] * size)


async def copies_between(
    group: Group, value: list[Any], options: ReduceOptions
) -> dict[tuple[int, int], float]:
    """The bytes that each site sends to the other in a sum, in sizes of the array."""
    sent: dict[tuple[int, int], int] = {(0, 1): 0, (1, 0): 0}

    def watch(of: int, to: int, message: Message) -> Message:
        sites = of // 4, to // 4
        if sites in sent:
            sent[sites] += len(message.body)
        return message

    group.network.on_send = watch
    assert not [
        each
        for each in await group.all(lambda m: m.all_reduce(value[m.rank], options))
        if isinstance(each, Exception)
    ]
    return {sites: each / value[0].nbytes for sites, each in sent.items()}


async def test_a_line_between_two_sites_of_four_carries_one_copy_each_way(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = await agreed(make_group, monkeypatch, SITES)
    value = [noise(rank, 3_000_000) for rank in range(8)]
    assert await copies_between(group, value, TWO) == {(0, 1): 1.0, (1, 0): 1.0}
    assert await copies_between(group, value, ReduceOptions("mean", algorithm="two_levels")) == {
        (0, 1): 1.0, (1, 0): 1.0,
    }  # fmt: skip
    flat = await copies_between(group, value, ReduceOptions(algorithm="ring"))
    assert flat == {(0, 1): pytest.approx(1.75, abs=1e-5), (1, 0): pytest.approx(1.75, abs=1e-5)}
    sent = [member.engine.sent_bytes for member in group.members]
    assert await copies_between(group, value, TWO) == {(0, 1): 1.0, (1, 0): 1.0}
    more = [m.engine.sent_bytes - before for m, before in zip(group.members, sent, strict=True)]
    assert more == [12_000_000, 0, 0, 0, 12_000_000, 0, 0, 0]


async def test_sums_and_averages_of_two_sites_take_two_levels_by_themselves(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = await agreed(make_group, monkeypatch, SITES)
    for member in group.members:
        member.flat.agree(sites(()), None)
    value = [noise(rank, 300_000) for rank in range(8)]
    before = [each.copy() for each in value]
    assert await copies_between(group, value, ReduceOptions()) == {(0, 1): 1.0, (1, 0): 1.0}
    assert await copies_between(group, value, ReduceOptions("mean")) == {(0, 1): 1.0, (1, 0): 1.0}
    for each, old in zip(value, before, strict=True):
        np.testing.assert_array_equal(each, old)
    found = await group.all(lambda m: average(m, {"w": value[m.rank]}, m.rank + 1.0, "a.py:1"))
    expected = np.average(value, axis=0, weights=range(1, 9))
    for each in found:
        assert each["w"].tobytes() == found[0]["w"].tobytes()
        np.testing.assert_allclose(each["w"], expected, rtol=0, atol=1e-6)  # float32 of some units


@pytest.mark.parametrize("places", ["4 + 4", "3 + 1 + 2"])
@pytest.mark.parametrize("codec", ["union", "blocks", "integers", "sketch", "auto", "zstd"])
async def test_a_coded_sum_has_the_bits_of_the_plain_one_by_two_levels(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch, places: str, codec: str
) -> None:
    group = await agreed(make_group, monkeypatch, PLACES[places])
    size = group.network.size
    given = [np.where(np.arange(40_000) % 97 < 3, noise(rank, 40_000), 0) for rank in range(size)]
    for op in ("sum", "mean"):
        plain = ReduceOptions(op, algorithm="two_levels")
        coded = ReduceOptions(op, algorithm="two_levels", codec=codec)
        expected = await group.all(lambda m, o=plain: m.all_reduce(given[m.rank], o))
        found = await group.all(lambda m, o=coded: m.all_reduce(given[m.rank], o))
        assert {each.tobytes() for each in found} == {expected[0].tobytes()}
    dense_bytes = 0 if codec == "zstd" else group.members[1].sums[-1].dense_bytes
    assert dense_bytes == 0  # this member would send nothing


async def test_widths_and_agreed_rows_give_all_members_the_same_bits(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = await agreed(make_group, monkeypatch, PLACES["3 + 1 + 2"])
    for codec in ("int8", "int16", "agreed:0.1"):
        options = ReduceOptions(algorithm="two_levels", codec=codec)
        found = await group.all(lambda m, o=options: m.all_reduce(noise(m.rank, 30_000), o))
        assert len({each.tobytes() for each in found}) == 1


# -- failures ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize("odd", range(5))
async def test_all_hear_of_a_member_that_calls_something_else(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch, odd: int
) -> None:
    for other in (
        lambda m: m.all_reduce(np.ones(4), TWO, call="b.py:2"),
        lambda m: m.all_reduce(np.ones(3), ReduceOptions("max", algorithm="two_levels"), call="b.py:2"),
        lambda m: m.all_reduce(np.ones(3), ReduceOptions(algorithm="ring"), call="b.py:2"),
        lambda m: m.barrier(call="b.py:2"),
        lambda m: m.broadcast(1, odd, call="b.py:2"),
    ):
        group = await agreed(make_group, monkeypatch, PLACES["mixed"])

        async def call(member: Collectives, other: Any = other) -> object:
            if member.rank == odd:
                await other(member)
                await member.barrier()  # a root only sends: its next call raises
            return await member.all_reduce(np.ones(3), TWO, call="a.py:1")

        for each in await group.all(call):
            assert isinstance(each, OperationMismatch)
            assert "a.py:1" in str(each)
            assert "b.py:2" in str(each)


async def test_the_call_names_the_hosts(make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    group = await agreed(make_group, monkeypatch, PLACES["mixed"])
    task = asyncio.ensure_future(group.members[0].all_reduce(np.ones(3), TWO, call="a.py:1"))
    await asyncio.sleep(0)
    task.cancel()
    call = r"all_reduce\(float64\[3\], sum, two_levels 0-3 1 2-4 by butterfly\) at a.py:1"
    with pytest.raises(OperationAborted, match=f"gave up {call}"):
        await group.members[1].barrier()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.usefixtures("short_waits")
async def test_a_member_that_reports_different_things_to_different_members_brings_no_wrong_sums(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_hosts(monkeypatch, (0, 1, 2), (3,))
    group = make_group(4)
    honest, false = (struct.pack("<Q", 1) + report_of(ranks, 4) for ranks in ({0, 1, 2}, {2}))
    lies = 0

    def lie(of: int, to: int, message: Message) -> Message:
        nonlocal lies
        body = bytes(message.body)
        if (of, to) != (2, 1) or honest not in body:
            return message
        lies += 1
        return Message(message.head, memoryview(body.replace(honest, false)))

    group.network.on_send = lie
    await group.all(lambda m: m.agree())
    assert lies == 1
    hosts = [m.explain("all_reduce", 1).costs.hosts for m in group.members]
    assert hosts == [((0, 1, 2), (3,)), ((0, 1), (2,), (3,)), ((0, 1, 2), (3,)), ((0, 1, 2), (3,))]
    for each in await group.all(lambda m: m.all_reduce(np.ones(3), TWO)):
        assert isinstance(each, OperationMismatch)
        assert "two_levels 0-1-2 3 by" in str(each)
        assert "two_levels 0-1 2 3 by" in str(each)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("lost", [0, 1, 2, 4])
@pytest.mark.parametrize("chunk", [0, 1, 3])
async def test_a_loss_in_the_middle_restores_what_was_given(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch, lost: int, chunk: int
) -> None:
    group = await agreed(make_group, monkeypatch, PLACES["mixed"])
    arrive, loop = Memory.arrive, asyncio.get_running_loop()

    def note(memory: Memory, number: int) -> None:
        arrive(memory, number)
        if number == chunk:
            loop.call_soon_threadsafe(group.network.lose, lost)

    monkeypatch.setattr(Memory, "arrive", note)
    given = [np.full(100_000, rank, np.float32) for rank in range(5)]
    found = await group.all(lambda m: m.all_reduce(given[m.rank], IN_PLACE))
    assert [(type(each), getattr(each, "rank", None)) for each in found] == [(PeerLost, lost)] * 5
    assert [(each.min(), each.max()) for each in given] == [(rank, rank) for rank in range(5)]


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("after", range(0, 40, 4))
async def test_a_loss_at_any_message_restores_what_was_given(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    group = await agreed(make_group, monkeypatch, PLACES["3 + 1 + 2"])
    sent = 0

    def watch(of: int, to: int, message: Message) -> Message:
        nonlocal sent
        if sent == after:
            group.network.lose(4)
        sent += 1
        return message

    group.network.on_send = watch
    given = [np.full(100_000, rank, np.float32) for rank in range(6)]
    found = await group.all(lambda m: m.all_reduce(given[m.rank], IN_PLACE))
    assert [(type(each), getattr(each, "rank", None)) for each in found] == [(PeerLost, 4)] * 6
    assert [(each.min(), each.max()) for each in given] == [(rank, rank) for rank in range(6)]


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("interrupted", [0, 1, 2, 3])
async def test_an_interrupt_ends_the_sum_everywhere_and_restores_what_was_given(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch, interrupted: int
) -> None:
    group = await agreed(make_group, monkeypatch, PLACES["mixed"])
    given = [np.full(100_000, rank, np.float32) for rank in range(5)]
    tasks = [  # rank 4 never comes
        asyncio.ensure_future(group.members[rank].all_reduce(given[rank], IN_PLACE, call="x.py:3"))
        for rank in range(4)
    ]
    for _ in range(50):
        await asyncio.sleep(0)
    tasks[interrupted].cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    expected = [asyncio.CancelledError if rank == interrupted else OperationAborted for rank in range(4)]
    assert [type(each) for each in found] == expected
    told = found[(interrupted + 1) % 4]
    assert f"rank {interrupted} (member {interrupted}) gave up all_reduce(float32[100000], sum, two_l" in str(
        told
    )
    assert [(each.min(), each.max()) for each in given] == [(rank, rank) for rank in range(5)]


@pytest.mark.usefixtures("short_waits")
async def test_a_deadline_names_the_member_that_has_not_called_it(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = await agreed(make_group, monkeypatch, PLACES["3 + 1 + 2"])
    tasks = [
        asyncio.ensure_future(group.members[rank].all_reduce(np.ones(3), TWO)) for rank in (0, 1, 2, 3, 4)
    ]
    expected = "rank 5 (member 5) has not called it"
    async with asyncio.timeout(30):
        while {group.members[rank].engine.lateness for rank in range(5)} != {expected}:
            await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_what_one_member_cannot_do_ends_the_sum_everywhere(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = await agreed(make_group, monkeypatch, PLACES["mixed"])

    async def broken(of: int, part: int) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(group.members[1].engine, "take", broken)
    found = await group.all(lambda m: m.all_reduce(np.zeros(3_000_000), TWO))
    assert isinstance(found[1], ZeroDivisionError)
    assert [type(each) for each in found[2:]] == [OperationAborted] * 3
    assert "rank 1 (member 1) gave up all_reduce(float64[3000000], sum, two_levels" in str(found[2])


# -- the choice --------------------------------------------------------------------------------------------

LOCAL = LinkFigures(0.0001, 400e6, path="local", measured=True)
LINE = LinkFigures(0.005, 12.5e6, path="tcp", measured=True)  # 100 Mbit/s


def sites(hosts: tuple[tuple[int, ...], ...] = SITES) -> Costs:
    """Eight members at two sites; the line between the sites has 100 Mbit/s."""
    return Costs(tuple(tuple(LOCAL if a // 4 == b // 4 else LINE for b in range(8)) for a in range(8)), hosts)


def test_two_levels_are_chosen_where_the_line_between_hosts_is_slow() -> None:
    size_bytes = 100_000_000
    found = Choice(sites()).explain("all_reduce", size_bytes)
    assert found.chosen.algorithm == "two_levels"
    assert found.chosen.order == (0, 4)
    line_s = size_bytes / 12.5e6
    assert line_s < found.chosen.predicted_s < 1.1 * line_s
    for each in found.candidates:  # each of them brings more over the line, as members of a host share it
        if each.algorithm != "two_levels":
            assert each.predicted_s > 1.7 * line_s, each
    assert Choice(sites(())).best("all_reduce", size_bytes).algorithm != "two_levels"


def test_links_that_share_a_line_count_as_the_fastest_of_them() -> None:
    """Measured at the same time, they slow each other down: those of the leaders most, as it happens."""
    disturbed = replace(LINE, rate_bytes_per_s=0.7e6)
    links = [[disturbed if {a, b} & {0, 4} and link == LINE else link for b, link in enumerate(row)]
             for a, row in enumerate(sites().links)]  # fmt: skip
    measured = Costs(tuple(map(tuple, links)), SITES)
    assert Choice(measured).candidates("all_reduce", 10**7) == Choice(sites()).candidates("all_reduce", 10**7)
    assert Choice(measured).explain("all_reduce", 10**7).costs == measured
    relayed = replace(LINE, relayed=True, path="relay", rate_bytes_per_s=50e6)
    links[3][5] = relayed
    planned = Costs(tuple(map(tuple, links)), SITES).with_lines()
    assert (planned.link(3, 5), planned.link(3, 6), planned.link(0, 4)) == (relayed, LINE, LINE)


def test_a_guess_of_a_link_does_not_lead_around_the_measured_line() -> None:
    slow = replace(LINE, rate_bytes_per_s=2e6)
    guess = LinkFigures(0.005, 5e6, path="channel", measured=False)
    rows = [list(row) for row in sites().links]
    for a in range(8):
        for b in range(8):
            if a // 4 != b // 4:
                rows[a][b] = guess if {a % 4, b % 4} <= {2, 3} else slow
    chosen = Choice(Costs(tuple(map(tuple, rows)), SITES)).best("all_reduce", 10**7)
    assert (chosen.algorithm, chosen.order) == ("two_levels", (0, 4))


def test_the_explanation_shows_the_hosts_and_says_that_the_bits_depend_on_them() -> None:
    lines = str(Choice(sites()).explain("all_reduce", 1_000_000)).splitlines()
    assert lines[0] == "all_reduce of 1,000,000 bytes among 8 members"
    assert lines[2].split()[:-2] == [*(">", "two_levels", "0-1-2-3", "4-5-6-7,", "0-4", "by", "butterfly")]
    assert "  items are added within hosts first: the last bits depend on who shares a host" in lines


async def test_it_is_refused_where_there_are_no_two_levels(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = make_group(2)
    for each in await alone.all(lambda m: m.all_reduce(1, TWO)):
        assert isinstance(each, SettingError)
        assert "two_levels needs members on several hosts, two of them on one" in str(each)
        assert "no two members share memory" in str(each)
    one = await agreed(make_group, monkeypatch, ((0, 1),))
    for each in await one.all(lambda m: m.all_reduce(1, TWO)):
        assert "in this group all are on one host" in str(each)
    assert await one.all(lambda m: m.all_reduce(1)) == [2, 2]
    for each in await one.all(lambda m: m.reduce(1, algorithm="two_levels")):
        assert "reduce has no algorithm 'two_levels'" in str(each)
