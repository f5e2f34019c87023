"""The memory of this process in pages of 2 MiB instead of 4 KiB, where the kernel can do that.

A fork copies an entry for each page that its parent has written to, and frees it when it ends: with the
memory of all libraries, that was most of the system time of an empty room. A page of 2 MiB is one entry.
Where a fork writes to such a page, the kernel divides it and copies 4 KiB, so no more memory is taken. Linux
6.1 and later, see madvise(2).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from duetlink.compute.worker.sandbox import libc

_MADV_COLLAPSE = 25


def join() -> None:
    """Have the memory of this process that is no file's in huge pages, as far as the system can."""
    with contextlib.suppress(OSError):  # there is no such file under this system
        lines = Path("/proc/self/maps").read_text("utf-8", errors="replace").splitlines()
        for start, end in own_memory(lines):
            # a part that has no memory yet is an error, which is told after the others have been joined
            with contextlib.suppress(OSError):
                libc.madvise(start, end - start, _MADV_COLLAPSE)


def own_memory(lines: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Where memory begins and ends that can be written to and is no file's, by lines of proc_pid_maps(5)."""
    for line in lines:
        addresses, permissions, _, _, inode, *name = line.split(maxsplit=5)
        if permissions == "rw-p" and inode == "0" and name in ([], ["[heap]"]):
            start, end = (int(address, 16) for address in addresses.split("-"))
            yield start, end
