"""The zygote: a process that imports all libraries, gets neither data nor programs, and forks rooms.

A fork has one thread. A library that has computed with several threads keeps a thread pool, and in a fork it
waits for ever for threads that do not exist. So nothing here may enter a parallel region or run a Polars
query. Importing, looking up functions, and computing with one thread are safe.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import threading
import traceback
from collections.abc import Iterator

from duetlink.compute.operations.steps import body
from duetlink.compute.worker.protocol import handlers, libraries
from duetlink.compute.worker.room import child, huge_pages, program
from duetlink.compute.worker.room.console import Console, KernelGone
from duetlink.compute.worker.room.draws import Draws, seed_by_system
from duetlink.compute.worker.room.interpreter import Interpreter, NoResult
from duetlink.compute.worker.room.progress import Progress
from duetlink.compute.worker.sandbox import libc
from duetlink.compute.worker.sandbox.lockdown import Lockdown
from duetlink.data import values
from duetlink.extensions import shared_extensions

_STATUS_BYTES = 100
_TEST_S = 20.0  # the time limit; it takes half a second


def main(fd: int) -> None:
    """Fork rooms for the kernel at the other end of this socket, until that closes.

    In each fork it continues as a room, like `child.main`.
    """
    for work in _serve(fd):
        work()


def _serve(fd: int) -> Iterator[child.Work]:
    faulthandler.enable()
    lockdown = Lockdown(fd, libraries.LIBRARIES)
    console = Console(fd)
    status = 1
    try:
        start = console.receive().header["start"]
        loaded = libraries.load(start["libraries"])
        test = _ForkTest(loaded)  # its fork computes while this process continues with imports
        _import_more(loaded)
        _fill_caches()
        if not test.is_passed():
            console.send({"unready": "a fork of it cannot compute"})
            os._exit(1)
        gc.collect()
        gc.freeze()  # garbage collection in rooms does not write to the pages of these objects
        huge_pages.join()
        report = {"libraries": loaded, "extensions": shared_extensions()}
        console.send({"ready": lockdown.partial_isolation().to_wire() | report})
        room = _ForkLoop(console, lockdown, loaded, fd).run()
    except KernelGone:
        status = 0
    except BaseException:
        traceback.print_exc()
    else:
        yield from room
    os._exit(status)


class _ForkTest:
    """A test fork that computes with two threads, to find out whether forks work, hang, or fail."""

    def __init__(self, loaded: list[str]) -> None:
        zygote = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                _end_with_zygote(zygote)
                libraries.run_parallel_regions(loaded)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        self._pidfd = os.pidfd_open(self._pid)

    def is_passed(self) -> bool:
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        if not poll.poll(_TEST_S * 1000):
            os.kill(self._pid, signal.SIGKILL)
        os.close(self._pidfd)
        return os.waitpid(self._pid, 0)[1] == 0


def _import_more(loaded: list[str]) -> None:
    for kind in handlers.HANDLERS.values():
        importlib.import_module(kind.module)
    for module in pkgutil.walk_packages(values.__path__, "duetlink.data.values."):
        with contextlib.suppress(ImportError):
            importlib.import_module(module.name)
    if "pandas" in loaded:
        importlib.import_module("pandas").set_option("compute.use_numexpr", False)
    if "torch" in loaded:
        libraries.configure_compiler()
        with contextlib.suppress(Exception):  # on failure, the first optimiser in a room imports 800 modules
            importlib.import_module("torch._dynamo")


_REHEARSED = b"""[
["numpy.array",[["l",1.0,2.0,2.0]]], [".mean",[[1]]], ["operator.mul",[[1],2.0]],
["operator.getitem",[[1],["s",0,2,null]]], ["numpy.mean",[[4]]],
["pandas.DataFrame",[["d","a",[1],"b",["l","x","y","y"]]]], ["operator.getitem",[[6],"a"]],
["operator.mul",[[7],2.0]], [".mean",[[8]]], [".groupby",[[6],"b"]], [".mean",[[10]]],
["operator.gt",[[7],1.0]], ["operator.getitem",[[6],[12]]], [".describe",[[7]]],
["builtins.list",[["l",[3],[9],[11],[13],[14]]]]
]"""


def _fill_caches() -> None:
    """Run a small single-threaded program, which fills the caches that the first program of a room needs."""
    pieces, _ = body.write(15, _REHEARSED)
    allowed = program.installed()
    with contextlib.suppress(NoResult), Draws("") as draws:  # pandas may not be installed
        whole = body.read(memoryview(b"".join(pieces)))
        made, _ = Interpreter(allowed, {}, whole, draws).run(Progress(lambda name, content: None))
        values.decode(memoryview(bytearray(b"".join(values.encode(made).segments))))
    for kind in allowed.classes:
        with contextlib.suppress(Exception):  # the library may be installed only partly
            allowed.method(kind, "mean")


class _ForkLoop:
    """The main loop of the zygote: forks a room at each command, and reports the ends of rooms."""

    def __init__(self, console: Console, lockdown: Lockdown, loaded: list[str], fd: int) -> None:
        self._console = console
        self._lockdown = lockdown
        self._loaded = loaded
        self._fd = fd
        self._wake, self._woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._status_pipes: dict[int, int] = {}  # process number of a room -> the pipe for its exit status

    def run(self) -> Iterator[child.Work]:
        """Fork rooms for ever. Returns in a fork only, with the work of that room. Raises KernelGone."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while True:
            ready = dict(poll.poll())
            if self._wake in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, 4096)
                self._reap()
            if self._fd in ready and (room := self._fork()):
                return room

    def _reap(self) -> None:
        while self._status_pipes:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            status_pipe = self._status_pipes.pop(pid, -1)
            if status_pipe >= 0:
                with contextlib.suppress(OSError):
                    os.write(status_pipe, str(os.waitstatus_to_exitcode(status)).encode()[:_STATUS_BYTES])
                os.close(status_pipe)

    def _fork(self) -> Iterator[child.Work] | None:
        """Fork one room. Returns its work in the fork, and None in the zygote."""
        frame = self._console.receive()
        sock, errors, status_pipe = frame.fds
        used_bytes = self._lockdown.used_bytes()
        zygote = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                self._close_inherited(status_pipe)
                os.dup2(errors, 2)
                os.close(errors)
                return _room(zygote, sock, self._lockdown, self._loaded, used_bytes)
            except BaseException:
                os._exit(1)
        self._status_pipes[pid] = status_pipe
        os.close(sock)
        os.close(errors)
        self._console.reply(frame.header["call"], json.dumps(pid).encode(), ())
        return None

    def _close_inherited(self, status_pipe: int) -> None:
        """Close the zygote's descriptors in a fork, and reset its signal handlers."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._console.detach()
        for fd in (status_pipe, self._fd, self._wake, self._woken, *self._status_pipes.values()):
            os.close(fd)


def _end_with_zygote(zygote: int) -> None:
    libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != zygote:  # the zygote ended before prctl took effect
        os._exit(1)


def _room(
    zygote: int, fd: int, lockdown: Lockdown, loaded: list[str], used_bytes: int
) -> Iterator[child.Work]:
    _end_with_zygote(zygote)
    seed_by_system()
    threading.Thread(target=child.end_with_kernel, args=(fd,), name="kernel", daemon=True).start()
    return child.serve(fd, lambda start: child.lock_down(start, loaded, lockdown, used_bytes))
