"""Descriptors of this process as a budget: the limit, the number in use, and a reserve.

Theory. A process has 1,024 descriptors unless the limit is raised (`setrlimit(2)`, RLIMIT_NOFILE), and
opening one more fails with EMFILE: files, sockets, shared memory, a new connection. So work that can wait is
refused before the limit, and work that must not fail holds a few that it closes just before it opens its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator

from duetlink.errors import DescriptorsShort

if sys.platform != "win32":
    import resource

_MOST_KEPT = 64  # the last descriptors are kept for connections, answers and the audit log


def limit() -> int | None:
    """Return the number of descriptors that this process may have; None if it is unlimited or unknown."""
    if sys.platform == "win32":
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def used() -> int | None:
    """Return the number of open descriptors; None if it is unknown."""
    for directory in ("/proc/self/fd", "/dev/fd"):
        with contextlib.suppress(OSError):
            return len(os.listdir(directory)) - 1  # listing the directory uses one itself
    most = limit()
    return most if sys.platform == "linux" else None  # on Linux it fails only if no descriptor is left


def check_room(what: str) -> None:
    """Raise DescriptorsShort if few descriptors are left, so that `what` has to wait."""
    most, open_ = limit(), used()
    if most is None or open_ is None or open_ < most - min(_MOST_KEPT, most // 8):
        return
    raise DescriptorsShort(
        f"{what}: {open_:,} of the {most:,} descriptors that this process may have are open, and the last "
        "ones are kept for the audit log and for what the peer asks for. duet.status() says what this duet "
        "holds; close files or duets that are not needed, or raise the limit, by `ulimit -n` before the "
        "notebook starts or by resource.setrlimit within it"
    )


@contextlib.asynccontextmanager
async def opened_by(make: Callable[[], int]) -> AsyncIterator[int]:
    """Call `make` on another thread, and have the descriptor that it returns open within the block.

    Threads cannot be cancelled: if the caller is cancelled while `make` runs, the descriptor is closed as
    soon as it is there. Raises as `make`.
    """
    making = asyncio.ensure_future(asyncio.to_thread(make))
    try:
        fd = await asyncio.shield(making)
    except asyncio.CancelledError:
        making.add_done_callback(_close_made)
        raise
    try:
        yield fd
    finally:
        os.close(fd)


def _close_made(making: asyncio.Future[int]) -> None:
    if not making.cancelled() and making.exception() is None:
        os.close(making.result())


class Reserve:
    """A few descriptors that are kept for one purpose. Any thread may call."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._kept: list[int] = []
        self._lent = 0
        self._closed = False
        self._take()

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Free the reserve within the block, for code that opens descriptors; then refill it if possible."""
        with self._lock:
            self._lent += 1
            self._free()
        try:
            yield
        finally:
            with self._lock:
                self._lent -= 1
                self._take()

    def close(self) -> None:
        """Free the reserve for good. Safe to call twice."""
        with self._lock:
            self._closed = True
            self._free()

    def _take(self) -> None:
        if self._closed or self._lent:
            return
        with contextlib.suppress(OSError):
            while len(self._kept) < self._count:
                self._kept.append(os.open(os.devnull, os.O_RDONLY))

    def _free(self) -> None:
        while self._kept:
            os.close(self._kept.pop())
