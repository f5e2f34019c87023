"""Resource limits of this process (getrlimit(2))."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import sys

from duetlink.compute.worker.protocol.limits import Limits

# each mapping of an asset holds a descriptor, so this also limits the number of assets in use
_DESCRIPTORS = 4096


class MemoryMeter:
    """Reads the private memory of this process. It must be created before Landlock closes access to /proc."""

    def __init__(self) -> None:
        self._fd = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)

    def used_bytes(self) -> int:
        """Return the bytes of writable private memory, as RLIMIT_DATA counts it, plus stacks."""
        return int(os.pread(self._fd, 200, 0).split()[5]) * os.sysconf("SC_PAGE_SIZE")

    def close(self) -> None:
        os.close(self._fd)


def end_first() -> None:
    """Make this process the first that Linux kills when the system runs out of memory.

    RLIMIT_DATA does not count everything: code that makes its own system calls can write to memory and then
    make it read-only, which is no longer counted.
    """
    with contextlib.suppress(OSError):
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, b"1000")
        finally:
            os.close(fd)


def restrict(limits: Limits, used_bytes: int) -> None:
    """Limit memory, processor time, file size and descriptors of this process.

    RLIMIT_DATA limits private writable memory, to `used_bytes` plus the limit. RLIMIT_AS would also count
    mapped assets, and address space that allocators and threads reserve without using it. The hard limit
    stays
    unchanged: the kernel process, and no other, raises the soft one for assets that are mapped writable.
    """
    data = used_bytes + limits.memory_bytes
    spent_s = sum(os.times()[:2])
    cpu_s = math.ceil(spent_s + limits.cpu_s)
    _set(resource.RLIMIT_DATA, data, None)
    _set(resource.RLIMIT_CPU, cpu_s, cpu_s + 1)  # SIGXCPU at the first, SIGKILL at the second
    _set(resource.RLIMIT_FSIZE, limits.result_bytes, limits.result_bytes)
    _set(resource.RLIMIT_NOFILE, _DESCRIPTORS, _DESCRIPTORS)
    _set(resource.RLIMIT_CORE, 0, 0)
    if sys.platform == "darwin":
        # on Linux it would count the threads of all the user's processes; there seccomp refuses new processes
        _set(resource.RLIMIT_NPROC, 0, 0)


def _set(limit: int, soft: int, hard: int | None) -> None:
    _, most = resource.getrlimit(limit)
    if most != resource.RLIM_INFINITY:
        soft = min(soft, most)
        hard = most if hard is None else min(hard, most)
    elif hard is None:
        hard = resource.RLIM_INFINITY
    with contextlib.suppress(OSError, ValueError):  # macOS defines some limits but cannot set them
        resource.setrlimit(limit, (soft, hard))
