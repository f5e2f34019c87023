"""The room process: started by a kernel, shut in, and then at its service on one socket until that closes.

It believes what the kernel says, which does not believe it. Commands are done one after the other in the main
thread. A second thread waits for the kernel's end, since a command may take long.

Code of a peer's finds its callers by its frame. So what serves the kernel is a generator, which `main` goes
through: it gives up such code as work and is suspended while that is done, in a frame that has nothing else.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import select
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from duetlink.compute.worker.protocol import handlers, libraries, memory
from duetlink.compute.worker.protocol.frames import Frame
from duetlink.compute.worker.protocol.isolation import Isolation
from duetlink.compute.worker.protocol.limits import Limits
from duetlink.compute.worker.room.console import Console, KernelGone
from duetlink.compute.worker.sandbox.lockdown import Lockdown
from duetlink.data.values.registry import registered
from duetlink.errors import ExtensionFailed
from duetlink.extensions import shared_extensions

Work = Callable[[], None]
Ready = tuple[handlers.CommandHandler, Isolation, list[str]]  # and which libraries there are


def main(fd: int, *, ahead: bool = False) -> None:
    """Serve the kernel at the other end of this socket. A defect leaves a traceback on standard error.

    Args:
        ahead: import all libraries before the kernel says what this process is for.
    """
    for work in _room(fd, ahead):
        work()


def _room(fd: int, ahead: bool) -> Iterator[Work]:
    faulthandler.enable()  # a crash tells the owner in which function, and nothing of values
    lockdown = Lockdown(fd, libraries.LIBRARIES)
    threading.Thread(target=end_with_kernel, args=(fd,), name="kernel", daemon=True).start()
    if ahead:
        libraries.load(libraries.LIBRARIES)

    def ready(start: dict[str, Any]) -> Ready:
        loaded = libraries.load(start["libraries"])
        libraries.prepare(loaded, start["limits"]["threads"])
        return made_ready(start, loaded, lockdown, None)

    yield from serving(fd, ready)


def serving(fd: int, ready: Callable[[dict[str, Any]], Ready]) -> Iterator[Work]:
    """Be a room: `ready` shuts this process in, by what the kernel says of it. Then do what it asks, and give
    up as work what code of a peer's is to do.
    """
    console = Console(fd)
    status = 1
    try:
        handler = _start(console, ready)
        while True:
            yield from _serving(console, handler, console.receive())
    except KernelGone:
        status = 0
    except BaseException:
        traceback.print_exc()
    # at once: what private data there is has nobody to be tidied up for
    os._exit(status)


def _start(console: Console, ready: Callable[[dict[str, Any]], Ready]) -> handlers.CommandHandler:
    start = console.receive().header["start"]
    try:
        handler, isolation, loaded = ready(start)
    except Exception as error:
        traceback.print_exc()
        # of a package that is installed here, and not of any data
        words = f": {error}" if isinstance(error, ExtensionFailed) else ""
        console.send({"unready": f"{type(error).__name__}{words}"})
        os._exit(1)
    memory.made_by(console.want)
    console.send({"ready": isolation.to_wire() | {"libraries": loaded, "extensions": shared_extensions()}})
    return handler


def made_ready(start: dict[str, Any], loaded: list[str], lockdown: Lockdown, used_bytes: int | None) -> Ready:
    """The desk that is wanted, in a process that can do nothing but compute from here on. `used_bytes` is the
    memory that it was forked with; None: it was not forked.
    """
    kind, limits = handlers.HANDLERS[start["handler"]], Limits(**start["limits"])
    registered()  # value types of other packages, while they can be imported
    handler = handlers.make(kind)
    if used_bytes is not None:
        libraries.set_threads(loaded, limits.threads)
    loaded = [name for name in loaded if name == "numpy" or name in start["libraries"]]  # what it is given
    functions = libraries.functions_of(loaded)
    isolation = lockdown.complete(limits, functions, runs_code=kind.runs_code, forked_bytes=used_bytes)
    libraries.settle(loaded, limits.threads)
    return handler, isolation, loaded


def _serving(console: Console, handler: handlers.CommandHandler, frame: Frame) -> Iterator[Work]:
    number = frame.header["call"]
    try:
        try:
            answer = handler.handle(frame.header["command"], frame.content, frame.fds, console.emit)
        finally:
            for fd in frame.fds:
                with contextlib.suppress(OSError):
                    os.close(fd)
        if isinstance(answer, handlers.Outside):
            yield answer.work
            answer = answer.answer()
        console.reply(number, *answer)
    except KernelGone:
        raise
    except BaseException as error:
        console.fail(number, error)


def end_with_kernel(fd: int) -> None:
    """Wait until the other end is closed, in whatever way the kernel ended."""
    poll = select.poll()
    poll.register(fd, 0)  # POLLHUP is always reported
    poll.poll()
    os._exit(0)
