"""What the room of the mates finds in a program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from duetlink.compute.operations.steps import body
from duetlink.compute.worker.room.mates import MatesHandler, constants_of
from duetlink.data import values


def program(*steps: list[Any], value: object = None) -> body.Body:
    content = b"".join(values.encode(value).segments)
    pieces, _ = body.write(len(steps), body.steps_text(list(steps)), [content], [body.Words("", "")])
    return body.read(memoryview(bytearray(b"".join(pieces))))


@pytest.mark.parametrize(
    "value", [np.array([7, 8]), torch.tensor([7, 8]), pd.Series([7, 8]), [7, 8], (7, 8), {7: 8}], ids=repr
)
def test_constants_are_those_of_the_steps_and_of_small_values(value: object) -> None:
    steps = (
        ["asset", ["x", 3]],
        ["value", [0]],
        ["operator.add", [[1], [2]]],
        [".head", [[3], 5], {"k": "a"}],
    )
    found = constants_of(program(*steps, value=value))
    assert found[:2] == [5, "a"]
    assert {7, 8} >= set(found[2:])
    assert len(found) >= 3


def test_marks_of_lists_and_large_values_are_no_constants() -> None:
    steps = (["value", [0]], ["operator.getitem", [[1], ["t", ["s", 2, None, None], ["c", "numpy.int8"]]]])
    assert constants_of(program(*steps, value=np.arange(50))) == [2]


def test_a_program_is_run_on_each_kind_of_mates() -> None:
    handler = MatesHandler()
    mock = b"".join(values.encode(np.arange(4)).segments)
    handler.take(("x", 3), memoryview(bytearray(mock)))
    told = handler.answers(program(["asset", ["x", 3]], [".sum", [[1]]], ["operator.mod", [[2], 0.5]]))
    assert [fault for fault, _ in told] == [None, None, None]
    failed = handler.answers(program(["asset", ["x", 3]], ["operator.getitem", [[1], 9]]))
    assert [fault[:2] for fault, _ in failed] == [[2, 1], [2, 1], [2, 1]]
