"""The count sketch with a bitmap of "lossless homomorphic compression" (arXiv 2402.07529), for comparison.

Written from the paper's description. The array is blocks of 1024 columns. A block is added, with a sign, to
three rows of a sketch of floats, a tenth as many rows as there are blocks. Sketches add up; so do bitmaps of
what is not zero, by "or". Items alone in a cell are read and subtracted from their other two, until none is.

It is not lossless, which is why it is no codec of ours. Subtracting floats rounds, so even what was read
differs from the sum. The bit that marks an item takes the place of its mantissa's last one. What cannot be
read, about a fifth from 0.78 items for a cell on and always where two blocks have the same rows, is estimated
by the median of three cells; the error of the others has no bound. `union` sends less.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duetlink.base.runtime.off_loop import off_loop
from duetlink.data.codecs.element import FLOAT32
from duetlink.data.codecs.support import Places, places_of
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.execution.elements import Array
from duetlink.groups.collectives.sums.base import SumJob
from duetlink.groups.collectives.sums.union import union_of_supports
from duetlink.groups.collectives.values.flat import CollectiveOptions

COLUMNS = 1024
RATIO = 10  # the paper's benchmark
HASHES = 3

Cells = NDArray[np.int64]


async def all_reduce(members: Collectives, array: Array) -> int:
    """About the sum of all members' flat float32 arrays, in place; returns how many items are estimates."""
    job = SumJob(members.flat, array, FLOAT32, "sum", "lhc", CollectiveOptions(algorithm="ring"))
    bitmap, _ = await union_of_supports(job)
    places = places_of(bitmap, array.size)
    sketch: Array = await off_loop(array.nbytes, sketch_of, array)
    await job.flat.all_reduce(sketch, FLOAT32, "sum", job.step("sketch"), restore=False)
    values, estimated = await off_loop(array.nbytes, read_back, sketch, places, array.size)
    array[places] = values
    return int(estimated)


def sketch_rows(items: int) -> int:
    """How many rows a sketch has."""
    return -(-_blocks(items) // RATIO)


def _blocks(items: int) -> int:
    return max(1, -(-items // COLUMNS))


def sketch_of(array: Array) -> Array:
    """The sketch of a flat float32 array, flat."""
    blocks, rows = _blocks(array.size), sketch_rows(array.size)
    padded = np.zeros((blocks, COLUMNS), np.float32)
    padded.reshape(-1)[: array.size] = array
    sketch = np.zeros((rows, COLUMNS), np.float32)
    for index in range(HASHES):
        row, sign = _hashed(np.arange(blocks, dtype=np.uint32), index, rows)
        np.add.at(sketch, row, padded * sign[:, None])
    return sketch.reshape(-1)


def read_back(sketch: Array, places: Places, items: int) -> tuple[Array, int]:
    """The values at these places, and how many of them are estimates. Uses the sketch up."""
    cells, signs = _cells_of(places, sketch_rows(items))
    counts = np.zeros(sketch.size, np.int64)
    sums = np.zeros(sketch.size, np.int64)  # of the items' numbers: of one item, its number
    for each in cells:
        np.add.at(counts, each, 1)
        np.add.at(sums, each, np.arange(places.size))
    values = np.zeros(places.size, np.float32)
    unread = np.ones(places.size, np.bool_)
    candidates = np.flatnonzero(counts == 1)
    while candidates.size:
        found, first = np.unique(sums[candidates], return_index=True)
        cell = candidates[first]
        hashed = np.argmax(cells[:, found] == cell, axis=0)
        read = sketch[cell] * signs[hashed, found]
        values[found], unread[found] = read, False
        for index in range(HASHES):
            np.subtract.at(sketch, cells[index, found], read * signs[index, found])
            np.subtract.at(counts, cells[index, found], 1)
            np.subtract.at(sums, cells[index, found], found)
        touched = np.unique(cells[:, found])
        candidates = touched[counts[touched] == 1]
    values[unread] = np.median(sketch[cells[:, unread]] * signs[:, unread], axis=0) if unread.any() else 0
    marked = (values.view(np.uint32) & np.uint32(0xFFFFFFFE)).view(np.float32)
    return marked, int(np.count_nonzero(unread))


def _cells_of(places: Places, rows: int) -> tuple[Cells, NDArray[np.float32]]:
    """The cells of each place, and the signs with which it is in them."""
    blocks, columns = (places // COLUMNS).astype(np.uint32), places % COLUMNS
    hashed = [_hashed(blocks, index, rows) for index in range(HASHES)]
    cells = np.array([row * COLUMNS + columns for row, _ in hashed], np.int64)
    return cells.reshape(HASHES, -1), np.array([sign for _, sign in hashed]).reshape(HASHES, -1)


def _hashed(blocks: NDArray[np.uint32], seed: int, rows: int) -> tuple[Cells, NDArray[np.float32]]:
    """The row and the sign of each block: MurmurHash3 (x86, 32 bits) of its number."""
    key = blocks * np.uint32(0xCC9E2D51)
    key = ((key << np.uint32(15)) | (key >> np.uint32(17))) * np.uint32(0x1B873593)
    word = key ^ np.uint32(seed)
    word = ((word << np.uint32(13)) | (word >> np.uint32(19))) * np.uint32(5) + np.uint32(0xE6546B64)
    word ^= np.uint32(4)  # the length of the number in bytes
    word = (word ^ (word >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    word = (word ^ (word >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    word ^= word >> np.uint32(16)
    sign = np.where(word >> np.uint32(31), np.float32(-1), np.float32(1))
    return (word % np.uint32(rows)).astype(np.int64), sign
