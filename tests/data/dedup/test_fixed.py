from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from duetlink.data.dedup.fixed import chunk_bytes, fixed_count, fixed_sizes


@pytest.mark.parametrize(
    ("size", "row", "sizes"),
    [
        (20_000, 8, [8192, 8192, 3616]),
        (20_000, 24, [8184, 8184, 3632]),
        (16_384, 8192, [8192, 8192]),
        (30_000, 10_000, [5000] * 6),
        (25_000, 10_000, [5000] * 5),
        (20_001, 20_001, [6667, 6667, 6667]),
        (16_387, 16_387, [5463, 5463, 5461]),
        (5, 8, [5]),
    ],
)
def test_chunks_hold_whole_rows_or_equal_parts_of_one(size: int, row: int, sizes: list[int]) -> None:
    assert fixed_sizes(size, row, 8192).tolist() == sizes


@given(st.integers(1, 500_000), st.integers(1, 100_000), st.sampled_from([8192, 16384]))
@example(8192 * 3, 8193, 8192)
def test_chunks_tile_the_array(size: int, row: int, target: int) -> None:
    sizes = fixed_sizes(size, row, target)
    assert sizes.sum() == size
    assert sizes.min() > 0
    assert sizes.max() <= chunk_bytes(row, target) <= target
    assert len(sizes) == fixed_count(size, row, target)


@given(st.integers(1, 300_000), st.integers(1, 20_000), st.integers(0, 20))
def test_an_array_that_grows_keeps_its_cuts(size: int, row: int, rows: int) -> None:
    before, after = fixed_sizes(size, row, 8192).tolist(), fixed_sizes(size + rows * row, row, 8192).tolist()
    assert after[: len(before) - 1] == before[:-1]
