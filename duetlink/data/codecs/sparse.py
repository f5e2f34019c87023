"""Arrays that are mostly zero: the positions of the other items, and their values.

Only an item whose bits are all 0 counts as zero; -0.0 does not. Positions are the numbers of zeros before
each item (gaps), or one bit for every item: whichever is smaller. Both are unsigned integers, and go through
the codec that suits them, as the values do.

    form u8 | element of the gaps u8 | items that are not zero u64 | positions | values      (smallest.py)
"""

from __future__ import annotations

import math
import struct
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs import smallest
from duetlink.data.codecs.base import TENSOR, Array, Codec, array_bytes
from duetlink.data.codecs.element import BY_NUMBER, UINT8, UNSIGNED, Element, narrowest
from duetlink.data.codecs.pcodec_ import Pcodec
from duetlink.data.codecs.support import nonzero
from duetlink.errors import MalformedChunk

_GAPS, _BITMAP = 0, 1
_HEAD = struct.Struct("<BBQ")
_BLOCK_ITEMS = 1 << 16  # gaps that are turned into positions at a time
_LOOK_ITEMS = 4096
_WORTHWHILE = 0.4  # share of items that are not zero
_CLEAR = 1.25  # estimates may be off by this factor; within it, both forms are tried

Positions = NDArray[np.int64]
Present = NDArray[np.bool_]


class Sparse(Codec):
    """Works at any density; from about one half on, the codecs for dense arrays are smaller."""

    number: ClassVar[int] = 20
    name: ClassVar[str] = "sparse"
    kind: ClassVar[str] = TENSOR
    levels: ClassVar[range] = Pcodec.levels
    level: ClassVar[int] = Pcodec.level
    overhead_bytes: ClassVar[int] = 2 * Pcodec.overhead_bytes + 30

    def suits(self, array: Array, element: Element) -> bool:
        flat = array.reshape(-1)
        look = np.ascontiguousarray(flat[:: flat.size // _LOOK_ITEMS | 1])
        return int(np.count_nonzero(nonzero(look, element))) <= _WORTHWHILE * look.size

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        flat = array.reshape(-1)
        present = nonzero(flat, element)
        positions = np.flatnonzero(present)
        form, gap_element, coded = _encode_positions(positions, present, flat.nbytes, level)
        head = _HEAD.pack(form, gap_element.number, positions.size)
        return b"".join((head, coded, smallest.encode(flat[positions], element, level)))

    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        form, number, count = _HEAD.unpack_from(payload)
        array = np.zeros(math.prod(shape), element.storage)
        gap_element = BY_NUMBER.get(number)
        if form not in (_GAPS, _BITMAP) or gap_element not in UNSIGNED or count > array.size:
            raise MalformedChunk(f"{count} of {array.size} items in form {form}, gaps of element {number}")
        rest = payload[_HEAD.size :]
        if form == _BITMAP:
            bits, rest = smallest.decode(rest, UINT8, (array.size + 7) // 8)
            values, rest = smallest.decode(rest, element, count)
            array[_unpacked(bits, array.size, count)] = values
        else:
            if array_bytes(gap_element, (count,)) > array.nbytes:
                raise MalformedChunk(f"{count} gaps of {gap_element.name} for {array.nbytes} bytes")
            gaps, rest = smallest.decode(rest, gap_element, count)
            values, rest = smallest.decode(rest, element, count)
            _scatter(array, gaps, values)
        if len(rest):
            raise MalformedChunk(f"{len(rest)} bytes after the values")
        return array.reshape(shape)


def _encode_positions(
    positions: Positions, present: Present, limit_bytes: int, level: int
) -> tuple[int, Element, bytes]:
    """Return the form, the element of the gaps, and the coded positions.

    No reader needs more than `limit_bytes` of memory.
    """
    gaps, gap_element = _gaps(positions)
    bitmap_bytes = (present.size + 7) // 8
    estimate_bytes = _entropy_bytes(gaps)
    found = []
    if estimate_bytes <= _CLEAR * bitmap_bytes and gaps.nbytes <= limit_bytes:
        found.append((_GAPS, gap_element, smallest.encode(gaps, gap_element, level)))
    if not found or estimate_bytes * _CLEAR >= bitmap_bytes:
        found.append((_BITMAP, UINT8, smallest.encode(np.packbits(present), UINT8, level)))
    return min(found, key=lambda form: len(form[2]))


def _gaps(positions: Positions) -> tuple[NDArray[np.unsignedinteger], Element]:
    """Return the number of zeros before each position, in the narrowest integers that hold all."""
    gaps = np.diff(positions, prepend=-1) - 1
    element = narrowest(int(gaps.max(initial=0)))
    return gaps.astype(element.storage), element


def _entropy_bytes(gaps: NDArray[np.unsignedinteger]) -> float:
    """Estimate the size of entropy-coded gaps; rare gaps from 255 on are counted with all their bits."""
    counts = np.bincount(np.minimum(gaps, 255).astype(np.uint8), minlength=256)
    used = counts[counts > 0]
    bits = float(-(used * np.log2(used / max(gaps.size, 1))).sum())
    return (bits + int(counts[255]) * 8 * gaps.itemsize) / 8


def _unpacked(bits: Array, items: int, count: int) -> Present:
    present = np.unpackbits(bits.view(np.uint8), count=items).view(np.bool_)
    if np.count_nonzero(present) != count:
        raise MalformedChunk(f"a bitmap that does not have {count} bits set")
    return present


def _scatter(array: Array, gaps: Array, values: Array) -> None:
    """Put the values at their positions, block by block: positions take more memory than gaps."""
    if gaps.size and int(gaps.max()) >= array.size:
        raise MalformedChunk(f"a gap of {gaps.max()} in {array.size} items")
    end = 0
    for start in range(0, gaps.size, _BLOCK_ITEMS):
        block = gaps[start : start + _BLOCK_ITEMS]
        positions = np.cumsum(block, dtype=np.int64) + np.arange(end, end + block.size)
        end = int(positions[-1]) + 1
        if end > array.size:  # no sum can overflow before: a chunk's array is below 2^47 items
            raise MalformedChunk(f"gaps that lead beyond {array.size} items")
        array[positions] = values[start : start + _BLOCK_ITEMS]
