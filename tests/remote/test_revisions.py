"""What becomes of a revision that is shared again, at the worker and at whoever points to it."""

from __future__ import annotations

import gc
import json
import os
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from duetlink import errors
from duetlink.base.wire import schema_pb2 as pb
from duetlink.compute.operations import program as wire
from duetlink.compute.operations.allowed import Allowed
from duetlink.compute.worker import answers
from duetlink.compute.worker.faults import Fault
from duetlink.compute.worker.memory import NAME, place
from duetlink.compute.worker.program import ProgramDesk
from duetlink.data import values
from tests.remote.conftest import Bench


def until(condition: Callable[[], bool], rounds: int = 1500) -> None:
    for _ in range(rounds):
        if condition():
            return
        threading.Event().wait(0.02)
    raise AssertionError("it did not come about")


def mappings() -> int:
    return Path("/proc/self/maps").read_text().count(f"/memfd:{NAME}")


class Worker:
    """A desk in this process, and what it is told."""

    def __init__(self) -> None:
        self.desk = ProgramDesk(Allowed.installed())
        self._batches = 0

    def give(self, revision: int, obj: object) -> None:
        encoded = values.encode(obj)
        fd = place(encoded.segments, encoded.size_bytes)
        try:
            told = {"name": "x", "revision": revision, "size_bytes": encoded.size_bytes}
            self.desk.handle("asset", json.dumps(told).encode(), [fd], lambda *_: None)
        finally:
            os.close(fd)

    def run(self, *steps: list[Any]) -> list[tuple[int, Fault]]:
        """What failed, with the numbers of the results."""
        self._batches += 1
        content = zlib.compress(json.dumps(steps).encode())
        work = pb.Work(epoch=1, number=self._batches, steps=content)
        reply, _ = self.desk.handle("run", work.SerializeToString(), [], lambda *_: None)
        return answers.read_batch(reply)[0]

    def retire(self, revision: int) -> None:
        self.desk.handle("retire", json.dumps([["x", revision]]).encode(), [], lambda *_: None)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="counts mappings through /proc")
def test_the_worker_unmaps_a_revision_that_is_retired() -> None:
    worker, before = Worker(), mappings()
    for revision in range(1, 21):
        worker.give(revision, np.arange(100_000.0))
        assert worker.run([2 * revision, "asset", ["x", revision]]) == []
        assert worker.run([2 * revision + 1, "operator.add", [[2 * revision], 1]]) == []
        worker.retire(revision)
        # as the peer does when its last pointer has gone
        assert worker.run([0, "drop", [2 * revision, 2 * revision + 1]]) == []
    gc.collect()
    assert mappings() <= before + 2
    assert worker.desk._objects == {}


def test_a_step_on_a_retired_revision_fails_and_what_was_made_of_it_goes_on() -> None:
    worker = Worker()
    worker.give(1, np.arange(3.0))
    assert worker.run([1, "asset", ["x", 1]], [2, "operator.add", [[1], 1]]) == []
    worker.retire(1)
    (failed,) = worker.run([3, "operator.add", [[1], 1]], [4, "operator.add", [[2], 1]])
    assert (failed[0], failed[1].code, failed[1].batch) == (3, pb.WorkFailure.NOT_SHARED, 2)
    (again,) = worker.run([5, "asset", ["x", 1]])
    assert again[1].code == pb.WorkFailure.NOT_SHARED


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
