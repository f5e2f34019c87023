"""The memory of results: used again when nobody can see it any more, and not before."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from duetlink.groups.collectives.values.result_memory import ResultMemory

LEAST, MOST = 1024 * 1024, 64 * 1024 * 1024


def given(size_bytes: int) -> np.ndarray:
    return np.ones(size_bytes // 8)


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("size_bytes", [LEAST, MOST])
def test_memory_of_a_dropped_result_is_that_of_the_next_one_of_its_size(size_bytes: int) -> None:
    empty_like, value = ResultMemory(), given(size_bytes)
    first, second = empty_like(value), empty_like(value)
    assert first.shape == value.shape
    assert first.dtype == value.dtype
    assert first.flags.writeable
    assert not np.shares_memory(first, second)
    place = address(first)
    del first
    third = empty_like(value)
    assert address(third) == place
    assert not np.shares_memory(third, second)


@pytest.mark.parametrize(
    "view",
    [
        lambda result: result[3:5],
        lambda result: result.reshape(2, -1).T,
        lambda result: result.view(np.uint8)[::2],
        lambda result: np.asarray(result.data),
        lambda result: np.frombuffer(result, np.int64),
        torch.from_numpy,
    ],
)
def test_memory_that_a_view_shows_is_not_used_again(view: Callable[[np.ndarray], Any]) -> None:
    empty_like, value = ResultMemory(), given(LEAST)
    result = empty_like(value)
    result[...] = 7.0
    shown = view(result)
    before = shown.tolist()
    del result
    gc.collect()
    later = [empty_like(value) for _ in range(3)]
    for each in later:
        each[...] = 8.0
    assert shown.tolist() == before


def test_a_result_of_another_size_frees_the_spare_memory() -> None:
    empty_like, value = ResultMemory(), given(LEAST)
    empty_like(value)
    larger = empty_like(given(2 * LEAST))
    assert len(larger) == 2 * LEAST // 8
    assert not np.shares_memory(empty_like(value), larger)


@pytest.mark.parametrize("size_bytes", [LEAST - 8, MOST + 8])
def test_small_and_very_large_results_have_memory_of_their_own(size_bytes: int) -> None:
    assert ResultMemory()(given(size_bytes)).flags.owndata
