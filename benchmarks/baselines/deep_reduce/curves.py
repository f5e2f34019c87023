"""Values sorted, and a curve through them, by Fit-Poly and Fit-DExp (DeepReduce, arXiv:2102.03112).

    values from 0 on u64 | bytes of either curve u64, u64 | curves, as f64 | rank of each value

Sorted from the largest down, values lie on two smooth curves: those from 0 on and, from the least down, the
others. The curves are sent, and with each value its rank, in log2(count) bits: more than the values are worth
in 8-bit blocks.

Fit-Poly: polynomials of degree 5 through segments. Segments are short where the curve is steep, at the
largest values: they end at 1/300, 1/100, 1/30, 1/10, 1/5 of the values, if that leaves more than 30 in each.
Least squares, in Chebyshev polynomials.

Fit-DExp: a e^(b x) + c e^(d x). The exponents come from one linear regression on the curve's first and second
integral, which such a curve depends on linearly (Jacquelin, Regressions et equations integrales, 2009); then
a and c from another.
"""

from __future__ import annotations

import itertools
import struct
from abc import abstractmethod

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from duetlink.data.codecs.gradients.indices import bits
from duetlink.data.codecs.gradients.values.base import ValueCodec, Values
from duetlink.errors import CodecFailed, MalformedChunk

_HEAD = struct.Struct("<QQQ")
_LARGEST = float(np.finfo(np.float32).max)
_DEGREE = 5
_LEAST = 30  # values of a segment, and one more
_PARTS = (300, 100, 30, 10, 5)
_STEEPEST = 600.0  # e^600 is within float64


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


class PolynomialValues(CurveValues):
    """Six coefficients a segment."""

    number = 8
    name = "polynomial"

    def fit(self, magnitudes: NDArray[np.float64]) -> NDArray[np.float64]:
        found = np.zeros((len(_segments(magnitudes.size)), _DEGREE + 1))
        for row, segment in zip(found, _segments(magnitudes.size), strict=True):
            part = magnitudes[segment]
            degree = min(_DEGREE, part.size - 1)
            row[: degree + 1] = chebyshev.chebfit(_abscissae(part.size), part, degree)
        return found.reshape(-1)

    def curve(self, parameters: NDArray[np.float64], count: int) -> NDArray[np.float64]:
        segments = _segments(count)
        if parameters.size != len(segments) * (_DEGREE + 1):
            raise MalformedChunk(f"{parameters.size} coefficients of {len(segments)} polynomials")
        found = np.empty(count)
        for row, segment in zip(parameters.reshape(-1, _DEGREE + 1), segments, strict=True):
            found[segment] = chebyshev.chebval(_abscissae(segment.stop - segment.start), row)
        return found


def _segments(count: int) -> list[slice]:
    ends = [0]
    for end in (*(count // part for part in _PARTS), count):
        if end - ends[-1] > _LEAST and (end == count or count - end > _LEAST):
            ends.append(end)
    if ends[-1] != count:
        ends = [*ends[:-1], count] if len(ends) > 1 else [0, count]
    return [slice(start, end) for start, end in itertools.pairwise(ends)]


def _abscissae(count: int) -> NDArray[np.float64]:
    return np.linspace(-1, 1, count) if count > 1 else np.zeros(count)


class DoubleExponentialValues(CurveValues):
    """Four parameters."""

    number = 9
    name = "double_exponential"

    def fit(self, magnitudes: NDArray[np.float64]) -> NDArray[np.float64]:
        x = np.linspace(0, 1, magnitudes.size)
        exponents = np.clip(_exponents(x, magnitudes), -_STEEPEST, _STEEPEST)
        factors, *_ = np.linalg.lstsq(_basis(x, exponents), magnitudes, rcond=None)
        return np.concatenate((factors, exponents))

    def curve(self, parameters: NDArray[np.float64], count: int) -> NDArray[np.float64]:
        if parameters.size != 4:
            raise MalformedChunk(f"{parameters.size} parameters of two exponentials")
        found: NDArray[np.float64] = _basis(np.linspace(0, 1, count), parameters[2:]) @ parameters[:2]
        return found


def _exponents(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """y = A S(S(y)) + B S(y) + C x + D, whose exponents are the roots of t^2 - B t - A."""
    once = _integral(x, y)
    columns = np.column_stack((_integral(x, once), once, x, np.ones_like(x)))
    a, b, *_ = np.linalg.lstsq(columns, y, rcond=None)[0]
    root = np.sqrt(max(b * b + 4 * a, 0.0))  # complex roots: an oscillation, which sorted values have not
    return np.array([(b + root) / 2, (b - root) / 2])


def _integral(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """By the trapezoidal rule, from the first x to each."""
    return np.concatenate(([0.0], np.cumsum((y[1:] + y[:-1]) / 2 * np.diff(x))))


def _basis(x: NDArray[np.float64], exponents: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.exp(np.outer(x, exponents))
