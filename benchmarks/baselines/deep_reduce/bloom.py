"""Bloom filters of positions (Bloom 1970), as DeepReduce sends them (arXiv:2102.03112), by three policies.

    seed u64 | hashes u8 | filter, one bit each

A reader tests every item of the gradient. Those that pass, the positives, are the positions and a few others.
Hashes have 64 bits, so that no position is too large. They are independent: with h1 + i h2 (Kirsch and
Mitzenmacher, ESA 2006) small filters pass several times as many false positives.

P0 sends the values of all positives, so that nothing chosen is lost. P1 sends as many as were chosen, by
chance; both sides know which. P2 takes those of small conflict sets first: the positives that share a bit of
the filter are a conflict set, at least one of them is true, and in a set of one the only one is. DeepReduce
takes one item from each set, smallest first; here each item stands where its smallest set does, and chance
decides between equals, so that no loop over sets is needed.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs.gradients.indices.base import IndexCodec, Positions
from duetlink.errors import MalformedChunk

_HEAD = struct.Struct("<QB")
_MAX_HASHES = 32
_FALSE_POSITIVES = 0.1  # as a part of the positions sent: the paper's default
_AT_ONCE = 1 << 16  # items tested

Hashes: TypeAlias = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """Bits (m,), as bytes of 0 and 1, and how items are mapped to them."""

    seed: int
    hashes: int
    bits: NDArray[np.bool_]

    @classmethod
    def of(cls, positions: Positions, size: int, seed: int) -> BloomFilter:
        """A filter that about a tenth as many other items pass as there are positions."""
        hashes = hash_count(size, positions.size)
        bits = np.zeros(bit_count(hashes, positions.size), np.bool_)
        mixed = _mixed(positions, seed)
        for index in range(hashes):
            bits[_hash(mixed, index, bits.size)] = True
        return cls(seed, hashes, bits)

    @classmethod
    def from_bytes(cls, payload: memoryview, size: int) -> BloomFilter:
        """Raises MalformedChunk where this is no filter of positions below `size`."""
        if len(payload) < _HEAD.size:
            raise MalformedChunk(f"a Bloom filter in {len(payload)} bytes")
        seed, hashes = _HEAD.unpack_from(payload)
        packed = np.frombuffer(payload, np.uint8, offset=_HEAD.size)
        most = bit_count(hash_count(size, size), size)  # of a filter that all items are in
        if not 1 <= hashes <= _MAX_HASHES or not 0 < 8 * packed.size <= most:
            raise MalformedChunk(
                f"a Bloom filter of {hashes} hashes and {packed.size} bytes for {size} items"
            )
        return cls(seed, hashes, np.unpackbits(packed).view(np.bool_))

    def to_bytes(self) -> bytes:
        return _HEAD.pack(self.seed, self.hashes) + np.packbits(self.bits).tobytes()

    def contains(self, items: Positions) -> NDArray[np.bool_]:
        """Which of the items (n,) pass."""
        left, mixed = np.arange(items.size), _mixed(items, self.seed)
        for index in range(self.hashes):
            passed = self.bits[_hash(mixed, index, self.bits.size)]
            left, mixed = left[passed], mixed[passed]
        found = np.zeros(items.size, np.bool_)
        found[left] = True
        return found

    def positives(self, size: int) -> Positions:
        """All positions below `size` that pass."""
        found = [
            start + np.flatnonzero(self.contains(np.arange(start, min(start + _AT_ONCE, size))))
            for start in range(0, size, _AT_ONCE)
        ]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def conflicts(self, positives: Positions) -> NDArray[np.int64]:
        """Of each positive, the size of the smallest of its conflict sets: how many positives share a bit."""
        smallest = np.full(positives.size, positives.size, np.int64)
        sharing = np.zeros(self.bits.size, np.int64)
        mixed = _mixed(positives, self.seed)
        for index in range(self.hashes):
            sharing += np.bincount(_hash(mixed, index, self.bits.size), minlength=self.bits.size)
        for index in range(self.hashes):
            np.minimum(smallest, sharing[_hash(mixed, index, self.bits.size)], out=smallest)
        return smallest


class BloomCodec(IndexCodec):
    """What the three policies share. Larger than gaps in Rice codes at every density."""

    exact = False

    def predicted_bits(self, size: int, count: int) -> float:
        return 8 * _HEAD.size + bit_count(hash_count(size, count), count)

    def encode(self, positions: Positions, size: int, seed: int) -> bytes:
        return BloomFilter.of(positions, size, seed).to_bytes()


class BloomP0(BloomCodec):
    """The positions and about a tenth as many others."""

    number: ClassVar[int] = 7
    name: ClassVar[str] = "bloom_p0"

    def decode(self, payload: memoryview, size: int, count: int) -> Positions:
        return BloomFilter.from_bytes(payload, size).positives(size)


class BloomP1(BloomCodec):
    """About one in eleven of the positions is another one."""

    number: ClassVar[int] = 8
    name: ClassVar[str] = "bloom_p1"

    def decode(self, payload: memoryview, size: int, count: int) -> Positions:
        found = BloomFilter.from_bytes(payload, size)
        return least_hashed(found.positives(size), count, found.seed)


class BloomP2(BloomCodec):
    """Fewer of the positions are others than with P1."""

    number: ClassVar[int] = 9
    name: ClassVar[str] = "bloom_p2"

    def decode(self, payload: memoryview, size: int, count: int) -> Positions:
        found = BloomFilter.from_bytes(payload, size)
        positives = found.positives(size)
        if count >= positives.size:
            return positives
        conflicts = found.conflicts(positives)
        last = np.partition(conflicts, count)[count]  # the size of set at which there are enough
        sure = positives[conflicts < last]
        others = least_hashed(positives[conflicts == last], count - sure.size, found.seed)
        return np.sort(np.concatenate((sure, others)))


def hash_count(size: int, count: int) -> int:
    """log2(1 / false positive rate), which is a tenth of the density."""
    rate = _FALSE_POSITIVES * max(count, 1) / max(size, 1)
    return min(max(math.ceil(-math.log2(rate)), 1), _MAX_HASHES)


def bit_count(hashes: int, count: int) -> int:
    """The bits of a filter, half of which will be set; whole bytes."""
    return 8 * math.ceil(max(count, 1) * hashes / math.log(2) / 8)


def least_hashed(positives: Positions, count: int, seed: int) -> Positions:
    """`count` of the positives, as if by chance: those of the smallest hashes. Sorted."""
    if count >= positives.size:
        return positives
    return np.sort(positives[np.argpartition(_mixed(positives, ~seed), count)[:count]])


def _hash(mixed: Hashes, index: int, bits: int) -> Positions:
    return (_finalised(mixed + np.uint64(index)) % np.uint64(bits)).astype(np.int64)


def _mixed(items: Positions, seed: int) -> Hashes:
    """SplitMix64's output for each item (Steele, Lea, Flood, OOPSLA 2014)."""
    mixed = items.astype(np.uint64) + np.uint64(1)
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    mixed += np.uint64(seed & (1 << 64) - 1)
    return _finalised(mixed)


def _finalised(mixed: Hashes) -> Hashes:
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
