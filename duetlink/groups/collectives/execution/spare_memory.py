"""Memory for copies of what an operation changes in place, kept from one operation to the next."""

from __future__ import annotations

import numpy as np

from duetlink.groups.collectives.execution.elements import Array

_SPARE_BYTES = 64 * 1024 * 1024  # that is kept: as much as what may wait of each member


class SpareMemory:
    """That of one engine. One copy at a time."""

    def __init__(self) -> None:
        self._memory: Array = np.empty(0, np.uint8)

    def copy(self, array: Array) -> Array:
        """A copy, in memory that there is: new pages cost more than the copy does."""
        if self._memory.nbytes < array.nbytes:
            self._memory = np.empty(array.nbytes, np.uint8)
        backup: Array = self._memory[: array.nbytes].view(array.dtype)
        backup[...] = array
        return backup

    def trim(self) -> None:
        """Nobody needs the copy any more."""
        if self._memory.nbytes > _SPARE_BYTES:
            self._memory = np.empty(0, np.uint8)
