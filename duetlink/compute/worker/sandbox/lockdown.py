"""The lockdown of this process, in two steps: one before its threads start, one after its imports."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterable
from typing import Any

from duetlink.compute.worker.protocol.isolation import Isolation
from duetlink.compute.worker.protocol.limits import Limits
from duetlink.compute.worker.sandbox import audit_hook, rlimits
from duetlink.compute.worker.sandbox.readable import readable_paths

if sys.platform == "linux":
    from duetlink.compute.worker.sandbox import capabilities, landlock, libc, seccomp

_MOST_DESCRIPTORS = 65536  # some systems allow a billion, one call each


class Lockdown:
    """The lockdown: the constructor is its first step, in the only thread, and `complete` its second.

    The libraries are imported between the two.
    """

    def __init__(self, fd: int, libraries: Iterable[str]) -> None:
        """Close all descriptors except `fd`, standard input, output and error, and restrict file access."""
        os.closerange(3, fd)
        os.closerange(fd + 1, min(os.sysconf("SC_OPEN_MAX"), _MOST_DESCRIPTORS))
        os.chdir("/")
        os.umask(0o777)
        tempfile.tempdir = "/nonexistent"  # otherwise tempfile tries out which directory it can write to
        self._readable = readable_paths(libraries)
        self._landlock = 0
        if sys.platform == "linux":
            self._meter = rlimits.MemoryMeter()
            rlimits.end_first()
            libc.prctl(libc.PR_SET_NO_NEW_PRIVS, 1)
            with contextlib.suppress(OSError):
                capabilities.give_up()
            # after capabilities, whose change resets both settings: no core file holds the data, and the
            # process ends with the thread of the kernel process that started it
            libc.prctl(libc.PR_SET_DUMPABLE, 0)
            libc.prctl(libc.PR_SET_PDEATHSIG, 9)
            version = landlock.abi()
            with contextlib.suppress(OSError):
                if version:
                    landlock.restrict(self._readable, version)
                    self._landlock = version

    def partial_isolation(self) -> Isolation:
        """Return the isolation that is in force before `complete`, as in a zygote."""
        return self._isolation(False, "none")

    def used_bytes(self) -> int:
        """Return the memory of this process as `rlimits.MemoryMeter` counts it. Linux only."""
        return self._meter.used_bytes()

    def complete(
        self,
        limits: Limits,
        functions_of: frozenset[str],
        *,
        runs_code: bool,
        forked_bytes: int | None = None,
    ) -> Isolation:
        """Complete the lockdown: the process can only compute when this returns.

        `functions_of` and `runs_code` are those of `audit_hook.refuse`. `forked_bytes` is the memory that a
        forked process had at its fork; None if it was not forked.
        """
        os.environ.clear()
        filtered = False
        memory = "none"
        if sys.platform == "linux":
            libc.clear_environment()
            machine = seccomp.machine()
            rlimits.restrict(limits, self._meter.used_bytes() if forked_bytes is None else forked_bytes)
            self._meter.close()
            memory = "RLIMIT_DATA"
            if forked_bytes is not None and self._landlock:
                with contextlib.suppress(OSError):
                    # a Landlock domain of its own: otherwise rooms could signal each other and the zygote
                    landlock.restrict(self._readable, self._landlock)
            with contextlib.suppress(OSError):
                if machine is not None:
                    # without Landlock only the audit hook checks the targets of links, and has to read them
                    seccomp.install(machine, os.getpid(), links=not self._landlock)
                    filtered = True
                    if self._landlock:
                        os.path.realpath = _as_spelled  # type: ignore[assignment]
        else:
            rlimits.restrict(limits, 0)
        audit_hook.refuse(self._readable, functions_of, runs_code=runs_code)
        return self._isolation(filtered, memory)

    def _isolation(self, filtered: bool, memory: str) -> Isolation:
        files, network, processes = ["audit hook"], ["audit hook"], ["audit hook"]
        if filtered:
            files.insert(0, "seccomp (changes only)")
            network.insert(0, "seccomp")
            processes.insert(0, "seccomp")
        if self._landlock:
            files.insert(0, f"Landlock {self._landlock}")
        return Isolation(
            filesystem=", ".join(files),
            network=", ".join(network),
            processes=", ".join(processes),
            memory=memory,
            enforced=filtered and self._landlock > 0,
        )


def _as_spelled(path: Any, *, strict: bool = False) -> Any:
    """Replace `os.path.realpath`, which fails if symbolic links cannot be read. Links are not resolved."""
    return os.path.abspath(path)
