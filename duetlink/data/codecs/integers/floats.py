"""Convert items of floating point formats that NumPy may lack to NumPy floats, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs.element import Element

_BFLOAT16_SHIFT = np.uint32(16)


def bits_of(array: NDArray[Any], element: Element) -> NDArray[Any]:
    """Return a view of the items' bits, as unsigned integers of the same width."""
    return array.view(f"<u{element.size_bytes}")


def floats(array: NDArray[Any], element: Element) -> NDArray[Any]:
    """Return the numbers as NumPy floats: the array itself, or float32 in new memory for bfloat16."""
    if element.name == "bfloat16":
        return (array.astype(np.uint32) << _BFLOAT16_SHIFT).view(np.float32)
    return array


def unfloats(values: NDArray[Any], element: Element) -> NDArray[Any]:
    """Return numbers as items of that element, rounded to the nearest, halves to even."""
    with np.errstate(over="ignore"):
        if element.name != "bfloat16":
            return values.astype(element.storage, copy=False)
        words = values.astype(np.float32).view(np.uint32)
    odd = (words >> _BFLOAT16_SHIFT) & np.uint32(1)
    rounded = (words + (np.uint32(0x7FFF) + odd)) >> _BFLOAT16_SHIFT
    quiet = (words >> _BFLOAT16_SHIFT) | np.uint32(0x40)  # rounding could make an infinity of NaN
    return np.where(np.isnan(words.view(np.float32)), quiet, rounded).astype(np.uint16)
