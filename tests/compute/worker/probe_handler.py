"""A handler that tries what a room must not be able to do. Its commands are the functions below, by name."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from duetlink.compute.worker.protocol.handlers import Emit, HandlerKind
from duetlink.compute.worker.protocol.memory import map_sealed, place
from duetlink.compute.worker.sandbox.syscalls import COMMON_ALLOWED, EXAMINED, REFUSED
from duetlink.errors import OperationRefused, RemoteProtocolError
from tests.compute.worker import workloads

# bound before the lock-down: what hostile machine code in a library would have
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_syscall = _libc.syscall
_environ = ctypes.c_void_p.in_dll(_libc, "environ")
_memset = _libc.memset
_COLUMN = 0 if os.uname().machine == "x86_64" else 1


def _number(name: str) -> int:
    if name.isdigit():
        return int(name)
    number = COMMON_ALLOWED.get(name) or (EXAMINED.get(name) or REFUSED[name])[_COLUMN]
    assert number is not None
    return number


def _raw(name: str, *arguments: Any) -> str:
    """What the system says to a call: 'done', or the name of its error."""
    ctypes.set_errno(0)
    wide = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = _syscall(ctypes.c_long(_number(name)), *wide)
    return "done" if result >= 0 else errno.errorcode[ctypes.get_errno()]


def _tried(action: Callable[[], Any]) -> str:
    try:
        return f"done: {action()!r}"
    except OperationRefused:
        return "refused by the hook"
    except OSError as error:
        return f"refused by the system: {errno.errorcode[error.errno or 0]}"


# -- plain ---------------------------------------------------------------------------------------------------


def echo(content: bytes) -> bytes:
    return content


def boom(content: bytes) -> bytes:
    raise KeyError("the secret")


def protocol_error(content: bytes) -> bytes:
    raise RemoteProtocolError("step 3 is malformed")


def leave_by_exception(content: bytes) -> bytes:
    raise SystemExit(3)


# -- files ---------------------------------------------------------------------------------------------------


def read(content: bytes) -> str:
    return _tried(lambda: len(open(content.decode(), "rb").read(10)))


def read_link(content: bytes) -> str:
    return _tried(lambda: os.readlink(content.decode()))


def real_path(content: bytes) -> str:
    return _tried(lambda: os.path.realpath(content.decode()))


def write(content: bytes) -> str:
    return _tried(lambda: open(content.decode(), "wb").write(b"x"))


def raw_open(content: bytes) -> str:
    """openat, past Python: `FLAGS PATH`."""
    flags, _, path = content.decode().partition(" ")
    return _raw("openat", -100, ctypes.c_char_p(path.encode()), int(flags), 0o600)


def list_directory(content: bytes) -> str:
    return _tried(lambda: os.listdir(content.decode()))


def remove(content: bytes) -> str:
    return _tried(lambda: os.remove(content.decode()))


def raw_call(content: bytes) -> str:
    """Any system call, past Python: its name, or number, and arguments in decimal."""
    name, *arguments = content.decode().split()
    return _raw(name, *(int(word) for word in arguments))


def raw_call_in_thread(content: bytes) -> str:
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(raw_call(content)))
    thread.start()
    thread.join()
    return answers[0]


def descriptors(content: bytes) -> str:
    found = []
    for fd in range(256):
        with contextlib.suppress(OSError):
            os.fstat(fd)
            found.append(fd)
    return str(len(found))


def environment(content: bytes) -> str:
    c_environ = _environ.value is not None and ctypes.c_void_p.from_address(_environ.value).value is not None
    return repr((dict(os.environ), c_environ))


# -- processes and network -----------------------------------------------------------------------------------


def spawn(content: bytes) -> str:
    return _tried(lambda: subprocess.run(["/bin/true"]))


def fork(content: bytes) -> str:
    return _tried(os.fork)


def kill_parent(content: bytes) -> str:
    return _tried(lambda: os.kill(os.getppid(), signal.SIGKILL))


def parent(content: bytes) -> str:
    return str(os.getppid())


def connect(content: bytes) -> str:
    return _tried(lambda: socket.create_connection(("127.0.0.1", int(content))))


def start_threads(content: bytes) -> str:
    done: list[int] = []
    threads = [threading.Thread(target=done.append, args=(1,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return str(len(done))


# -- limits --------------------------------------------------------------------------------------------------


def allocate_array(content: bytes) -> str:
    import numpy as np

    return str(np.ones(int(content) // 8).nbytes)


def allocate_tensor(content: bytes) -> str:
    import torch

    return str(torch.ones(int(content) // 4).nbytes)


def allocate_bytes(content: bytes) -> str:
    return str(len(bytearray(int(content))))


def allocate_little_by_little(content: bytes) -> str:
    kept = []
    while True:
        kept.append(bytes(100_000))


def map_anonymous_shared(content: bytes) -> str:
    return _tried(lambda: mmap.mmap(-1, int(content)))


def raise_limit(content: bytes) -> str:
    import resource

    return _tried(lambda: resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY,) * 2))


def loop(content: bytes) -> bytes:
    while True:
        pass


def sleep(content: bytes) -> bytes:
    time.sleep(float(content))
    return content


def hold_interpreter(content: bytes) -> bytes:
    """Without letting any other thread of Python's run, for minutes."""
    return str(3**400_000_000).encode()


