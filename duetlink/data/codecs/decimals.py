"""Floating point numbers that were decimals: 12.34 as the integer 1234 and two digits after the point.

ALP (Afroozeh, Kuffo and Boncz 2023, "ALP: Adaptive Lossless floating-Point Compression", SIGMOD): measured or
typed numbers have few digits, and the float64 nearest to such a decimal is integer / 10^digits, because
division is rounded correctly. Decoding divides, in float64 also for float32, and the encoder checks the
result. Each vector has its number of digits, as few as possible; the integers go on to frame_of_reference.py.
Items that do not come back exactly, such as a NaN or a negative zero, are exceptions: they are put into an
array of zeros, which sparse.py encodes.

    form u8: 0 | the array as it is
            1 | size of the digits u32 | of the integers u64 | digits (zstd) | integers | exceptions, if any
"""

from __future__ import annotations

import math
import struct
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs import frame_of_reference, zstd
from duetlink.data.codecs.base import TENSOR, Array, Codec
from duetlink.data.codecs.element import BY_NAME, Element, words
from duetlink.data.codecs.scratch import scratch
from duetlink.data.codecs.sparse import Sparse
from duetlink.errors import MalformedChunk

_AS_IT_IS, _DECIMALS = b"\0", b"\1"
_SIZES = struct.Struct("<IQ")
_POWERS = np.array([float(10**digits) for digits in range(16)])  # float64 holds each exactly
_INTEGERS = {"float32": BY_NAME["int32"], "float64": BY_NAME["int64"]}
_MOST = {"float32": 2.0**22, "float64": 2.0**51}  # largest integer; with more bits, any number is a decimal
_LOOK_ITEMS = 128
_LOOK_ITEMS_OF_VECTOR = 8
_ENOUGH = 0.75  # share of decimals that makes it worthwhile
_FEW = 0.02  # with at most this share of exceptions, no more digits are tried
_MORE_DIGITS = 2  # digits tried beyond those that the sampled items of a vector need
_SPARSE = Sparse()

Floats = NDArray[Any]  # float32 or float64
Integers = NDArray[np.float64]  # whole numbers
Digits = NDArray[np.uint8]
Mask = NDArray[np.bool_]


class Decimals(Codec):
    """The codec of float32 and float64 decimals. It restores other numbers as well, but saves nothing."""

    number: ClassVar[int] = 23
    name: ClassVar[str] = "decimals"
    kind: ClassVar[str] = TENSOR
    overhead_bytes: ClassVar[int] = 120

    def accepts(self, element: Element) -> bool:
        return element.name in _INTEGERS

    def suits(self, array: Array, element: Element) -> bool:
        look, decimal = _look(array.reshape(-1))
        others = look != 0  # zeros are decimals, but any codec encodes them well
        return int(decimal[others].sum()) >= _ENOUGH * max(1, int(others.sum()))

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        flat: Floats = array.reshape(-1)
        look, decimal = _look(flat)
        if int(decimal.sum()) < _ENOUGH * max(1, look.size):
            return _AS_IT_IS + flat.tobytes()
        vectors: Floats = frame_of_reference.vectors_of(flat)
        digits, integers, exact = _decimals(vectors)
        exceptions = b""
        if not exact.all():
            if exact.mean() < 1 - _ENOUGH:  # _look counts missing items as decimals; here they are exceptions
                return _AS_IT_IS + flat.tobytes()
            _fill(integers, exact)
            others = np.where(exact, vectors.dtype.type(0), vectors).reshape(-1)[: flat.size]
            exceptions = _SPARSE.encode(others, element, _SPARSE.level)
        coded_digits = zstd.compress(digits.data, zstd.ENTROPY)
        whole = scratch("decimals, whole", integers.shape, _INTEGERS[element.name].storage)
        np.copyto(whole, integers, casting="unsafe")
        coded = frame_of_reference.encode(whole, flat.size)
        sizes = _SIZES.pack(len(coded_digits), len(coded))
        return b"".join((_DECIMALS, sizes, coded_digits, coded, exceptions))

    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        items = math.prod(shape)
        form, rest = bytes(payload[:1]), payload[1:]
        if form == _AS_IT_IS:
            return np.frombuffer(rest, element.storage).reshape(shape)
        digits_bytes, integers_bytes = _SIZES.unpack_from(rest)
        start = _SIZES.size + digits_bytes
        end = start + integers_bytes
        if form != _DECIMALS or end > len(rest):
            raise MalformedChunk(f"decimals of form {form.hex()}, {end} bytes in {len(rest)}")
        integers = frame_of_reference.decode(rest[start:end], _INTEGERS[element.name], items)
        digits = np.frombuffer(zstd.decompress(rest[_SIZES.size : start], len(integers)), np.uint8)
        found = (integers / _POWERS[digits][:, np.newaxis]).astype(element.storage, copy=False)
        flat: Array = found.reshape(-1)[:items]
        if end < len(rest):
            others = _SPARSE.decode(rest[end:], element, (items,))
            np.copyto(flat, others, where=words(others) != 0)
        return flat.reshape(shape)


