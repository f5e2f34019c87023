"""Sealed memfds: memory that another process of the same user can map without a copy.

`base/runtime/shared_memory.py` explains the theory. Another process opens the memfd as /proc/PID/fd/N, for
which the kernel requires the same rights as for a debugger, so the same user. A private mapping lets the
reader write to its own copy of each page, without changing the original.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from duetlink.base.runtime import shared_memory
from duetlink.errors import PathUnavailable, TransferFailed

LABEL_BYTES = 16


def supported() -> bool:
    """Return True if this system has memfds and /proc (Linux)."""
    return sys.platform == "linux" and os.path.isdir("/proc/self/fd")


@dataclass(frozen=True, slots=True)
class Region:
    """The location of a sealed memfd: process id, file descriptor, random label, size."""

    pid: int
    fd: int
    label: bytes
    size_bytes: int


class SharedMemory:
    """A memfd of this process: write to it, seal it, let others map it, close it."""

    def __init__(self, label: bytes, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._label = label
        try:
            self._fd = shared_memory.create(_name(label))
        except OSError as error:
            raise PathUnavailable(f"no shared memory here: {error.strerror}") from None

    def write(self, piece: memoryview, offset_bytes: int) -> None:
        """Write `piece` at this offset; from any thread. Raises PathUnavailable if memory is full."""
        try:
            shared_memory.write(self._fd, piece, offset_bytes)
        except OSError as error:
            raise PathUnavailable(
                f"shared memory is full: {self.size_bytes} bytes asked, {error.strerror}"
            ) from None

    def seal(self) -> None:
        """Make the content immutable."""
        shared_memory.seal(self._fd)

    @property
    def region(self) -> Region:
        return Region(os.getpid(), self._fd, self._label, self.size_bytes)

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    def close(self) -> None:
        """Close the descriptor; mappings of other processes stay valid. Safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def open_region(region: Region) -> memoryview:
    """Map another process's sealed memfd privately: writable here, unchanged there, without a copy.

    Raises:
        PathUnavailable: it cannot be opened: another host, user or container, or it was closed.
        TransferFailed: it is not what was announced.
    """
    path = f"/proc/{region.pid}/fd/{region.fd}"
    expected = f"/memfd:{_name(region.label)} (deleted)"
    try:
        # check the link before opening: a device or FIFO that the peer names could block or have side effects
        visible = os.readlink(path) == expected
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK) if visible else -1
    except OSError as error:
        raise PathUnavailable(f"the peer's shared memory cannot be opened here: {error.strerror}") from None
    if fd < 0:
        raise PathUnavailable("the peer's shared memory is not visible from here")
    try:
        if os.fstat(fd).st_uid != os.getuid():
            raise TransferFailed("the peer's shared memory belongs to another user")
        if not shared_memory.is_sealed(fd, region.size_bytes):
            raise TransferFailed("the peer's shared memory is not sealed or not of the announced size")
        if region.size_bytes == 0:
            return memoryview(bytearray())
        return _map_privately(fd, region.size_bytes)
    finally:
        os.close(fd)


def _map_privately(fd: int, size_bytes: int) -> memoryview:
    try:
        return shared_memory.map_privately(fd, size_bytes)
    except OSError as error:
        raise PathUnavailable(f"the peer's shared memory cannot be mapped here: {error.strerror}") from None


def _name(label: bytes) -> str:
    return f"duetlink-{label.hex()}"
