"""A mock as it came, encoded: the session works with a copy, which its notebook may write into."""

from __future__ import annotations

import contextlib
import os

from duetlink.base.runtime import descriptors, shared_memory
from duetlink.compute.worker.protocol.memory import place
from duetlink.errors import DuetError

# A smaller one is copied instead, since a process has fewer descriptors than an owner may share objects.
_MAPPED_BYTES = 1024 * 1024


class Unaltered:
    """Nobody writes into it. To be closed by whoever made it, when nobody is within a call."""

    def __init__(self, body: memoryview) -> None:
        """Raises WorkLimit, DescriptorsShort, OSError: there is no memory for it beside the body."""
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
        """How many are open for it."""
        return int(self._fd >= 0)

    def copy(self) -> memoryview:
        """The same bytes, which whoever has them may write into. Of a large one only what is written takes
        memory. Raises OSError.
        """
        if self._fd < 0:
            return memoryview(bytearray(self._content))
        return shared_memory.map_privately(self._fd, self.size_bytes)

    def placed(self) -> int:
        """A descriptor of sealed memory that has it, the caller's to close. Raises WorkLimit, OSError."""
        return place([self._content], self.size_bytes) if self._fd < 0 else os.dup(self._fd)

    def close(self) -> None:
        """Copies stay. Safe to call twice."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def unaltered(body: memoryview) -> Unaltered | None:
    """The body of a mock, kept; None where there is no memory for it."""
    with contextlib.suppress(DuetError, OSError):
        return Unaltered(body)
    return None
