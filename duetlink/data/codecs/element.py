"""What the items of an array are, as codecs and chunks name them.

Each has the number that a chunk carries, for ever. `storage` is the NumPy dtype that holds the items in
memory; NumPy lacks some types of machine learning, whose bits lie in unsigned integers. All are
little-endian, as the machines that this runs on are: other layouts travel as `uint8`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duetlink.errors import LocalProtocolError


@dataclass(frozen=True, slots=True)
class Element:
    """One kind of item. `exponent_bits` and `mantissa_bits` are those of a floating point format, else 0."""

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
        """Whether the items are real floating point numbers."""
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
    """The unsigned integers of the fewest bytes that hold `widest`, which must be below 2^64."""
    return next(element for element in UNSIGNED if widest < 256**element.size_bytes)


def words(array: NDArray[np.generic]) -> NDArray[np.unsignedinteger]:
    """The same bits, as unsigned integers as wide as the items, which may be 8 bytes wide."""
    return array.view(f"<u{array.itemsize}")


def element_of(array: NDArray[np.generic]) -> Element:
    """The element of a NumPy array's items.

    Raises:
        LocalProtocolError: a dtype that codecs do not know, or not in this machine's byte order.
    """
    element = BY_NAME.get(array.dtype.name)
    if element is None or array.dtype != element.storage or sys.byteorder != "little":
        raise LocalProtocolError(
            f"codecs do not know items of {array.dtype}; give the bytes: array.view(numpy.uint8)"
        )
    return element
