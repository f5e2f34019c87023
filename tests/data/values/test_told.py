"""What a value is, from its own bytes."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from duetlink.data.values import encode, told
from duetlink.testing.values import joined


@pytest.mark.parametrize(
    ("obj", "kind", "detail"),
    [
        (0.5, "float", ""),
        (np.eye(1, 500, 3)[0], "numpy.ndarray", "float64 (500,)"),
        (np.float64(0.5), "numpy.float64", ""),
        ([1, {"a": "x"}], "list", "2 items"),
        (torch.zeros(2, 3), "torch.Tensor", "float32 (2, 3)"),
    ],
)
def test_a_flat_value_is_told(obj: Any, kind: str, detail: str) -> None:
    found = told(bytes(joined(encode(obj))))
    assert found is not None
    assert (found.kind, found.detail) == (kind, detail)


@pytest.mark.parametrize(
    "body",
    [
        bytes(joined(encode(pd.DataFrame({"a": [1]})))),
        bytes(joined(encode([1] * 200))),
        b"",
        b"no value",
    ],
    ids=["a library's", "many parts", "empty", "malformed"],
)
def test_what_only_a_library_can_tell_is_not_told(body: bytes) -> None:
    assert told(body) is None


def test_a_library_that_is_not_here_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    body = bytes(joined(encode(torch.zeros(2))))
    monkeypatch.delitem(sys.modules, "torch")
    assert told(body) is None
