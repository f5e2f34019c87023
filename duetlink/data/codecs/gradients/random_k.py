"""Random-k (Stich, Cordonnier, Jaggi, NeurIPS 2018): k random positions, given by a seed.

Positions are the images of 0 ... k-1 under a permutation of 0 ... n-1 that the seed chooses: a Feistel
network on the next power of two, repeated until the result is below n (Black and Rogaway, CT-RSA 2002, "cycle
walking"). So no position occurs twice, the work is that of k items, and every version of every library finds
the same ones.
"""

from __future__ import annotations

import math
import struct
from typing import ClassVar

import numpy as np
import xxhash
from numpy.typing import NDArray

from duetlink.data.codecs import chunk
from duetlink.data.codecs.base import Array, Bound
from duetlink.data.codecs.element import FLOAT32, Element
from duetlink.data.codecs.gradients.codec import GradientCodec
from duetlink.data.codecs.gradients.compressor import (
    ErrorFeedback,
    Float32Array,
    TensorState,
    checked_density,
    derived_seed,
    sent_count,
)
from duetlink.errors import MalformedChunk

_SEED = struct.Struct("<Q")
_ROUNDS = 8


class RandomSubset(GradientCodec):
    """Seed u64, then the float32 items at its positions, in rising order. Level n sends one item in 2^n."""

    number: ClassVar[int] = 50
    name: ClassVar[str] = "random_subset"
    levels: ClassVar[range] = range(1, 11)
    level: ClassVar[int] = 4

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        flat = array.reshape(-1).view(np.float32)
        seed = xxhash.xxh3_64_intdigest(flat.data)
        return pack(seed, flat[positions(flat.size, sent_count(flat.size, 0.5**level), seed)])

    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        if len(payload) < _SEED.size:
            raise MalformedChunk("random positions without their seed")
        (seed,) = _SEED.unpack_from(payload)
        values = np.frombuffer(payload, np.float32, offset=_SEED.size)
        array = np.zeros(shape, np.float32)
        if values.size > array.size:
            raise MalformedChunk(f"{values.size} random positions of {array.size}")
        array.reshape(-1)[positions(array.size, values.size, seed)] = values
        return array


class RandomK(ErrorFeedback):
    """Random-k with error feedback, without which the expected gradient is `density` times the true one."""

    name: ClassVar[str] = "random-k"

    def __init__(self, density: float = 0.1, *, seed: int = 0) -> None:
        """Send the share `density` of the items.

        Workers with the same `seed` send the same positions, whose values can be summed directly; with
        different seeds they cover more positions.

        Raises:
            LocalProtocolError: the density is outside (0, 1].
        """
        super().__init__(seed=seed)
        self.density = checked_density(density)

    def _approximate(
        self, accumulated: Float32Array, name: str, state: TensorState
    ) -> tuple[bytes, Float32Array, dict[str, Float32Array]]:
        flat = accumulated.reshape(-1)
        seed = derived_seed(self.seed, name, state.step)
        chosen = positions(flat.size, sent_count(flat.size, self.density), seed)
        decoded = np.zeros_like(flat)
        decoded[chosen] = flat[chosen]
        payload = pack(seed, flat[chosen])
        data = chunk.frame(RandomSubset(), FLOAT32, accumulated.shape, Bound(math.inf, math.inf), payload)
        return data, decoded.reshape(accumulated.shape), {}


def pack(seed: int, values: Float32Array) -> bytes:
    return _SEED.pack(seed) + values.tobytes()


def positions(size: int, count: int, seed: int) -> NDArray[np.int64]:
    """Return `count` different positions below `size`, sorted; every set of them is equally likely."""
    width = max(size - 1, 1).bit_length()
    found = _permuted(np.arange(count, dtype=np.uint64), width, seed)
    outside = np.flatnonzero(found >= size)
    while outside.size:  # at most one in two, then one in four ...: the domain is below twice the size
        found[outside] = _permuted(found[outside], width, seed)
        outside = outside[found[outside] >= size]
    return np.sort(found.astype(np.int64))


def _permuted(items: NDArray[np.uint64], width: int, seed: int) -> NDArray[np.uint64]:
    """Permute the numbers of `width` bits: each half in turn is XORed with a hash of the other."""
    low_bits = np.uint64(width // 2)
    low_mask = np.uint64((1 << width // 2) - 1)
    high_mask = np.uint64((1 << width - width // 2) - 1)
    low, high = items & low_mask, items >> low_bits
    for turn in range(0, _ROUNDS, 2):
        high ^= _hash(low, seed, turn) & high_mask
        low ^= _hash(high, seed, turn + 1) & low_mask
    return (high << low_bits) | low


def _hash(items: NDArray[np.uint64], seed: int, turn: int) -> NDArray[np.uint64]:
    """Return the top half of a keyed SplitMix64 finaliser, all of whose bits depend on every input bit."""
    key = xxhash.xxh3_64_intdigest(turn.to_bytes(1, "little"), seed=seed)
    mixed = items + np.uint64(key)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed >> np.uint64(32)
