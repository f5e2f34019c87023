"""Attempts to get out of what an owner allows, by steps that no pointer would record."""

from __future__ import annotations

import os
import zlib
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from duetlink.base.wire import schema_pb2 as pb
from duetlink.compute.operations.steps import body
from duetlink.compute.worker.protocol import faults
from duetlink.compute.worker.protocol.faults import error_name
from duetlink.data import values
from duetlink.errors import DuetError
from tests.remote.conftest import Bench
from tests.remote.hostile import Attacker, HostileDesk
from tests.remote.refusals import REFUSED, Attempt
from tests.remote.test_requests import until

SECRET = 4711.25  # in every asset

ASSETS: dict[str, Any] = {
    "x": np.array([1.0, 2.0, SECRET, 4.0, 5.0]),
    "frame": pd.DataFrame({"age": [1.0, SECRET, 3.0], "name": ["Ada", "Bob", "4711.25"]}),
    "tensor": torch.tensor([1.0, SECRET, 3.0]),
    "names": pd.Series(["Ada", "4711.25", "Eve"]),
}
OPENED: list[list[Any]] = [[number, "asset", [name, 1]] for number, name in enumerate(ASSETS, 1)]


@pytest.fixture
def desk() -> HostileDesk:
    """With the assets as results 1, 2, 3, 4."""
    desk = HostileDesk(ASSETS)
    desk.run(*OPENED)
    return desk


@pytest.mark.parametrize("attempt", REFUSED, ids=lambda attempt: f"{attempt.category}: {attempt.what}")
def test_it_is_refused(desk: HostileDesk, attempt: Attempt) -> None:
    *before, last = attempt.steps
    assert desk.run(*before) == {}
    (fault,) = desk.run(last).values()
    assert fault.code in (faults.REFUSED, faults.MALFORMED, faults.NOT_SHARED)  # it was not even tried
    for name, obj in ASSETS.items():  # and the assets are as they were
        assert b"".join(desk.assets[name].segments) == b"".join(values.encode(obj).segments), name


def test_there_are_enough_of_them() -> None:
    assert len(REFUSED) >= 60


def test_what_is_written_into_ones_own_list_or_array_stays_at_the_owner(desk: HostileDesk) -> None:
    """The original's hole: what one has sent stayed readable after something private was put into it."""
    assert desk.run([10, "builtins.list", [["l", 1]]], [0, ".append", [[10], [1]]]) != {}
    whole = ["s", None, None, None]
    assert desk.run([12, "numpy.zeros", [5]], [0, "operator.setitem", [[12], whole, [1]]]) == {}
    assert desk.group(12) == 1  # it is there, only a request brings it out, and that shows of whom it is
    assert desk.lineage(12).assets == (("x", 1),)


FAILS: list[list[Any]] = [
    [10, ".__getitem__", [[2], SECRET]],
    [10, "operator.getitem", [[2], "no such column"]],
    [10, ".astype", [[4], ["c", "numpy.float64"]]],
    [10, "pandas.to_numeric", [[4]]],
    [10, "operator.getitem", [[1], 1_000_000]],
    [10, ".loc", [[2]]],
]


@pytest.fixture(scope="module")
def attacker(shared_bench: Bench) -> Attacker:
    for name, obj in ASSETS.items():
        shared_bench.share(obj, name)
    attacker = Attacker(shared_bench.owner, shared_bench.scientist)
    attacker.record(*OPENED)
    return attacker


@pytest.fixture
def unanswered(bench: Bench) -> Bench:
    bench.answer = lambda request: until(lambda: request.state != "pending")
    return bench


@pytest.mark.parametrize("number", range(len(FAILS)))
def test_a_failure_tells_nothing_before_a_click_and_then_no_value(
    unanswered: Bench, attacker: Attacker, number: int
) -> None:
    id_ = 100 + number
    attacker.record([id_, *FAILS[number][1:]])
    answer = attacker.ask(id_, reason="does it fail?")
    assert answer.state == pb.Answer.PENDING
    assert (answer.reason, answer.HasField("offer")) == ("", False)
    request = unanswered.owner.requests[-1]
    assert request.failure
    request.fail("type")
    told = attacker.settled(answer.request_id)
    assert told.state == pb.Answer.FAILED
    assert "4711" not in told.reason.partition("failed on the real data")[2]


