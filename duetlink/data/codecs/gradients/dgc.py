"""Deep Gradient Compression (Lin, Han, Mao, Wang, Dally, ICLR 2018).

Per tensor and step, with g the gradient of one of N workers (section 3 and Algorithm 4):

    g <- g min(1, N^-1/2 threshold / |g|)        local clipping, before anything is added up
    u <- m u + g,          v <- v + u            momentum correction; with Nesterov
    u <- m (u + g),        v <- v + u + g
    send v where |v| >= threshold                the threshold is estimated from a sample
    u <- 0, v <- 0 there                         momentum factor masking

Momentum is kept here: the optimiser that applies the mean of the workers' gradients is plain SGD. Weight
decay is added to the gradient before. In the first epochs more is sent: `WARM_UP`.

If the values of a chunk are lossy, v keeps what the receiver did not get instead of 0.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs.gradients.compressor import (
    Float32Array,
    GradientCompressor,
    TensorState,
    checked_array,
    checked_density,
    dense,
    derived_seed,
    sent_count,
)
from duetlink.data.codecs.gradients.top_k import largest, sparse
from duetlink.errors import LocalProtocolError

WARM_UP = (0.25, 0.0625, 0.015625, 0.004)  # densities of the first epochs (section 3.3)
SAMPLED = 0.01
MAX_ADAPTATIONS = 10
TOO_FEW = 0.8  # below this share of the count, the threshold is lowered by the same factor


class Dgc(GradientCompressor):
    """Momentum SGD that sends the items whose accumulated velocity is largest.

    Tensors of one dimension (biases, normalisation) are sent dense: their momentum is sent.
    """

    name: ClassVar[str] = "dgc"
    slots: ClassVar[tuple[str, ...]] = ("momentum", "velocity")  # u and v

    def __init__(
        self,
        density: float = 0.001,
        *,
        momentum: float = 0.9,
        nesterov: bool = False,
        clip_norm: float | None = None,
        workers: int = 1,
        warm_up: tuple[float, ...] = WARM_UP,
        index: str = "auto",
        value: str = "lossless",
        seed: int = 0,
    ) -> None:
        """Configure the method.

        `density` is the share sent after the epochs of `warm_up`, whose densities are never below it.
        `clip_norm` is the L2 norm to which the sum over `workers` gradients is clipped; None: no clipping.
        `index` and `value` name codecs (see `coding.py`).

        Raises:
            LocalProtocolError: a density is outside (0, 1], momentum outside [0, 1), or a norm or `workers`
                not above 0.
        """
        super().__init__(seed=seed)
        if not 0 <= momentum < 1 or workers < 1 or not (clip_norm is None or clip_norm > 0):
            raise LocalProtocolError(f"momentum {momentum!r}, clip_norm {clip_norm!r}, {workers!r} workers")
        self.target_density = checked_density(density)
        self.warm_up = tuple(checked_density(each) for each in warm_up)
        self.momentum, self.nesterov = momentum, nesterov
        self.max_norm = math.inf if clip_norm is None else clip_norm / math.sqrt(workers)
        self.index, self.value = index, value

    @property
    def density(self) -> float:
        """The share of items sent in the current epoch."""
        if self.epoch < len(self.warm_up):
            return max(self.target_density, self.warm_up[self.epoch])
        return self.target_density

    def _prepared(self, gradients: dict[str, Float32Array]) -> dict[str, Float32Array]:
        """Clip the gradients by the norm of all of them together."""
        norm = math.sqrt(sum(float(np.sum(np.square(each, dtype=np.float64))) for each in gradients.values()))
        if norm <= self.max_norm:
            return gradients
        scale = np.float32(self.max_norm / norm)
        return {name: np.asarray(gradient * scale) for name, gradient in gradients.items()}

    def _step(self, gradient: Float32Array, name: str, state: TensorState) -> tuple[bytes, TensorState]:
        u, update = momentum_update(state.slot("momentum", gradient), gradient, self.momentum, self.nesterov)
        if gradient.ndim < 2:
            return dense(update), TensorState(state.step + 1, {"momentum": u})
        v = checked_array(state.slot("velocity", gradient) + update, name)
        seed = derived_seed(self.seed, name, state.step)
        chosen = select(np.abs(v).reshape(-1), sent_count(v.size, self.density), seed)
        data, sent, decoded = sparse(v, chosen, index=self.index, value=self.value, seed=seed)
        u.reshape(-1)[sent] = 0
        v -= decoded
        return data, TensorState(state.step + 1, {"momentum": u, "velocity": v})


def momentum_update(
    u: Float32Array, gradient: Float32Array, momentum: float, nesterov: bool
) -> tuple[Float32Array, Float32Array]:
    """Return the next u, and what is added to v."""
    m = np.float32(momentum)
    if nesterov:
        u = np.asarray(m * (u + gradient))
        return u, np.asarray(u + gradient)
    u = np.asarray(m * u + gradient)
    return u, u


def select(magnitudes: Float32Array, count: int, seed: int) -> NDArray[np.int64]:
    """Return sorted positions of about `count`, never more, of the largest (n,) magnitudes (section 3.1, 5).

    The paper takes everything above the threshold if that is between 0.8 and 1.3 times as many as wanted, and
    the exact largest of it if more. Its reference implementation then cuts to `count` by position; here the
    largest are kept, so that no part of a tensor is preferred; so 1 to 1.3 times as many is no special case.
    """
    if count >= len(magnitudes):
        return largest(magnitudes, count)
    threshold = sampled_threshold(magnitudes, count, seed)
    chosen = np.flatnonzero(magnitudes >= threshold)
    for _ in range(MAX_ADAPTATIONS):
        if len(chosen) >= TOO_FEW * count:
            break
        threshold *= TOO_FEW
        chosen = np.flatnonzero(magnitudes >= threshold)
    return chosen[largest(magnitudes[chosen], count)]


def sampled_threshold(magnitudes: Float32Array, count: int, seed: int) -> float:
    """Return the smallest of the top `count / n` of a strided sample, without repetition.

    The sample is 1 % of the items, or more, so that at least two of it are expected above the threshold. The
    stride is odd, so that it is no multiple of a row of the usual lengths, and starts at a random item.
    """
    size = len(magnitudes)
    wanted = max(math.ceil(size * SAMPLED), math.ceil(2 * size / count))
    stride = max(1, (size // wanted - 1) | 1)
    first = int(np.random.default_rng(seed).integers(stride))
    sample = magnitudes[first::stride]
    top = min(len(sample), max(1, math.ceil(len(sample) * count / size)))
    return float(np.partition(sample, len(sample) - top)[len(sample) - top])
