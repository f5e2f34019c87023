"""An event loop that lends itself to other threads while its own thread waits for events.

A change of threads and back takes 50 to 100 µs, more than a whole small operation. So a thread that calls a
short operation and waits for it begins it by itself, if the loop has nothing else to do. If the operation
does not end in its first step, the loop's own thread goes on with it.

The loop's thread holds a lock whenever it runs callbacks, and releases it while it waits in the selector.
Only the thread that holds the lock touches the loop and what belongs to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

_MOST_LENT_S = 0.01  # shorter than anybody notices, and than any time-out of a link


class _LendingSelector(selectors.DefaultSelector):
    """Releases the loop's lock while it waits."""

    def __init__(self, lock: threading.Lock) -> None:
        super().__init__()
        self._lock = lock
        self.loans = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        loans = self.loans
        self._lock.release()
        try:
            found = super().select(timeout)
        finally:
            self._lock.acquire()
        # a borrower may have replaced what an event belongs to; what is still true is found again
        return found if self.loans == loans else super().select(0)


class LentLoop(asyncio.SelectorEventLoop):
    """A loop on which other threads can begin tasks. `run_forever` is called with `lock` held."""

    # asyncio's own: what is to run at once, and the heap of timers
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _asyncgen_firstiter_hook: Callable[[AsyncGenerator[Any, Any]], None]
    _asyncgen_finalizer_hook: Callable[[AsyncGenerator[Any, Any]], None]

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._borrower: int | None = None
        self._lent_since_s = 0.0
        self._lending = _LendingSelector(self.lock)
        super().__init__(self._lending)

    @property
    def is_lent_here(self) -> bool:
        """True on a thread that runs the first step of a task in `begin`."""
        return self._borrower == threading.get_ident()

    @property
    def lent_s(self) -> float:
        """Return the seconds since the latest task was begun by `begin`."""
        return time.monotonic() - self._lent_since_s

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T] | None:
        """Make a task, and run it on this thread up to where it first waits; None if the loop is busy.

        It runs after everything that other threads have passed to the loop before.
        """
        # those of a notebook's kernel, say
        own_loop, own_hooks = asyncio._get_running_loop(), sys.get_asyncgen_hooks()
        if self.is_closed() or self.get_debug():  # in debug mode asyncio checks the thread
            return None
        if sys.version_info >= (3, 14) and own_loop is not None and asyncio.current_task(own_loop):
            return None  # a thread has one task at a time there
        if not self.lock.acquire(blocking=False):
            return None
        first_timer = None
        try:
            if self._ready:
                return None
            first_timer = self._scheduled[0] if self._scheduled else None
            self._lending.loans += 1
            self._borrower, self._lent_since_s = threading.get_ident(), time.monotonic()
            asyncio._set_running_loop(self)
            sys.set_asyncgen_hooks(self._asyncgen_firstiter_hook, self._asyncgen_finalizer_hook)
            task = self.create_task(coroutine)
            self._ready.popleft()._run()
            if task.done():
                for _ in range(len(self._ready)):  # small things that it has left, such as news for a panel
                    handle = self._ready.popleft()
                    if not handle.cancelled():
                        handle._run()
        finally:
            asyncio._set_running_loop(own_loop)
            sys.set_asyncgen_hooks(*own_hooks)
            self._borrower = None
            has_more = bool(self._ready) or (bool(self._scheduled) and self._scheduled[0] is not first_timer)
            self.lock.release()
        if has_more:
            self.call_soon_threadsafe(_nothing)  # the selector does not know of it yet
        return task


def is_lent_here() -> bool:
    """Return True in the first step of a task that another thread than the loop's has begun, for 10 ms.

    Then the step has to go the loop's way, as the loop cannot serve anything else meanwhile.
    """
    loop = asyncio.get_running_loop()
    return isinstance(loop, LentLoop) and loop.is_lent_here and loop.lent_s < _MOST_LENT_S


@contextlib.contextmanager
def later_interrupts() -> Iterator[None]:
    """Deliver an interrupt (Ctrl-C) that comes in this block at its end.

    Code of the loop does not expect `KeyboardInterrupt`, which only the main thread gets.
    """
    handler = None
    if threading.current_thread() is threading.main_thread():
        handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):  # there is no handler in Python
        yield
        return
    frames: list[FrameType | None] = []
    signal.signal(signal.SIGINT, lambda _, frame: frames.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if frames:
            handler(signal.SIGINT, frames[-1])


def _nothing() -> None:
    """Wake the loop."""
