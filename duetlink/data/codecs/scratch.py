"""Working memory for encoders, which each thread keeps from one chunk to the next.

Memory that is new from the system costs a page fault for every 4 KiB: as much as to compute its content.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_KEPT_BYTES = 4 << 20  # larger buffers are not kept

_held = threading.local()


def scratch(use: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return an uninitialised array, valid until this thread asks for the same `use` again."""
    dtype = np.dtype(dtype)
    size_bytes = math.prod(shape) * dtype.itemsize
    if size_bytes > _KEPT_BYTES:
        return np.empty(shape, dtype)
    buffer: NDArray[np.uint8] | None = _held.__dict__.get(use)
    if buffer is None or buffer.nbytes < size_bytes:
        buffer = _held.__dict__[use] = np.empty(size_bytes, np.uint8)
    return buffer[:size_bytes].view(dtype).reshape(shape)
