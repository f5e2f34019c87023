"""Runs: how many items are left out, how many sent, and so on, each kind in Rice codes of its own.

    runs u64 | bytes of the first u64 | lengths of runs left out | lengths of runs sent

All are less 1, but for the first run left out, which may be none. The last one is not written.
"""

from __future__ import annotations

import struct
from typing import ClassVar

import numpy as np

from duetlink.data.codecs.gradients.indices import rice
from duetlink.data.codecs.gradients.indices.base import IndexCodec, Positions
from duetlink.errors import MalformedChunk

_HEAD = struct.Struct("<QQ")


class RunLength(IndexCodec):
    """For positions that come together: rows, filters, whole arrays."""

    number: ClassVar[int] = 5
    name: ClassVar[str] = "run_length"

    def predicted_bits(self, size: int, count: int) -> float:
        head = 8 * _HEAD.size + 2 * rice.HEAD_BITS
        if not count:
            return head
        runs = max(1.0, count * (size - count) / size)
        skipped = max((size - count) / runs - 1, 0.0)  # beyond the one item between two runs
        return head + runs * (rice.predicted_bits(skipped) + rice.predicted_bits(count / runs - 1))

    def encode(self, positions: Positions, size: int, seed: int) -> bytes:
        first = np.flatnonzero(np.diff(positions, prepend=-2) != 1)
        starts = positions[first]
        lengths = np.diff(first, append=positions.size)
        skipped = starts - np.concatenate(([0], (starts + lengths)[:-1]))[: starts.size]
        skipped[1:] -= 1
        left_out = rice.encode(skipped)
        return _HEAD.pack(starts.size, len(left_out)) + left_out + rice.encode(lengths - 1)

    def decode(self, payload: memoryview, size: int, count: int) -> Positions:
        runs, left_out = _HEAD.unpack_from(payload)
        body = payload[_HEAD.size :]
        if runs > count or left_out > len(body):
            raise MalformedChunk(f"{runs} runs of {count} positions, in {left_out} of {len(body)} bytes")
        skipped = rice.decode(body[:left_out], runs, size)
        skipped[1:] += 1
        lengths = rice.decode(body[left_out:], runs, count) + 1
        if _sum(lengths) != count or _sum(skipped) + count > size:
            raise MalformedChunk(f"runs that do not make {count} of {size} items")
        before = np.cumsum(skipped)
        return np.repeat(before, lengths) + np.arange(count)


def _sum(numbers: Positions) -> float:
    """Exact where it is below 2^53, which no array reaches; never wraps around."""
    return float(numbers.sum(dtype=np.float64))
