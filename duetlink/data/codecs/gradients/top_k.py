"""Top-k (Aji and Heafield, EMNLP 2017): the k items of largest magnitude, by position and value."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs import chunk
from duetlink.data.codecs.base import Bound
from duetlink.data.codecs.element import FLOAT32
from duetlink.data.codecs.gradients import coding
from duetlink.data.codecs.gradients.compressor import (
    ErrorFeedback,
    Float32Array,
    TensorState,
    checked_density,
    dense,
    derived_seed,
    sent_count,
)
from duetlink.data.codecs.gradients.sparse_gradient import SparseGradient


class TopK(ErrorFeedback):
    """Top-k with error feedback. Values are lossless unless `value` says otherwise."""

    name: ClassVar[str] = "top-k"

    def __init__(
        self, density: float = 0.1, *, index: str = "auto", value: str = "lossless", seed: int = 0
    ) -> None:
        """Send the share `density` of the items; `index` and `value` name codecs (see `coding.py`).

        Raises:
            LocalProtocolError: the density is outside (0, 1].
        """
        super().__init__(seed=seed)
        self.density = checked_density(density)
        self.index, self.value = index, value

    def _approximate(
        self, accumulated: Float32Array, name: str, state: TensorState
    ) -> tuple[bytes, Float32Array, dict[str, Float32Array]]:
        chosen = largest(np.abs(accumulated).reshape(-1), sent_count(accumulated.size, self.density))
        seed = derived_seed(self.seed, name, state.step)
        data, _, decoded = sparse(accumulated, chosen, index=self.index, value=self.value, seed=seed)
        return data, decoded, {}


def sparse(
    array: Float32Array, chosen: NDArray[np.int64], *, index: str, value: str, seed: int
) -> tuple[bytes, NDArray[np.int64], Float32Array]:
    """Encode the items at flat positions `chosen`; return the chunk, the positions sent, and its decoding.

    If that would be larger than the whole array, as it may be for few items, the array is sent dense.
    """
    flat = array.reshape(-1)
    coded = coding.encode_sparse(flat, chosen, index=index, value=value, seed=seed)
    if len(coded.payload) >= array.nbytes:
        return dense(array), np.arange(flat.size), array
    decoded = np.zeros_like(flat)
    decoded[coded.positions] = coded.decoded
    bound = Bound(math.inf, math.inf)
    data = chunk.frame(SparseGradient(), FLOAT32, array.shape, bound, coded.payload)
    return data, coded.positions, decoded.reshape(array.shape)


def largest(magnitudes: Float32Array, count: int) -> NDArray[np.int64]:
    """Return the sorted positions of the `count` largest of (n,) magnitudes, fewer if the others are zero."""
    if count >= len(magnitudes):
        return np.flatnonzero(magnitudes)
    chosen = np.argpartition(-magnitudes, count)[:count]
    return np.sort(chosen[magnitudes[chosen] > 0])
