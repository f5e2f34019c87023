"""seccomp: a filter that Linux applies to every system call of all threads of this process, permanently.

The filter is a classic BPF program over the call's number and arguments (seccomp(2), linux/filter.h). It
refuses the calls that `syscalls.py` lists, and some calls because of their arguments; all others are allowed.
A refused call fails with EPERM or ENOSYS, as on a system without the permission or the call, so that
libraries use their fallbacks. If Landlock decides which files can be opened, every readlink fails with
EINVAL, as for a path that is no symbolic link.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from duetlink.compute.worker.sandbox import libc
from duetlink.compute.worker.sandbox.syscalls import COMMON_ALLOWED, EXAMINED, FIRST_COMMON, LINKS, REFUSED

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, constant

_LOAD, _AND, _JEQ, _JGE, _JSET, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _EACCES, _ENOSYS = ERRNO | errno.EPERM, ERRNO | errno.EACCES, ERRNO | errno.ENOSYS
_EINVAL = ERRNO | errno.EINVAL

_SET_MODE_FILTER, _TSYNC = 1, 1
_X32 = 0x40000000  # set in the numbers of x86_64's third set of calls

_CLONE_THREAD = 0x00010000
_CLONE_NEW = 0x7E020080  # namespaces of any kind
_SHARED_ANONYMOUS = 0x01 | 0x20  # memory that RLIMIT_DATA does not count
_MAP_GROWSDOWN = 0x100  # a mapping that Linux takes for a stack, and RLIMIT_DATA does not count either
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_FCNTL_REFUSED = (
    *(8, 10, 15),  # F_SETOWN, F_SETSIG, F_SETOWN_EX: make Linux send any signal to any process
    *(1024, 1026),  # F_SETLEASE, F_NOTIFY: delay an update of a library's files, or be notified of it
)
# The requests that the C library and Python make. There are thousands of others; some change a file that is
# open for reading only, such as FS_IOC_SETFLAGS.
_IOCTL_ALLOWED = (
    0x5401,  # TCGETS: whether it is a terminal
    0x5413,  # TIOCGWINSZ: its size
    0x541B,  # FIONREAD
    0x5421,  # FIONBIO
    0x5450,  # FIONCLEX
    0x5451,  # FIOCLEX
)
_PRCTL = (
    libc.PR_SET_PDEATHSIG,
    libc.PR_SET_DUMPABLE,
    22,  # PR_SET_SECCOMP
    35,  # PR_SET_MM
    0x59616D61,  # PR_SET_PTRACER
)


@dataclass(frozen=True, slots=True)
class Machine:
    """The constants that differ between processor architectures."""

    audit_arch: int
    column: int  # in the tables of syscalls.py
    seccomp: int


MACHINES = {
    "x86_64": Machine(0xC000003E, 0, 317),
    "aarch64": Machine(0xC00000B7, 1, 277),
}


def machine() -> Machine | None:
    """Return the constants of this machine; None if there is no filter for its architecture."""
    if sys.platform != "linux" or struct.calcsize("P") != 8 or sys.byteorder != "little":
        return None
    return MACHINES.get(os.uname().machine)


def install(machine: Machine, pid: int, *, links: bool = False) -> None:
    """Install the filter in all threads of this process. `no_new_privs` must be set. Raises OSError.

    Args:
        links: symbolic links may be read.
    """
    program = build(machine, pid, links=links)
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    # struct sock_fprog: unsigned short, and a pointer at its own alignment
    fprog = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    thread = libc.syscall(machine.seccomp, _SET_MODE_FILTER, _TSYNC, ctypes.c_char_p(fprog))
    if thread != 0:
        raise OSError(errno.EBUSY, f"thread {thread} has a filter of its own")


def build(machine: Machine, pid: int, *, links: bool = False) -> list[Instruction]:
    """Return the BPF program for the process with this number, which may signal itself only."""

    def number(name: str) -> int | None:
        return (EXAMINED.get(name) or REFUSED[name])[machine.column]

    program = [_load(_ARCH), (_JEQ, 1, 0, machine.audit_arch), _return(KILL), _load(_NUMBER)]
    program += [(_JGE, 0, 1, _X32), _return(_ENOSYS)]
    program += _common()
    for name in REFUSED:
        program += _when(number(name), [_return(_EPERM)])
    for name in () if links else LINKS:
        program += _when(LINKS[name][machine.column], [_return(_EINVAL)])
    program += _when(
        number("clone"),
        [
            *_argument(0),
            (_JSET, 0, 1, _CLONE_NEW),
            _return(_EPERM),
            (_JSET, 1, 0, _CLONE_THREAD),
            _return(_EPERM),
        ],
    )
    for name in ("kill", "tgkill"):  # only itself
        program += _when(number(name), [*_argument(0), (_JEQ, 1, 0, pid), _return(_EPERM)])
    # reading a limit is allowed, setting one is not
    high, low = _argument(2, high=True), _argument(2)
    program += _when(
        number("prlimit64"), [*high, (_JEQ, 1, 0, 0), _return(_EPERM), *low, (_JEQ, 1, 0, 0), _return(_EPERM)]
    )
    program += _when(number("fcntl"), _none_of(1, _FCNTL_REFUSED))
    program += _when(number("ioctl"), _only(1, _IOCTL_ALLOWED))
    program += _when(number("prctl"), _none_of(0, _PRCTL))
    uncounted = [
        (_JSET, 0, 1, _MAP_GROWSDOWN),
        _return(_EPERM),
        (_AND, 0, 0, _SHARED_ANONYMOUS),
        (_JEQ, 0, 1, _SHARED_ANONYMOUS),
        _return(_EPERM),
    ]
    program += _when(number("mmap"), [*_argument(3), *uncounted])
    for name, flags in (("open", 1), ("openat", 2)):
        program += _when(number(name), [*_argument(flags), (_JSET, 0, 1, _WRITING), _return(_EACCES)])
    return [*program, _return(ALLOW)]


def _common() -> list[Instruction]:
    """Filter the calls whose numbers are equal on all architectures: allow a list, and refuse the rest.

    clone3 gets ENOSYS with the rest, so that the C library starts threads by clone, whose flags are an
    argument that the filter can check.
    """
    allowed: list[Instruction] = []
    for number in COMMON_ALLOWED.values():
        allowed += [(_JEQ, 0, 1, number), _return(ALLOW)]
    block = [*allowed, _return(_ENOSYS)]
    return [(_JGE, 0, len(block), FIRST_COMMON), *block]


def _when(number: int | None, then: Sequence[Instruction]) -> list[Instruction]:
    """Apply the instructions `then` to one call; if they reach no return, the call is allowed."""
    if number is None:
        return []
    block = [*then, _return(ALLOW)]
    return [(_JEQ, 0, len(block), number), *block]


def _none_of(argument: int, values: Sequence[int]) -> list[Instruction]:
    program = _argument(argument)
    for value in values:
        program += [(_JEQ, 0, 1, value), _return(_EPERM)]
    return program


def _only(argument: int, values: Sequence[int]) -> list[Instruction]:
    program = _argument(argument)
    for value in values:
        program += [(_JEQ, 0, 1, value), _return(ALLOW)]
    return [*program, _return(_EPERM)]


def _argument(index: int, high: bool = False) -> list[Instruction]:
    """Load 32 bits of an argument. Of an `int` argument, Linux uses the lower 32 bits."""
    return [_load(_ARGUMENTS + 8 * index + (4 if high else 0))]


def _load(offset: int) -> Instruction:
    return (_LOAD, 0, 0, offset)


def _return(value: int) -> Instruction:
    return (_RETURN, 0, 0, value)
