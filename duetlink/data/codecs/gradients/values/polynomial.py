"""Fit-Poly: polynomials of degree 5 through segments of the sorted values (DeepReduce, arXiv:2102.03112).

Segments are short where the curve is steep, at the largest values: they end at 1/300, 1/100, 1/30, 1/10, 1/5
of the values, if that leaves more than 30 in each. Least squares, in Chebyshev polynomials.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from duetlink.data.codecs.gradients.values.curve import CurveValues
from duetlink.errors import MalformedChunk

_DEGREE = 5
_LEAST = 30  # values of a segment, and one more
_PARTS = (300, 100, 30, 10, 5)


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
