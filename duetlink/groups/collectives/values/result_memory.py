"""Memory of results that callers have dropped, for later results.

The system clears new pages before they are used, which can take as long as the sum that is written into them.
"""

from __future__ import annotations

import weakref

import numpy as np

from duetlink.groups.collectives.execution.elements import Array
from duetlink.groups.collectives.execution.spare_memory import SPARE_BYTES

_LEAST_BYTES = 1024 * 1024  # malloc gives smaller blocks without new pages


class ResultMemory:
    """Gives results the memory of the last one that was dropped: `empty_like = ResultMemory()`."""

    def __init__(self) -> None:
        self._spare: Array | None = None

    def __call__(self, given: Array) -> Array:
        """Return a flat array like `given`, in the spare memory if that has its size. On the loop thread."""
        if not _LEAST_BYTES <= given.nbytes <= SPARE_BYTES:
            return np.empty_like(given)
        block, self._spare = self._spare, None
        if block is None or block.nbytes != given.nbytes:
            block = np.empty(given.nbytes, np.uint8)
        # A view refers to the array that owns its memory, which NumPy looks for; at a memoryview it stops. So
        # each view refers to the result and not to the block, which is spare when neither is left.
        result: Array = np.frombuffer(block.data, given.dtype)
        weakref.finalize(result, self._give_back, block).atexit = False
        return result

    def _give_back(self, block: Array) -> None:
        """Keep a block for the next result. Called on any thread, and only assigns."""
        self._spare = block
