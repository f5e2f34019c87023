"""Freed memory stays in the process for the messages that follow."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

# counts the blocks that malloc has mapped by themselves; those are given back as soon as they are freed
PROGRAM = """
import ctypes, sys
import numpy as np
from duetlink.net.flight import freed_memory

NAMES = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in NAMES.split()]
libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Mallinfo

if "keep" in sys.argv:
    freed_memory.keep()
before = libc.mallinfo2().hblks
array = np.empty(16 * 2**20, np.uint8)
print(libc.mallinfo2().hblks - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's malloc learns")
@pytest.mark.parametrize(("word", "mapped"), [("keep", "0"), ("as it is", "1")])
def test_a_large_block_comes_from_memory_that_is_kept(word: str, mapped: str) -> None:
    command = [sys.executable, "-c", PROGRAM, word]
    assert (
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
        == f"{mapped}\n"
    )
