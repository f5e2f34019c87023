"""Runs and blocks: a body is covered, once, by items of one kind each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetlink.data.values import encode
from duetlink.data.values.base import Part
from duetlink.errors import AssetChanged
from duetlink.net.flight.body import Outgoing
from duetlink.net.flight.fingerprint import LEAF_BYTES
from duetlink.net.flight.layout import Run, blocks, runs


def shown(parts: list[Part], size_bytes: int) -> list[tuple[int, int, str]]:
    return [(run.start_bytes, run.end_bytes, run.element.name) for run in runs(parts, size_bytes)]


def test_arrays_are_runs_and_the_rest_is_bytes() -> None:
    parts = [Part(128, 80_000, "float32", 4), Part(80_128, 81_920, "float64", 8)]
    assert shown(parts, 162_100) == [
        (0, 128, "uint8"),
        (128, 80_128, "float32"),
        (80_128, 162_048, "float64"),
        (162_048, 162_100, "uint8"),
    ]


def test_neighbours_of_one_element_are_one_run_with_the_zeros_between_them() -> None:
    parts = [Part(64, 9100, "float32", 4), Part(9216, 9216, "float32", 4)]
    assert shown(parts, 18_432) == [(0, 64, "uint8"), (64, 18_432, "float32")]


def test_small_arrays_are_bytes() -> None:
    parts = [Part(64, 4000, "float32", 4), Part(4096, 16_384, "int64", 8), Part(20_480, 40, "bool", 1)]
    assert shown(parts, 20_520) == [(0, 4096, "uint8"), (4096, 20_480, "int64"), (20_480, 20_520, "uint8")]


def test_a_body_without_arrays_is_one_run() -> None:
    assert shown([], 10) == [(0, 10, "uint8")]
    assert shown([], 0) == []


def test_the_columns_of_an_array_are_found_in_its_encoding() -> None:
    encoded = encode({"a": np.zeros((100, 30), "f4"), "b": np.zeros(1000, "<i8"), "c": "text"})
    assert [(part.size_bytes, part.element, part.row_bytes) for part in encoded.parts] == [
        (12_000, "float32", 120),
        (8000, "int64", 8),
    ]


@given(
    st.lists(st.tuples(st.integers(0, 9000), st.sampled_from(["uint8", "float32", "float64"])), max_size=6),
    st.integers(0, 60_000),
    st.integers(0, 60_000),
    st.sampled_from([64, 4096, 16_384]),
)
def test_blocks_tile_what_is_asked_for(
    arrays: list[tuple[int, str]], start: int, end: int, leaf_bytes: int
) -> None:
    parts, position = [], 100
    for items, element in arrays:
        position += -position % 64
        size_bytes = items * np.dtype(element).itemsize
        parts.append(Part(position, size_bytes, element, 1))
        position += size_bytes
    start, end = min(start, position), min(end, position)
    found = list(blocks(runs(parts, position), start, end, leaf_bytes))
    assert [block.start_bytes for block in found[1:]] == [block.end_bytes for block in found[:-1]]
    if start < end:
        assert (found[0].start_bytes, found[-1].end_bytes) == (start, end)
    for block in found:
        assert block.start_bytes // leaf_bytes == (block.end_bytes - 1) // leaf_bytes
        assert (block.end_bytes - block.start_bytes) % block.element.size_bytes == 0
        if block.element.name != "uint8":  # items begin where the array's items begin
            home = next(part for part in parts if part.start_bytes <= block.start_bytes)
            assert (block.start_bytes - home.start_bytes) % 4 == 0


def test_an_array_of_a_body_is_its_own_memory() -> None:
    array = np.arange(100_000, dtype="<f8")
    encoded = encode(array)
    body = Outgoing(encoded.segments, encoded.size_bytes, encoded.parts)
    (run,) = [run for run in body.runs if run.element.name == "float64"]
    assert np.shares_memory(body.array(run), array)
    assert np.array_equal(body.array(run), array)


def test_blocks_stop_where_the_content_has_changed() -> None:
    array = np.zeros(3 * LEAF_BYTES, np.uint8)
    body = Outgoing([array.data], array.nbytes)
    array[2 * LEAF_BYTES] = 1
    given_out: list[Run] = []
    with pytest.raises(AssetChanged):
        given_out.extend(body.blocks(body.whole))
    assert given_out[-1].end_bytes == 2 * LEAF_BYTES
