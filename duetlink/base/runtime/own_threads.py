"""Calls that wait for a network, each on a thread of its own, which ends with it.

A pool that several links share would let the peer of one keep all of its threads waiting; a pool for each
keeps threads that have nothing to do. A new thread costs 0.1 ms, less than what such a call waits for.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class OwnThreads(Executor):
    """At most `most` calls at once; the others wait for their turn, in order."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Future[Any], Callable[[], None]]] = deque()
        self._running = 0
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        with self._lock:
            if self._closed:
                raise RuntimeError("no calls after shutdown")
            if self._running >= self._most:
                self._waiting.append((future, call))
                return future
            self._running += 1
        # daemon: one that waits for a peer must not keep an interpreter from ending
        threading.Thread(target=self._work, args=(call,), name=self._name, daemon=True).start()
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = True) -> None:
        """Take no more calls. Those that run go on; those that wait are not made."""
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, deque()
        for future, _ in waiting:
            future.cancel()

    def _work(self, call: Callable[[], None] | None) -> None:
        while call is not None:
            call()
            call = self._next()

    def _next(self) -> Callable[[], None] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()[1]
            self._running -= 1
            return None
