"""A room's memory limit, raised by its kernel for what it is given to map for good."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

if sys.platform == "linux":
    import resource


def raise_for(pid: int, fds: Sequence[int]) -> None:
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
