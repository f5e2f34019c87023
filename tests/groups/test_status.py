"""What a group tells of itself while it works, who is waited for, and how it is interrupted."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import signal
import threading
from typing import Any

import numpy as np
import pytest

from duetlink import errors
from duetlink.base.drawing import screen
from duetlink.groups.api.call import ProgressBar
from duetlink.groups.api.group import Group
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.planning.costs import LinkFigures
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.collectives.same_host import host_memory
from duetlink.groups.lifecycle.status import LinkStatus, OperationStatus
from duetlink.testing.transports import MemoryNetwork

from .conftest import MakeGroup, together, until, waited_for


def test_a_group_tells_of_members_links_and_what_runs(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(screen, "is_log", lambda: False)
    monkeypatch.setattr(screen, "DELAY_S", 0.05)
    groups = make_group(3)
    assert groups[0].status().operation is None
    changes: list[int] = []
    stop = groups[1].watch(lambda: changes.append(1))
    summed: list[Any] = []
    early = [
        threading.Thread(target=lambda group=group: summed.append(group.all_reduce(np.ones(5)).tolist()))
        for group in groups[:2]
    ]
    for thread in early:
        thread.start()
    until(lambda: all(group.status().members[2].waited_s > 0.3 for group in groups[:2]))
    running = groups[0].status().operation
    assert running is not None
    assert running.call.startswith("all_reduce at test_status.py:")
    assert waited_for(groups[0]) == waited_for(groups[1]) == (2,)
    assert groups[2].all_reduce(np.ones(5)).tolist() == [3.0] * 5
    for thread in early:
        thread.join()
    assert summed == [[3.0] * 5] * 2
    assert "waiting for 2 member 2" in capsys.readouterr().err

    status = groups[0].status()
    assert (status.state, status.epoch, status.rank, status.size) == ("ready", 1, 0, 3)
    assert (status.code, status.verifier) == (groups[2].code, groups[2].verifier)
    assert [(member.rank, member.name) for member in status.members] == [
        (0, "member 0"),
        (1, "member 1"),
        (2, "member 2"),
    ]
    assert status.members[2].waited_s > 0.3
    assert status.members[0].waited_s == 0.0
    assert len(status.links) == 6
    own = [link for link in status.links if link.now]
    assert [(link.of, link.to, link.path) for link in own] == [
        (0, 1, "local"),
        (0, 2, "local"),
        (1, 0, "local"),
        (2, 0, "local"),
    ]
    assert all(link.round_trip_s is not None and link.round_trip_s < 5 for link in own)
    others = [link for link in status.links if not link.now]  # as they told when the epoch began
    assert [(link.of, link.to, link.path) for link in others] == [(1, 2, "local"), (2, 1, "local")]
    assert json.loads(json.dumps(dataclasses.asdict(status)))["size"] == 3
    changes.clear()
    groups[2].close()
    until(lambda: groups[1].epoch == 2)
    assert changes
    stop()
    assert [(gone.rank, gone.name, gone.how) for gone in groups[1].status().gone] == [(2, "member 2", "left")]
    assert groups[1].status().links[0] == LinkStatus(0, 1, "local", *own_figures(groups[1]), True)


def own_figures(group: Group) -> tuple[float | None, float | None]:
    link = group.status().links[0]
    return link.round_trip_s, link.bytes_per_s


def test_a_sum_with_a_codec_is_told_with_what_was_chosen(make_group: MakeGroup) -> None:
    groups = make_group(2)
    assert groups[0].status().sum is None
    value = np.where(np.arange(50_000) % 50, 0, 1).astype(np.float32)

    def begin(group: Group) -> None:
        group.all_reduce(value, codec="union")

    first = threading.Thread(target=begin, args=(groups[0],))
    first.start()
    until(lambda: groups[0].status().operation)
    running = groups[0].status().operation
    assert running is not None
    assert running.codec == "union"
    begin(groups[1])
    first.join()
    summed = groups[0].status().sum
    assert summed is not None
    assert (summed.codec, summed.way, summed.density) == ("union", "union", 0.02)
    assert summed.text == str(groups[0].sums[-1])
    assert summed.sent_bytes > 0


def test_members_may_begin_operations_together_or_one_after_the_other(make_group: MakeGroup) -> None:
    groups = make_group(2)

    async def at_once() -> Any:
        calls = groups[0].awaitable
        return await asyncio.gather(calls.all_reduce(1), calls.all_gather(2), calls.all_reduce(3))

    def one_by_one() -> list[Any]:
        return [groups[1].all_reduce(1), groups[1].all_gather(2), groups[1].all_reduce(3)]

    found = together([0, 1], lambda rank: one_by_one() if rank else asyncio.run(at_once()))
    assert found == [[2, [2, 2], 6]] * 2


def test_ctrl_c_ends_an_operation_everywhere_and_the_next_one_runs(make_group: MakeGroup) -> None:
    groups = make_group(3)
    together(groups, lambda group: group.barrier())
    given = np.ones(100_000)
    other: list[Any] = []
    waiting = threading.Thread(
        target=lambda: other.extend(together(groups[1:2], lambda group: group.all_reduce(np.ones(100_000))))
    )
    waiting.start()

    def interrupt() -> None:
        until(lambda: waited_for(groups[0]) == waited_for(groups[1]) == (2,))
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        groups[0].all_reduce(given, in_place=True)
    interrupting.join()
    waiting.join()
    assert given.sum() == 100_000
    assert isinstance(other[0], errors.OperationAborted)
    assert "rank 0 (member 0) gave up all_reduce" in str(other[0])
    assert together(groups, lambda group: group.all_reduce(1)) == [3, 3, 3]


def test_a_bar_is_drawn_of_what_takes_longer_than_a_second(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(screen, "is_log", lambda: False)
    with ProgressBar(lambda: ["ann", "b\x1ben"]) as bar:
        bar.show(OperationStatus("all_reduce at cell 3:1", 0.9, 0, 8_000_000, ()))
        assert capsys.readouterr().err == ""
        bar.show(OperationStatus("all_reduce at cell 3:1", 1.1, 2_000_000, 8_000_000, (1,)))
        drawn = capsys.readouterr().err
        assert "all_reduce:  25%" in drawn
        assert "2.00M/8.00M" in drawn
        assert r"waiting for 1 b\x1ben" in drawn
    assert "8.00M/8.00M" in capsys.readouterr().err


def test_a_log_gets_nothing_of_a_call_of_half_a_minute_and_a_line_of_a_longer_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(screen, "is_log", lambda: True)
    with ProgressBar(lambda: ["ann", "ben"]) as bar:
        for second in range(30):
            bar.show(OperationStatus("all_reduce at cell 3:1", second, 0, 8_000_000, (1,)))
    assert capsys.readouterr().err == ""
    with ProgressBar(lambda: ["ann", "ben"]) as bar:
        for elapsed_s in (59.0, 60.0, 60.1, 60.2):
            bar.show(OperationStatus("all_reduce at cell 3:1", elapsed_s, 2_000_000, 8_000_000, (1,)))
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("all_reduce:  25%|##5       | 2.00M/8.00M [01:00<")
        assert line.endswith("waiting for 1 ben]")
    assert "100%" in capsys.readouterr().err


def test_waiting_for_members_says_how_many_members_are_there(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(screen, "is_log", lambda: False)
    monkeypatch.setattr(screen, "DELAY_S", 0.0)
    alone, _ = make_group(2)
    with pytest.raises(errors.PairingTimeout):
        alone.wait_members(3, 0.2)
    said = capsys.readouterr().err
    assert said.startswith(
        "waiting for members of the group, 2 have joined so far … (Ctrl-C to stop waiting) "
    )


async def test_figures_are_agreed_on_again_while_a_group_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_memory, "supported", lambda: False)
    rates = [5e6]

    def member(transport: Any) -> Collectives:
        async def figures() -> dict[int, LinkFigures]:
            path = "channel" if rates[0] == 5e6 else "tcp"
            others = set(range(3)) - {transport.rank}
            return dict.fromkeys(others, LinkFigures(0.001, rates[0], path=path, measured=True))

        return Collectives(transport, figures=figures)

    members = [member(transport) for transport in MemoryNetwork(3).transports]

    async def everybody(value: object) -> list[Any]:
        calls = (each.all_reduce(value) for each in members)
        return list(await asyncio.gather(*calls, return_exceptions=True))

    with pytest.raises(errors.UnsupportedValue):  # before anything is sent, and the others need not know
        await members[0].all_reduce("text")
    async with asyncio.timeout(10):
        with pytest.raises(errors.SettingError, match="no algorithm 'magic'"):
            await members[0].all_reduce(1, ReduceOptions(algorithm="magic"))
        with pytest.raises(errors.UnknownCodec):
            await members[0].all_reduce(1, ReduceOptions(codec="magic"))
    seen = []
    for _ in range(5):
        assert await everybody(1) == [3, 3, 3]
        told = {str(each.explain("all_reduce", 8_000_000)).splitlines()[-1] for each in members}
        seen.append(told.pop().split("by ")[1])
        assert not told
        rates[0] += 1e6
    assert seen == [
        "channel, 1.0 ms, 5 MB/s",
        "tcp, 1.0 ms, 6 MB/s",
        "tcp, 1.0 ms, 6 MB/s",
        "tcp, 1.0 ms, 8 MB/s",
        "tcp, 1.0 ms, 8 MB/s",
    ]
    await asyncio.gather(*(each.close() for each in members))
