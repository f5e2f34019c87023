"""Fixed-size chunks of an array's memory, aligned to its rows; the content is not read.

Rows of at most the target size are grouped, as many as fit; the last chunk is the remainder. A larger row is
cut into equal parts, the last a little smaller, and each row starts a new chunk, so that unchanged rows are
found even if rows were inserted or removed before them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def chunk_bytes(row_bytes: int, target_bytes: int) -> int:
    """Return the size of all chunks but the last one of the array, or of each large row.

    Arrays with the same result, and with small or equally large rows, are cut alike.
    """
    if row_bytes <= target_bytes:
        return target_bytes // row_bytes * row_bytes
    return -(-row_bytes // _parts(row_bytes, target_bytes))


def fixed_count(size_bytes: int, row_bytes: int, target_bytes: int) -> int:
    """Return the number of chunks that `fixed_sizes` gives, without making them."""
    step = chunk_bytes(row_bytes, target_bytes)
    if row_bytes <= target_bytes:
        return -(-size_bytes // step)
    rows, rest = divmod(size_bytes, row_bytes)
    return rows * _parts(row_bytes, target_bytes) + -(-rest // step)


def fixed_sizes(size_bytes: int, row_bytes: int, target_bytes: int) -> NDArray[np.int64]:
    """Return the sizes of the chunks of `size_bytes` bytes in rows of `row_bytes` (the last may be cut)."""
    step = chunk_bytes(row_bytes, target_bytes)
    if row_bytes <= target_bytes:
        starts = np.arange(0, size_bytes, step, dtype=np.int64)
    else:
        rows = np.arange(0, size_bytes, row_bytes, dtype=np.int64)
        starts = (rows[:, None] + np.arange(0, row_bytes, step, dtype=np.int64)).ravel()
        starts = starts[starts < size_bytes]
    return np.diff(starts, append=size_bytes)


def _parts(row_bytes: int, target_bytes: int) -> int:
    return -(-row_bytes // target_bytes)
