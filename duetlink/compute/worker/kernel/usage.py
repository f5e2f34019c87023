"""What the process of a room has used up so far, and may use up: by its kernel, on Linux only."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

if sys.platform == "linux":
    import resource


def memory_bytes(pid: int) -> int | None:
    """Memory of its own that is resident, without what it shares with others; None where it is not known."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    except OSError:
        return None
    resident, shared = int(fields[1]), int(fields[2])
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def cpu_s(pid: int) -> float | None:
    """Processor time of all its threads; None where it is not known."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = line.rpartition(")")[2].split()  # the program's name may hold anything
    user, system = int(fields[11]), int(fields[12])
    return (user + system) / os.sysconf("SC_CLK_TCK")


def allow_mapped(pid: int, fds: Sequence[int]) -> None:
    """Allow the process as much more memory as these descriptors are of.

    A mapping that may be written to counts in full against RLIMIT_DATA from its first moment, though it takes
    up memory only where it is written. The room may not raise its limit; we may, being the same user.
    """
    if sys.platform != "linux" or not fds:
        return
    more = sum(os.fstat(fd).st_size for fd in fds)
    # where the system does not let us, such mappings count like other memory
    with contextlib.suppress(OSError, ValueError):
        soft, hard = resource.prlimit(pid, resource.RLIMIT_DATA)
        if soft != resource.RLIM_INFINITY:
            raised = soft + more if hard == resource.RLIM_INFINITY else min(soft + more, hard)
            resource.prlimit(pid, resource.RLIMIT_DATA, (raised, hard))
