"""Attempts to get out of what an owner allows, by steps that no pointer would record."""

from __future__ import annotations

import json
import os
import zlib
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from duetlink.compute.operations import program as wire
from duetlink.compute.worker import answers, faults
from duetlink.compute.worker.faults import TYPE, Fault, error_name
from duetlink.data import values
from tests.remote.hostile import Room, Step, numbered
from tests.remote.refusals import REFUSED, Attempt

SECRET = 4711.25  # in every asset; no words of a failure may hold it

ASSETS: dict[str, Any] = {
    "x": np.array([1.0, 2.0, SECRET, 4.0, 5.0]),
    "frame": pd.DataFrame({"age": [1.0, SECRET, 3.0], "name": ["Ada", "Bob", "4711.25"]}),
    "tensor": torch.tensor([1.0, SECRET, 3.0]),
    "names": pd.Series(["Ada", "4711.25", "Eve"]),
}


class Bench:
    """Steps, with the assets as results 1, 2, 3, 4. All of them are run, each time in a fresh room."""

    def __init__(self) -> None:
        self.assets = {name: values.encode(obj) for name, obj in ASSETS.items()}
        self.steps: list[Step] = [[number, "asset", [name, 1]] for number, name in enumerate(ASSETS, 1)]

    def run(self, *steps: Step) -> list[Fault]:
        """What failed."""
        found = []
        for step in steps:
            self.steps.append(step)
            reply = self.room().run()
            fault = answers.read_result(*reply)
            if isinstance(fault, Fault) and fault.step == len(self.steps):
                found.append(fault)
        return found

    def room(self, result: int = 0) -> Room:
        """One with a result as its target, or the last step."""
        steps = self.steps if result else [*self.steps[:-1], [1 << 40, *self.steps[-1][1:]]]
        sliced = numbered(steps, result or 1 << 40)
        room = Room(self.assets, sliced)
        room.body = sliced.to_body([b"".join(values.encode([]).segments)])
        return room

    def result(self, number: int) -> Any:
        return self.room(number).object()


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize("attempt", REFUSED, ids=lambda attempt: f"{attempt.category}: {attempt.what}")
def test_it_is_refused(bench: Bench, attempt: Attempt) -> None:
    (fault,) = bench.run(*attempt.steps)
    assert fault.code != faults.RAISED  # it was not even tried
    assert str(SECRET) not in fault.words
    room = bench.room()
    room.told()
    for name in ASSETS:  # and the assets are as they were
        assert bytes(room.desk._assets[name, 1]) == b"".join(bench.assets[name].segments), name


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
    content, fds = bench.room(12).run()
    for fd in fds:
        os.close(fd)
    assert json.loads(content)["group"] == 1


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
    assert fault.told(TYPE).words == ""


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


LIMITED = {
    "a huge array": [10, "numpy.zeros", [1 << 50]],
    "a huge repeat": [10, "numpy.repeat", [[1], 1 << 45]],
    "a huge text": [10, "operator.mul", ["x", 1 << 50]],
    "a huge shift": [10, "operator.lshift", [1, 1 << 45]],
}


@pytest.mark.parametrize("name", LIMITED)
def test_a_huge_object_is_a_failure(bench: Bench, name: str) -> None:
    (fault,) = bench.run(LIMITED[name])
    assert fault.code == faults.NOT_MADE or error_name(fault.error) in ("OverflowError", "ValueError")


def test_a_small_message_that_becomes_large_is_not_inflated() -> None:
    bomb = zlib.compress(b" " * (64 << 20))
    with pytest.raises(Exception, match="over 8,388,608 bytes"):
        wire.inflate(bomb)
