"""Functions that combine the items of two arrays: one for each operation and kind of item.

Sums and products are rounded to the kind of item after every addition; `float16` and `bfloat16` are added in
float32 and then rounded. For `bool`, sum and max are "or", prod and min are "and". Integers wrap around.
`min` and `max` pass NaN on. `mean` sums, and divides once at the end: see `divide`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs.element import Element, words
from duetlink.errors import SettingError, UnsupportedValue

Array = NDArray[Any]
Combine = Callable[[Array, Array, Array], object]  # left, right, where the result goes

OPERATIONS = ("sum", "mean", "min", "max", "prod", "and", "or", "xor")

_ARITHMETIC = {"sum": np.add, "mean": np.add, "min": np.minimum, "max": np.maximum, "prod": np.multiply}
_BITWISE = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


@functools.cache
def combination(operation: str, element: Element) -> Combine:
    """Return the function that combines two arrays of that kind into a third, which may be either of them.

    Raises:
        SettingError: there is no such operation.
        UnsupportedValue: the items cannot be combined in this way.
    """
    if operation not in OPERATIONS:
        raise SettingError(f"no operation {operation!r}; there are {', '.join(OPERATIONS)}")
    kind = element.storage.kind
    if element.name.startswith("float8"):
        raise UnsupportedValue(f"{element.name} cannot be added; convert it to float16 or bfloat16 first")
    if operation in _BITWISE:
        if kind not in "iub" or element.is_float:
            raise UnsupportedValue(f"{operation!r} works on bits, and {element.name} is no integer or bool")
        return _of(_BITWISE[operation])
    if operation == "mean" and kind == "b":
        raise UnsupportedValue("a mean of bool is not a bool; convert it to a number first")
    if operation in ("min", "max") and kind == "c":
        raise UnsupportedValue(f"{element.name} has no order, so no {operation}")
    return _bfloat16(operation) if element.name == "bfloat16" else _of(_ARITHMETIC[operation])


def divide(total: Array, size: int, element: Element) -> None:
    """Divide a sum by the number of members, in place.

    Floats are divided; integers are rounded to the nearest, halves up. Raises UnsupportedValue if an integer
    of this kind cannot hold the number of members.
    """
    if element.name == "bfloat16":
        import torch

        torch.from_numpy(total.view(np.int16)).view(torch.bfloat16).div_(size)
    elif element.storage.kind in "iu":
        if size > np.iinfo(total.dtype).max:
            raise UnsupportedValue(
                f"{element.name} cannot hold the number of members, {size}, to divide by it"
            )
        quotient, remainder = np.divmod(total, total.dtype.type(size))
        np.add(quotient, (remainder >= (size + 1) // 2).astype(total.dtype), out=total)
    else:
        with np.errstate(all="ignore"):
            np.divide(total, total.dtype.type(size), out=total)


def halves(array: Array, size: int) -> Array:
    """Split integers into their upper and their lower bits, concatenated into one array of twice the length.

    Sums over `size` members of either half do not overflow. See `mean_of_halves`.
    """
    bits = _lower_bits(array, size)
    return np.concatenate([array >> bits, array & ((array.dtype.type(1) << bits) - array.dtype.type(1))])


def mean_of_halves(total: Array, size: int) -> Array:
    """Compute the mean from the sum of such `halves`, rounded to the nearest, halves up."""
    bits, by = _lower_bits(total, size), total.dtype.type(size)
    upper, lower = np.split(total, 2)
    quotient, remainder = np.divmod(upper, by)
    rest = (remainder << bits) + lower + total.dtype.type(size // 2)
    mean: Array = (quotient << bits) + rest // by
    return mean


def _lower_bits(array: Array, size: int) -> Any:
    return array.dtype.type((size - 1).bit_length())


def not_finite(array: Array, element: Element) -> Array:
    """Return the indices at which a flat array of floats has an infinity or NaN."""
    exponent = ((1 << element.exponent_bits) - 1) << element.mantissa_bits
    bits = words(array)
    return np.flatnonzero((bits & bits.dtype.type(exponent)) == exponent)


def _of(function: np.ufunc) -> Combine:
    def combine(left: Array, right: Array, out: Array) -> None:
        with np.errstate(all="ignore"):  # no user sees a warning of the loop thread
            function(left, right, out=out)

    return combine


def _bfloat16(operation: str) -> Combine:
    """Combine with torch, as NumPy has no bfloat16. Only tensors have such items, so torch is there."""
    import torch

    functions: dict[str, Callable[..., object]] = {"sum": torch.add, "mean": torch.add, "prod": torch.mul}
    functions |= {"min": torch.minimum, "max": torch.maximum}
    function = functions[operation]

    def tensor(array: Array) -> torch.Tensor:
        if not array.flags.writeable:  # received memory is read-only, and torch has no read-only tensors
            array = array.copy()
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)

    def combine(left: Array, right: Array, out: Array) -> None:
        function(tensor(left), tensor(right), out=tensor(out))

    return combine
