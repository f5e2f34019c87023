"""Steps that a result does not show: they do not run, so whatever they would have done is not done.

Each attack stands beside a control, in which its hidden step is in the run and does its work.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

from duetlink.compute.operations.allow_lists.allowed import ELEMENTWISE, Allowed, Function
from duetlink.compute.operations.steps.effects import worst_effect
from duetlink.testing.faults import list_function
from tests.remote.hostile import (
    HostileDesk,
    Room,
    Sliced,
    Step,
    encoded_of,
    numbered,
    secrets,
    slice_of,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a room's memory needs Linux")

X, FRAME, SMALL = [1], [2], [3]
OPENED: list[Step] = [[1, "asset", ["x", 1]], [2, "asset", ["frame", 1]], [3, "asset", ["small", 1]]]
LABELS = ["l", 0, 1, 2, 0, 1, 2]
POINTS = ["l", *(["l", float(i)] for i in range(6))]

# what is asked for is result 30
ATTACKS: dict[str, list[Step]] = {
    "the kernel of a Gaussian process is set": [
        [10, "sklearn.gaussian_process.kernels.RBF", [["l", 1.0, 1.0, 1.0, 1.0]]],
        [11, "sklearn.gaussian_process.GaussianProcessRegressor", [[10]], {"optimizer": None}],
        [12, "numpy.full", [["t", 1, 4], 100.0]],
        [0, ".fit", [[11], [12], ["l", 1.0]]],
        [13, "operator.truediv", [X, 100.0]],
        [0, ".log_marginal_likelihood", [[11], [13]], {"clone_kernel": False}],
        [14, "numpy.eye", [4]],
        [15, ".predict", [[11], [14]], {"return_cov": True}],
        [30, "operator.getitem", [[15], 1]],
    ],
    "a generator is used up by a sample of a frame": [
        [10, "numpy.random.default_rng", [3]],
        [11, ".sample", [FRAME], {"n": SMALL, "random_state": [10]}],
        [30, ".random", [[10]]],
    ],
    "the generator that all share is drawn from by a prediction": [
        [10, "sklearn.dummy.DummyClassifier", [], {"strategy": "uniform"}],
        [0, ".fit", [[10], POINTS, LABELS]],
        [11, "numpy.ones", [["t", SMALL, 1]]],
        [12, ".predict", [[10], [11]]],
        [30, "sklearn.utils.shuffle", [["l", *range(12)]]],
    ],
}


def assets(number: int) -> dict[str, Any]:
    found = secrets(number)
    return {"x": found["x"], "frame": found["frame"], "small": 1 + 2 * number}


def told(name: str, number: int, *, whole: bool) -> bytes:
    desk = HostileDesk(assets(number))
    desk.run(*OPENED, *ATTACKS[name])
    sliced = desk.whole(30) if whole else desk.sliced(30)
    if whole:  # the generators go on, as they did in a process that all steps shared
        for step in sliced.steps[len(OPENED) :]:
            del step[3:]
    return Room(desk.assets, sliced).told()


@pytest.mark.parametrize("name", ATTACKS)
def test_a_hidden_step_does_not_run(name: str) -> None:
    assert told(name, 0, whole=False) == told(name, 1, whole=False)
    assert not told(name, 0, whole=False).startswith(b'{"fault"')


@pytest.mark.parametrize("name", ATTACKS)
def test_where_it_runs_the_attack_works(name: str) -> None:
    assert told(name, 0, whole=True) != told(name, 1, whole=True)


ARRAYS: list[Step] = [[10 + i, "numpy.zeros", [1]] for i in range(6)]
PICK: Step = [20, "operator.getitem", [["l", *([10 + i] for i in range(6))], [1]]]
FILLS: list[Step] = [[0, ".fill", [[10 + i], "no number"]] for i in range(6)]  # fail, whatever the data


def place_of_failure(secret: int) -> int:
    desk = HostileDesk({"small": secret})
    desk.run([1, "asset", ["small", 1]], *ARRAYS, PICK, *FILLS, [30, "operator.add", [[20], 1]])
    return desk.no_result(30).step


def test_the_place_of_a_failure_does_not_tell_what_a_private_number_picked() -> None:
    """It would, if a run went on after a failed write until it needs what the number has picked."""
    assert [place_of_failure(secret) for secret in range(6)] == [9] * 6


# -- functions that do more than any list says ---------------------------------------------------------------

_GLOBAL: list[float] = []


def write_into_a_global(x: Any) -> float:
    _GLOBAL.append(float(x[0]))
    return 0.0


def read_the_global() -> float:
    return _GLOBAL[-1] if _GLOBAL else -1.0


def write_into_an_argument(own: Any, x: Any) -> float:
    own[...] = x
    return 0.0


def use_up_a_generator(generator: Any, count: int) -> float:
    generator.random(count)
    return 0.0


def same(own: Any) -> Any:
    return own[:]


PLANTED: dict[str, Callable[..., Any]] = {
    f"planted.{function.__name__}": function
    for function in (write_into_a_global, read_the_global, write_into_an_argument, use_up_a_generator, same)
}


@pytest.fixture(scope="module")
def lists() -> Allowed:
    """The real ones, and with them functions that are listed as if they made something new."""
    found = Allowed.installed()
    for name, call in PLANTED.items():
        list_function(found, Function(name, call, "other"))
    return found


def effects(operation: str) -> str:
    return ELEMENTWISE if operation in PLANTED else worst_effect(operation)


HIDDEN: dict[str, list[Step]] = {
    "an argument": [
        [10, "numpy.zeros", [4]],
        [11, "planted.write_into_an_argument", [[10], X]],
        [30, "operator.add", [[10], 0.0]],
    ],
    "the memory of a view": [
        [10, "numpy.zeros", [4]],
        [11, "planted.same", [[10]]],
        [0, "operator.setitem", [[11], ["e"], X]],
        [30, "operator.add", [[10], 0.0]],
    ],
    "a generator": [
        [10, "numpy.random.default_rng", [3]],
        [11, "planted.use_up_a_generator", [[10], SMALL]],
        [30, ".random", [[10]]],
    ],
}


@pytest.mark.parametrize("name", HIDDEN)
def test_what_a_wrongly_listed_function_writes_gets_nowhere(name: str, lists: Allowed) -> None:
    steps = [*OPENED, *HIDDEN[name]]
    alone, whole = [], []
    for number in (0, 1):
        whole.append(Room(assets(number), numbered(steps, 30), lists).told())
        sliced = slice_of(steps, 30, effects)
        assert sliced.assets == set()
        alone.append(Room(assets(number), sliced, lists).told())
    # an array is written to by no step that does not say so, even where it runs
    assert (whole[0] == whole[1]) is (name == "an argument")
    assert alone[0] == alone[1]
    assert not alone[0].startswith(b'{"fault"')


def in_a_process(run: Callable[[], bytes]) -> bytes:
    """What a process that is forked for it makes, as a room is."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.write(writing, run())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        made = pipe.read()
    os.waitpid(pid, 0)
    return made


def test_what_is_written_into_a_global_stays_in_its_room(lists: Allowed) -> None:
    shared = {"x": encoded_of(secrets()["x"])}
    write = Sliced(2, [["asset", ["x", 1]], ["planted.write_into_a_global", [[1]]]])
    read = Sliced(1, [["planted.read_the_global", []]])

    def room(sliced: Sliced) -> bytes:
        return Room(shared, sliced, lists).told()

    before = in_a_process(lambda: room(read))
    assert not before.startswith(b'{"fault"')
    assert in_a_process(lambda: room(write)) != b""
    assert in_a_process(lambda: room(read)) == before
    assert in_a_process(lambda: (room(write), room(read))[1]) != before  # were they one process
