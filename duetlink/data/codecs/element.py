"""The types of array items, as codecs and chunks name them.

Each has a number that chunks carry and that never changes. `storage` is the NumPy dtype that holds the items
in memory. NumPy lacks some types of machine learning; their bits are held in unsigned integers. All are
little-endian, like the machines that this runs on: arrays in other byte orders travel as `uint8`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duetlink.errors import LocalProtocolError


@dataclass(frozen=True, slots=True)
class Element:
    """One type of items. `exponent_bits` and `mantissa_bits` are 0 unless it is a floating point format."""

    number: int
    name: str
    storage: np.dtype[np.generic]
    exponent_bits: int = 0
    mantissa_bits: int = 0

    @property
    def size_bytes(self) -> int:
        return self.storage.itemsize

    @property
    def is_float(self) -> bool:
        """True if the items are real floating point numbers."""
        return self.exponent_bits > 0


def _element(number: int, name: str, storage: str = "", exponent: int = 0, mantissa: int = 0) -> Element:
    return Element(number, name, np.dtype(storage or name).newbyteorder("<"), exponent, mantissa)


ELEMENTS = (
    _element(0, "uint8"),
    _element(1, "int8"),
    _element(2, "uint16"),
    _element(3, "int16"),
    _element(4, "uint32"),
    _element(5, "int32"),
    _element(6, "uint64"),
    _element(7, "int64"),
    _element(8, "float16", "", 5, 10),
    _element(9, "float32", "", 8, 23),
    _element(10, "float64", "", 11, 52),
    _element(11, "bool"),
    _element(12, "complex64"),
    _element(13, "complex128"),
    _element(14, "bfloat16", "uint16", 8, 7),
    _element(15, "float8_e4m3fn", "uint8", 4, 3),
    _element(16, "float8_e5m2", "uint8", 5, 2),
)
BY_NUMBER = {element.number: element for element in ELEMENTS}
BY_NAME = {element.name: element for element in ELEMENTS}

UNSIGNED = tuple(BY_NAME[name] for name in ("uint8", "uint16", "uint32", "uint64"))

UINT8 = BY_NAME["uint8"]
FLOAT32 = BY_NAME["float32"]
BFLOAT16 = BY_NAME["bfloat16"]


def narrowest(widest: int) -> Element:
    """Return the narrowest unsigned integers that hold `widest`, which must be below 2^64."""
    return next(element for element in UNSIGNED if widest < 256**element.size_bytes)


def words(array: NDArray[np.generic]) -> NDArray[np.unsignedinteger]:
    """Return the same bits as unsigned integers of the items' width, which must be at most 8 bytes."""
    return array.view(f"<u{array.itemsize}")


def element_of(array: NDArray[np.generic]) -> Element:
    """Return the element of a NumPy array's items.

    Raises:
        LocalProtocolError: codecs do not know the dtype, or it is not in this machine's byte order.
    """
    element = BY_NAME.get(array.dtype.name)
    if element is None or array.dtype != element.storage or sys.byteorder != "little":
        raise LocalProtocolError(
            f"codecs do not know items of {array.dtype}; give the bytes: array.view(numpy.uint8)"
        )
    return element
