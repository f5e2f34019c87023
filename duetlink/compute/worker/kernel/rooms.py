"""The pool of room processes: forks of one zygote of this kernel, with one spare process ready.

Importing all libraries takes seconds; forking a process that has imported them takes milliseconds. The zygote
is started when the first room is requested, and ends with its last user or with this kernel. All rooms of one
zygote have the same memory addresses, so a new zygote replaces it after many forks. Before its first room the
zygote tests whether its forks can compute. If they cannot, and on systems other than Linux, a room is a
separate process that imports everything in advance.
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
from duetlink.compute.worker.kernel.ready import SpareProcess
from duetlink.compute.worker.kernel.room_process import RoomProcess
from duetlink.compute.worker.kernel.spawn import BOOTSTRAP, preloading_bootstrap, spawn, zygote_bootstrap
from duetlink.compute.worker.protocol.libraries import LIBRARIES
from duetlink.compute.worker.protocol.limits import Limits
from duetlink.errors import WorkerUnavailable

SPARE_S = 0.03  # delay before the next spare is made, so that the room just taken can begin first
_FORK_TIMEOUT_S = 20.0  # a zygote that does not answer for that long is ended

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


class Zygote:
    """The kernel's handle of a zygote process."""

    most_rooms = 2_000
    most_s = 6 * 3600.0

    def __init__(self, worker: Room) -> None:
        self._worker = worker
        self._forked = 0
        self._began_s = time.monotonic()
        self._running = 0
        self._is_retired = False

    @classmethod
    async def start(cls, bootstrap: str) -> Zygote:
        """Start a zygote. Raises WorkerUnavailable, also if its forks cannot compute."""
        limits = Limits(threads=1)  # no library may start threads: forks would not have them
        return cls(
            await Room.start(limits, libraries=tuple(LIBRARIES), bootstrap=zygote_bootstrap(bootstrap))
        )

    @property
    def pid(self) -> int:
        return self._worker.pid

    @property
    def has_ended(self) -> bool:
        return self._worker.has_ended

    @property
    def is_due(self) -> bool:
        """True after `most_rooms` rooms or `most_s` seconds, when another zygote should replace it."""
        return self._forked >= self.most_rooms or time.monotonic() - self._began_s >= self.most_s

    def stay(self) -> None:
        """Reset the count and the clock of `is_due`, because no replacement could be started."""
        self._forked, self._began_s = 0, time.monotonic()

    async def fork(self) -> SpareProcess:
        """Fork a process for a room. Raises WorkerUnavailable."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        errors, their_errors = os.pipe2(os.O_CLOEXEC)
        status, their_status = os.pipe2(os.O_CLOEXEC)
        try:
            fds = theirs.fileno(), their_errors, their_status
            try:
                reply = await self._worker.call("fork", fds=fds, timeout_s=_FORK_TIMEOUT_S)
            except BaseException:
                # a process that is forked nevertheless ends at once, since its socket is closed
                os.close(errors)
                os.close(status)
                raise
            pid = json.loads(reply.content)
            process = await RoomProcess.attach(pid, self.pid, errors, status, self._on_room_end)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(their_errors)
            os.close(their_status)
        self._forked += 1
        self._running += 1
        return process, ours

    def retire(self) -> None:
        """End the zygote when its last room has ended. Rooms die with their zygote."""
        self._is_retired = True
        if not self._running:
            self._worker.kill("its last room has ended")

    async def close(self) -> None:
        """End the zygote and all its rooms."""
        await self._worker.close()

    def _on_room_end(self) -> None:
        self._running -= 1
        if self._is_retired:
            self.retire()


class RoomPool:
    """The pool of one loop, to be used on that loop only.

    Each loop has its own, because a room process ends with the thread that started its zygote.
    """

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.users = 0
        self._forks = sys.platform == "linux"
        self._zygote: asyncio.Task[Zygote] | None = None
        self._next: asyncio.Task[Zygote] | None = None  # the replacement, until it is ready
        self._retired: weakref.WeakSet[Zygote] = weakref.WeakSet()
        self._spare: asyncio.Task[SpareProcess] | None = None
        self._is_closed = False

    @property
    def zygote_pid(self) -> int | None:
        """The process number of the zygote; None if it is not ready, or has ended."""
        zygote = _finished(self._zygote)
        return zygote.pid if zygote is not None and not zygote.has_ended else None

    async def offer(self, bootstrap: str) -> SpareProcess | None:
        """Return a process that this program started; None if it is another program, or none can be made."""
        if bootstrap != self.bootstrap:
            return None
        try:
            return await self.take()
        except WorkerUnavailable as error:
            _log.info("this room starts as a new process, without a zygote: %s", error)
            return None

    async def take(self) -> SpareProcess:
        """Return the spare process, or a new one, and have the next spare made. Raises WorkerUnavailable."""
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
                    _start_task(_discard(spare))
                raise
            else:
                if process.returncode is None:
                    return process, sock
                sock.close()
        return await self._make()

    def warm(self) -> None:
        """Start making a spare process, unless there is one."""
        if self._spare is None and not self._is_closed:
            self._spare = _start_task(self._make())

    async def close(self) -> None:
        """End the zygotes and the spare process."""
        self._is_closed = True
        spare, self._spare = self._spare, None
        zygotes = [task for task in (self._zygote, self._next) if task is not None]
        self._zygote = self._next = None
        for task in zygotes:
            if not task.done():  # a cancelled start ends its own process
                task.cancel()
        await asyncio.gather(*zygotes, return_exceptions=True)
        made = [zygote for task in zygotes if (zygote := _finished(task)) is not None]
        await asyncio.gather(*(zygote.close() for zygote in (*made, *self._retired)))
        if spare is not None:
            await _discard(spare)

    async def _make(self) -> SpareProcess:
        if self._forks:
            try:
                zygote = await self._ready()
            except WorkerUnavailable as error:
                self._zygote, self._forks = None, False
                _log.warning("no room can be forked here, so each imports its libraries: %s", error)
            else:
                return await zygote.fork()
        return await spawn(preloading_bootstrap(self.bootstrap), Limits().threads)

    async def _ready(self) -> Zygote:
        """Return a running zygote, starting one if necessary. Raises WorkerUnavailable."""
        if self._is_closed:
            raise WorkerUnavailable("no room can be started: the last duet of this kernel is closed")
        zygote = _finished(self._zygote)
        if zygote is not None and zygote.has_ended:
            self._zygote = None
        elif zygote is not None and zygote.is_due:
            self._renew(zygote)
        if self._zygote is None:
            self._zygote = _start_task(Zygote.start(self.bootstrap))
        return await asyncio.shield(self._zygote)

    def _renew(self, old: Zygote) -> None:
        """Start a replacement for a zygote that is due, or switch to it if it is ready."""
        if self._next is None:
            self._next = _start_task(Zygote.start(self.bootstrap))
        elif self._next.done():
            if _finished(self._next) is None:
                old.stay()
            else:
                self._zygote = self._next
                self._retired.add(old)
                old.retire()
            self._next = None


def _finished(task: asyncio.Task[Zygote] | None) -> Zygote | None:
    is_made = task is not None and task.done() and not task.cancelled() and task.exception() is None
    return task.result() if task is not None and is_made else None


def _start_task(work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
    """Start a task whose exception is not logged if it is never awaited."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


