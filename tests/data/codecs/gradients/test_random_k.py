from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetlink.data.codecs import chunk, decode
from duetlink.data.codecs.base import Bound
from duetlink.data.codecs.element import FLOAT32
from duetlink.data.codecs.gradients import RandomK
from duetlink.data.codecs.gradients.random_k import RandomSubset, positions
from duetlink.errors import LocalProtocolError, MalformedChunk, RemoteProtocolError


def test_positions_of_a_seed_stay_what_they_are() -> None:
    """Part of the format: other numbers here would make old chunks decode wrongly."""
    assert positions(100, 6, 1).tolist() == [8, 11, 25, 28, 83, 89]
    assert positions(1 << 40, 3, 2**64 - 1).tolist() == [123223436765, 438856891454, 1092336937641]


@given(st.integers(1, 5000), st.floats(0, 1), st.integers(0, 2**64 - 1))
def test_positions_are_different_sorted_and_in_range(size: int, part: float, seed: int) -> None:
    count = int(part * size)
    found = positions(size, count, seed)
    assert len(found) == count
    assert np.all(np.diff(found) > 0)
    assert count == 0 or (found[0] >= 0 and found[-1] < size)


@pytest.mark.parametrize("size", [5, 37, 1000])
def test_every_position_is_as_likely_as_any_other(size: int) -> None:
    draws, count = 4000, max(1, size // 10)
    counts = np.bincount(
        np.concatenate([positions(size, count, seed) for seed in range(draws)]), minlength=size
    )
    expected = draws * count / size
    # chi-squared over its degrees of freedom is about 1, with a deviation of sqrt(2 / size)
    chi_squared = ((counts - expected) ** 2 / expected).sum() / (size - 1)
    assert abs(chi_squared - 1) < 6 * np.sqrt(2 / size)


def test_pairs_of_positions_are_as_likely_as_others() -> None:
    draws = 6000
    pairs = np.zeros((8, 8))
    for seed in range(draws):
        first, second = positions(8, 2, seed)
        pairs[first, second] += 1
    found = pairs[np.triu_indices(8, 1)]
    expected = draws / 28
    assert ((found - expected) ** 2 / expected).sum() < 27 + 6 * np.sqrt(2 * 27)


def test_a_tenth_of_the_items_is_sent_and_no_position() -> None:
    gradient = np.random.default_rng(0).standard_normal((50, 40)).astype(np.float32)
    data = RandomK(0.1).compress(gradient, "w")
    header = chunk.read_header(memoryview(data))
    assert header.payload_bytes == 8 + 4 * 200
    decoded, _ = decode(data)
    assert np.count_nonzero(decoded) == 200
    assert np.array_equal(decoded[decoded != 0], gradient[decoded != 0])


def test_every_step_sends_others() -> None:
    compressor = RandomK(0.1)
    ones = np.ones(1000, np.float32)
    first, second = (np.flatnonzero(decode(compressor.compress(ones, "w"))[0]) for _ in range(2))
    assert len(np.intersect1d(first, second)) < 40  # 10 are expected, with a deviation of 3


def test_workers_of_one_seed_send_the_same_positions_and_others_do_not() -> None:
    ones = np.ones(1000, np.float32)
    sent = [np.flatnonzero(decode(RandomK(0.1, seed=seed).compress(ones, "w"))[0]) for seed in (3, 3, 4)]
    assert np.array_equal(sent[0], sent[1])
    assert not np.array_equal(sent[0], sent[2])


@pytest.mark.parametrize("density", [0, -0.1, 1.01, float("nan")])
def test_a_density_that_is_none_is_refused(density: float) -> None:
    with pytest.raises(LocalProtocolError, match="density"):
        RandomK(density)


@given(st.binary(max_size=60))
def test_hostile_payloads_are_refused_or_decode_to_the_shape(payload: bytes) -> None:
    data = chunk.frame(RandomSubset(), FLOAT32, (3, 4), Bound(np.inf, np.inf), payload)
    try:
        decoded, _ = decode(data)
    except RemoteProtocolError:
        return
    assert decoded.shape == (3, 4)


def test_more_values_than_items_are_refused() -> None:
    payload = bytes(8 + 4 * 13)
    with pytest.raises(MalformedChunk, match="13 random positions of 12"):
        decode(chunk.frame(RandomSubset(), FLOAT32, (3, 4), Bound(np.inf, np.inf), payload))


def test_a_codec_alone_sends_one_item_in_two_to_the_level() -> None:
    gradient = np.random.default_rng(0).standard_normal(1024).astype(np.float32)
    decoded, header = decode(chunk.encode(gradient, RandomSubset(), 3))
    assert np.count_nonzero(decoded) == 128
    assert not header.bound.lossless
