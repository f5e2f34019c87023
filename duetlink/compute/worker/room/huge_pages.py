"""Huge pages: the memory of this process in pages of 2 MiB instead of 4 KiB, on Linux 6.1 and later.

A fork copies a page table entry for each page that its parent has written to, and frees it at its end. With
the memory of all libraries, that was most of the system time of an empty room. A page of 2 MiB needs one
entry. When a fork writes to it, Linux splits the page and copies 4 KiB, so no more memory is used. See
madvise(2), MADV_COLLAPSE.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from duetlink.compute.worker.sandbox import libc

_MADV_COLLAPSE = 25


def join() -> None:
    """Collapse the anonymous memory of this process into huge pages, as far as the system can."""
    with contextlib.suppress(OSError):  # this system has no /proc
        lines = Path("/proc/self/maps").read_text("utf-8", errors="replace").splitlines()
        for start, end in own_memory(lines):
            # a part without memory is reported as an error, after all other parts have been collapsed
            with contextlib.suppress(OSError):
                libc.madvise(start, end - start, _MADV_COLLAPSE)


def own_memory(lines: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each writable anonymous mapping, from the lines of proc_pid_maps(5)."""
    for line in lines:
        addresses, permissions, _, _, inode, *name = line.split(maxsplit=5)
        if permissions == "rw-p" and inode == "0" and name in ([], ["[heap]"]):
            start, end = (int(address, 16) for address in addresses.split("-"))
            yield start, end
