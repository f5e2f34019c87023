"""What a room tells of a program: its result, or why there is none; how far it is; a private statistic."""

from __future__ import annotations

import json
import os
import random
import secrets
import sys
import threading
from typing import Any

import numpy as np
import pytest
import torch

from duetlink.compute.operations.allow_lists.allowed import Allowed, Function
from duetlink.compute.privacy.release import plan
from duetlink.compute.worker.protocol import faults
from duetlink.compute.worker.protocol.faults import Fault
from duetlink.compute.worker.protocol.memory import place
from duetlink.compute.worker.room import program
from duetlink.compute.worker.room.program import ProgramHandler
from duetlink.data import values
from duetlink.errors import OperationFailed, RemoteProtocolError
from duetlink.testing.faults import list_function
from tests.remote.hostile import Room, Sliced, encoded_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a room's memory needs Linux")

COLUMN = np.arange(1_000) / 10
MEAN = {"statistic": '{"kind":"mean","epsilon":1.0}', "bounds": [0, 100], "rows_per_person": 1}


def fault(*steps: Any, max_bytes: int = 1 << 30, **assets: Any) -> Fault | None:
    content, fds = Room(assets, Sliced(len(steps), list(steps))).run(max_bytes)
    for fd in fds:
        os.close(fd)
    told = json.loads(content)
    return Fault.from_list(told["fault"]) if "fault" in told else None


def test_a_fault_has_the_place_where_it_happened_first_and_words_for_the_owner() -> None:
    found = fault(["numpy.zeros", [3]], ["operator.getitem", [[1], 7]], ["operator.add", [[2], 1]])
    assert found == Fault(
        2,
        faults.RAISED,
        faults.error_number(IndexError()),
        "step 2 (operator.getitem) failed on the real data: IndexError: index 7 is out of bounds for axis 0 "
        "with size 3",
    )


def test_a_write_by_way_of_what_was_not_made_ends_the_run() -> None:
    """What it was to change is there all the same, and another result may be looking at it."""
    frame: list[Any] = ["pandas.DataFrame", [["d", "a", ["l", 1, 2]]]]
    way = ["operator.getitem", [[1], "nope"]]  # fails; for a column that is there it is a part of the frame
    write = ["operator.setitem", [[2], 0, 9]]
    found = fault(frame, way, write, [".copy", [[1]]])
    assert found is not None
    assert (found.step, found.code) == (2, faults.RAISED)


def test_a_write_to_what_is_fresh_and_was_not_made_is_passed_over() -> None:
    frame: list[Any] = ["pandas.DataFrame", [["d", "a", ["l", 1, 2]]]]
    fresh = ["operator.add", [[1], ["l", 1]]]  # fails
    write = ["operator.setitem", [[2], 0, 9]]
    assert fault(frame, fresh, write, [".copy", [[1]]]) is None


@pytest.mark.parametrize(
    ("steps", "max_bytes", "step"),
    [
        ([["numpy.ones", [1 << 40]]], 1 << 30, 1),
        ([["torch.ones", [1 << 50]]], 1 << 30, 1),
        ([["numpy.ones", [1 << 40]], ["numpy.ones", [2]]], 1 << 30, 1),  # a limit ends the run
        ([["numpy.zeros", [1_000]]], 1_000, 0),
    ],
)
def test_all_limits_are_one_outcome(steps: list[Any], max_bytes: int, step: int) -> None:
    found = fault(*steps, max_bytes=max_bytes)
    assert found is not None
    assert (found.step, found.code, found.error) == (step, faults.NOT_MADE, 0)


def test_what_is_no_value_cannot_travel() -> None:
    found = fault(["sklearn.svm.SVC", []])
    assert found is not None
    assert (found.step, found.code) == (0, faults.CANNOT_TRAVEL)
    assert found.words.startswith("a SVC cannot travel")


def test_an_asset_that_was_not_given_is_not_there() -> None:
    found = fault(["asset", ["x", 1]])
    assert found is not None
    assert (found.step, found.code) == (1, faults.NOT_SHARED)


def test_gradients_are_recorded_but_where_a_step_says_not() -> None:
    weights: Any = ["torch.ones", [2], {"requires_grad": True}]
    total = ["operator.mul", [[1], 2]]
    for modes, expected in (([], True), ([{}, {"grad": False}], False)):
        room = Room({}, Sliced(2, [weights, [*total, *modes]]))
        assert room.object().requires_grad is expected
        assert torch.is_grad_enabled()


