"""System calls and C functions that Python does not offer. Linux only."""

from __future__ import annotations

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38

LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446  # on every machine


def syscall(number: int, *arguments: object) -> int:
    """Raises OSError."""
    # plain integers are converted to c_long, because an argument must fill a register
    wide = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = int(_libc.syscall(ctypes.c_long(number), *wide))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def prctl(option: int, *arguments: int) -> None:
    """Raises OSError."""
    values = [*arguments, 0, 0, 0, 0][:4]
    if _libc.prctl(option, *(ctypes.c_ulong(value) for value in values)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def madvise(address: int, size_bytes: int, advice: int) -> None:
    """Raises OSError."""
    if _libc.madvise(address, size_bytes, advice) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def clear_environment() -> None:
    """Empty the environment, including entries without a name, which os.environ does not show."""
    os.environ.clear()
    _libc.clearenv()
