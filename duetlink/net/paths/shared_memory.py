"""Sealed memfds: memory that another process of the same user can map without a copy.

`base/runtime/shared_memory.py` explains the theory. Another process opens the memfd as /proc/PID/fd/N, for
which the kernel requires the same rights as for a debugger, so the same user. A private mapping lets the
reader write to its own copy of each page, without changing the original.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Self

from duetlink.base.runtime import mappable, shared_memory
from duetlink.base.runtime.mappable import ALIGNMENT_BYTES, HEAD_BYTES, TAIL_BYTES, SealedBody
from duetlink.errors import PathUnavailable, TransferFailed


@dataclass(frozen=True, slots=True)
class Region:
    """The location of a value in a sealed memfd: process id, file descriptor, random label, and the value's
    size and place in it.
    """

    pid: int
    fd: int
    label: bytes
    size_bytes: int
    start_bytes: int
    total_bytes: int  # of the memfd

    def check(self) -> None:
        """Raise TransferFailed unless the memfd has room for the value, and for little more."""
        more_bytes = self.total_bytes - self.size_bytes
        fits = self.start_bytes <= more_bytes <= HEAD_BYTES + TAIL_BYTES
        if not fits or self.start_bytes % ALIGNMENT_BYTES:
            raise TransferFailed(
                f"the peer's shared memory of {self.total_bytes} bytes cannot hold a value of "
                f"{self.size_bytes} bytes from {self.start_bytes} on"
            )


class SharedMemory:
    """A value in a memfd of this process: write to it, seal it, let others map it, close it."""

    def __init__(self, label: bytes, size_bytes: int) -> None:
        self.size_bytes = self._total_bytes = size_bytes
        self._start_bytes = 0
        self._label = label
        try:
            self._fd = shared_memory.create(mappable.name_of(label))
        except OSError as error:
            raise PathUnavailable(f"no shared memory here: {error.strerror}") from None

    @classmethod
    def of(cls, sealed: SealedBody) -> Self:
        """Return a value that is in sealed memory already. It has a descriptor of its own."""
        memory = cls.__new__(cls)
        memory.size_bytes, memory._total_bytes = sealed.size_bytes, sealed.total_bytes
        memory._start_bytes, memory._label = sealed.start_bytes, sealed.label
        try:
            memory._fd = os.dup(sealed.fd)
        except OSError as error:
            raise PathUnavailable(f"no descriptor for shared memory here: {error.strerror}") from None
        return memory

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
        return Region(
            os.getpid(), self._fd, self._label, self.size_bytes, self._start_bytes, self._total_bytes
        )

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
    region.check()
    path = f"/proc/{region.pid}/fd/{region.fd}"
    expected = f"/memfd:{mappable.name_of(region.label)} (deleted)"
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
        if not shared_memory.is_sealed(fd, region.total_bytes):
            raise TransferFailed("the peer's shared memory is not sealed or not of the announced size")
        if region.size_bytes == 0:
            return memoryview(bytearray())
        end_bytes = region.start_bytes + region.size_bytes
        return _map_privately(fd, region.total_bytes)[region.start_bytes : end_bytes]
    finally:
        os.close(fd)


def _map_privately(fd: int, size_bytes: int) -> memoryview:
    try:
        return shared_memory.map_privately(fd, size_bytes)
    except OSError as error:
        raise PathUnavailable(f"the peer's shared memory cannot be mapped here: {error.strerror}") from None
