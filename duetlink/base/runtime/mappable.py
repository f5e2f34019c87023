"""Memory that is filled in place and then sealed in place, so that another process can map it without a copy.

Theory. A memfd cannot be sealed against writing while any process maps it shared and writable (EBUSY). So its
owner's mapping is replaced first by a private one, in one step and at the same address: views of it stay
valid, and from then on a write copies the page and reaches nobody else. A forked child would inherit a shared
mapping, and could write into its parent's memory, so it gets a private one at once. Only a process that was
forked without Python's knowledge, in C, keeps a shared mapping: while it lives, the memory cannot be sealed.

The memory has room before and after its data, so that a header can be written around the data later:

    | zeros | header | data | trailer | zeros |
    0                HEAD_BYTES               HEAD_BYTES + size_bytes + TAIL_BYTES
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

from duetlink.base.runtime import forks, shared_memory

# Whole pages on every system, and room for the header of a record with a thousand fields.
HEAD_BYTES = TAIL_BYTES = 64 * 1024

# The sender's and the receiver's arrays beside the data stay aligned for numbers of 8 bytes.
ALIGNMENT_BYTES = 8

LABEL_BYTES = 16

# Compared at once: large enough that Python's part does not count.
_COMPARED_BYTES = 4 * 1024 * 1024

# A child that Python forks gets its private mapping, and one that starts a program loses all mappings, within
# this time.
_FORK_S = 0.05


def name_of(label: bytes) -> str:
    """Return the name of a memfd that another process recognises by its random label."""
    return f"duetlink-{label.hex()}"


def supported() -> bool:
    """Return True if this system has memfds and /proc (Linux)."""
    return sys.platform == "linux" and os.path.isdir("/proc/self/fd")


class SealedBody:
    """Bytes in sealed memory, which never change: `body`, read-only, in a memfd of `total_bytes`.

    The descriptor `fd` is open as long as this object lives, and `body` keeps its mapping by itself.
    """

    def __init__(self, fd: int, label: bytes, start_bytes: int, size_bytes: int, total_bytes: int) -> None:
        """Take over `fd`. Raises OSError; then `fd` is still the caller's."""
        self._whole = shared_memory.map_privately(fd, total_bytes).toreadonly()
        self.fd, self.label, self.start_bytes = fd, label, start_bytes
        self.size_bytes, self.total_bytes = size_bytes, total_bytes
        self.body = self._whole[start_bytes : start_bytes + size_bytes]
        weakref.finalize(self, os.close, fd).atexit = False

    def copy_on_write(self) -> memoryview:
        """Return the bytes as writable memory; a write copies the page. Raises OSError."""
        whole = shared_memory.map_privately(self.fd, self.total_bytes)
        return whole[self.start_bytes : self.start_bytes + self.size_bytes]


class MappableMemory:
    """Memory of this process: filled through `cells`, then sealed once. Any thread may call."""

    def __init__(self, size_bytes: int) -> None:
        """Raises OSError if there are no memfds, or no descriptor or address space for one."""
        if not supported():
            raise OSError(errno.ENOSYS, "this system has no memfd")
        forks.in_child(_forked)
        self.size_bytes = size_bytes
        self.total_bytes = HEAD_BYTES + size_bytes + TAIL_BYTES
        self._lock = threading.Lock()
        self._label = secrets.token_bytes(LABEL_BYTES)
        self._sealed: SealedBody | None = None
        self._is_private = False  # it can no longer be sealed, unless it is
        self._fd = shared_memory.create(name_of(self._label))
        try:
            os.truncate(self._fd, self.total_bytes)
            shared_memory.seal(self._fd, shared_memory.FIXED_SIZE)
            self._start = shared_memory.map_shared(self._fd, self.total_bytes)
        except BaseException:
            os.close(self._fd)
            raise
        with contextlib.suppress(OSError):  # Linux before 5.1
            shared_memory.seal(self._fd, shared_memory.NO_OTHER_WRITERS)
        self.address = self._start + HEAD_BYTES

    def cells(self) -> Any:
        """Return the data, zeros, as a writable buffer. To be called once: the memory is freed with it."""
        cells = (ctypes.c_ubyte * self.size_bytes).from_address(self.address)
        _living[self.address] = self
        weakref.finalize(cells, self._free).atexit = False
        return cells

    def seal(self, header: bytes, trailer: bytes) -> SealedBody | None:
        """Write a header and a trailer around the data, and seal all of it; the caller keeps the cells alive.

        From then on `cells` are copy-on-write. A second call returns the same sealed bytes if header, data
        and trailer are still the same. None if they are not, if header or trailer have no room, or in a fork
        of the process that made the memory.

        Raises:
            OSError: EBUSY if another process can still write to the memory. `cells` are private then, and
                later calls return None. Another error: there is no memory or address space for a mapping.
        """
        start_bytes = HEAD_BYTES - len(header)
        if start_bytes < 0 or start_bytes % ALIGNMENT_BYTES or len(trailer) > TAIL_BYTES:
            return None
        with self._lock:
            if self._sealed is not None:
                return self._sealed if self._is_unchanged(self._sealed, header, trailer) else None
            if self._is_private:
                return None
            ctypes.memmove(self._start + start_bytes, header, len(header))
            ctypes.memmove(self.address + self.size_bytes, trailer, len(trailer))
            self._be_private()
            self._seal()
            size_bytes = len(header) + self.size_bytes + len(trailer)
            self._sealed = SealedBody(self._fd, self._label, start_bytes, size_bytes, self.total_bytes)
            return self._sealed

    def _be_private(self) -> None:
        shared_memory.remap_privately(self._start, self._fd, self.total_bytes)
        self._is_private = True

    def _seal(self) -> None:
        deadline_s = time.monotonic() + _FORK_S
        while True:
            try:
                return shared_memory.seal(self._fd)
            except OSError:
                if time.monotonic() > deadline_s:
                    raise
            time.sleep(0.001)

    def _is_unchanged(self, sealed: SealedBody, header: bytes, trailer: bytes) -> bool:
        """Compare with what would be sealed now, in the order of cost."""
        body, data_end = sealed.body, len(header) + self.size_bytes
        if len(body) != data_end + len(trailer):
            return False
        if body[: len(header)] != header or body[data_end:] != trailer:
            return False
        return all(_equal(ours, theirs) for ours, theirs in self._pairs(body[len(header) : data_end]))

    def _pairs(self, sealed: memoryview) -> Iterator[tuple[memoryview, memoryview]]:
        data = memoryview((ctypes.c_ubyte * self.size_bytes).from_address(self.address)).cast("B")
        for start in range(0, self.size_bytes, _COMPARED_BYTES):
            yield data[start : start + _COMPARED_BYTES], sealed[start : start + _COMPARED_BYTES]

    def _free(self) -> None:
        _living.pop(self.address, None)
        shared_memory.unmap(self._start, self.total_bytes)
        if self._sealed is None:
            os.close(self._fd)


def memory_at(address: int, size_bytes: int) -> MappableMemory | None:
    """Return the memory whose data is exactly these bytes; None if there is none."""
    found = _living.get(address)
    return found if found is not None and found.size_bytes == size_bytes else None


def _equal(ours: memoryview, theirs: memoryview) -> bool:
    import numpy as np

    return np.array_equal(np.frombuffer(ours, np.uint8), np.frombuffer(theirs, np.uint8))


def _forked() -> None:
    """Separate all memory from the parent's, in a child of it."""
    for memory in list(_living.values()):
        memory._lock = threading.Lock()
        if memory._sealed is None:
            memory._be_private()


_living: dict[int, MappableMemory] = {}  # by the address of the data
