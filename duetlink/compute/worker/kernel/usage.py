"""Memory and processor time of a room's process, read and adjusted by its kernel. Linux only."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

if sys.platform == "linux":
    import resource


def memory_bytes(pid: int) -> int | None:
    """Return resident memory without shared pages; None if the process is gone or there is no /proc."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    except OSError:
        return None
    resident, shared = int(fields[1]), int(fields[2])
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def cpu_s(pid: int) -> float | None:
    """Return the processor time of all threads; None if the process is gone or there is no /proc."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = line.rpartition(")")[2].split()  # the program's name may contain spaces and parentheses
    user, system = int(fields[11]), int(fields[12])
    return (user + system) / os.sysconf("SC_CLK_TCK")


def allow_mapped(pid: int, fds: Sequence[int]) -> None:
    """Raise the memory limit of the process by the size of these descriptors' memory.

    A writable private mapping counts in full against RLIMIT_DATA at once, although it uses memory only where
    it is written. The room may not raise its own limit; the kernel may, because it has the same user.
    """
    if sys.platform != "linux" or not fds:
        return
    more = sum(os.fstat(fd).st_size for fd in fds)
    # if the system refuses, such mappings count like other memory
    with contextlib.suppress(OSError, ValueError):
        soft, hard = resource.prlimit(pid, resource.RLIMIT_DATA)
        if soft != resource.RLIM_INFINITY:
            raised = soft + more if hard == resource.RLIM_INFINITY else min(soft + more, hard)
            resource.prlimit(pid, resource.RLIMIT_DATA, (raised, hard))
