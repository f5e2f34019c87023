"""Numbers that were decimals travel as integers; all others come back bit for bit, too."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import datasets

from duetlink.data.codecs import chunk, named
from duetlink.data.codecs.base import LOSSLESS
from duetlink.data.codecs.decimals import Decimals
from duetlink.data.codecs.element import BY_NAME
from duetlink.errors import MalformedChunk

CODEC = Decimals()
FLOAT64, FLOAT32 = BY_NAME["float64"], BY_NAME["float32"]


def random() -> np.random.Generator:
    """Made anew: what a test draws must not depend on those before it."""
    return np.random.default_rng(7)


PRICES = np.round(random().normal(50, 20, 1 << 17), 2)
AS_IT_IS, DECIMALS = 0, 1


def form_of(array: np.ndarray) -> int:
    return CODEC.encode(array, BY_NAME[array.dtype.name], 0)[0]


def size_of(array: np.ndarray) -> int:
    data = chunk.encode(array, CODEC)
    assert chunk.decode(data)[0].tobytes() == array.tobytes()
    return len(data)


def test_two_decimals_take_what_their_digits_take() -> None:
    assert form_of(PRICES) == DECIMALS
    assert size_of(PRICES) * 8 < 13.3 * PRICES.size  # their entropy: 13.0 bits
    assert size_of(PRICES) < len(chunk.encode(PRICES, named("pcodec")))


def test_in_float32_too() -> None:
    prices = PRICES.astype(np.float32)
    assert form_of(prices) == DECIMALS
    assert size_of(prices) * 8 < 13.3 * prices.size


def test_columns_of_a_table_have_each_their_own_digits() -> None:
    frame = datasets.load_breast_cancer(as_frame=True).data
    columns = np.concatenate([frame[name].to_numpy() for name in frame])  # 0 to 7 digits
    assert columns.nbytes / size_of(columns) > 4
    assert columns.nbytes / len(chunk.encode(columns, named("lzma"))) < 2.7


def test_missing_values_are_exceptions_that_cost_little() -> None:
    array = np.where(random().random(PRICES.size) < 0.1, np.nan, PRICES)
    assert form_of(array) == DECIMALS
    assert size_of(array) < 1.1 * size_of(PRICES)


def test_other_numbers_among_them_are_exceptions() -> None:
    array = PRICES.copy()
    array[::1000] = random().normal(size=array[::1000].size)
    array[5:9] = -0.0, np.inf, -np.inf, 5e-324
    assert form_of(array) == DECIMALS
    assert size_of(array) < 1.1 * size_of(PRICES)


@pytest.mark.parametrize(
    "array",
    [
        random().normal(0, 0.02, 5000),
        random().normal(0, 0.02, 5000).astype(np.float32),
        random().normal(1e15, 1e14, 5000),
        random().random(5000).astype(np.float32),
        np.full(5000, 1 / 3),
        np.full(5000, np.inf),
        np.full(5000, -0.0),
    ],
)
def test_what_are_no_decimals_is_seen_at_a_glance(array: np.ndarray) -> None:
    element = BY_NAME[array.dtype.name]
    assert not CODEC.suits(array, element)
    assert form_of(array) == AS_IT_IS
    assert size_of(array) < array.nbytes + 100


def test_zeros_are_decimals_but_no_reason_to_try() -> None:
    zeros = np.zeros(5000)
    assert not CODEC.suits(zeros, FLOAT64)
    assert size_of(zeros) < 300
    zeros[::10] = random().normal(size=500)
    assert not CODEC.suits(zeros, FLOAT64)
    assert size_of(zeros) < 500 * 8 + 1000
    zeros[::10] = np.round(zeros[::10], 1)
    assert CODEC.suits(zeros, FLOAT64)


def test_where_a_glance_was_wrong_nothing_is_lost() -> None:
    array = random().normal(0, 0.02, 8192)
    array[:: array.size // 128 | 1] = 0.5
    assert CODEC.suits(array, FLOAT64)
    assert form_of(array) == AS_IT_IS
    size_of(array)


@pytest.mark.parametrize(
    "values",
    [
        [0.1, 0.2, 0.30000000000000004],  # the sum of the first two is no decimal of few digits
        [1.005, 2.675, 1e-15, 123456789.012345],
        [1e22, 1e23, 2.0**53 + 2],
        [-1.5, 1.5, -0.001, 0.001],
        [np.nan] * 3,
        [1.7e308, -1.7e308, 2.2e-308],
        [0.0],
    ],
)
def test_edges_come_back(values: list[float]) -> None:
    size_of(np.array(values * 50))
    with np.errstate(over="ignore"):
        size_of(np.array(values * 50, np.float32))


@settings(deadline=None, max_examples=150)
@given(
    whole=st.lists(st.integers(-(2**52), 2**52), min_size=1, max_size=300),
    digits=st.integers(0, 17),
    others=st.lists(st.tuples(st.integers(0, 299), st.floats()), max_size=20),
    name=st.sampled_from(["float32", "float64"]),
)
def test_any_decimals_and_exceptions_come_back(
    whole: list[int], digits: int, others: list[tuple[int, float]], name: str
) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        array = (np.array(whole) / 10.0**digits).astype(name)
        for place, value in others:
            array[place % array.size] = value
    size_of(array)


def frame(payload: bytes, items: int) -> bytes:
    return chunk.frame(CODEC, FLOAT64, (items,), LOSSLESS, payload)


def test_digits_that_no_encoder_writes_are_refused() -> None:
    array = PRICES[:64]
    payload = CODEC.encode(array, FLOAT64, 0)
    coded = named("zstd").encode(np.array([16], np.uint8), BY_NAME["uint8"], 1)
    old, integers = struct.unpack_from("<IQ", payload, 1)
    other = payload[:1] + struct.pack("<IQ", len(coded), integers) + coded + payload[13 + old :]
    with pytest.raises(MalformedChunk):
        chunk.decode(frame(other, 64))


@pytest.mark.parametrize("sizes", [(2**32 - 1, 10), (10, 2**64 - 1), (0, 0)])
def test_sizes_beyond_the_payload_are_refused(sizes: tuple[int, int]) -> None:
    payload = CODEC.encode(PRICES[:64], FLOAT64, 0)
    with pytest.raises(MalformedChunk):
        chunk.decode(frame(payload[:1] + struct.pack("<IQ", *sizes) + payload[13:], 64))


def test_an_unknown_form_is_refused() -> None:
    payload = CODEC.encode(PRICES[:64], FLOAT64, 0)
    with pytest.raises(MalformedChunk, match="form 02"):
        chunk.decode(frame(b"\2" + payload[1:], 64))
