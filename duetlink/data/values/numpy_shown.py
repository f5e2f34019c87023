"""Copy NumPy arrays without the memory that no item shows.

Records may have gaps between their fields: `records[["id"]]` is a view of all fields. A long double uses 10
of its 16 bytes. Any byte except 0 is True, and a NaN has 51 bits and a sign that are not printed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

Octets = np.ndarray[Any, np.dtype[np.uint8]]
Marks = np.ndarray[Any, np.dtype[np.bool_]]

_AT_ONCE = 1 << 15  # items processed together, which stay in the cache of a CPU
_LONG_DOUBLE_BYTES = 10 if np.finfo(np.longdouble).nmant == 63 else np.dtype(np.longdouble).itemsize


def shown(items: np.ndarray[Any, Any], *, plain_nan: bool = False) -> np.ndarray[Any, Any]:
    """Return the items of a contiguous array of one dimension: itself if it hides nothing, else a copy.

    Gaps become zeros, each bool 0 or 1; with `plain_nan`, all NaNs have the same bits.
    """
    gaps = _gaps(items.dtype)
    has_odd_gaps = gaps is not None and _octets(items)[:, gaps].any()
    if not has_odd_gaps and not any(_is_odd(leaf) for leaf in _leaves(items, plain_nan)):
        return items
    items = items.copy()
    if gaps is not None:
        _octets(items)[:, gaps] = 0
    for leaf in _leaves(items, plain_nan):
        if leaf.dtype.kind == "b":
            np.minimum(leaf.view(np.uint8), 1, out=leaf.view(np.uint8))
        else:
            leaf[np.isnan(leaf)] = np.nan
    return items


def blanked(items: np.ndarray[Any, Any], missing: Marks) -> np.ndarray[Any, Any]:
    """Set missing items to zero; return `items` itself if they are zero already."""
    bits = items.view(f"u{items.dtype.itemsize}")
    if not missing.any():
        return items
    for start in range(0, len(bits), _AT_ONCE):
        if (bits[start : start + _AT_ONCE] * missing[start : start + _AT_ONCE]).any():
            return (bits * ~missing).view(items.dtype)
    return items


def used(numbers: np.ndarray[Any, Any], count: int, missing: Marks | None = None) -> np.ndarray[Any, Any]:
    """Return the indices below `count` that occur among the numbers, in the order of first occurrence.

    -1 is no index. Stops early once every index was found.
    """
    found, known = [np.zeros(0, np.intp)], np.zeros(count + 1, np.bool_)
    step = max(_AT_ONCE, count)
    for start in range(0, len(numbers), step):
        if known[:count].all():
            break
        some = numbers[start : start + step]
        some = some if missing is None else some[~missing[start : start + step]]
        first = np.full(count + 1, -1)
        first[some[::-1]] = np.arange(len(some))[::-1]
        new = np.flatnonzero((first >= 0) & ~known)
        known[new] = True
        found.append(new[np.argsort(first[new])])
    indices = np.concatenate(found)
    return indices[indices < count]


def _octets(items: np.ndarray[Any, Any]) -> Octets:
    return items.view(np.uint8).reshape(len(items), -1)


def _gaps(dtype: np.dtype[Any]) -> Marks | None:
    """Return a mask of the bytes of an item that belong to no number; None if all do."""
    if dtype.names is None and dtype.char not in "gG":
        return None
    gaps = _uses(dtype) == 0
    return gaps if gaps.any() else None


def _uses(dtype: np.dtype[Any]) -> Octets:
    """Return, for each byte of an item, the count of numbers that use it, at most 2."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.tile(_uses(base), math.prod(shape))
    uses = np.zeros(dtype.itemsize, np.uint8)
    if dtype.fields is not None and dtype.names is not None:
        for name in dtype.names:
            field, start = dtype.fields[name][:2]
            within = uses[start : start + field.itemsize]
            np.minimum(within + _uses(field), 2, out=within)
    elif dtype.char in "gG":
        uses.reshape(-1, np.dtype(np.longdouble).itemsize)[:, :_LONG_DOUBLE_BYTES] = 1
    else:
        uses[:] = 1
    return uses


def _leaves(items: np.ndarray[Any, Any], plain_nan: bool) -> Iterator[np.ndarray[Any, Any]]:
    """Yield views of the bools and floats, which may have several representations."""
    dtype = items.dtype
    if dtype.names is not None:
        if not (_uses(dtype) > 1).any():  # if fields overlap, another field shows these bits
            for name in dtype.names:
                yield from _leaves(items[name], plain_nan)
    elif items.size and dtype.kind == "c" and plain_nan:
        yield from (items.real, items.imag)
    elif items.size and (dtype.kind == "b" or (dtype.kind == "f" and plain_nan)):
        yield items


def _is_odd(leaf: np.ndarray[Any, Any]) -> bool:
    if leaf.dtype.kind == "b":
        return bool(leaf.view(np.uint8).max() > 1)
    if not np.isnan(leaf.min()):  # a NaN is the minimum; one pass, without memory
        return False
    if leaf.dtype.itemsize > 8:
        return True
    plain = np.array(np.nan, leaf.dtype)
    bits = f"{leaf.dtype.str[0]}u{leaf.dtype.itemsize}"
    return bool((leaf[np.isnan(leaf)].view(bits) != plain.view(bits)).any())
