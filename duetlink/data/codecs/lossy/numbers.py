"""Convert arrays of any float element to NumPy floats and back, rounded to nearest."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs.base import Array
from duetlink.data.codecs.element import BFLOAT16, BY_NAME, Element

FLOATS = frozenset(BY_NAME[name] for name in ("float16", "float32", "float64", "bfloat16"))
Floats: TypeAlias = NDArray[np.floating[Any]]  # dtype `computed_in(element)`


def computed_in(element: Element) -> np.dtype[np.floating[Any]]:
    """Return float64 for float64, else float32: it holds every number of the element."""
    return np.dtype(np.float64 if element.size_bytes == 8 else np.float32)


def to_floats(array: Array, element: Element) -> Floats:
    """Return the items, flat: a view if they are of `computed_in` already."""
    flat = array.reshape(-1)
    if element == BFLOAT16:
        return (flat.astype(np.uint32) << 16).view(np.float32)
    return flat.astype(computed_in(element), copy=False)


def from_floats(floats: Floats, element: Element) -> Array:
    """Return numbers as items of the element, flat. Finite numbers stay finite: they saturate."""
    if element == BFLOAT16:
        bits = to_bfloat16(floats.astype(np.float32, copy=False))
        bits[(bits & 0x7FFF == 0x7F80) & np.isfinite(floats)] -= 1
        return bits
    if floats.dtype == element.storage:
        return floats
    return _to_float16(floats)


def _to_float16(floats: Floats) -> NDArray[np.float16]:
    with np.errstate(over="ignore"):
        items = floats.astype(np.float16)
    beyond = np.isinf(items) & np.isfinite(floats)
    items[beyond] = np.copysign(np.finfo(np.float16).max, items[beyond])
    return items


def to_bfloat16(floats: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Return the bits of the nearest bfloat16, ties to even; NaNs stay NaNs."""
    bits = floats.view(np.uint32)
    rounded = ((bits + (np.uint32(0x7FFF) + ((bits >> 16) & 1))) >> 16).astype(np.uint16)
    nan = np.isnan(floats)
    if nan.any():
        rounded[nan] = (bits[nan] >> 16).astype(np.uint16) | 0x40
    return rounded


def rounding(element: Element) -> float:
    """Return the largest relative error of rounding to an element that is not subnormal."""
    return math.ldexp(1.0, -element.mantissa_bits - 1)
