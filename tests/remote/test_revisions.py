"""What becomes of a revision that is shared again, at the worker and at whoever points to it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from duetlink import errors
from duetlink.compute.operations import program as wire
from tests.remote.conftest import Bench


def until(condition: Callable[[], bool], rounds: int = 1500) -> None:
    for _ in range(rounds):
        if condition():
            return
        threading.Event().wait(0.02)
    raise AssertionError("it did not come about")


def test_an_old_pointer_says_that_its_revision_is_no_longer_shared(bench: Bench) -> None:
    old = bench.share(np.arange(5.0), "again")
    assert (old + 1).get(reason="to look")[0] == 1.0
    new = bench.share(np.arange(5.0) + 10, "again")
    late = old + 2
    with pytest.raises(errors.OperationFailed, match="no longer shared in this revision"):
        late.get(reason="to look")
    assert (new + 1).get(reason="to look")[0] == 11.0


def test_a_mock_is_kept_while_a_pointer_lives_or_the_peer_shares_it(bench: Bench) -> None:
    revisions = bench.scientist._life.workbench.revisions

    def kept() -> list[int]:
        gc.collect()
        return sorted(revisions._revisions.get("kept", {}))

    old: Any = bench.share(np.arange(5.0), "kept")
    first = old.revision
    assert old.mock.shape == (5,)
    bench.share(np.arange(6.0), "kept")
    assert bench.scientist.store["kept"].revision == first + 1
    until(lambda: kept() == [first, first + 1])
    assert old.mock.shape == (5,)
    del old
    until(lambda: kept() == [first + 1])
    bench.owner.store["kept"].unshare()  # type: ignore[attr-defined]
    until(lambda: kept() == [])


def test_values_that_were_arguments_are_dropped_with_their_step(bench: Bench) -> None:
    x: Any = bench.share(np.arange(100.0), "adds")
    frame: Any = bench.share(pd.DataFrame({"a": [1.0, 2.0, 3.0]}), "frame").copy()
    for number in range(5):
        total = (x + np.full(100, float(number))).sum().get(reason="why")
        assert total == 4950.0 + 100 * number
        frame["b"] = pd.Series([4.0, 5.0, 6.0])
        assert frame["b"].sum().get(reason="why") == 15.0
    program = bench.scientist._life.workbench._program
    shift = bench.owner._life.workplace._shift
    assert program is not None
    assert shift is not None
    steps = [step for batch in shift.log.batches() for step in wire.read(batch.content)]
    placed = {step.id for step in steps if step.operation == wire.VALUE}
    dropped = {id_ for step in steps if step.operation == wire.DROP for id_ in step.arguments}
    assert len(placed) >= 10
    # those of the last step may be on their way
    assert len(placed - dropped) <= 2
    assert program.echoes.own == set()
