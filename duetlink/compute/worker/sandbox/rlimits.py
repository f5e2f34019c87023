"""The system's own limits of a process (getrlimit(2))."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import sys

from duetlink.compute.worker.protocol.limits import Limits

# a mapping holds a descriptor: so many assets can be at work at once
_DESCRIPTORS = 4096


class MemoryMeter:
    """How much private memory this process has asked for; opened before its files are out of reach."""

    def __init__(self) -> None:
        self._fd = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)

    def used_bytes(self) -> int:
        """Of private memory that can be written to, as RLIMIT_DATA counts it, and stacks."""
        return int(os.pread(self._fd, 200, 0).split()[5]) * os.sysconf("SC_PAGE_SIZE")

    def close(self) -> None:
        os.close(self._fd)


def end_first() -> None:
    """Have the system end this process before any other when its memory runs out.

    RLIMIT_DATA does not count everything: code that makes system calls of its own can write to memory and
    then make it read-only, which is no longer counted.
    """
    with contextlib.suppress(OSError):
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, b"1000")
        finally:
            os.close(fd)


def restrict(limits: Limits, used_bytes: int) -> None:
    """Limit memory, processor time, size and number of files, from here on.

    Memory is limited by RLIMIT_DATA: what is private and can be written to. RLIMIT_AS would count assets that
    are mapped, and the address space that allocators and threads reserve without using it. The hard limit
    stays as it is: the kernel process, and it only, raises the other one for assets that are mapped to be
    written to.
    """
    data = used_bytes + limits.memory_bytes
    spent_s = sum(os.times()[:2])
    cpu_s = math.ceil(spent_s + limits.cpu_s)
    _set(resource.RLIMIT_DATA, data, None)
    _set(resource.RLIMIT_CPU, cpu_s, cpu_s + 1)  # at the first it is told, at the second killed
    _set(resource.RLIMIT_FSIZE, limits.result_bytes, limits.result_bytes)
    _set(resource.RLIMIT_NOFILE, _DESCRIPTORS, _DESCRIPTORS)
    _set(resource.RLIMIT_CORE, 0, 0)
    if sys.platform == "darwin":
        # on Linux it counts the threads of all the user's processes; there seccomp refuses processes
        _set(resource.RLIMIT_NPROC, 0, 0)


def _set(limit: int, soft: int, hard: int | None) -> None:
    _, most = resource.getrlimit(limit)
    if most != resource.RLIM_INFINITY:
        soft = min(soft, most)
        hard = most if hard is None else min(hard, most)
    elif hard is None:
        hard = resource.RLIM_INFINITY
    with contextlib.suppress(OSError, ValueError):  # macOS knows some of them by name only
        resource.setrlimit(limit, (soft, hard))
