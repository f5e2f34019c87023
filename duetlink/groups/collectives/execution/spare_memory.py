"""Backups of arrays that operations change in place, in memory that is reused."""

from __future__ import annotations

import numpy as np

from duetlink.groups.collectives.execution.elements import Array

SPARE_BYTES = 64 * 1024 * 1024  # kept between operations: as much as the early pieces of one member


class Backup:
    """The items of an array, from its first one on, as they were before an operation changed them."""

    def __init__(self, array: Array, memory: Array) -> None:
        self._array = array
        self._memory = memory
        self._kept = 0

    def keep(self, stop: int) -> None:
        """Copy the items before index `stop` that have not been copied; none of them has changed yet."""
        if stop > self._kept:
            self._memory[self._kept : stop] = self._array[self._kept : stop]
            self._kept = stop

    def restore(self) -> None:
        """Write the copied items back. The others have not changed."""
        self._array[: self._kept] = self._memory[: self._kept]


class SpareMemory:
    """The backup memory of one engine; it holds one backup at a time."""

    def __init__(self) -> None:
        self._memory: Array = np.empty(0, np.uint8)

    def backup(self, array: Array) -> Backup:
        """Begin a backup in memory that is already mapped: new pages would cost more than the copy."""
        if self._memory.nbytes < array.nbytes:
            self._memory = np.empty(array.nbytes, np.uint8)
        return Backup(array, self._memory[: array.nbytes].view(array.dtype))

    def trim(self) -> None:
        """Release the memory if it is larger than 64 MiB. The backup is no longer needed."""
        if self._memory.nbytes > SPARE_BYTES:
            self._memory = np.empty(0, np.uint8)
