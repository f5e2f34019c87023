"""Processes that are kept ready to become rooms, on the loops where somebody keeps some: see `rooms.py`."""

from __future__ import annotations

import asyncio
import socket
import weakref
from collections.abc import Awaitable, Callable
from typing import Protocol

from duetlink.base.runtime.forks import in_child


class Process(Protocol):
    """A child process, as `asyncio.subprocess` has it."""

    @property
    def pid(self) -> int: ...

    @property
    def stderr(self) -> asyncio.StreamReader | None: ...

    @property
    def returncode(self) -> int | None:
        """None as long as it is not known to have ended."""

    def kill(self) -> None:
        """Raises ProcessLookupError."""

    async def wait(self) -> int:
        """Its exit status, or the number of the signal below 0."""


Made = tuple[Process, socket.socket]  # that nobody has used, and our end of its socket

Source = Callable[[str], Awaitable[Made | None]]  # for a program that it is started with

_sources: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Source] = weakref.WeakKeyDictionary()
in_child(_sources.clear)


def keep(source: Source | None) -> None:
    """On the running loop they come from there; None: from nowhere any more."""
    loop = asyncio.get_running_loop()
    if source is None:
        _sources.pop(loop, None)
    else:
        _sources[loop] = source


async def taken(bootstrap: str) -> Made | None:
    """A process that is started with this program. None: none is kept ready here, or there is none at the
    moment.
    """
    source = _sources.get(asyncio.get_running_loop())
    return None if source is None else await source(bootstrap)
