"""Fixed chunks of an array's memory, aligned to its rows: cut points without a look at the content.

Rows up to the target go together, as many as fit; the last chunk is what is left. A row above the target is
cut into equal parts, the last a little smaller, and each row begins anew: rows are found where others were
put in or taken out before them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def chunk_bytes(row_bytes: int, target_bytes: int) -> int:
    """The size of all chunks but the last, of the array or of each large row. Arrays for which it is the
    same, and whose rows are small or equally large, are cut alike."""
    if row_bytes <= target_bytes:
        return target_bytes // row_bytes * row_bytes
    return -(-row_bytes // _parts(row_bytes, target_bytes))


def fixed_count(size_bytes: int, row_bytes: int, target_bytes: int) -> int:
    """How many chunks `fixed_sizes` gives, without making them."""
    step = chunk_bytes(row_bytes, target_bytes)
    if row_bytes <= target_bytes:
        return -(-size_bytes // step)
    rows, rest = divmod(size_bytes, row_bytes)
    return rows * _parts(row_bytes, target_bytes) + -(-rest // step)


def fixed_sizes(size_bytes: int, row_bytes: int, target_bytes: int) -> NDArray[np.int64]:
    """The sizes of the chunks of `size_bytes` bytes in rows of `row_bytes` (the last may be cut short)."""
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
