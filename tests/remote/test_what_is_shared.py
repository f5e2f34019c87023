"""Objects that are shared never change: what a step writes into one that it should only read is lost."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.signal

from duetlink import errors
from duetlink.compute.operations.allow_lists.allowed import Allowed, Function
from duetlink.data import values
from duetlink.data.values import body as layout
from duetlink.data.values import schema_pb2 as wire
from duetlink.data.values.base import MAX_NODES
from duetlink.testing.faults import list_function, mapped_assets
from duetlink.testing.values import joined
from tests.data.values.test_contract import (
    TestArrow,
    TestBuiltins,
    TestNumpy,
    TestPandas,
    TestPolars,
    TestTorch,
)
from tests.remote.conftest import Bench
from tests.remote.hostile import Room, Sliced
from tests.remote.test_frozen_values import told

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a room's memory needs Linux")


def kinds_of(encoded: values.Encoded) -> Iterator[str]:
    """All kinds of nodes that a value is made of."""
    header, _ = layout.split(memoryview(bytes(joined(encoded))), MAX_NODES)
    for node in header.nodes:
        yield wire.Node.FromString(node).WhichOneof("kind") or ""


SAMPLES: dict[str, Any] = {}  # by kind of node, an object that has one
for contract in (TestBuiltins, TestNumpy, TestTorch, TestArrow, TestPolars, TestPandas):
    for sample in contract().samples().values():
        for each in kinds_of(values.encode(sample)):
            SAMPLES.setdefault(each, sample)
# `foreign` is what other packages make of other kinds
KINDS = [
    field.name for field in wire.Node.DESCRIPTOR.oneofs_by_name["kind"].fields if field.name != "foreign"
]
del TestArrow, TestBuiltins, TestNumpy, TestPandas, TestPolars, TestTorch  # or pytest would run them here

X: list[Any] = ["asset", ["x", 1]]
OF_X = Sliced(1, [X])


class Planted:
    """Functions of which the lists say that they only read, and which write."""

    def __init__(self) -> None:
        self.lists = Allowed.installed()
        self.room: Room | None = None  # the one that is at work
        for function in (self.spoil, self.both, self.halve, self.reads_only):
            name = f"planted.{function.__name__}"
            list_function(self.lists, Function(name, function, "other"))

    def spoil(self, obj: Any) -> float:
        """Write into an object, and into all memory that it was decoded from."""
        assert self.room is not None
        memory = mapped_assets(self.room.desk)["x", 1]
        memory[:] = bytes(255 - byte for byte in memory)
        if hasattr(obj, "clear"):
            obj.clear()
        return 1.5

    def both(self, one: Any, other: Any) -> Any:
        return one, other

    def halve(self, arrays: Any) -> Any:
        """As `sweep_poly` does it, and whatever the arrays are in."""
        for array in arrays if isinstance(arrays, list | tuple) else [arrays]:
            array *= 0.5
        return arrays

    def reads_only(self, array: Any) -> float:
        """As Cython does it where it forgets to say that it only reads."""
        if not array.flags.writeable:
            raise ValueError("buffer source array is read-only")
        return float(array.sum())


@pytest.fixture(scope="module")
def planted() -> Planted:
    return Planted()


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_step_writes_into_an_object_reaches_no_later_program(kind: str, planted: Planted) -> None:
    encoded = values.encode(SAMPLES[kind])
    alone = Room({"x": encoded}, OF_X, planted.lists).told()
    program = Sliced(3, [X, ["planted.spoil", [[1]]], ["planted.both", [[2], [1]]]])
    planted.room = Room({"x": encoded}, program, planted.lists)
    whole = planted.room.told()
    assert Room({"x": encoded}, OF_X, planted.lists).told() == alone
    planted.room = Room({"x": encoded}, program, planted.lists, again=["x"])
    frozen = planted.room.begin(2)
    assert told(planted.room.end()) == whole
    if frozen is not None:  # what was spoilt is nothing that anybody sees
        later = Room({"x": encoded}, program, planted.lists)
        later._handle("frozen", {"size_bytes": frozen[1], "state": frozen[2], "steps": 2}, frozen[0])
        assert later.told() == whole


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_is_frozen_where_the_object_is_as_it_was(kind: str, planted: Planted) -> None:
    program = Sliced(3, [X, ["operator.add", [1.0, 0.5]], ["planted.both", [[2], [1]]]])
    room = Room({"x": SAMPLES[kind]}, program, planted.lists, again=["x"])
    frozen = room.begin(2)
    told(room.end())
    assert frozen is not None
    os.close(frozen[0])


# -- arrays --------------------------------------------------------------------------------------------------

ARRAYS: dict[str, Any] = {
    "an array": np.arange(6.0),
    "a scalar": np.array(3.0),
    "in Fortran's order": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "in a list": [np.arange(3.0), np.arange(4.0)],
    "in a tuple": (np.arange(3.0), np.arange(4.0)),
}


def made(asset: Any, planted: Planted, *steps: Any) -> Any:
    """What the last step makes."""
    return Room({"x": asset}, Sliced(len(steps) + 1, [X, *steps]), planted.lists).object()


@pytest.mark.parametrize("asset", ARRAYS.values(), ids=ARRAYS)
def test_a_step_that_should_only_read_writes_into_a_copy(asset: Any, planted: Planted) -> None:
    halves, after = made(asset, planted, ["planted.halve", [[1]]], ["planted.both", [[2], [1]]])
    items = list if isinstance(asset, list | tuple) else lambda array: [array]
    for half, one, was in zip(items(halves), items(after), items(asset), strict=True):
        np.testing.assert_array_equal(half, was * 0.5)
        np.testing.assert_array_equal(one, was)


def test_one_that_insists_on_what_it_could_write_to_gets_a_copy(planted: Planted) -> None:
    assert made(np.arange(4.0), planted, ["planted.reads_only", [[1]]]) == 6.0


def test_what_is_made_of_an_object_can_be_written_to_by_steps_that_say_so(planted: Planted) -> None:
    steps = (
        ["operator.getitem", [[1], ["s", 0, 2, None]]],
        ["numpy.split", [[1], 2]],
        ["operator.getitem", [[3], 1]],
        ["operator.setitem", [[2], 0, 7.0]],
        ["operator.setitem", [[4], 0, 8.0]],
        ["operator.add", [[1], 0.0]],
    )
    assert made(np.arange(4.0), planted, *steps).tolist() == [7.0, 1.0, 8.0, 3.0]


def test_angles_of_a_swept_signal_stay_what_they_are(bench: Bench) -> None:
    times, angles = np.linspace(0, 1, 5), np.array([0.0, 30, 60, 90, 180])
    x = bench.share(angles, "angles", mock=np.ones(5))

    def sweep(phases: Any) -> Any:
        return scipy.signal.sweep_poly(times, [2.0, 1.0], phi=phases)  # which scales phi in place

    with pytest.raises(errors.OperationRefused, match=r"'angles' is its owner's.*\.copy\(\)"):
        sweep(x)
    alone = sweep(x.copy()).get(reason="swept")
    np.testing.assert_allclose(alone, sweep(angles.copy()))
    assert (x + 0.0).get(reason="as it was").tolist() == [0, 30, 60, 90, 180]
    np.testing.assert_array_equal(sweep(x.copy()).get(reason="swept again"), alone)
