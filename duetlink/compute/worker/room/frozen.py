"""Frozen values: results in shared memory that later rooms load in place of the steps that made them.

The encoding of a value does not record its memory layout: the order of axes, the number of chunks, other
views of the memory. The last bits of sums depend on the layout. So a value is frozen only if decoding its
bytes gives the same layout again; other values are recomputed by each program that needs them.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Sequence
from typing import Any

from duetlink.compute.worker.protocol.memory import place
from duetlink.compute.worker.room.console import KernelGone
from duetlink.data import values

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def freeze(obj: Any, max_bytes: int) -> tuple[int, int] | None:
    """Encode an object into memory. Returns a descriptor, which the caller must close, and its size in bytes.

    Returns None if the object needs more than `max_bytes`, or would not have the same layout when decoded.
    """
    if _layout_of(obj) is None:
        return None
    try:
        encoded = values.encode(obj)
        size_bytes = encoded.size_bytes
        if size_bytes > max_bytes:
            return None
        fd = place(encoded.segments, size_bytes)
        if _survives_encoding(obj, fd, size_bytes):
            return fd, size_bytes
        os.close(fd)
    except (KeyboardInterrupt, SystemExit, KernelGone):
        raise
    except BaseException:  # a panic in a Rust library is not an Exception
        pass  # a program that asks for this value itself gets the error then
    return None


def is_unchanged(obj: Any, body: memoryview) -> bool:
    """True if an object still equals the value that was decoded from this body.

    The body is copied, because objects that are decoded from read-only memory differ in their flags.
    """
    try:
        then = values.encode(values.decode(memoryview(bytearray(body)), gradients=False))
        now = values.encode(obj)
        return all(map(_is_equal, now.segments, then.segments)) and now.size_bytes == then.size_bytes
    except (KeyboardInterrupt, SystemExit, KernelGone):
        raise
    except BaseException:  # steps may have changed the object in any way
        return False


def _is_equal(one: memoryview, other: memoryview) -> bool:
    import numpy as np

    if len(one) != len(other):
        return False
    return not len(one) or np.array_equal(np.frombuffer(one, np.uint8), np.frombuffer(other, np.uint8))


def _survives_encoding(obj: Any, fd: int, size_bytes: int) -> bool:
    # the kernel seals this memory later; a private mapping does not prevent that
    memory = mmap.mmap(fd, size_bytes, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    return has_same_layout(obj, values.decode(memoryview(memory), gradients=False))


def has_same_layout(one: Any, other: Any) -> bool:
    """True if two equal values also have the same memory layout, as far as results depend on it.

    False for values that may share memory or carry gradients, and for types whose layout is unknown.
    """
    describe = _layout_of(one)
    if describe is None or type(one) is not type(other):
        return False
    layout = describe(one)
    return layout is not None and layout == describe(other)


DescribeLayout = Callable[[Any], Any]  # returns a comparable description of an object's layout; None: unknown


def _layout_of(obj: Any) -> DescribeLayout | None:
    kind: Any = type(obj)
    if kind in _PLAIN:
        return _plain
    library = kind.__module__.partition(".")[0]
    if library == "numpy" and hasattr(obj, "dtype") and hasattr(obj, "strides"):
        return _array if kind.__name__ == "ndarray" else _plain
    return _LAYOUTS.get((library, kind.__name__))


def _plain(obj: Any) -> Any:
    return repr(getattr(obj, "dtype", ""))


def _array(array: Any) -> Any:
    dtype = array.dtype
    if dtype.hasobject or dtype.kind in "OTV" or dtype.names is not None:
        return None
    return dtype.str, _steps(array.shape, array.strides), array.flags.writeable


def _steps(shape: Sequence[int], strides: Sequence[int]) -> Any:
    """Return the shape, and the strides of axes longer than 1; other strides have no effect."""
    return tuple(shape), tuple(
        stride for count, stride in zip(shape, strides, strict=True) if count > 1 and 0 not in shape
    )


def _tensor(tensor: Any) -> Any:
    if tensor.requires_grad or tensor.grad is not None or tensor.is_conj() or tensor.is_neg():
        return None
    return str(tensor.dtype), _steps(tensor.shape, tensor.stride())


def _pandas(table: Any) -> Any:
    found = [_index(axis) for axis in table.axes]
    for block in table._mgr.blocks:
        column = _column(block.values)
        places = block.mgr_locs.as_array.tolist() if table.ndim == 2 else []
        found.append(column and (places, column))
    return None if None in found else found


def _index(index: Any) -> Any:
    if hasattr(index, "levels"):
        return None
    if type(index).__name__ == "RangeIndex":
        return "range", index.start, index.stop, index.step
    column = _column(index.array)
    return None if column is None else (type(index).__name__, column, str(getattr(index, "freq", "")))


def _column(column: Any) -> Any:
    """Describe a pandas column, which is a NumPy array or an extension array around some; None: unknown."""
    if type(column).__module__ == "numpy":
        return _array(column)
    parts = [getattr(column, name, None) for name in ("_data", "_mask", "_ndarray")]
    arrays = [_array(part) for part in parts if type(part).__module__ == "numpy"]
    arrow = getattr(column, "_pa_array", None)
    if arrow is not None:
        arrays.append((str(arrow.type), arrow.num_chunks))
    if not arrays or None in arrays:
        return None
    return type(column).__name__, str(column.dtype), arrays


def _polars(table: Any) -> Any:
    columns = table.get_columns() if hasattr(table, "get_columns") else [table]
    return [(str(column.dtype), column.n_chunks(), sorted(column.flags.items())) for column in columns]


_LAYOUTS: dict[tuple[str, str], DescribeLayout] = {
    ("pandas", "DataFrame"): _pandas,
    ("pandas", "Series"): _pandas,
    ("polars", "DataFrame"): _polars,
    ("polars", "Series"): _polars,
    ("torch", "Tensor"): _tensor,
}
