"""The processes that rooms are: forked from one zygote of this kernel, with a spare one ready.

To import all libraries takes seconds, to fork a process that has them some milliseconds. The zygote is
started when a room is wanted for the first time, and ends with the last of those that use it, with this
kernel, or when it has forked so many rooms that a new one is due: all its rooms have their memory at the same
addresses. Where none can be had, each room is a process that imports what it needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
import weakref
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from duetlink.compute.worker.libraries import LIBRARIES
from duetlink.compute.worker.limits import Limits
from duetlink.compute.worker.spawn import FORKING
from duetlink.errors import DuetError, WorkerUnavailable

if TYPE_CHECKING:
    from duetlink.compute.worker.process import Worker

MOST_ROOMS = 2_000  # of one zygote
_SPARE_S = 0.03  # after a room was taken: not amid its work
_STATUS_BYTES = 100

_log = logging.getLogger(__name__)


class Process(Protocol):
    """A child process, as `asyncio.subprocess` has it."""

    pid: int
    stderr: asyncio.StreamReader | None

    def kill(self) -> None:
        """Raises ProcessLookupError."""

    async def wait(self) -> int:
        """Its exit status, or the number of the signal below 0."""


Start = Callable[[], Awaitable["Worker"]]


class Rooms:
    """Those of one loop: a process does not outlive the thread that has started it. Belongs to the loop."""

    def __init__(self, start: Start) -> None:
        self.users = 0
        self._start = start
        self._zygote: asyncio.Task[Worker] | None = None
        self._spare: asyncio.Task[tuple[RoomProcess, socket.socket]] | None = None
        self._forked = 0
        self._is_closed = False

    async def take(self) -> tuple[RoomProcess, socket.socket]:
        """A process that nobody has used, and the socket to it. Raises WorkerUnavailable."""
        spare, self._spare = self._spare, None
        asyncio.get_running_loop().call_later(_SPARE_S, self.warm)
        if spare is not None:
            try:
                process, sock = await asyncio.shield(spare)
            except DuetError:
                pass
            else:
                if not process.has_ended:
                    return process, sock
                sock.close()
        return await self._fork()

    def warm(self) -> None:
        """Have a room ready soon, for whoever wants one next."""
        if self._spare is None and not self._is_closed and self.users:
            self._spare = asyncio.ensure_future(self._fork())
            self._spare.add_done_callback(_looked_at)

    async def close(self) -> None:
        """End the zygote and what waits to be used."""
        self._is_closed = True
        spare, self._spare = self._spare, None
        if spare is not None:
            with contextlib.suppress(DuetError):
                process, sock = await spare
                sock.close()
                await process.end()
        await self._retire()

    async def _retire(self) -> None:
        zygote, self._zygote = self._zygote, None
        if zygote is not None:
            with contextlib.suppress(DuetError):
                await (await zygote).close()

    async def _fork(self) -> tuple[RoomProcess, socket.socket]:
        zygote = await self._ready()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        errors, their_errors = os.pipe2(os.O_CLOEXEC)
        status, their_status = os.pipe2(os.O_CLOEXEC)
        try:
            reply = await zygote.call("fork", fds=(theirs.fileno(), their_errors, their_status))
            pid = json.loads(reply.content)
            return await RoomProcess.of(pid, zygote.pid, errors, status), ours
        except BaseException:
            ours.close()
            os.close(errors)
            os.close(status)
            raise
        finally:
            theirs.close()
            os.close(their_errors)
            os.close(their_status)

    async def _ready(self) -> Worker:
        zygote = self._zygote
        if zygote is not None and zygote.done():
            is_gone = zygote.cancelled() or zygote.exception() is not None or zygote.result().ended.done()
            if is_gone or self._forked >= MOST_ROOMS:
                await self._retire()
        if self._zygote is None:
            self._forked = 0
            self._zygote = asyncio.ensure_future(self._start())
            self._zygote.add_done_callback(_looked_at)
        self._forked += 1
        return await asyncio.shield(self._zygote)


def _looked_at(task: asyncio.Task[object]) -> None:
    if not task.cancelled():
        task.exception()  # whoever takes it hears of it


class RoomProcess:
    """A process that the zygote has forked: we are not its parent."""

    def __init__(self, pid: int, pidfd: int, stderr: asyncio.StreamReader, status: int) -> None:
        self.pid = pid
        self.stderr: asyncio.StreamReader | None = stderr
        self._pidfd = pidfd
        self._status = status
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._transport: asyncio.ReadTransport | None = None
        self._loop.add_reader(status, self._told)

    @classmethod
    async def of(cls, pid: int, zygote: int, errors: int, status: int) -> RoomProcess:
        """Takes the descriptors over: what it writes of errors, and where its end is told."""
        loop = asyncio.get_running_loop()
        stderr = asyncio.StreamReader()
        pipe = os.fdopen(errors, "rb", 0)
        try:
            transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stderr), pipe)
        except BaseException:
            os.dup2(os.open(os.devnull, os.O_RDONLY), errors)
            raise
        pidfd = -1
        with contextlib.suppress(ProcessLookupError):
            pidfd = os.pidfd_open(pid)
            if _parent(pid) != zygote:  # it has ended, and another has its number
                os.close(pidfd)
                pidfd = -1
        made = cls(pid, pidfd, stderr, status)
        made._transport = transport
        return made

    @property
    def has_ended(self) -> bool:
        return self._ended.done()

    def kill(self) -> None:
        """Raises ProcessLookupError."""
        if self._pidfd < 0:
            raise ProcessLookupError
        signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    async def wait(self) -> int:
        """Its exit status, or the number of the signal below 0; also where the zygote has ended with it."""
        return await asyncio.shield(self._ended)

    async def end(self) -> None:
        """Kill it; it is gone when this returns."""
        with contextlib.suppress(ProcessLookupError):
            self.kill()
        await self.wait()

    def _told(self) -> None:
        try:
            told = os.read(self._status, _STATUS_BYTES)
        except OSError:
            told = b""
        self._loop.remove_reader(self._status)
        os.close(self._status)
        with contextlib.suppress(ProcessLookupError):
            self.kill()  # where it is the zygote that has ended, which tells of nobody any more
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        if self._transport is not None:
            self._loop.call_soon(self._transport.close)
        self._ended.set_result(int(told) if told else -signal.SIGKILL)


def _parent(pid: int) -> int:
    """Raises ProcessLookupError."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        raise ProcessLookupError from None


