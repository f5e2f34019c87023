"""What programs of one peer have in common is run once; what leaves is what it is where each is run whole."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from duetlink import Policy, errors
from duetlink.compute.operations.prefixes import Prefix
from duetlink.compute.worker.protocol.groups import State
from duetlink.compute.worker.protocol.memory import place
from duetlink.duet.answering import reuse
from duetlink.duet.answering.reuse import Frozen, Reuse
from duetlink.testing.faults import close_rooms, kept_rooms, run_inside
from tests.conftest import MakeDuets
from tests.remote.conftest import Bench


@pytest.fixture
def costly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run counts as one that took long."""
    monkeypatch.setattr(reuse, "COSTLY_S", 0.0)
    monkeypatch.setattr(reuse, "WORTH_S", 0.0)


def kept(bench: Bench) -> Reuse:
    return kept_rooms(bench.owner)


@pytest.fixture
def bench(bench: Bench) -> Iterator[Bench]:
    yield bench
    run_inside(bench.owner, _emptied(kept(bench)))


async def _emptied(reuse: Reuse) -> None:
    await close_rooms(reuse)
    reuse.uses = 0
    reuse.most_bytes = 1 << 30


def frame(seed: int = 0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    made = pd.DataFrame({name: draw.uniform(0, 1, 5_000) for name in "abcde"})
    made["group"] = draw.integers(0, 7, 5_000)
    return made


@pytest.mark.usefixtures("costly")
def test_aggregates_of_one_filtered_frame_begin_with_it(bench: Bench) -> None:
    real = frame()
    shared = bench.share(real, "people", mock=frame(1))
    chosen, expected = shared[shared.a > 0.25], real[real.a > 0.25]
    for column in "abcde":
        assert chosen[column].mean().get() == expected[column].mean()
    assert kept(bench).uses == 3  # the first is run whole, and the second freezes the frame
    pd.testing.assert_series_equal(
        chosen.groupby("group").b.std().get(), expected.groupby("group").b.std(), check_exact=True
    )
    assert kept(bench).uses == 4


@pytest.mark.usefixtures("costly")
def test_what_leaves_is_the_same_with_and_without(bench: Bench) -> None:
    shared = bench.share(frame(), "same", mock=frame(1))

    def ask() -> list[Any]:
        chosen = shared[shared.b > 0.5].sort_values("c")
        taken = chosen.head(50)
        asked = [chosen.d.sum(), chosen.d.std(), taken.e.mean(), taken.e.to_numpy(), chosen.describe()]
        return [result.get() for result in asked]

    kept(bench).most_bytes = 0
    without = ask()
    assert kept(bench).held_bytes == 0
    kept(bench).most_bytes = 1 << 30
    with_ = [ask(), ask()]
    assert kept(bench).uses > 5
    for found in with_:
        assert [repr(one) for one in found[:3]] == [repr(one) for one in without[:3]]
        assert found[3].tobytes() == without[3].tobytes()
        pd.testing.assert_frame_equal(found[4], without[4], check_exact=True)


@pytest.mark.usefixtures("costly")
def test_a_frozen_value_goes_with_the_revision_that_it_was_made_of(bench: Bench) -> None:
    real = frame()
    shared = bench.share(real, "revised", mock=frame(1))
    chosen = shared[shared.a > 0.25]
    assert [chosen.b.sum().get(), chosen.c.sum().get()] == [real[real.a > 0.25][name].sum() for name in "bc"]
    assert kept(bench).held_bytes > 0
    newer = frame(2)
    shared = bench.share(newer, "revised", mock=frame(1))
    assert kept(bench).held_bytes == 0
    chosen = shared[shared.a > 0.25]
    assert chosen.b.sum().get() == newer[newer.a > 0.25].b.sum()
    assert kept(bench).uses == 0


@pytest.mark.usefixtures("costly")
def test_a_frozen_value_goes_when_its_asset_is_no_longer_shared(bench: Bench) -> None:
    asset = bench.owner.share(frame(), "gone", mock=frame(1))
    shared = bench.scientist.wait_object("gone", 10)
    chosen = shared[shared.a > 0.25]
    for column in "bc":
        chosen[column].sum().get()
    assert kept(bench).held_bytes > 0
    asset.unshare()
    assert kept(bench).held_bytes == 0
    with pytest.raises(errors.DuetError, match="gone"):
        chosen.d.sum().get()


@pytest.mark.usefixtures("costly")
def test_a_program_that_fails_afterwards_leaves_what_it_has_frozen(bench: Bench) -> None:
    """Whether something is kept follows from what was asked for, and not from what came of it."""
    real = frame()
    real["group"] = 1
    shared = bench.share(real, "failing", mock=frame(1))
    chosen = shared[shared.a > -1]
    assert chosen.b.sum().get() == real.b.sum()
    with pytest.raises(errors.OperationFailed):
        chosen.set_index("group").b.loc[[0, 3]].sum().get()
    assert chosen.c.sum().get() == real.c.sum()
    assert kept(bench).uses == 1


@pytest.mark.usefixtures("costly")
def test_the_owner_reads_all_steps_of_what_began_with_a_frozen_value(bench: Bench) -> None:
    shared = bench.share(frame(), "read", mock=frame(1))
    chosen = shared[shared.a > 0.25]
    for column in "bcd":
        chosen[column].sum().get()
    assert kept(bench).uses == 1
    shown = [request.lineage for request in list(bench.owner.requests)[-3:]]
    assert [lineage and lineage.code for lineage in shown] == [
        f'read[read["a"] > 0.25]["{column}"].sum()' for column in "bcd"
    ]
    assert shown[2] is not None
    assert shown[2].assets == (("read", 1),)


@pytest.mark.usefixtures("costly")
def test_another_peer_begins_with_nothing(bench: Bench, make_duets: MakeDuets) -> None:
    real = frame()
    owner, scientist = make_duets()
    owner.policies.add(Policy("approve"))
    owner.share(real, "both", mock=frame(1))
    mine, theirs = bench.share(real, "both", mock=frame(1)), scientist.wait_object("both", 10)
    for column in "bcd":
        mine[mine.a > 0.25][column].sum().get()
    assert kept(bench).uses == 1
    assert theirs[theirs.a > 0.25].d.sum().get() == real[real.a > 0.25].d.sum()
    other = kept_rooms(owner)
    assert (other.uses, other.held_bytes) == (0, 0)


def test_runs_that_take_no_time_are_not_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reuse, "COSTLY_S", 3600.0)
    shared = bench.share(frame(), "quick", mock=frame(1))
    chosen = shared[shared.a > 0.25]
    for column in "bcd":
        chosen[column].sum().get()
    assert kept(bench).held_bytes == 0


