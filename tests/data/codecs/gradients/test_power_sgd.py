from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from duetlink.data.codecs import chunk, decode
from duetlink.data.codecs.base import Bound
from duetlink.data.codecs.element import FLOAT32
from duetlink.data.codecs.gradients import PowerSgd
from duetlink.data.codecs.gradients.power_sgd import LowRank, factors, start
from duetlink.errors import LocalProtocolError, MalformedChunk, RemoteProtocolError


def of_rank(rank: int, n: int = 20, m: int = 12) -> NDArray[np.float32]:
    random = np.random.default_rng(rank)
    return (random.standard_normal((n, rank)) @ random.standard_normal((rank, m))).astype(np.float32)


def framed(shape: tuple[int, ...], payload: bytes) -> bytes:
    return chunk.frame(LowRank(), FLOAT32, shape, Bound(np.inf, np.inf), payload)


def test_one_step_is_that_of_the_paper() -> None:
    """Algorithm 1 by hand: Q = (1, 0) gives P = M Q / |M Q| = (.6, .8) and the next Q = Mᵀ P = (5, 0)."""
    p, q = factors(np.array([[3, 0], [4, 0]], np.float32), np.array([[1], [0]], np.float32))
    sign = np.sign(p[0, 0])  # a column and its row of factors may both be negated
    np.testing.assert_allclose(sign * p, [[0.6], [0.8]], rtol=1e-6)
    np.testing.assert_allclose(sign * q, [[5], [0]], atol=1e-6)


def test_columns_of_p_are_orthonormal() -> None:
    p, _ = factors(of_rank(12), start(12, 4, 0))
    np.testing.assert_allclose(p.T @ p, np.eye(4), atol=1e-6)


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_a_matrix_of_that_rank_comes_back(rank: int) -> None:
    gradient = of_rank(rank)
    decoded, _ = decode(PowerSgd(rank).compress(gradient, "w"))
    np.testing.assert_allclose(decoded, gradient, atol=1e-5 * np.abs(gradient).max())


def test_with_a_warm_start_the_factors_approach_the_best_of_their_rank() -> None:
    gradient = of_rank(12)
    u, s, vt = np.linalg.svd(gradient)
    best = np.linalg.norm(gradient - (u[:, :2] * s[:2]) @ vt[:2])
    query = start(12, 2, 0)
    errors = []
    for _ in range(30):
        p, query = factors(gradient, query)
        errors.append(np.linalg.norm(gradient - p @ query.T))
    assert errors[0] > 1.05 * best
    assert errors[-1] < 1.001 * best


def test_the_payload_is_the_rank_and_both_factors() -> None:
    data = PowerSgd(2).compress(np.ones((20, 3, 4), np.float32), "w")
    assert chunk.read_header(memoryview(data)).payload_bytes == 4 + 4 * 2 * (20 + 12)


@pytest.mark.parametrize("shape", [(7,), (), (0, 3), (2, 2), (1, 50)])
def test_vectors_and_what_would_not_shrink_go_as_they_are(shape: tuple[int, ...]) -> None:
    gradient = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    decoded, header = decode(PowerSgd(2).compress(gradient, "w"))
    assert header.bound.lossless
    assert np.array_equal(decoded, gradient)


def test_workers_start_in_one_subspace() -> None:
    """Equal gradients give equal chunks, from the first step on, whoever computes them."""
    workers = [PowerSgd(2, seed=5) for _ in range(3)]
    assert len({worker.compress(of_rank(12), "w") for worker in workers}) == 1
    assert PowerSgd(2, seed=6).compress(of_rank(12), "w") != workers[0].compress(of_rank(12), "w")


def test_a_gradient_of_zeros_is_zero_and_does_not_stop_what_comes_after() -> None:
    compressor = PowerSgd(2)
    for _ in range(2):
        assert not decode(compressor.compress(np.zeros((20, 12), np.float32), "w"))[0].any()
    total = sum(decode(compressor.compress(of_rank(2), "w"))[0] for _ in range(6))
    np.testing.assert_allclose(total / 6, of_rank(2), atol=0.5)


def test_a_state_of_another_rank_starts_anew() -> None:
    first, second = PowerSgd(1), PowerSgd(3)
    first.compress(of_rank(12), "w")
    second.load_state_dict(first.state_dict())
    decode(second.compress(of_rank(12), "w"))
    assert np.shape(second.state_dict()["query/w"]) == (12, 3)


def test_no_rank_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="a rank of 0"):
        PowerSgd(0)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x01\x00",
        struct.pack("<I", 4) + bytes(4 * 4 * 7),  # above the smaller side
        struct.pack("<I", 2) + bytes(4 * 2 * 7 - 4),
        struct.pack("<I", 2) + bytes(4 * 2 * 7 + 1),
        struct.pack("<I", 0xFFFFFFFF),
    ],
)
def test_factors_that_do_not_fit_are_refused(payload: bytes) -> None:
    with pytest.raises(MalformedChunk):
        decode(framed((3, 4), payload))


@given(st.binary(max_size=70))
def test_hostile_payloads_are_refused_or_decode_to_the_shape(payload: bytes) -> None:
    try:
        decoded, _ = decode(framed((3, 4), payload))
    except RemoteProtocolError:
        return
    assert decoded.shape == (3, 4)


@pytest.mark.parametrize("shape", [(), (5,), (0, 4), (4, 0), (6, 5, 4)])
def test_as_a_codec_it_takes_any_shape(shape: tuple[int, ...]) -> None:
    decoded, header = decode(chunk.encode(np.ones(shape, np.float32), LowRank(), 1))
    assert not header.bound.lossless
    np.testing.assert_allclose(decoded, np.ones(shape, np.float32), rtol=1e-5)