def test_values_of_the_program_are_its_own() -> None:
    room = Room({}, Sliced(3, []))
    steps = [["value", [0]], ["operator.setitem", [[1], 0, 9.0]], ["operator.add", [[1], 0.0]]]
    encoded = values.encode(np.zeros(2))
    room.body = Sliced(3, steps).to_body([b"".join(encoded.segments)])
    assert room.object().tolist() == [9.0, 0.0]


def test_a_room_runs_one_program() -> None:
    room = Room({}, Sliced(1, [["numpy.zeros", [2]]]))
    room.told()
    with pytest.raises(RemoteProtocolError, match="a room runs one program"):
        room.told()


def test_results_are_let_go_after_their_last_use() -> None:
    held: list[int] = []
    lists = Allowed.installed()
    alive = [0]

    class Counted:
        def __init__(self) -> None:
            alive[0] += 1

        def __del__(self) -> None:
            alive[0] -= 1

    def use(*counted: Counted) -> int:
        held.append(alive[0])
        return len(counted)

    list_function(lists, Function("planted.make", lambda: Counted(), "other"))
    list_function(lists, Function("planted.use", use, "other"))
    steps: list[Any] = [
        ["planted.make", []],
        ["planted.make", []],
        ["planted.use", [[1], [2]]],
        ["planted.use", [["l", [1]]]],
        ["planted.make", []],  # which nobody uses
        ["planted.use", []],
    ]
    assert Room({}, Sliced(6, steps), lists).object() == 0
    assert held == [2, 1, 0]


def test_the_owner_hears_at_which_step_a_program_is_also_amid_a_long_one() -> None:
    heard = threading.Event()
    told: list[tuple[str, bytes]] = []

    def emit(name: str, content: bytes) -> None:
        told.append((name, content))
        heard.set()

    lists = Allowed.installed()
    list_function(lists, Function("planted.wait", lambda: heard.wait(30), "other"))
    desk = ProgramHandler(lists)
    content = Sliced(2, [["numpy.zeros", [1]], ["planted.wait", []]]).to_body()
    fd = place([content], len(content))
    asked = {"size_bytes": len(content), "max_bytes": 1_000, "salt": "00"}
    _, fds = desk.handle("run", json.dumps(asked).encode(), [fd], emit)
    for each in (fd, *fds):
        os.close(each)
    assert told == [("progress", b"2")]


# -- private statistics --------------------------------------------------------------------------------------


def column() -> Room:
    return Room({"x": encoded_of(COLUMN)}, Sliced(1, [["asset", ["x", 1]]]))


def released() -> float:
    content, fds = column().release(dict(MEAN))
    body = os.pread(fds[0], 10_000, 0)
    os.close(fds[0])
    assert json.loads(content)["kind"] == "dict"
    found: Any = values.decode(bytearray(body))
    return float(found["value"])


def test_two_releases_of_one_program_have_other_noise() -> None:
    pytest.importorskip("opendp")
    found = {released() for _ in range(8)}
    assert len(found) > 4
    assert all(abs(each - 49.95) < 5 for each in found)


def test_nothing_is_seeded_when_noise_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opendp")
    entropy: Any = sys.modules["numpy.random.bit_generator"]
    seen: list[Any] = []

    class Watched:
        def __init__(self, planned: Any) -> None:
            self._planned = planned

        def release(self, column: Any) -> Any:
            numbers = (random.random(), float(np.random.random()), float(torch.rand(1)))
            seen.append((entropy.randbits == secrets.randbits, numbers))
            return self._planned.release(column)

    def watched(*arguments: Any, **keywords: Any) -> Any:
        return Watched(plan(*arguments, **keywords))

    monkeypatch.setattr(program, "plan", watched)
    released()
    released()
    (patched, first), (also, second) = seen
    assert patched
    assert also
    assert all(one != other for one, other in zip(first, second, strict=True))


def test_a_failure_on_the_way_to_a_private_statistic_has_one_text() -> None:
    pytest.importorskip("opendp")
    steps: list[Any] = [["asset", ["x", 1]], ["operator.getitem", [[1], 5_000]]]
    with pytest.raises(OperationFailed, match=r"^the statistic could not be made$"):
        Room({"x": encoded_of(COLUMN)}, Sliced(2, steps)).release(dict(MEAN))


def test_seeds_end_with_the_program() -> None:
    room = Room({}, Sliced(1, [["torch.rand", [2], {}, {"draw": [3, 0]}]]))
    room.told()
    after = float(torch.rand(1))
    Room({}, Sliced(1, [["torch.rand", [2], {}, {"draw": [3, 0]}]])).told()
    assert float(torch.rand(1)) != after
