"""Landlock: Linux refuses this process all files except some to read, TCP, and signals to other processes.

It applies to the calling thread and the threads that it starts, so it must be set before any others exist. It
needs no privilege, and applies to root too. See landlock(7). Rights that an older Linux does not know are
left out, by its ABI number.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

from duetlink.compute.worker.sandbox import libc

_VERSION = 1 << 0  # flag of create_ruleset: tell the ABI
_PATH_BENEATH = 1

_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
# execute, read, write, make and remove files of all kinds; then the rights that later ABIs added
_FILES = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}  # refer, truncate, ioctl of devices
_NET = {4: 1 << 0 | 1 << 1}  # bind and connect of TCP
_SCOPED = {6: 1 << 0 | 1 << 1}  # abstract Unix sockets, signals


def abi() -> int:
    """Return the Landlock ABI version of this Linux; 0 if it has no Landlock."""
    try:
        return libc.syscall(libc.LANDLOCK_CREATE_RULESET, 0, 0, _VERSION)
    except OSError:
        return 0


def restrict(readable: Iterable[str], version: int) -> None:
    """Allow this thread to read these files and directories only. Needs `no_new_privs`. Raises OSError."""
    # struct landlock_ruleset_attr: an older Linux has a shorter one and requires the rest to be 0, which it
    # is
    rules = struct.pack("=QQQ", *(_known(rights, version) for rights in (_FILES, _NET, _SCOPED)))
    ruleset = libc.syscall(libc.LANDLOCK_CREATE_RULESET, ctypes.c_char_p(rules), len(rules), 0)
    try:
        for path in readable:
            _allow(ruleset, path)
        libc.syscall(libc.LANDLOCK_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _known(rights: dict[int, int], version: int) -> int:
    return sum(bits for since, bits in rights.items() if since <= version)


def _allow(ruleset: int, path: str) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # the path does not exist, or is not accessible
        return
    try:
        directory = stat.S_ISDIR(os.fstat(fd).st_mode)
        rights = _READ_FILE | (_READ_DIR if directory else 0)
        rule = ctypes.c_char_p(struct.pack("=Qi", rights, fd))  # struct landlock_path_beneath_attr, packed
        libc.syscall(libc.LANDLOCK_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(fd)
