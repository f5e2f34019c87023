"""What becomes of a revision that is shared again, in rooms and at whoever points to it."""

from __future__ import annotations

import dataclasses
import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from duetlink import errors
from duetlink.compute.worker.protocol.memory import NAME
from duetlink.duet.asking.recording import program as recording
from duetlink.testing.faults import kept_counts, life_of, mapped_assets, set_constants
from tests.remote.conftest import Bench
from tests.remote.hostile import Room, slice_of


def until(condition: Callable[[], bool], rounds: int = 1500) -> None:
    for _ in range(rounds):
        if condition():
            return
        threading.Event().wait(0.02)
    raise AssertionError("it did not come about")


def mappings() -> int:
    return Path("/proc/self/maps").read_text().count(f"/memfd:{NAME}")


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="counts mappings through /proc")
def test_a_room_maps_what_its_program_names_and_nothing_stays_mapped() -> None:
    before = mappings()
    assets = {"x": np.arange(100_000.0), "y": np.arange(100_000.0)}
    for factor in range(20):
        room = Room(assets, slice_of([[1, "asset", ["x", 1]], [2, "operator.mul", [[1], factor]]], 2))
        assert list(mapped_assets(room.desk)) == [("x", 1)]
        room.told()
        del room
    gc.collect()
    assert mappings() <= before + 2


def test_a_program_that_names_a_revision_which_is_retired_is_refused_before_anything_runs(
    bench: Bench,
) -> None:
    old = bench.share(np.arange(3.0), "retired")
    made = (old + 1) * 2
    pending = (old + 3).request("later")
    assert made.get(reason="in time").tolist() == [2.0, 4.0, 6.0]
    assert pending.result(20).tolist() == [3.0, 4.0, 5.0]
    bench.share(np.arange(3.0), "retired")
    count = len(bench.owner.requests)
    for result in (old + 1, made * 2):
        with pytest.raises(errors.AssetChanged, match="shared again"):
            result.get(reason="too late")
    assert len(bench.owner.requests) == count


def test_an_old_pointer_says_that_its_revision_is_no_longer_shared(bench: Bench) -> None:
    old = bench.share(np.arange(5.0), "again")
    assert (old + 1).get(reason="to look")[0] == 1.0
    new = bench.share(np.arange(5.0) + 10, "again")
    late = old + 2
    with pytest.raises(errors.AssetChanged, match="shared again as revision"):
        late.get(reason="to look")
    assert (new + 1).get(reason="to look")[0] == 11.0


def test_a_mock_is_kept_while_a_pointer_lives_or_the_peer_shares_it(bench: Bench) -> None:
    revisions = life_of(bench.scientist).remote_session.revisions

    def kept() -> list[int]:
        gc.collect()
        numbered = (dataclasses.replace(info, revision=number) for number in (first, first + 1))
        return [each.revision for each in numbered if revisions.get(each) is not None]

    old: Any = bench.share(np.arange(5.0), "kept")
    first, info = old.revision, life_of(bench.scientist).catalogue.peer["kept"]
    assert old.mock.shape == (5,)
    bench.share(np.arange(6.0), "kept")
    assert bench.scientist.store["kept"].revision == first + 1
    until(lambda: kept() == [first, first + 1])
    assert old.mock.shape == (5,)
    del old
    until(lambda: kept() == [first + 1])
    bench.owner.store["kept"].unshare()
    until(lambda: kept() == [])


def test_values_that_were_arguments_are_let_go_of_with_their_step(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    x: Any = bench.share(np.arange(100.0), "adds")
    frame: Any = bench.share(pd.DataFrame({"a": [1.0, 2.0, 3.0]}), "frame").copy()
    for number in range(5):
        total = (x + np.full(100, float(number))).sum().get(reason="why")
        assert total == 4950.0 + 100 * number
        frame["b"] = pd.Series([4.0, 5.0, 6.0])
        assert frame["b"].sum().get(reason="why") == 15.0
    set_constants(monkeypatch, recording, COMPACT_STEPS=-1_000_000)
    assert frame["b"].sum().get(reason="why") == 15.0
    program = life_of(bench.scientist).remote_session.program()
    assert kept_counts(program)["values"] <= 2  # those that the frame is made by
    assert program.echoes.own == set()