_here: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Rooms] = weakref.WeakKeyDictionary()


def use() -> Callable[[], Awaitable[None]]:
    """Have rooms of this loop forked from now on, until what is returned is awaited. To be called on it."""
    loop = asyncio.get_running_loop()
    rooms = _here.get(loop)
    if rooms is None:
        rooms = _here[loop] = Rooms(_start)
    rooms.users += 1
    return lambda: _leave(rooms)


async def _leave(rooms: Rooms) -> None:
    rooms.users -= 1
    if not rooms.users:
        loop = asyncio.get_running_loop()
        if _here.get(loop) is rooms:
            del _here[loop]
        await rooms.close()


def warm() -> None:
    """A room may be wanted soon."""
    rooms = _here.get(asyncio.get_running_loop())
    if rooms is not None and sys.platform == "linux":
        rooms.warm()


async def forked() -> tuple[RoomProcess, socket.socket] | None:
    """A process for a room; None: rooms are not forked here."""
    rooms = _here.get(asyncio.get_running_loop())
    if rooms is None or sys.platform != "linux":
        return None
    try:
        return await rooms.take()
    except WorkerUnavailable as error:
        _log.warning("no room can be forked, so that each has to import its libraries: %s", error)
        return None


async def _start() -> Worker:
    from duetlink.compute.worker.process import Worker

    return await Worker.start(Limits(), libraries=tuple(LIBRARIES), bootstrap=FORKING)