async def _discard(making: asyncio.Task[SpareProcess]) -> None:
    await asyncio.wait((making,))  # ends soon: it is cancelled with its zygote
    if making.cancelled() or making.exception() is not None:
        return
    process, sock = making.result()
    sock.close()
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()


_pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, RoomPool] = weakref.WeakKeyDictionary()
in_child(_pools.clear)


def use(bootstrap: str = BOOTSTRAP) -> Callable[[], Awaitable[None]]:
    """Keep rooms ready on the running loop. Returns a function to call and await when they are not needed."""
    loop = asyncio.get_running_loop()
    rooms = _pools.get(loop)
    if rooms is None:
        rooms = _pools[loop] = RoomPool(bootstrap)
    rooms.users += 1
    ready.set_source(rooms.offer)
    return lambda: _leave(rooms)


async def _leave(rooms: RoomPool) -> None:
    rooms.users -= 1
    if not rooms.users:
        loop = asyncio.get_running_loop()
        if _pools.get(loop) is rooms:
            del _pools[loop]
            ready.set_source(None)
        await rooms.close()


def here() -> RoomPool | None:
    """Return the pool of the running loop; None if `use` is not in effect."""
    return _pools.get(asyncio.get_running_loop())


def warm() -> None:
    """Prepare a spare process on the running loop, because a room may be needed soon."""
    rooms = here()
    if rooms is not None:
        rooms.warm()
