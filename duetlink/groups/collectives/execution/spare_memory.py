"""Memory for backups of arrays that an operation changes in place, reused from one operation to the next."""

from __future__ import annotations

import numpy as np

from duetlink.groups.collectives.execution.elements import Array

_SPARE_BYTES = 64 * 1024 * 1024  # kept between operations: as much as the early pieces of one member


class SpareMemory:
    """The backup memory of one engine; it holds one backup at a time."""

    def __init__(self) -> None:
        self._memory: Array = np.empty(0, np.uint8)

    def copy(self, array: Array) -> Array:
        """Return a copy in memory that is already mapped: new pages would cost more than the copy."""
        if self._memory.nbytes < array.nbytes:
            self._memory = np.empty(array.nbytes, np.uint8)
        backup: Array = self._memory[: array.nbytes].view(array.dtype)
        backup[...] = array
        return backup

    def trim(self) -> None:
        """Release the memory if it is larger than 64 MiB. The backup is no longer needed."""
        if self._memory.nbytes > _SPARE_BYTES:
            self._memory = np.empty(0, np.uint8)
