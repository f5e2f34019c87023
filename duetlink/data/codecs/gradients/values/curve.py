"""Values sorted, and a curve through them (DeepReduce, arXiv:2102.03112).

    values from 0 on u64 | bytes of either curve u64, u64 | curves, as f64 | rank of each value

Sorted from the largest down, values lie on two smooth curves: those from 0 on and, from the least down, the
others. The curves are sent, and with each value its rank, in log2(count) bits: more than the values are worth
in 8-bit blocks.
"""

from __future__ import annotations

import struct
from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs.gradients.indices import bits
from duetlink.data.codecs.gradients.values.base import ValueCodec, Values
from duetlink.errors import CodecFailed, MalformedChunk

_HEAD = struct.Struct("<QQQ")
_LARGEST = float(np.finfo(np.float32).max)


class CurveValues(ValueCodec):
    """Magnitudes from the largest down, as a function of their rank."""

    @abstractmethod
    def fit(self, magnitudes: NDArray[np.float64]) -> NDArray[np.float64]:
        """The parameters of a curve through (n,) falling numbers in 0 to 1, n >= 1."""

    @abstractmethod
    def curve(self, parameters: NDArray[np.float64], count: int) -> NDArray[np.float64]:
        """The curve at ranks 0 to count - 1; raises anything for parameters that no fit gave."""

    def encode(self, values: Values, seed: int) -> bytes:
        if not np.isfinite(values).all():
            raise CodecFailed(f"{self.name} cannot write infinities and NaNs; use another value codec")
        order = np.argsort(-values, kind="stable")
        ranks = np.empty(values.size, np.int64)
        ranks[order] = np.arange(values.size)
        positive = int(np.count_nonzero(values >= 0))
        ordered = values[order].astype(np.float64)
        curves = self._fitted(ordered[:positive]), self._fitted(-ordered[positive:][::-1])
        head = _HEAD.pack(positive, *map(len, curves))
        return b"".join((head, *curves, bits.pack(ranks, _rank_bits(values.size))))

    def decode(self, payload: memoryview, count: int) -> Values:
        positive, first, second = _HEAD.unpack_from(payload)
        body = payload[_HEAD.size :]
        if positive > count or first + second > len(body):
            raise MalformedChunk(f"{positive} of {count} values, on curves of {first + second} bytes")
        ranks = bits.unpack(body[first + second :], count, _rank_bits(count)).astype(np.int64)
        if count and ranks.max() >= count:
            raise MalformedChunk(f"rank {ranks.max()} of {count} values")
        ordered = np.concatenate(
            (
                self._drawn(body[:first], positive),
                -self._drawn(body[first : first + second], count - positive)[::-1],
            )
        )
        return ordered.astype(np.float32)[ranks]

    def _fitted(self, magnitudes: NDArray[np.float64]) -> bytes:
        """The largest magnitude, and the curve of all as parts of it."""
        if not magnitudes.size:
            return b""
        largest = magnitudes[0] or 1.0
        return np.concatenate(([largest], self.fit(magnitudes / largest))).astype("<f8").tobytes()

    def _drawn(self, payload: memoryview, count: int) -> NDArray[np.float64]:
        if not count and not payload:
            return np.zeros(0)
        largest, *_ = parameters = np.frombuffer(payload, "<f8")
        if not np.isfinite(parameters).all() or not 0 < largest <= _LARGEST:
            raise MalformedChunk(f"a curve of values with parameters {parameters[:4]}")
        with np.errstate(over="ignore", invalid="ignore"):
            drawn = self.curve(parameters[1:], count)
        magnitudes: NDArray[np.float64] = np.clip(np.nan_to_num(drawn), 0, 1) * largest
        return magnitudes


def _rank_bits(count: int) -> int:
    return max(count - 1, 0).bit_length()
