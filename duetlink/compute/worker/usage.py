"""What another process has used up so far; proc(5), so on Linux only."""

from __future__ import annotations

import os
from pathlib import Path


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
