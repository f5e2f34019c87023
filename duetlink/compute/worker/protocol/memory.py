"""Shared memory that passes values between kernel and room: written once, sealed, then mapped by the reader.

A locked-down room cannot create memory itself. Its kernel creates it, within the limits, and seals it when
the room returns it (`kernel/result_memory.py`).
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterable

from duetlink.base.runtime import shared_memory
from duetlink.errors import RemoteProtocolError, WorkLimit

NAME = "duetlink-worker"


def create(size_bytes: int) -> int:
    """Create writable memory of a fixed size; return its descriptor. Raises WorkLimit if none is left."""
    fd = -1
    try:
        fd = shared_memory.create(NAME)
        os.truncate(fd, size_bytes)
        shared_memory.seal(fd, shared_memory.FIXED_SIZE)
    except OSError as error:
        if fd >= 0:
            os.close(fd)
        raise WorkLimit(f"no shared memory of {size_bytes:,} bytes: {error.strerror}") from None
    return fd


_make: Callable[[int], int] | None = None


def set_allocator(make: Callable[[int], int]) -> None:
    """Have `place` get its memory from `make(size_bytes)`, which returns a descriptor, in this process."""
    global _make
    _make = make


def place(pieces: Iterable[memoryview | bytes], size_bytes: int) -> int:
    """Write the pieces, one after the other, into sealed memory. Returns a descriptor that the caller must
    close.

    In a locked-down room the memory is not sealed yet; the kernel seals it when it is returned.

    Raises:
        WorkLimit: there is not enough memory.
        ValueError: the pieces do not have `size_bytes` bytes.
    """
    fd = create(size_bytes) if _make is None else _make(size_bytes)
    try:
        position = 0
        for piece in pieces:
            view = memoryview(piece).cast("B")
            if position + len(view) > size_bytes:
                raise ValueError(f"the pieces have more than {size_bytes} bytes")
            try:
                shared_memory.write(fd, view, position)
            except OSError as error:
                raise WorkLimit(
                    f"shared memory is full: {size_bytes:,} bytes asked, {error.strerror}"
                ) from None
            position += len(view)
        if position != size_bytes:
            raise ValueError(f"the pieces have {position} bytes, not {size_bytes}")
        if _make is None:
            shared_memory.seal(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def close_all(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)


def map_sealed(fd: int, size_bytes: int, writable_copy: bool = False) -> memoryview:
    """Map sealed memory without a copy. The caller keeps the descriptor and may close it at once.

    Args:
        writable_copy: make the mapping writable. A write copies the page, and only this mapping shows it.

    Raises:
        RemoteProtocolError: the descriptor is not sealed memory of this size.
        WorkLimit: there is no address space or memory for the mapping.
    """
    try:
        sealed = shared_memory.is_sealed(fd, size_bytes)
    except OSError:
        sealed = False
    if not sealed:
        raise RemoteProtocolError(f"a descriptor that came is no sealed memory of {size_bytes:,} bytes")
    if size_bytes == 0:
        return memoryview(bytearray() if writable_copy else b"")
    # private in both cases: before Linux 6.7 sealed memory cannot be mapped shared, even read-only
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable_copy else 0)
    try:
        return memoryview(mmap.mmap(fd, size_bytes, flags=mmap.MAP_PRIVATE, prot=protection))
    except OSError as error:
        raise WorkLimit(f"{size_bytes:,} bytes of shared memory cannot be mapped: {error.strerror}") from None
