"""Memory in huge pages, which forks share at less cost."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from duetlink.compute.worker.room.huge_pages import own_memory

MAPS = """\
55c41bd17000-55c41bd18000 r--p 00000000 fe:00 4063 /usr/bin/python 3
55c41be17000-55c41bf18000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000200000 rw-p 00000000 00:00 0
7f0000200000-7f0000400000 ---p 00000000 00:00 0
7f0000400000-7f0000600000 rw-p 00001000 fe:00 9 /lib/libtorch.so
7f0000600000-7f0000800000 rw-s 00000000 00:01 7 /memfd:duetlink (deleted)
7ffd35710000-7ffd35730000 rw-p 00000000 00:00 0 [stack]
""".splitlines()

# 64 MiB that were written to, then joined; a fork changes a byte and has the others
JOINED = """
import os, re
from pathlib import Path
from duetlink.compute.worker.room import huge_pages
memory = bytearray(b"a") * (64 << 20)
huge_pages.join()
told = Path("/proc/self/smaps_rollup").read_text()
print(int(re.search(r"AnonHugePages: +(\\d+) kB", told)[1]), flush=True)
pid = os.fork()
if pid == 0:
    memory[40 << 20] = ord("b")
    print(memory.count(b"a"), memory.count(b"b"), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
print(memory.count(b"a"), memory.count(b"b"))
"""


def test_memory_that_can_be_written_to_and_is_no_file_s_is_found() -> None:
    assert list(own_memory(MAPS)) == [
        (0x55C41BE17000, 0x55C41BF18000),
        (0x7F0000000000, 0x7F0000200000),
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="MADV_COLLAPSE is of Linux alone")
def test_memory_is_joined_and_a_fork_has_what_is_there() -> None:
    done = subprocess.run([sys.executable, "-c", JOINED], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    (huge_kib,), forked, own = (tuple(map(int, line.split())) for line in done.stdout.splitlines())
    assert forked == ((64 << 20) - 1, 1)
    assert own == (64 << 20, 0)
    kernel = tuple(int(part) for part in os.uname().release.split(".")[:2])
    if kernel >= (6, 1) and os.path.isdir("/sys/kernel/mm/transparent_hugepage"):
        assert huge_kib >= 60 << 10
