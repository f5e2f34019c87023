"""Fit-DExp: a e^(b x) + c e^(d x) through the sorted values (DeepReduce).

The exponents come from one linear regression on the curve's first and second integral, which such a curve
depends on linearly (Jacquelin, Regressions et equations integrales, 2009); then a and c from another.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs.gradients.values.curve import CurveValues
from duetlink.errors import MalformedChunk

_STEEPEST = 600.0  # e^600 is within float64


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
