"""The processes that rooms are: forked from one zygote of this kernel, with a spare one ready.

To import all libraries takes seconds, to fork a process that has them some milliseconds. The zygote is
started when a room is wanted for the first time, and ends with the last of those that use it, or with this
kernel. All rooms of one zygote have their memory at the same addresses, so that another takes its place when
it has forked many. It tries before it forks the first room whether forks of it can compute; where they
cannot, and where processes are not forked, a room is a process of its own that has imported everything
before it is wanted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import sys
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from duetlink.base.runtime.forks import in_child
from duetlink.compute.worker.kernel import ready
from duetlink.compute.worker.kernel.process import Room
from duetlink.compute.worker.kernel.ready import Made
from duetlink.compute.worker.kernel.room_process import RoomProcess
from duetlink.compute.worker.kernel.spawn import BOOTSTRAP, ahead, forking, spawn
from duetlink.compute.worker.protocol.libraries import LIBRARIES
from duetlink.compute.worker.protocol.limits import Limits
from duetlink.errors import WorkerUnavailable

SPARE_S = 0.03  # after a room was taken: not amid its work
_FORK_TIMEOUT_S = 20.0  # a zygote that is stopped is ended after that

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


class Zygote:
    """One that forks rooms."""

    most_rooms = 2_000
    most_s = 6 * 3600.0

    def __init__(self, worker: Room) -> None:
        self._worker = worker
        self._forked = 0
        self._began_s = time.monotonic()
        self._living = 0
        self._is_retired = False

    @classmethod
    async def start(cls, bootstrap: str) -> Zygote:
        """Raises WorkerUnavailable, also where its forks cannot compute."""
        limits = Limits(threads=1)  # so that no library starts threads which its forks would miss
        return cls(await Room.start(limits, libraries=tuple(LIBRARIES), bootstrap=forking(bootstrap)))

    @property
    def pid(self) -> int:
        return self._worker.pid

    @property
    def has_ended(self) -> bool:
        return self._worker.has_ended

    @property
    def is_due(self) -> bool:
        """Another is to take its place."""
        return self._forked >= self.most_rooms or time.monotonic() - self._began_s >= self.most_s

    def stay(self) -> None:
        """There is no other: it is due once more later."""
        self._forked, self._began_s = 0, time.monotonic()

    async def fork(self) -> Made:
        """Raises WorkerUnavailable."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        errors, their_errors = os.pipe2(os.O_CLOEXEC)
        status, their_status = os.pipe2(os.O_CLOEXEC)
        try:
            fds = theirs.fileno(), their_errors, their_status
            try:
                reply = await self._worker.call("fork", fds=fds, timeout_s=_FORK_TIMEOUT_S)
            except BaseException:
                # whatever it forks nevertheless ends, since its socket is closed
                os.close(errors)
                os.close(status)
                raise
            pid = json.loads(reply.content)
            process = await RoomProcess.of(pid, self.pid, errors, status, self._one_ended)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(their_errors)
            os.close(their_status)
        self._forked += 1
        self._living += 1
        return process, ours

    def retire(self) -> None:
        """End it with the last of its rooms, which cannot live without it."""
        self._is_retired = True
        if not self._living:
            self._worker.kill("no room of it is left")

    async def close(self) -> None:
        """End it, and all rooms of it."""
        await self._worker.close()

    def _one_ended(self) -> None:
        self._living -= 1
        if self._is_retired:
            self.retire()