# -- what is kept --------------------------------------------------------------------------------------------


def frozen(size_bytes: int, *assets: tuple[str, int]) -> Frozen:
    return Frozen(place([bytes(size_bytes)], size_bytes), size_bytes, State(1, 1, 1), frozenset(assets))


def is_open(value: Frozen) -> bool:
    try:
        os.fstat(value.fd)
    except OSError:
        return False
    return True


def test_what_was_used_least_lately_goes_first_where_memory_is_full() -> None:
    async def run() -> None:
        reuse = Reuse(most_bytes=100)
        values = [frozen(40) for _ in range(3)]
        for number, value in enumerate(values):
            reuse.keep(Prefix(1, bytes([number])), value)
        assert [is_open(value) for value in values] == [False, True, True]
        assert reuse.held_bytes == 80
        await reuse.close()
        assert not any(map(is_open, values))

    asyncio.run(run())


def test_no_more_values_are_kept_than_the_bound() -> None:
    async def run() -> None:
        kept = Reuse(most_bytes=1 << 30)
        values = [frozen(1) for _ in range(reuse.MOST_FROZEN + 3)]
        for number, value in enumerate(values):
            kept.keep(Prefix(1, bytes([number])), value)
        assert [is_open(value) for value in values] == [False] * 3 + [True] * reuse.MOST_FROZEN
        await kept.close()

    asyncio.run(run())


def test_what_nobody_uses_goes_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reuse, "IDLE_S", 0.0)

    async def run() -> None:
        kept = Reuse(most_bytes=1 << 30)
        value = frozen(1)
        kept.keep(Prefix(1, b"1"), value)
        while kept.held_bytes:
            await asyncio.sleep(0)
        assert not is_open(value)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_only_what_was_made_of_an_asset_goes_with_it() -> None:
    async def run() -> None:
        kept = Reuse(most_bytes=1 << 30)
        one, other = frozen(1, ("x", 1), ("y", 3)), frozen(1, ("x", 2))
        kept.keep(Prefix(1, b"1"), one)
        kept.keep(Prefix(1, b"2"), other)
        kept.retire(("y", 3))
        assert (is_open(one), is_open(other)) == (False, True)
        await kept.close()

    asyncio.run(run())
