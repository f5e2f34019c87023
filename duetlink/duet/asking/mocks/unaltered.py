"""The encoded mock as it arrived. The session works with a decoded copy that the notebook may change."""

from __future__ import annotations

import contextlib
import os

from duetlink.base.runtime import descriptors, shared_memory
from duetlink.compute.worker.protocol.memory import place
from duetlink.errors import DuetError

# Smaller mocks are copied instead: an owner may share more objects than a process may have descriptors.
_MAPPED_BYTES = 1024 * 1024


class Unaltered:
    """The bytes of one mock, which never change. Its creator closes it, while no other call is running."""

    def __init__(self, body: memoryview) -> None:
        """Copy `body`. Raises WorkLimit, DescriptorsShort, OSError if there is no memory for the copy."""
        self.size_bytes = len(body)
        self._content = b""
        self._fd = -1
        if self.size_bytes < _MAPPED_BYTES:
            self._content = bytes(body)
            return
        descriptors.check_room("a mock")
        self._fd = place([body], self.size_bytes)

    @property
    def descriptors(self) -> int:
        """The number of descriptors that it holds open: 0 or 1."""
        return int(self._fd >= 0)

    def copy(self) -> memoryview:
        """Return a writable copy of the bytes. A large one is mapped copy-on-write. Raises OSError."""
        if self._fd < 0:
            return memoryview(bytearray(self._content))
        return shared_memory.map_privately(self._fd, self.size_bytes)

    def placed(self) -> int:
        """Return a descriptor of sealed memory with the bytes, for the caller to close.

        Raises WorkLimit, OSError.
        """
        return place([self._content], self.size_bytes) if self._fd < 0 else os.dup(self._fd)

    def close(self) -> None:
        """Release the memory. Copies stay valid. Safe to call twice."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def unaltered(body: memoryview) -> Unaltered | None:
    """Return a kept copy of a mock's bytes; None if there is no memory for it."""
    with contextlib.suppress(DuetError, OSError):
        return Unaltered(body)
    return None
