"""Shutting this process in, in two steps: what must be before its threads, and what after its imports."""

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
    """Begins when it is made, in the only thread; the libraries are imported then, and `complete` ends it."""

    def __init__(self, fd: int, libraries: Iterable[str]) -> None:
        """`fd` is the one descriptor that it keeps, besides those of standard input, output and error."""
        os.closerange(3, fd)
        os.closerange(fd + 1, min(os.sysconf("SC_OPEN_MAX"), _MOST_DESCRIPTORS))
        os.chdir("/")
        os.umask(0o777)
        tempfile.tempdir = "/nonexistent"  # or it tries which directory it can write to
        self._readable = readable_paths(libraries)
        self._landlock = 0
        if sys.platform == "linux":
            self._meter = rlimits.MemoryMeter()
            rlimits.end_first()
            libc.prctl(libc.PR_SET_NO_NEW_PRIVS, 1)
            with contextlib.suppress(OSError):
                capabilities.give_up()
            # after that, since a change of rights undoes both: no core file holds the data, and it does not
            # outlive the kernel process, or rather the thread there that has started it
            libc.prctl(libc.PR_SET_DUMPABLE, 0)
            libc.prctl(libc.PR_SET_PDEATHSIG, 9)
            version = landlock.abi()
            with contextlib.suppress(OSError):
                if version:
                    landlock.restrict(self._readable, version)
                    self._landlock = version

    def half_done(self) -> Isolation:
        """What holds before `complete`, in a process that others are forked from."""
        return self._isolation(False, "none")

    def used_bytes(self) -> int:
        """The memory that this process takes. Linux only."""
        return self._meter.used_bytes()

    def complete(
        self,
        limits: Limits,
        functions_of: frozenset[str],
        *,
        runs_code: bool,
        forked_bytes: int | None = None,
    ) -> Isolation:
        """Nothing but computing is possible when this returns. For the arguments see `audit_hook.refuse`. A
        process that was forked says how much memory that gave it.
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
                    # a domain of its own: else rooms could signal each other, and what they are forked from
                    landlock.restrict(self._readable, self._landlock)
            with contextlib.suppress(OSError):
                if machine is not None:
                    # without Landlock, the hook alone says what a link may lead to, and has to read it
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
    """In place of `os.path.realpath`, which fails at symbolic links that cannot be read."""
    return os.path.abspath(path)
