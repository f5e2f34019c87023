"""Attempts to get out of what an owner allows, by steps that no pointer would record."""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from duetlink.base.wire import schema_pb2 as pb
from duetlink.compute.operations import program as wire
from duetlink.compute.operations.allowed import Allowed
from duetlink.compute.worker import answers
from duetlink.compute.worker.faults import TYPE, Fault, error_name
from duetlink.compute.worker.memory import place
from duetlink.compute.worker.program import ProgramDesk
from duetlink.data import values
from duetlink.errors import DuetError
from tests.remote.refusals import REFUSED, Attempt

SECRET = 4711.25  # in every asset; no words of a failure may hold it

ASSETS: dict[str, Any] = {
    "x": np.array([1.0, 2.0, SECRET, 4.0, 5.0]),
    "frame": pd.DataFrame({"age": [1.0, SECRET, 3.0], "name": ["Ada", "Bob", "4711.25"]}),
    "tensor": torch.tensor([1.0, SECRET, 3.0]),
    "names": pd.Series(["Ada", "4711.25", "Eve"]),
}


@pytest.fixture(scope="module")
def allowed() -> Any:
    return Allowed.installed()


class Bench:
    """A desk as the worker has it, in this process: with the assets as results 1, 2, 3, 4."""

    def __init__(self, allowed: Any) -> None:
        self.desk = ProgramDesk(allowed, TYPE)
        for name, obj in ASSETS.items():
            encoded = values.encode(obj)
            fd = place(encoded.segments, encoded.size_bytes)
            try:
                told = {"name": name, "revision": 1, "size_bytes": encoded.size_bytes}
                self.desk.handle("asset", json.dumps(told).encode(), [fd], lambda *_: None)
            finally:
                os.close(fd)
        assert self.run(*([number, "asset", [name, 1]] for number, name in enumerate(ASSETS, 1))) == []

    def run(self, *steps: list[Any]) -> list[Fault]:
        """What failed."""
        body = values.encode([])
        work = pb.Work(steps=zlib.compress(json.dumps(steps).encode()))
        work.values.add(body=b"".join(body.segments))
        answer, _ = self.desk.handle("run", work.SerializeToString(), (), lambda *_: None)
        return [fault for _, fault in answers.read_batch(answer)[0]]

    def result(self, number: int) -> Any:
        return self.desk._result(number)


@pytest.fixture
def bench(allowed: Any) -> Bench:
    return Bench(allowed)


@pytest.mark.parametrize("attempt", REFUSED, ids=lambda attempt: f"{attempt.category}: {attempt.what}")
def test_it_is_refused(bench: Bench, attempt: Attempt) -> None:
    before = {name: values.encode(bench.result(number)) for number, name in enumerate(ASSETS, 1)}
    (fault,) = bench.run(*attempt.steps)
    assert fault.code != pb.WorkFailure.RAISED  # it was not even tried
    assert fault.words == ""
    for number, name in enumerate(ASSETS, 1):  # and the assets are as they were
        now = values.encode(bench.result(number))
        assert b"".join(now.segments) == b"".join(before[name].segments), name


def test_there_are_enough_of_them() -> None:
    assert len(REFUSED) >= 60


def test_what_is_written_into_ones_own_list_or_array_stays_at_the_owner(bench: Bench) -> None:
    """The original's hole: what one has sent stayed readable after something private was put into it."""
    assert bench.run([10, "value", [0]], [11, ".append", [[10], [1]]]) != []
    assert (
        bench.run([12, "numpy.zeros", [5]], [0, "operator.setitem", [[12], ["s", None, None, None], [1]]])
        == []
    )
    # it is there, and only a request would bring it out; of how many rows it is made is one
    answer, fds = bench.desk.handle(
        "take", json.dumps({"id": 12, "max_bytes": 10_000}).encode(), (), lambda *_: None
    )
    for fd in fds:
        os.close(fd)
    assert json.loads(bytes(answer))["group"] == 1


@pytest.mark.parametrize(
    "step",
    [
        [10, ".__getitem__", [[2], SECRET]],
        [10, "operator.getitem", [[2], "no such column"]],
        [10, ".astype", [[4], ["c", "numpy.float64"]]],
        [10, "pandas.to_numeric", [[4]]],
        [10, "operator.getitem", [[1], 1_000_000]],
        [10, ".loc", [[2]]],
    ],
)
def test_words_of_a_failure_hold_no_value(bench: Bench, step: list[Any]) -> None:
    (fault,) = bench.run(step)
    assert fault.words == ""


def test_a_failed_step_spoils_what_it_was_to_change(bench: Bench) -> None:
    steps = ([10, ".copy", [[1]]], [0, "operator.setitem", [[10], 99, 0.0]], [11, "operator.add", [[10], 1]])
    assert len(bench.run(*steps)) == 2


def test_the_arrays_of_a_tree_are_copies(bench: Bench) -> None:
    """Compiled code walks a tree by these arrays without looking at them again."""
    assert (
        bench.run(
            [10, "sklearn.tree.DecisionTreeRegressor", [], {"random_state": 0}],
            [11, ".reshape", [[1], -1, 1]],
            [0, ".fit", [[10], [11], [1]]],
            [12, "@tree_", [[10]]],
            [13, "@children_left", [[12]]],
            [0, "operator.setitem", [[13], ["s", None, None, None], 1 << 40]],
            [14, ".predict", [[10], [11]]],
        )
        == []
    )
    assert bench.result(13).tolist() == [1 << 40] * 9
    assert bench.result(12).children_left.max() < 9
    assert bench.result(14).tolist() == ASSETS["x"].tolist()


def test_what_is_dropped_of_an_asset_stays(bench: Bench) -> None:
    assert bench.run([0, "drop", [1]], [10, "operator.add", [[1], 1]]) == []


LIMITED = {
    "a huge array": [10, "numpy.zeros", [1 << 50]],
    "a huge repeat": [10, "numpy.repeat", [[1], 1 << 45]],
    "a huge text": [10, "operator.mul", ["x", 1 << 50]],
    "a huge shift": [10, "operator.lshift", [1, 1 << 45]],
}


@pytest.mark.parametrize("name", LIMITED)
def test_a_huge_object_is_a_failure_and_the_worker_goes_on(bench: Bench, name: str) -> None:
    (fault,) = bench.run(LIMITED[name])
    assert error_name(fault.error) in ("Exception", "MemoryError", "OverflowError", "ValueError")
    assert bench.run([11, "operator.add", [[1], 1]]) == []


HOSTILE = {
    "no list": b"{}",
    "no JSON": b"[[",
    "deep": b"[" * 100_000,
    "a number of a million digits": b'[[1,"operator.add",[' + b"9" * 1_000_000 + b",1]]]",
    "steps that are none": b"[1,2,3]",
    "an argument without a tag": b'[[10,"operator.add",[[],1]]]',
    "an unknown tag": b'[[10,"operator.add",[["q",1],1]]]',
    "an argument that is an object": b'[[10,"operator.add",[{"a":1},1]]]',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_batch_is_refused(bench: Bench, name: str) -> None:
    work = pb.Work(steps=zlib.compress(HOSTILE[name]))
    with contextlib.suppress(DuetError):
        answer, _ = bench.desk.handle("run", work.SerializeToString(), (), lambda *_: None)
        assert answers.read_batch(answer)[1]
    assert bench.run([11, "operator.add", [[1], 1]]) == []


def test_a_small_message_that_becomes_large_is_not_inflated() -> None:
    bomb = zlib.compress(b" " * (64 << 20))
    with pytest.raises(Exception, match="over 8,388,608 bytes"):
        wire.inflate(bomb)