class Rooms:
    """Those of one loop: a process does not outlive the thread that has started it. Belongs to the loop."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.users = 0
        self._forks = sys.platform == "linux"
        self._zygote: asyncio.Task[Zygote] | None = None
        self._next: asyncio.Task[Zygote] | None = None  # which is to take its place
        self._retired: weakref.WeakSet[Zygote] = weakref.WeakSet()
        self._spare: asyncio.Task[Made] | None = None
        self._is_closed = False

    @property
    def zygote_pid(self) -> int | None:
        """None: there is none, or not yet."""
        zygote = _made(self._zygote)
        return zygote.pid if zygote is not None and not zygote.has_ended else None

    async def offer(self, bootstrap: str) -> Made | None:
        """A process for a room of this program; None: there is none at the moment."""
        if bootstrap != self.bootstrap:
            return None
        try:
            return await self.take()
        except WorkerUnavailable as error:
            _log.info("this room is started from the beginning: %s", error)
            return None

    async def take(self) -> Made:
        """A process for a room. Raises WorkerUnavailable."""
        spare, self._spare = self._spare, None
        asyncio.get_running_loop().call_later(SPARE_S, self.warm)
        if spare is not None:
            try:
                process, sock = await asyncio.shield(spare)
            except WorkerUnavailable:
                pass
            except asyncio.CancelledError:
                if self._spare is None and not self._is_closed:
                    self._spare = spare
                else:
                    _task(_thrown_away(spare))
                raise
            else:
                if process.returncode is None:
                    return process, sock
                sock.close()
        return await self._make()

    def warm(self) -> None:
        """Have a room ready soon, for whoever wants one next."""
        if self._spare is None and not self._is_closed:
            self._spare = _task(self._make())

    async def close(self) -> None:
        """End the zygote and what waits to be used."""
        self._is_closed = True
        spare, self._spare = self._spare, None
        zygotes = [task for task in (self._zygote, self._next) if task is not None]
        self._zygote = self._next = None
        for task in zygotes:
            if not task.done():  # it ends what it has begun
                task.cancel()
        await asyncio.gather(*zygotes, return_exceptions=True)
        made = [zygote for task in zygotes if (zygote := _made(task)) is not None]
        await asyncio.gather(*(zygote.close() for zygote in (*made, *self._retired)))
        if spare is not None:
            await _thrown_away(spare)

    async def _make(self) -> Made:
        if self._forks:
            try:
                zygote = await self._ready()
            except WorkerUnavailable as error:
                self._zygote, self._forks = None, False
                _log.warning("no room can be forked here, so each imports its libraries: %s", error)
            else:
                return await zygote.fork()
        return await spawn(ahead(self.bootstrap), Limits().threads)

    async def _ready(self) -> Zygote:
        """Raises WorkerUnavailable: none can be started."""
        if self._is_closed:
            raise WorkerUnavailable("no room is made any more: the last duet here is closed")
        zygote = _made(self._zygote)
        if zygote is not None and zygote.has_ended:
            self._zygote = None
        elif zygote is not None and zygote.is_due:
            self._renew(zygote)
        if self._zygote is None:
            self._zygote = _task(Zygote.start(self.bootstrap))
        return await asyncio.shield(self._zygote)

    def _renew(self, old: Zygote) -> None:
        """Start another beside it, and use it from when it is ready."""
        if self._next is None:
            self._next = _task(Zygote.start(self.bootstrap))
        elif self._next.done():
            if _made(self._next) is None:
                old.stay()
            else:
                self._zygote = self._next
                self._retired.add(old)
                old.retire()
            self._next = None


def _made(task: asyncio.Task[Zygote] | None) -> Zygote | None:
    is_made = task is not None and task.done() and not task.cancelled() and task.exception() is None
    return task.result() if task is not None and is_made else None


def _task(work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
    """What it raises is heard by whoever waits for it, and else by nobody."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


async def _thrown_away(making: asyncio.Task[Made]) -> None:
    await asyncio.wait((making,))  # it was cancelled if its zygote was
    if making.cancelled() or making.exception() is not None:
        return
    process, sock = making.result()
    sock.close()
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()


_here: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Rooms] = weakref.WeakKeyDictionary()
in_child(_here.clear)


def use(bootstrap: str = BOOTSTRAP) -> Callable[[], Awaitable[None]]:
    """Have rooms ready on this loop from now on, until what is returned is awaited. To be called on it."""
    loop = asyncio.get_running_loop()
    rooms = _here.get(loop)
    if rooms is None:
        rooms = _here[loop] = Rooms(bootstrap)
    rooms.users += 1
    ready.keep(rooms.offer)
    return lambda: _leave(rooms)


async def _leave(rooms: Rooms) -> None:
    rooms.users -= 1
    if not rooms.users:
        loop = asyncio.get_running_loop()
        if _here.get(loop) is rooms:
            del _here[loop]
            ready.keep(None)
        await rooms.close()


def here() -> Rooms | None:
    """Those of the running loop; None: nobody uses any."""
    return _here.get(asyncio.get_running_loop())


def warm() -> None:
    """A room may be wanted soon."""
    rooms = here()
    if rooms is not None:
        rooms.warm()
