"""Memory behind a file descriptor, which another process can map: memfds, sealed once they are written.

Theory. `memfd_create(2)` gives memory that has no name to leave behind and is freed with its last user, even
if a process is killed. Once it is sealed against writing, growing and shrinking (`fcntl(2)`, F_ADD_SEALS),
its reader can rely on it for ever. Systems without memfds (macOS) use an unlinked file, which cannot be
sealed.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import os
import stat
import sys
import tempfile
import weakref
from typing import Any

if sys.platform == "linux":
    import fcntl

    FIXED_SIZE = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
    SEALS = FIXED_SIZE | fcntl.F_SEAL_SEAL | fcntl.F_SEAL_WRITE
else:
    FIXED_SIZE = SEALS = 0

# F_SEAL_FUTURE_WRITE (Linux 5.1): a mapping that exists may be written to, and nothing else can write
NO_OTHER_WRITERS = 0x10

# Memory that must stay free after shared memory was made: the kernel ends processes when it finds none.
RESERVE_BYTES = 512 * 1024 * 1024


def available_bytes() -> int:
    """Return how much memory the system can give without swapping, a large number if it does not say."""
    with contextlib.suppress(OSError, ValueError), open("/proc/meminfo", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 1 << 62


def has_room(size_bytes: int) -> bool:
    """Return True if the system stays healthy with that much more shared memory."""
    return size_bytes + RESERVE_BYTES <= available_bytes()


def create(name: str) -> int:
    """Return a descriptor of empty memory, closed when a program is started. Raises OSError."""
    if sys.platform == "linux":
        return os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    fd, path = tempfile.mkstemp(prefix=name)
    os.unlink(path)
    return fd


def write(fd: int, piece: memoryview, offset_bytes: int) -> None:
    """Write all of `piece` at its offset; any thread. Raises OSError if memory is full."""
    while piece:
        written = os.pwrite(fd, piece, offset_bytes)
        piece = piece[written:]
        offset_bytes += written


def seal(fd: int, seals: int = SEALS) -> None:
    """Make the content final, or the size with FIXED_SIZE.

    Raises:
        OSError: EBUSY while the memory is mapped writable.
    """
    if sys.platform == "linux":
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)


def is_sealed(fd: int, size_bytes: int) -> bool:
    """Return True for sealed memory of that size. Raises OSError for files that have no seals."""
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_size != size_bytes:
        return False
    if sys.platform == "linux":
        return fcntl.fcntl(fd, fcntl.F_GET_SEALS) & SEALS == SEALS
    return True


def has_fixed_size(fd: int) -> bool:
    """Return True if its size cannot change any more. Raises OSError for files that have no seals."""
    return sys.platform != "linux" or fcntl.fcntl(fd, fcntl.F_GET_SEALS) & FIXED_SIZE == FIXED_SIZE


def map_privately(fd: int, size_bytes: int) -> memoryview:
    """Return writable memory with this content; writes to it are private to this process.

    It holds no descriptor, and is unmapped with its last view. `size_bytes` is not 0. Raises OSError.
    """
    flags, protection = mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE
    if sys.version_info >= (3, 13):
        return memoryview(mmap.mmap(fd, size_bytes, flags=flags, prot=protection, trackfd=False))
    if sys.platform != "linux":
        return memoryview(mmap.mmap(fd, size_bytes, flags=flags, prot=protection))
    import numpy as np

    # before Python 3.13 an mmap object holds a duplicate of its descriptor for as long as it lives
    address = _mmap(size_bytes, flags, fd)
    memory = (ctypes.c_ubyte * size_bytes).from_address(address)
    weakref.finalize(memory, unmap, address, size_bytes).atexit = False
    octets: np.ndarray = np.frombuffer(memoryview(memory), np.uint8)
    return octets.data


def map_shared(fd: int, size_bytes: int) -> int:
    """Map the memory itself, writable, and return its address; `unmap` ends that. Linux. Raises OSError.

    Its pages are made at once, so that memory which was found to be free is still free, and because one call
    for large memory costs less than a page fault for each.
    """
    return _mmap(size_bytes, mmap.MAP_SHARED | mmap.MAP_POPULATE, fd)


def remap_privately(address: int, fd: int, size_bytes: int) -> None:
    """Replace a mapping, in one step and at the same address, by a private one as of `map_privately`.

    Linux. Raises OSError; then the mapping is as it was.
    """
    # not mmap with MAP_FIXED, which may remove the old mapping and fail afterwards, for want of memory
    elsewhere = _mmap(size_bytes, mmap.MAP_PRIVATE, fd)
    if _libc().mremap(elsewhere, size_bytes, size_bytes, _MOVE_TO_ADDRESS, address) == _FAILED:
        error = ctypes.get_errno()
        unmap(elsewhere, size_bytes)
        raise OSError(error, os.strerror(error))


def unmap(address: int, size_bytes: int) -> None:
    _libc().munmap(address, size_bytes)


def _mmap(size_bytes: int, flags: int, fd: int) -> int:
    found = _libc().mmap(None, size_bytes, mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, 0)
    if found == _FAILED:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return int(found)


_MOVE_TO_ADDRESS = 3  # MREMAP_MAYMOVE | MREMAP_FIXED, of mremap(2)
_FAILED = ctypes.c_void_p(-1).value


@functools.cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,  # off_t
    )
    libc.mremap.restype = ctypes.c_void_p
    libc.mremap.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_void_p,
    )
    libc.munmap.argtypes = ctypes.c_void_p, ctypes.c_size_t
    return libc
