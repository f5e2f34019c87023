"""The room process: a kernel starts it, it locks itself down, and serves commands on one socket until that
closes.

The room trusts its kernel; the kernel does not trust the room. Commands run one after the other in the main
thread. A second thread waits for the end of the kernel, since a command may take long.

A function from a peer can inspect the stack frames of its callers. So the code that serves the kernel is a
generator over which `main` iterates. It yields such a function as work, and is suspended while `main` calls
it from a frame that holds nothing else.
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
Ready = tuple[handlers.CommandHandler, Isolation, list[str]]  # the last: the libraries that are imported


def main(fd: int, *, ahead: bool = False) -> None:
    """Serve the kernel at the other end of this socket. A bug here leaves a traceback on standard error.

    Args:
        ahead: import all libraries before the kernel assigns a handler.
    """
    for work in _room(fd, ahead):
        work()


def _room(fd: int, ahead: bool) -> Iterator[Work]:
    faulthandler.enable()  # a crash shows the owner the function where it happened, and no values
    lockdown = Lockdown(fd, libraries.LIBRARIES)
    threading.Thread(target=end_with_kernel, args=(fd,), name="kernel", daemon=True).start()
    if ahead:
        libraries.load(libraries.LIBRARIES)

    def ready(start: dict[str, Any]) -> Ready:
        loaded = libraries.load(start["libraries"])
        libraries.prepare(loaded, start["limits"]["threads"])
        return lock_down(start, loaded, lockdown, None)

    yield from serve(fd, ready)


def serve(fd: int, ready: Callable[[dict[str, Any]], Ready]) -> Iterator[Work]:
    """Serve as a room: lock down by `ready`, given the kernel's start message, then carry out commands.

    Yields untrusted functions as work for the caller to run. Ends the process instead of returning.
    """
    console = Console(fd)
    status = 1
    try:
        handler = _start(console, ready)
        while True:
            yield from _carry_out(console, handler, console.receive())
    except KernelGone:
        status = 0
    except BaseException:
        traceback.print_exc()
    # at once, without cleaning up: the private data is gone with the process
    os._exit(status)


def _start(console: Console, ready: Callable[[dict[str, Any]], Ready]) -> handlers.CommandHandler:
    start = console.receive().header["start"]
    try:
        handler, isolation, loaded = ready(start)
    except Exception as error:
        traceback.print_exc()
        # this text concerns an installed package, not data
        words = f": {error}" if isinstance(error, ExtensionFailed) else ""
        console.send({"unready": f"{type(error).__name__}{words}"})
        os._exit(1)
    memory.set_allocator(console.request_memory)
    console.send({"ready": isolation.to_wire() | {"libraries": loaded, "extensions": shared_extensions()}})
    return handler


def lock_down(start: dict[str, Any], loaded: list[str], lockdown: Lockdown, used_bytes: int | None) -> Ready:
    """Create the handler and complete the lockdown; from here on the process can only compute.

    `used_bytes` is the memory of the process when it was forked; None if it was not forked.
    """
    kind, limits = handlers.HANDLERS[start["handler"]], Limits(**start["limits"])
    registered()  # loads the value types of other packages while imports are still possible
    handler = handlers.make(kind)
    if used_bytes is not None:
        libraries.set_threads(loaded, limits.threads)
    loaded = [name for name in loaded if name == "numpy" or name in start["libraries"]]
    functions = libraries.functions_of(loaded)
    isolation = lockdown.complete(limits, functions, runs_code=kind.runs_code, forked_bytes=used_bytes)
    libraries.configure(loaded, limits.threads)
    return handler, isolation, loaded


def _carry_out(console: Console, handler: handlers.CommandHandler, frame: Frame) -> Iterator[Work]:
    number = frame.header["call"]
    try:
        try:
            answer = handler.handle(frame.header["command"], frame.content, frame.fds, console.emit)
        finally:
            for fd in frame.fds:
                with contextlib.suppress(OSError):
                    os.close(fd)
        if isinstance(answer, handlers.UntrustedWork):
            yield answer.work
            answer = answer.answer()
        console.reply(number, *answer)
    except KernelGone:
        raise
    except BaseException as error:
        console.fail(number, error)


def end_with_kernel(fd: int) -> None:
    """Wait until the kernel's end of the socket closes, for any reason, and end this process."""
    poll = select.poll()
    poll.register(fd, 0)  # POLLHUP is always reported
    poll.poll()
    os._exit(0)
