"""The audit hook (PEP 578): a second barrier inside the interpreter, and the only one outside Linux.

The hook raises an exception when Python code opens, starts, removes or sends something, and names the event.
It does not stop code that controls the interpreter itself: Landlock and seccomp do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any

from duetlink.errors import OperationRefused

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

# the part of an event's name before the first dot
_REFUSED_FAMILIES = frozenset(
    (
        "_winapi",
        "cpython",
        "ctypes",
        "ensurepip",
        "fcntl",
        "ftplib",
        "http",
        "imaplib",
        "msvcrt",
        "nntplib",
        "os",
        "poplib",
        "pty",
        "resource",
        "shutil",
        "signal",
        "smtplib",
        "socket",
        "sqlite3",
        "subprocess",
        "syslog",
        "telnetlib",
        "tempfile",
        "urllib",
        "webbrowser",
        "winreg",
    )
)
_REFUSED = frozenset(
    ("sys.addaudithook", "builtins.breakpoint", "builtins.input", "setopencodehook", "pickle.find_class")
)
# events that accompany calls by ctypes
_CTYPES_VALUES = frozenset(
    (
        "ctypes.addressof",
        "ctypes.cdata",
        "ctypes.cdata/buffer",
        "ctypes.create_string_buffer",
        "ctypes.string_at",
        "ctypes.wstring_at",
        "ctypes.PyObj_FromPtr",
    )
)
# harmless events of the refused families
_ALLOWED = frozenset(
    (
        "ctypes.get_errno",
        "ctypes.set_errno",
        "fcntl.fcntl",  # reads the seals of memory; seccomp refuses its harmful commands
        "os.putenv",  # changes only the process's own environment
        "os.unsetenv",
    )
)


def refuse(readable: Iterable[str], functions_of: frozenset[str], *, runs_code: bool) -> None:
    """Install the hook, which cannot be removed. Refused events raise OperationRefused.

    Args:
        readable: directories and files that may be read.
        functions_of: shared objects whose functions may be looked up and called by ctypes.
        runs_code: code that does not come from the libraries may be executed.
    """
    roots = tuple(path.rstrip(os.sep) for path in readable)
    exact, below = frozenset(roots), tuple(root + os.sep for root in roots)

    def is_readable(path: object) -> bool:
        if isinstance(path, int):  # a descriptor that the process has already
            return True
        try:
            real = os.path.realpath(os.fsdecode(path))  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return False
        return real in exact or real.startswith(below)

    def opens(event: str, arguments: tuple[Any, ...]) -> None:
        path, mode, flags = arguments[:3]
        writes = (isinstance(flags, int) and flags & _WRITING) or (
            isinstance(mode, str) and not set(mode).isdisjoint("wax+")
        )
        if writes or not is_readable(path):
            raise _refusal(event)

    def lists(event: str, arguments: tuple[Any, ...]) -> None:
        if not is_readable(arguments[0]):
            raise _refusal(event)

    def executes(event: str, arguments: tuple[Any, ...]) -> None:
        code = arguments[0]
        if not runs_code and isinstance(code, CodeType) and not is_library(code):
            raise _refusal(event)

    def is_library(code: CodeType) -> bool:
        return code.co_filename.startswith(("<frozen ", *below)) or _importing()

    def maps(event: str, arguments: tuple[Any, ...]) -> None:
        if arguments[0] == -1:  # anonymous shared memory, which RLIMIT_DATA does not count
            raise _refusal(event)

    def calls(event: str, arguments: tuple[Any, ...]) -> None:
        if getattr(arguments[0], "_name", None) not in functions_of:
            raise _refusal(event)

    checks: dict[str, Callable[[str, tuple[Any, ...]], None]] = {
        "open": opens,
        "os.listdir": lists,
        "os.scandir": lists,
        "os.walk": lists,
        "glob.glob": lists,
        "glob.glob/2": lists,
        "exec": executes,
        "function.__new__": executes,
        "mmap.__new__": maps,
        "ctypes.dlsym": calls,
    }

    allowed = _ALLOWED | (_CTYPES_VALUES if functions_of else frozenset())

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        check = checks.get(event)
        if check is not None:
            check(event, arguments)
        elif (event in _REFUSED or event.partition(".")[0] in _REFUSED_FAMILIES) and event not in allowed:
            raise _refusal(event)

    sys.addaudithook(hook)


def _importing() -> bool:
    """True while a library is being imported, which may create its classes by `exec`."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _refusal(event: str) -> OperationRefused:
    return OperationRefused(f"{event} is not possible where private data is worked on")
