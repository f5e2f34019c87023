"""Mocks of NumPy arrays and scalars."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from duetlink.compute.mocks.base import TEXT_BYTES, Span
from duetlink.compute.mocks.draw import Array, ColumnSampler
from duetlink.compute.mocks.facts import NoFacts
from duetlink.compute.mocks.instants import is_usual
from duetlink.compute.mocks.registry import unsupported
from duetlink.compute.mocks.scope import Scope
from duetlink.errors import SettingError

TRUTH_VALUES = 8  # fewer booleans may well be equal by chance


class NumpyMockBuilder:
    def rows(self, obj: Any) -> int | None:
        return len(obj) if isinstance(obj, np.ndarray) and obj.ndim else None

    def size_bytes(self, obj: Any) -> int:
        return int(obj.size) * width_bytes(obj.dtype)

    def make(self, obj: Any, scope: Scope) -> object:
        if type(obj) not in (np.ndarray, np.memmap):
            if not isinstance(obj, np.generic):
                raise unsupported(obj, "a subclass of ndarray has more than values")
            if type(obj) in (
                np.str_,
                np.bytes_,
            ):  # the width of a scalar's dtype is the length of its value, which is data
                text = scope.draw(ArrayFacts(np.asarray(obj))).texts(1)[0]
                return np.str_(text) if type(obj) is np.str_ else np.bytes_(text.encode())
            return array(obj.dtype, (1,), scope, np.asarray(obj))[0]
        shape = (scope.rows(len(obj)), *obj.shape[1:]) if obj.ndim else ()
        return array(obj.dtype, shape, scope, np.asarray(obj))

    def differences(self, obj: Any, mock: Any) -> Iterator[str]:
        if isinstance(obj, np.ndarray) and obj.ndim != mock.ndim:
            yield f"the object has {obj.ndim} dimensions, the mock {mock.ndim}"
        if not same_dtype(obj.dtype, mock.dtype):
            yield f"the object's dtype is {obj.dtype}, the mock's {mock.dtype}"

    def memory(self, obj: Any) -> Iterator[Span]:
        yield from spans(obj, "array")

    def part(self, obj: Any, start: int, stop: int) -> Any:
        return obj[start:stop]

    def equal(self, left: Any, right: Any) -> bool:
        if left.shape != right.shape or not same_dtype(left.dtype, right.dtype):
            return False
        if left.dtype.kind == "V":
            return bool(left.tobytes() == right.tobytes())
        return bool(np.array_equal(left, right, equal_nan=left.dtype.kind in "fcmM"))

    def is_ordinary(self, obj: Any) -> bool:
        few = TRUTH_VALUES if obj.dtype.kind == "b" else 2 if obj.dtype.kind in "iu" else 1
        return bool(obj.size < few or not obj.nbytes)


def spans(array: Array, part: str) -> Iterator[Span]:
    """Yield the memory range from the first to the last byte; bytes between the items count as the
    array's own.
    """
    if isinstance(array, np.ndarray) and array.nbytes:
        start, stop = np.lib.array_utils.byte_bounds(array)
        yield Span(part, start, stop, array)


def width_bytes(dtype: np.dtype[Any]) -> int:
    """Return the memory of an item, in bytes; texts of any length and objects count as TEXT_BYTES."""
    return TEXT_BYTES if dtype.kind in "OT" else dtype.itemsize


def same_dtype(left: np.dtype[Any], right: np.dtype[Any]) -> bool:
    """Compare dtypes as user code would notice: texts of fixed width may differ in width."""
    return left == right or (left.kind == right.kind and left.kind in "SU")


def array(dtype: np.dtype[Any], shape: tuple[int, ...], scope: Scope, real: Array | None) -> Array:
    """Return a new mock array. Facts are computed from `real`, if it is given.

    Raises:
        SettingError: the dtype holds Python objects; bounds or categories do not fit it.
    """
    if dtype.names is not None:
        made = np.zeros(shape, dtype)
        for name in dtype.names:
            base, inner = dtype[name].subdtype or (dtype[name], ())
            made[name] = array(
                base, (*shape, *inner), scope.child(name), None if real is None else real[name]
            )
        return made
    if dtype.kind == "O":
        raise SettingError("no mock can be made of an array of Python objects; convert it with .astype(…)")
    draw = scope.draw(NoFacts() if real is None else ArrayFacts(real))
    values = column(dtype, math.prod(shape), draw)
    gaps = draw.gaps(len(values))
    if gaps.any():
        _set_missing(values, gaps)
    return values.reshape(shape)


def column(dtype: np.dtype[Any], count: int, draw: ColumnSampler) -> Array:
    """Return a one-dimensional array of a dtype without fields, without missing values."""
    chosen = draw.chosen(count, lambda values: _converted(values, dtype))
    if chosen is not None:
        choices, picks = chosen
        return np.asarray(choices[picks])
    if isinstance(dtype, np.dtypes.StringDType):
        return np.array(draw.texts(count), dtype=dtype)
    match dtype.kind:
        case "b":
            return draw.integers(count, 0, 1, "bool").astype(dtype)
        case "i" | "u":
            limits = np.iinfo(dtype)
            return draw.integers(count, int(limits.min), int(limits.max), dtype.name).astype(dtype)
        case "f":
            return floats(dtype, count, draw)
        case "c":
            part = np.dtype(f"f{dtype.itemsize // 2}")
            return floats(part.newbyteorder(dtype.byteorder), 2 * count, draw).view(dtype)
        case "M" | "m":
            return draw.times(count, dtype)
        case "U":
            return np.array(draw.texts(count, dtype.itemsize // 4), dtype)
        case "S":
            return np.array([text.encode() for text in draw.texts(count, dtype.itemsize)], dtype)
    octets = draw.octets(count, dtype.itemsize)
    return octets.view(dtype).reshape(count) if dtype.itemsize else np.zeros(count, dtype)


def floats(dtype: np.dtype[Any], count: int, draw: ColumnSampler) -> Array:
    """Draw floating-point numbers of any width."""
    # bounds are Python's floats, so the wider range of longdouble is not needed
    most = float(min(np.finfo(dtype).max, np.finfo(np.float64).max))

    def rounded(values: Array) -> Array:
        with np.errstate(over="ignore"):
            return values.astype(dtype).astype(np.float64)

    # not astype, which leaves the padding of a long double uninitialised, and padding is sent
    made = np.zeros(count, dtype)
    made[:] = draw.floats(count, most, dtype.name, rounded)
    return made


def _converted(values: Sequence[Any], dtype: np.dtype[Any]) -> Array:
    converted = np.array(list(values), dtype)
    if converted.ndim != 1:
        raise ValueError("they are no plain values")
    if dtype.kind in "biufcSUTV":  # NumPy truncates or rounds these without an error
        exact = np.array(list(values), object)
        if dtype.kind == "f" and all(np.isfinite(converted)):
            exact = np.array(list(values), np.float64).astype(dtype)
        if not all(a == b for a, b in zip(converted.tolist(), exact.tolist(), strict=True)):
            raise ValueError(f"{dtype} changes them")
    return converted


def _set_missing(values: Array, gaps: Array) -> None:
    if values.dtype.kind in "fc":
        values[gaps] = np.nan
    elif values.dtype.kind in "mM":
        values[gaps] = np.array("NaT", values.dtype)
    elif hasattr(values.dtype, "na_object"):
        values[gaps] = values.dtype.na_object


class ArrayFacts:
    """The facts of an array of any shape, whose dtype has no fields."""

    def __init__(self, array: Array) -> None:
        self._array = array
        self.discrete = array.dtype.kind in "iuSUT"

    def bounds(self) -> tuple[Any, Any] | None:
        values = self._array[~_missing(self._array)]
        if values.dtype.kind == "f":
            values = values[np.isfinite(values)]
        if values.dtype.kind not in "iufmM" or not values.size:
            return None
        if values.dtype.kind in "mM" and not is_usual(values.dtype):
            return None
        return values.min(), values.max()

    def counts(self) -> Mapping[Any, int]:
        values, counts = np.unique(self._array[~_missing(self._array)], return_counts=True)
        listed = values if values.dtype.kind in "mM" else values.tolist()
        return dict(zip(listed, counts.tolist(), strict=True))

    def missing(self) -> float:
        return float(_missing(self._array).mean()) if self._array.size else 0.0


def _missing(array: Array) -> Array:
    if array.dtype.kind in "fc" or hasattr(array.dtype, "na_object"):
        mask: Array = np.asarray(np.isnan(array)) if array.dtype.kind != "T" else _gone(array)
        return mask
    return np.isnat(array) if array.dtype.kind in "mM" else np.zeros(array.shape, bool)


def _gone(array: Array) -> Array:
    return np.array([type(item) is not str for item in array.flat], bool).reshape(array.shape)


HANDLER: Any = NumpyMockBuilder()
