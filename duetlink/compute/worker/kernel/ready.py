"""The registry from which `Room.start` takes a spare process, if its loop has one; `rooms.py` fills it."""

from __future__ import annotations

import asyncio
import socket
import weakref
from collections.abc import Awaitable, Callable
from typing import Protocol

from duetlink.base.runtime.forks import in_child


class Process(Protocol):
    """A child process, with the interface of `asyncio.subprocess.Process`."""

    @property
    def pid(self) -> int: ...

    @property
    def stderr(self) -> asyncio.StreamReader | None: ...

    @property
    def returncode(self) -> int | None:
        """The exit status, or the negative number of a signal; None until the end is known."""

    def kill(self) -> None:
        """Send SIGKILL. Raises ProcessLookupError if the process has ended."""

    async def wait(self) -> int:
        """Wait for the end. Returns the exit status, or the negative number of the signal."""


SpareProcess = tuple[Process, socket.socket]  # an unused process, and our end of its socket

# its argument is the program that starts the process
Source = Callable[[str], Awaitable[SpareProcess | None]]

_sources: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Source] = weakref.WeakKeyDictionary()
in_child(_sources.clear)


def set_source(source: Source | None) -> None:
    """Set the source of spare processes on the running loop; None removes it."""
    loop = asyncio.get_running_loop()
    if source is None:
        _sources.pop(loop, None)
    else:
        _sources[loop] = source


async def take_spare(bootstrap: str) -> SpareProcess | None:
    """Take a spare process that was started by this program; None if this loop has none at the moment."""
    source = _sources.get(asyncio.get_running_loop())
    return None if source is None else await source(bootstrap)
