from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from duetlink.compute.operations.steps import kinds
from duetlink.compute.operations.steps.effects import worst_effect
from duetlink.compute.operations.steps.kinds import kind_by_name
from tests.compute.operations.programs import resolved

KINDS = {
    ".mean": kinds.FRESH,
    ".clone": kinds.FRESH,
    "operator.add": kinds.FRESH,
    "torch.nn.functional.linear": kinds.FRESH,
    "operator.getitem": kinds.PART,
    ".view": kinds.SHARES,
    ".float": kinds.SHARES,
    "@grad": kinds.SHARES,
    "torch.nn.functional.dropout": kinds.SHARES,
    ".backward": kinds.BACK,
    ".add_": kinds.CHANGES_FIRST,
    "@=grad": kinds.CHANGES_FIRST,
    ".fit": kinds.CHANGES_FIRST,
    ".step": kinds.CHANGES_FIRST,
    "operator.setitem": kinds.CHANGES_ALL,
    "torch.nn.functional.batch_norm": kinds.CHANGES_ALL,
    "os.system": kinds.CHANGES_ALL,
    "torch.manual_seed": kinds.EVERYWHERE,
}


def test_kinds_by_the_lists() -> None:
    assert {operation: kind_by_name(operation, worst_effect) for operation in KINDS} == KINDS


def examples(torch: Any) -> dict[str, tuple[Any, ...]]:
    x, y, image = torch.ones(3, 3), torch.ones(3), torch.ones(1, 1, 3, 3)
    a, b = np.ones((3, 3)), np.ones(3)
    return {
        "operator.matmul": (a, b),
        "numpy.matmul": (a, a),
        "numpy.dot": (a, b),
        "numpy.concatenate": ([a],),
        "numpy.stack": ([a],),
        "torch.matmul": (x, x),
        "torch.mm": (x, x),
        "torch.bmm": (x[None], x[None]),
        "torch.mv": (x, y),
        "torch.addmm": (x, x, x),
        "torch.cat": ([x],),
        "torch.stack": ([x],),
        "torch.softmax": (x, 0),
        "torch.log_softmax": (x, 0),
        "torch.nn.functional.linear": (x, torch.eye(3)),
        "torch.nn.functional.conv1d": (x[None], torch.ones(3, 1, 1), None, 1, 0, 1, 3),
        "torch.nn.functional.conv2d": (image, torch.ones(1, 1, 1, 1)),
        "torch.nn.functional.embedding": (torch.arange(3), x),
        "torch.nn.functional.layer_norm": (x, (3,)),
        "torch.nn.functional.max_pool2d": (image, 1),
        "torch.nn.functional.avg_pool2d": (image, 1),
        "torch.nn.functional.softmax": (x, 0),
        "torch.nn.functional.log_softmax": (x, 0),
        ".matmul": (x, x),
        ".mm": (x, x),
        ".bmm": (x[None], x[None]),
        ".mv": (x, y),
        ".softmax": (x, 0),
        ".log_softmax": (x, 0),
    }


def test_new_arrays_share_no_memory() -> None:
    torch = pytest.importorskip("torch")
    tried = examples(torch)
    assert tried.keys() == kinds.NEW_ARRAYS
    for operation, arguments in tried.items():
        call: Callable[..., Any] = resolved(operation)
        result = call(*arguments)
        for argument in arguments:
            for part in argument if isinstance(argument, list) else [argument]:
                if isinstance(part, np.ndarray):
                    assert not np.shares_memory(part, result), operation
                elif isinstance(part, torch.Tensor):
                    assert part.untyped_storage().data_ptr() != result.untyped_storage().data_ptr(), operation


@pytest.mark.parametrize(
    ("keywords", "expected"),
    [
        ({}, False),
        ({"out": None}, False),
        ({"inplace": False}, False),
        ({"inplace": 1}, True),
        ({"out": [0]}, True),
    ],
)
def test_keywords_that_write(keywords: dict[str, Any], expected: bool) -> None:
    assert kinds.writes(keywords) is expected


def test_what_makes_parameters() -> None:
    assert kinds.teaches("torch.nn.Linear", {})
    assert kinds.teaches("torch.zeros", {"requires_grad": True})
    assert kinds.teaches(".requires_grad_", {})
    assert not kinds.teaches("torch.nn.functional.linear", {"weight": [0]})
