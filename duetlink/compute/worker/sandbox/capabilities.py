"""Dropping the privileges of root, so that Linux treats root like any other user (capabilities(7))."""

from __future__ import annotations

import ctypes
import os
import struct

from duetlink.compute.worker.sandbox import libc

_NUMBERS = {"x86_64": (125, 126), "aarch64": (90, 91)}  # of capget and capset
_VERSION_3 = 0x20080522
_SETS = struct.Struct("=6I")  # effective, permitted and inheritable, of the lower and of the upper 32
# libraries may be in directories that root reads only by these; Landlock restricts reading anyway
_KEPT = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


def give_up() -> None:
    """Drop capabilities of the calling thread and the threads it will start. No-op on unknown processors."""
    numbers = _NUMBERS.get(os.uname().machine)
    if numbers is None:
        return
    get, set_ = numbers
    header = ctypes.create_string_buffer(struct.pack("=Ii", _VERSION_3, 0))
    sets = ctypes.create_string_buffer(_SETS.size)
    libc.syscall(get, header, sets)
    permitted = _SETS.unpack(sets.raw)[1] & _KEPT
    sets = ctypes.create_string_buffer(_SETS.pack(permitted, permitted, 0, 0, 0, 0), _SETS.size)
    libc.syscall(set_, header, sets)
