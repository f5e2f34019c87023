from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.data.dedup import Run, Segment, cut, default_target, name_chunks
from duetlink.data.dedup.layout import MAX_CHUNKS, MAX_RUNS, MAX_TARGET_BYTES, layout
from duetlink.errors import LocalProtocolError
from tests.data.dedup.bodies import KEY, pack

TARGET = 8192


def test_padding_belongs_to_the_array_before_it() -> None:
    segments = [Segment(320, 20_000, 8), Segment(20_352, 20_000, 4)]
    assert layout(40_352, segments, TARGET) == [Run(320, 0), Run(20_032, 8), Run(20_000, 4)]


def test_small_arrays_and_byte_segments_share_a_stream() -> None:
    segments = [Segment(64, 100, 8), Segment(192, 50_000, 0), Segment(50_240, 16_000, 8)]
    assert layout(70_000, segments, TARGET) == [Run(70_000, 0)]


def test_an_empty_body_has_no_chunks() -> None:
    cuts = cut(b"", [])
    assert (cuts.runs, cuts.ends, name_chunks(b"", cuts, KEY)) == ((), [], [])


@pytest.mark.parametrize(
    "segments",
    [
        [Segment(0, 50_000, 8), Segment(40_000, 20_000, 8)],
        [Segment(50_000, 20_000, 8), Segment(0, 20_000, 8)],
        [Segment(90_000, 20_000, 8)],
    ],
    ids=["overlap", "order", "beyond"],
)
def test_segments_lie_in_the_body_one_after_the_other(segments: list[Segment]) -> None:
    with pytest.raises(LocalProtocolError, match="segments"):
        cut(bytes(100_000), segments)


@pytest.mark.parametrize("target", [4096, 10_000, 32 << 20])
def test_a_target_is_a_power_of_two_within_limits(target: int) -> None:
    with pytest.raises(LocalProtocolError, match="power of two"):
        cut(b"x", [], target)


@pytest.mark.parametrize(
    ("body_bytes", "arrays", "target"),
    [
        (0, 0, 8 << 10),
        (1 << 20, 0, 8 << 10),
        (64 << 20, 1, 16 << 10),
        (64 << 20, 100, 8 << 10),
        (1 << 30, 1, 64 << 10),
        (1 << 40, 1, 16 << 20),
    ],
)
def test_the_target_grows_with_the_body(body_bytes: int, arrays: int, target: int) -> None:
    assert default_target(body_bytes, [Segment(0, 1 << 19, 8)] * arrays) == target


@given(st.integers(0, 1 << 40))
def test_runs_and_chunks_of_any_body_stay_within_their_limits(body_bytes: int) -> None:
    target = default_target(body_bytes, [])
    assert target <= MAX_TARGET_BYTES
    assert body_bytes // (2 * target) * 2 + 1 <= MAX_RUNS + 1  # arrays of the least size, a gap before each
    assert body_bytes // (target // 4) + MAX_RUNS <= MAX_CHUNKS  # every byte a candidate


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9000), st.sampled_from([(), (3,), (900,), (2500,)])), max_size=6),
    st.integers(100, 50_000),
)
def test_chunks_tile_any_body_whatever_its_pieces(
    shapes: list[tuple[int, tuple[int, ...]]], piece_bytes: int
) -> None:
    arrays = [np.ones((min(rows, 300) if rest else rows, *rest), np.float32) for rows, rest in shapes]
    body, segments, _ = pack(*arrays)
    cuts = cut(body, segments)
    assert [0, *cuts.ends][-1] == cuts.body_bytes == body.nbytes
    assert (cuts.sizes_bytes > 0).all()
    pieces = [body[start : start + piece_bytes] for start in range(0, body.nbytes, piece_bytes)]
    assert cut(pieces, segments).ends == cuts.ends
    assert name_chunks(pieces, cuts, KEY) == name_chunks(body, cuts, KEY)


def test_names_are_keyed() -> None:
    cuts = cut(b"content", [])
    (ours,) = name_chunks(b"content", cuts, KEY)
    assert len(ours) == 16
    assert ours != name_chunks(b"content", cuts, b"another secret...")[0]


@pytest.mark.parametrize("key", [b"", b"short", bytes(65)])
def test_a_key_is_neither_short_nor_left_out(key: bytes) -> None:
    with pytest.raises(LocalProtocolError, match="16 to 64"):
        name_chunks(b"content", cut(b"content", []), key)