def leave(content: bytes) -> bytes:
    os._exit(int(content))


def crash(content: bytes) -> bytes:
    return bytes(_memset(None, 1, 1))


def signal_itself(content: bytes) -> str:
    return _raw("kill", os.getpid(), int(content))


def say(content: bytes) -> bytes:
    os.write(2, content)
    return b""


# -- code ----------------------------------------------------------------------------------------------------


def evaluate(content: bytes) -> str:
    return _tried(lambda: eval(content.decode()))


def raising(content: bytes) -> str:
    return repr(eval(content.decode()))


def load_library(content: bytes) -> str:
    return _tried(lambda: ctypes.CDLL(content.decode()))


def import_module(content: bytes) -> str:
    import importlib

    return _tried(lambda: importlib.import_module(content.decode()).__name__)


FUNCTIONS: dict[str, Callable[[bytes], bytes | str]] = {
    name: function
    for name, function in (*globals().items(), *vars(workloads).items())
    if getattr(function, "__module__", "") in (__name__, workloads.__name__) and not name.startswith("_")
}


class ProbeHandler:
    """Does what it is told."""

    def __init__(self) -> None:
        self._kept: list[memoryview] = []

    def handle(
        self, command: str, content: bytes, fds: Sequence[int], emit: Emit
    ) -> tuple[bytes | memoryview, Sequence[int]]:
        match command:
            case "place":
                return b"in memory", (place([content], len(content)),)
            case "place_zeros":
                return b"", (place([bytes(int(content))], int(content)),)
            case "place_and_fail":
                place([content], len(content))
                raise KeyError("after it was placed")
            case "place_and_keep_writable":
                fd = place([content], len(content))
                self._kept.append(memoryview(mmap.mmap(fd, len(content))))
                return b"", (fd,)
            case "map":
                self._kept.append(map_sealed(fds[0], int(content)))
                return bytes(self._kept[-1][:4]), ()
            case "map_writable":
                view = map_sealed(fds[0], int(content), writable_copy=True)
                view[0] = 255
                self._kept.append(view)
                return bytes(view[:4]), ()
            case "release":
                self._kept.clear()
                return b"", ()
            case "emit":
                for number in range(int(content)):
                    emit("progress", b"%d" % number)
                return b"", ()
            case "emit_long":
                emit("x" * 1000, bytes(1_000_000))
                return b"", ()
        answer = FUNCTIONS[command](content)
        return answer.encode() if isinstance(answer, str) else answer, ()


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_char_p), ("size", ctypes.c_size_t))


class _Message(ctypes.Structure):
    """struct msghdr"""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_size", ctypes.c_uint32),
        ("vectors", ctypes.POINTER(_Vector)),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_char_p),
        ("control_size", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class WrongHandler:
    """Breaks the protocol, as code that has taken over a room could."""

    def __init__(self) -> None:
        # struct cmsghdr with one descriptor, standard error
        control = struct.pack("@Niii4x", 20, socket.SOL_SOCKET, socket.SCM_RIGHTS, 2)
        vectors = ctypes.pointer(_Vector(b"x", 1))
        self._message = _Message(None, 0, vectors, 1, control, len(control), 0)
        self._sendmsg, self._shutdown = _libc.sendmsg, _libc.shutdown

    def handle(
        self, command: str, content: bytes, fds: Sequence[int], emit: Emit
    ) -> tuple[bytes | memoryview, Sequence[int]]:
        console = emit.__self__  # type: ignore[attr-defined]
        if command == "send_descriptor":
            # past Python, where the hook would be asked
            self._sendmsg(console.fileno(), ctypes.byref(self._message), 0)
        elif command == "flood":
            for _ in range(1_000_000):
                console.send({"event": "x"})
        elif command == "close":
            self._shutdown(console.fileno(), socket.SHUT_WR)
        else:
            os.write(console.fileno(), content)
        time.sleep(60)
        return b"", ()


HANDLERS = {
    "probe": HandlerKind(__name__, "ProbeHandler", runs_code=False),
    "free": HandlerKind(__name__, "ProbeHandler", runs_code=True),
    "wrong": HandlerKind(__name__, "WrongHandler", runs_code=False),
}
