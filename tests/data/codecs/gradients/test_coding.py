"""Sparse gradients as payloads: every pair of codecs, what the sender knows, sizes, and hostile ones."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.data.codecs.gradients import indices, values
from duetlink.data.codecs.gradients.coding import decode_sparse, encode_sparse
from duetlink.errors import LocalProtocolError, MalformedChunk, UnknownCodec
from duetlink.testing.codecs import peak_below

SIZE = 5000


def gradient(size: int = SIZE, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


def top(flat: np.ndarray, density: float) -> np.ndarray:
    count = round(flat.size * density)
    return np.sort(np.argsort(np.abs(flat))[flat.size - count :])


@pytest.mark.parametrize("value", ["auto", *values.BY_NAME])
@pytest.mark.parametrize("index", ["auto", *indices.BY_NAME])
def test_the_sender_knows_what_the_reader_gets(index: str, value: str) -> None:
    flat = gradient()
    chosen = top(flat, 0.05)
    sent = encode_sparse(flat, chosen, index=index, value=value, seed=(1 << 64) - 1)
    positions, decoded = decode_sparse(memoryview(sent.payload), SIZE)
    assert positions.tolist() == sent.positions.tolist()
    assert decoded.tobytes() == sent.decoded.tobytes()
    assert positions.tolist() == chosen.tolist()
    if value in ("raw", "lossless"):
        assert decoded.tobytes() == flat[positions].tobytes()


@pytest.mark.parametrize("index", ["auto", *indices.BY_NAME])
@pytest.mark.parametrize(
    ("chosen", "size"), [([], 0), ([], 9), ([0], 1), ([8], 9), (list(range(9)), 9)], ids=str
)
def test_none_one_and_all(index: str, chosen: list[int], size: int) -> None:
    flat = gradient(size)
    for value in values.BY_NAME:
        sent = encode_sparse(flat, np.array(chosen, np.int64), index=index, value=value)
        positions, decoded = decode_sparse(memoryview(sent.payload), size)
        assert positions.tolist() == sent.positions.tolist()
        assert decoded.tolist() == sent.decoded.tolist()


def test_positions_above_2_24_and_2_32_arrive() -> None:
    """Regression: an earlier module held indices in float32, wrong above 2^24 without a word."""
    size = 1 << 34
    flat = np.broadcast_to(np.float32(0.5), (size,))
    chosen = np.array([3, (1 << 24) + 1, (1 << 24) + 2, (1 << 32) + 1, (1 << 32) + 3, size - 1], np.int64)
    for index in ("auto", "gap_rice", "pcodec"):
        sent = encode_sparse(flat, chosen, index=index, value="raw")
        positions, decoded = decode_sparse(memoryview(sent.payload), size)
        assert positions.tolist() == chosen.tolist()
        assert decoded.tolist() == [0.5] * 6


@pytest.mark.parametrize("index", ["auto", "gap_rice", "pcodec"])
def test_a_tenth_in_8_bits_is_below_0_045_of_the_gradient(index: str) -> None:
    flat = gradient(1 << 18)
    sent = encode_sparse(flat, top(flat, 0.1), index=index)
    assert len(sent.payload) <= 0.038 * flat.nbytes  # 4.75 bits of position, 7.1 of value, and heads
    error = np.linalg.norm(sent.decoded - flat[sent.positions]) / np.linalg.norm(flat[sent.positions])
    assert error < 0.005


def test_a_thousandth_is_below_one_in_1500_of_the_gradient() -> None:
    flat = gradient(1 << 20)
    assert len(encode_sparse(flat, top(flat, 0.001)).payload) <= flat.nbytes / 1500


def test_equal_seeds_give_equal_payloads() -> None:
    flat = gradient()
    chosen = top(flat, 0.05)
    one, same, other = (
        encode_sparse(flat, chosen, index="gap_rice", value="qsgd", seed=seed).payload for seed in (1, 1, 2)
    )
    assert one == same != other


@pytest.mark.parametrize(
    "positions",
    [
        np.array([3, 2]),
        np.array([2, 2]),
        np.array([-1, 2]),
        np.array([SIZE]),
        np.array([1], np.int32),
        np.eye(2, dtype=np.int64),
    ],
    ids=["falling", "twice", "negative", "beyond", "int32", "matrix"],
)
def test_positions_that_are_not_sorted_unique_and_inside_are_refused(positions: np.ndarray) -> None:
    with pytest.raises(LocalProtocolError):
        encode_sparse(gradient(), positions)


def test_other_gradients_and_unknown_codecs_are_refused() -> None:
    chosen = np.array([1, 2])
    with pytest.raises(LocalProtocolError, match="float64"):
        encode_sparse(gradient().astype(np.float64), chosen)
    with pytest.raises(LocalProtocolError, match="no index codec"):
        encode_sparse(gradient(), chosen, index="none")
    with pytest.raises(LocalProtocolError, match="no value codec"):
        encode_sparse(gradient(), chosen, value="none")


# -- hostile payloads --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "value", "count", "index_bytes", "error"),
    [
        (99, 0, 0, 0, UnknownCodec),
        (1, 99, 0, 0, UnknownCodec),
        (1, 0, SIZE + 1, 0, MalformedChunk),
        (1, 0, 1 << 63, 0, MalformedChunk),
        (1, 0, 1, 1 << 63, MalformedChunk),
        (1, 0, 1, 0, MalformedChunk),
        (2, 0, 1, 8, MalformedChunk),
        (4, 0, 1, 4, MalformedChunk),
        (3, 0, 1, 4, UnknownCodec),
        (1, 8, 1, 0, UnknownCodec),
    ],
)
def test_a_head_that_lies_is_refused(
    index: int, value: int, count: int, index_bytes: int, error: type[Exception]
) -> None:
    payload = struct.pack("<BBQQ", index, value, count, index_bytes) + bytes(8)
    with peak_below(1 << 20), pytest.raises(error):
        decode_sparse(memoryview(payload), SIZE)


@pytest.mark.parametrize("size", [0, 1, SIZE - 1, 1 << 40])
def test_another_size_is_refused_or_bounded(size: int) -> None:
    flat = gradient()
    chosen = np.append(top(flat, 0.05), SIZE - 1)
    chosen = np.unique(chosen)
    for index in ("gap_rice", "pcodec"):
        payload = encode_sparse(flat, chosen, index=index).payload
        try:
            positions, _ = decode_sparse(memoryview(payload), size)
        except MalformedChunk:
            continue
        assert size == 1 << 40
        assert positions.size == chosen.size


@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_hostile_payloads_raise_what_a_reader_expects(data: st.DataObject) -> None:
    index = data.draw(st.sampled_from(sorted(indices.BY_NAME)))
    value = data.draw(st.sampled_from(sorted(values.BY_NAME)))
    flat = gradient(1000)
    payload = bytearray(encode_sparse(flat, top(flat, 0.1), index=index, value=value).payload)
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    payload = payload[: data.draw(st.integers(0, 2 * len(payload)))]
    size = data.draw(st.sampled_from([1000, 0, 10, 999, 1100]))
    try:
        with peak_below(1 << 20):
            positions, decoded = decode_sparse(memoryview(bytes(payload)), size)
    except (MalformedChunk, UnknownCodec):
        return
    assert positions.size == decoded.size
    assert (np.diff(positions) > 0).all()
    assert not positions.size or 0 <= positions[0] <= positions[-1] < size
