"""PowerSGD (Vogels, Karimireddy, Jaggi, NeurIPS 2019): the gradient as a product of two thin matrices.

A gradient of shape (n, ...) is an n x m matrix M. One step of subspace iteration starts from the last Q: P =
orthonormal(M Q), Q = Mᵀ P. P Qᵀ is sent, of rank r, in r (n + m) numbers (Algorithm 1, here with the factors
of each worker instead of their mean, so that a chunk can be decoded alone). With warm start, Q is kept for
the next step: over similar steps it approaches the first r singular vectors.
"""

from __future__ import annotations

import math
import struct
from typing import ClassVar

import numpy as np

from duetlink.data.codecs import chunk
from duetlink.data.codecs.base import Array, Bound
from duetlink.data.codecs.element import FLOAT32, Element
from duetlink.data.codecs.gradients.codec import GradientCodec
from duetlink.data.codecs.gradients.compressor import (
    ErrorFeedback,
    Float32Array,
    TensorState,
    dense,
    derived_seed,
)
from duetlink.errors import LocalProtocolError, MalformedChunk

_RANK = struct.Struct("<I")


class LowRank(GradientCodec):
    """Rank u32, P (n, r) and Q (m, r) in float32. The level is the rank; a single chunk uses seed 0."""

    number: ClassVar[int] = 49
    name: ClassVar[str] = "low_rank"
    levels: ClassVar[range] = range(1, 65)
    level: ClassVar[int] = 4

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        matrix = _as_matrix(array.view(np.float32))
        rank = min(level, *matrix.shape)
        return pack(*factors(matrix, start(matrix.shape[1], rank, 0)))

    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        n, m = _sides(shape)
        if len(payload) < _RANK.size:
            raise MalformedChunk("factors without their rank")
        (rank,) = _RANK.unpack_from(payload)
        if rank > min(n, m) or len(payload) != _RANK.size + 4 * rank * (n + m):
            raise MalformedChunk(f"factors of rank {rank} of {n} x {m} in {len(payload)} bytes")
        values = np.frombuffer(payload, np.float32, offset=_RANK.size)
        return product(values[: n * rank].reshape(n, rank), values[n * rank :].reshape(m, rank), shape)


class PowerSgd(ErrorFeedback):
    """PowerSGD with error feedback. Tensors of one dimension, or no smaller as factors, are sent dense."""

    name: ClassVar[str] = "power-sgd"
    slots: ClassVar[tuple[str, ...]] = ("residual", "query")  # query: Q of the last step, (m, r)

    def __init__(self, rank: int = 2, *, warm_start: bool = True, seed: int = 0) -> None:
        """Send factors of that rank. Without `warm_start`, each step starts from a fresh random Q.

        Raises:
            LocalProtocolError: the rank is below 1.
        """
        super().__init__(seed=seed)
        if rank < 1:
            raise LocalProtocolError(f"a rank of {rank!r}; at least 1")
        self.rank = rank
        self.warm_start = warm_start

    def _approximate(
        self, accumulated: Float32Array, name: str, state: TensorState
    ) -> tuple[bytes, Float32Array, dict[str, Float32Array]]:
        n, m = _sides(accumulated.shape)
        if accumulated.ndim < 2 or self.rank * (n + m) >= n * m:
            return dense(accumulated), accumulated, {}
        query = state.slots.get("query")
        if query is None or query.shape != (m, self.rank):
            # drawn from the seed that workers share: they start in one subspace
            query = start(m, self.rank, derived_seed(self.seed, name, 0 if self.warm_start else state.step))
        p, q = factors(_as_matrix(accumulated), query)
        data = chunk.frame(LowRank(), FLOAT32, accumulated.shape, Bound(math.inf, math.inf), pack(p, q))
        return data, product(p, q, accumulated.shape), {"query": q} if self.warm_start else {}


def start(m: int, rank: int, seed: int) -> Float32Array:
    """Return a random Q (m, rank)."""
    return np.random.default_rng(seed).standard_normal((m, rank), np.float32)


def factors(matrix: Float32Array, query: Float32Array) -> tuple[Float32Array, Float32Array]:
    """Return P (n, r), orthonormal, and Q (m, r) after one step of subspace iteration from `query`."""
    # QR gives orthonormal columns also if M Q has lost rank, as for a gradient of zeros
    p, _ = np.linalg.qr(matrix @ query)
    return np.ascontiguousarray(p), np.ascontiguousarray(matrix.T @ p)


def pack(p: Float32Array, q: Float32Array) -> bytes:
    return _RANK.pack(p.shape[1]) + p.tobytes() + q.tobytes()


def product(p: Float32Array, q: Float32Array, shape: tuple[int, ...]) -> Float32Array:
    """Return P Qᵀ, computed in the same way on both sides."""
    with np.errstate(invalid="ignore", over="ignore"):  # a peer's factors may be anything
        return np.ascontiguousarray(p @ q.T).reshape(shape)


def _as_matrix(array: Float32Array) -> Float32Array:
    return array.reshape(_sides(array.shape))


def _sides(shape: tuple[int, ...]) -> tuple[int, int]:
    return (shape[0], math.prod(shape[1:])) if shape else (1, 1)