def test_a_step_fails_where_what_it_uses_was_not_changed_as_it_was_to_be(desk: HostileDesk) -> None:
    steps = ([10, ".copy", [[1]]], [0, "operator.setitem", [[10], 99, 0.0]], [11, "operator.add", [[10], 1]])
    assert list(desk.run(*steps)) == [1, 2]
    assert desk.run([12, "operator.add", [[1], 1]]) == {}


def test_the_arrays_of_a_tree_are_copies(desk: HostileDesk) -> None:
    """Compiled code walks a tree by these arrays without looking at them again."""
    steps: list[list[Any]] = [
        [10, "sklearn.tree.DecisionTreeRegressor", [], {"random_state": 0}],
        [11, ".reshape", [[1], -1, 1]],
        [0, ".fit", [[10], [11], [1]]],
        [12, "@tree_", [[10]]],
        [13, "@children_left", [[12]]],
        [0, "operator.setitem", [[13], ["s", None, None, None], 1 << 40]],
        [15, "@children_left", [[12]]],
        [14, ".predict", [[10], [11]]],
    ]
    assert desk.run(*steps) == {}
    assert desk.value(13).tolist() == [1 << 40] * 9
    assert desk.value(15).max() < 9
    assert desk.value(14).tolist() == ASSETS["x"].tolist()


LIMITED = {
    "a huge array": [10, "numpy.zeros", [1 << 50]],
    "a huge repeat": [10, "numpy.repeat", [[1], 1 << 45]],
    "a huge text": [10, "operator.mul", ["x", 1 << 50]],
    "a huge shift": [10, "operator.lshift", [1, 1 << 45]],
}


@pytest.mark.parametrize("name", LIMITED)
def test_a_huge_object_is_a_failure(desk: HostileDesk, name: str) -> None:
    (fault,) = desk.run(LIMITED[name]).values()
    if fault.code != faults.NOT_MADE:  # of a limit nothing is told but that
        assert error_name(fault.error) in ("Exception", "OverflowError", "ValueError")
    assert desk.run([11, "operator.add", [[1], 1]]) == {}


HOSTILE = {
    "no list": b"{}",
    "no JSON": b"[[",
    "deep": b"[" * 100_000,
    "a number of a million digits": b'[["operator.add",[' + b"9" * 1_000_000 + b",1]]]",
    "steps that are none": b"[1,2,3]",
    "an argument without a tag": b'[["operator.add",[[],1]]]',
    "an unknown tag": b'[["operator.add",[["q",1],1]]]',
    "an argument that is an object": b'[["operator.add",[{"a":1},1]]]',
}


OURS = ("RemoteProtocolError", "OperationRefused")
IN_THE_ROOM = ("an unknown tag", "an argument that is an object")


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_program_is_refused(unanswered: Bench, attacker: Attacker, name: str) -> None:
    """By whoever reads it, or in the room; the latter is an outcome like others."""
    pieces, _ = body.write(1, HOSTILE[name], [])
    count = len(unanswered.owner.requests)
    number = os.urandom(16)
    ask = pb.Ask(request_id=number, program=pb.ProgramBody(compressed=zlib.compress(b"".join(pieces))))
    if name not in IN_THE_ROOM:
        with pytest.raises(DuetError):
            attacker.call(ask, pb.Answer)
        assert len(unanswered.owner.requests) == count
        return
    assert attacker.call(ask, pb.Answer).state == pb.Answer.PENDING
    attacker.settled(number)
    request = unanswered.owner.requests[-1]
    assert request.failure in (f"{kind} in step 1, operator.add" for kind in OURS)
    request.deny()


def test_a_small_message_that_becomes_large_is_not_inflated(attacker: Attacker) -> None:
    bomb = pb.ProgramBody(compressed=zlib.compress(b" " * (64 << 20)))
    with pytest.raises(DuetError, match="over 262,144 bytes"):
        attacker.call(pb.Ask(request_id=b"0123456789abcdef", program=bomb), pb.Answer)
