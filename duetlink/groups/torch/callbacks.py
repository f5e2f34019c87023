"""Threads that complete torch futures, so that callbacks may wait; in the order in which operations ended.

torch runs a future's callbacks on the thread that completes it. A callback may wait for another sum, as those
of torch's `powerSGD_hook` do, so this must not be the loop thread, which completes that other sum.

One thread at a time has the turn, and completes one future after the other. It loses the turn in two cases,
and another thread goes on with the queue: when an operation ends that the running callback began, since the
callback most likely waits for it; and when the callback has run for `_TURN_S`, since it may wait for another
operation. So there is no deadlock between a callback and the future that it waits for.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

_TURN_S = 0.1  # far longer than it takes to copy or decode a bucket; the most that a waiting callback delays
_IDLE_S = 2.0  # a thread without work ends after this; longer than most training steps


class Callbacks:
    """The callback threads of all groups in this process. Any thread may call `run`."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[Callable[[], object]] = deque()
        self._idle = 0  # threads that wait
        self._holder: int | None = None  # the thread that has the turn
        self._since_s = 0.0

    def run(self, complete: Callable[[], object], begun_by: int) -> None:
        """Call `complete` soon on another thread. `begun_by` is the thread that began the ended operation."""
        with self._changed:
            self._queue.append(complete)
            if self._holder == begun_by:
                self._holder = None
            if self._idle:
                self._changed.notify()
            else:
                threading.Thread(target=self._work, name="duetlink-callbacks", daemon=True).start()

    def _work(self) -> None:
        me = threading.get_ident()
        with self._changed:
            while True:
                turn_s = self._turn_s()
                if self._queue and turn_s <= 0:
                    complete = self._queue.popleft()
                    self._holder, self._since_s = me, time.monotonic()
                    self._changed.release()
                    try:
                        complete()
                    finally:
                        del complete  # it refers to tensors
                        self._changed.acquire()
                        if self._holder == me:
                            self._holder = None
                    continue
                self._idle += 1
                woken = self._changed.wait(turn_s if self._queue else _IDLE_S)
                self._idle -= 1
                if not woken and not self._queue:
                    return

    def _turn_s(self) -> float:
        """Return the seconds until another thread may take the turn."""
        return 0.0 if self._holder is None else self._since_s + _TURN_S - time.monotonic()


callbacks = Callbacks()