def _look(flat: Floats) -> tuple[Floats, Mask]:
    """Return a few items, and a mask of those that are decimals or missing."""
    look = flat[:: flat.size // _LOOK_ITEMS | 1]  # odd: columns of a table may lie side by side
    every = np.arange(len(_POWERS), dtype=np.uint8)
    _, exact = _integers(np.broadcast_to(look, (len(every), look.size)), every)
    return look, exact.any(axis=0) | np.isnan(look)


def _decimals(vectors: Floats) -> tuple[Digits, Integers, Mask]:
    """Return, by vector, the number of digits and the integers, and a mask of the items they reproduce."""
    digits = _fewest_digits(vectors[:, :: vectors.shape[1] // _LOOK_ITEMS_OF_VECTOR | 1])
    integers, exact = _integers(vectors, digits, scratch("decimals", vectors.shape, np.float64))
    if exact.all():
        return digits, integers, exact
    for _ in range(_MORE_DIGITS):
        exceptions = vectors.shape[1] - exact.sum(axis=1)
        left = np.flatnonzero((exceptions > _FEW * vectors.shape[1]) & (digits + 1 < len(_POWERS)))
        more = digits[left] + np.uint8(1)
        tried, fits = _integers(vectors[left], more)
        better = fits.sum(axis=1) > exact[left].sum(axis=1)
        rows = left[better]
        digits[rows], integers[rows], exact[rows] = more[better], tried[better], fits[better]
    return digits, integers, exact


def _fewest_digits(rows: Floats) -> Digits:
    """Return, by row, the fewest digits that make the most of its items decimals, ignoring NaNs."""
    digits = np.zeros(len(rows), np.uint8)
    found = np.full(len(rows), -1)
    left = np.arange(len(rows))
    missing = np.isnan(rows).sum(axis=1)
    for number in range(len(_POWERS)):
        tried = np.full(len(left), number, np.uint8)
        count = _integers(rows[left], tried)[1].sum(axis=1) + missing[left]
        better = count > found[left]
        digits[left[better]], found[left[better]] = number, count[better]
        left = left[count < rows.shape[1]]
        if not left.size:
            break
    return digits


def _integers(vectors: Floats, digits: Digits, integers: Integers | None = None) -> tuple[Integers, Mask]:
    """Return the items times their power of ten, and a mask of those that come back bit for bit."""
    powers = _POWERS[digits][:, np.newaxis]
    most = _MOST[vectors.dtype.name]
    back = scratch("decimals, back", vectors.shape, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        integers = np.multiply(vectors, powers, out=integers)
        np.rint(integers, out=integers)
        integers += 0.0  # makes a negative zero a positive one
        np.divide(integers, powers, out=back)
        exact: Mask = words(back.astype(vectors.dtype, copy=False)) == words(vectors)
        if not (-most <= integers.min(initial=0.0) and integers.max(initial=0.0) <= most):  # or NaN
            exact &= np.abs(integers) <= most
    return integers, exact


def _fill(integers: Integers, exact: Mask) -> None:
    """Replace exceptions by the least integer of their vector, so that they widen no offset."""
    least = np.where(exact, integers, np.inf).min(axis=1, keepdims=True)
    least[np.isinf(least)] = 0.0
    np.copyto(integers, least, where=~exact)
