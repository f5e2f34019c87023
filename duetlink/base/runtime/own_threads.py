"""Pools of daemon threads, so that a call which waits for a network cannot keep an interpreter from ending.

`concurrent.futures` joins its threads when the interpreter ends, however long they wait, and accepts no more
calls from then on. These pools do neither.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_running = 0  # calls of all pools of this process
_some_ended = threading.Condition()

_IDLE_S = 5.0  # a loop needs a thread now and then; starting one costs 0.1 ms


class OwnThreads(Executor):
    """A pool that runs at most `most` calls at once; the others wait, in order.

    If several links shared a pool, the peer of one could keep all of its threads waiting; permanent threads
    for each link would mostly be idle. By default a thread therefore ends with its last call; with `idle_s`
    it waits that long for another one.
    """

    def __init__(self, most: int, name: str, *, idle_s: float = 0.0) -> None:
        self._most = most
        self._name = name
        self._idle_s = idle_s
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Future[Any], Callable[[], None]]] = deque()
        self._threads = 0
        self._idle = 0  # threads that wait for a call
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a call in the pool; raise RuntimeError after `shutdown`."""
        future: Future[T] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            _count(1)
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
            finally:
                _count(-1)

        with self._changed:
            if self._closed:
                raise RuntimeError("no calls after shutdown")
            self._waiting.append((future, call))
            if self._idle >= len(self._waiting):
                self._changed.notify()
                return future
            if self._threads >= self._most:
                return future
            self._threads += 1
        try:
            threading.Thread(target=self._work, args=(self._idle_s,), name=self._name, daemon=True).start()
        except RuntimeError:  # CPython 3.12 starts no thread once the interpreter is ending
            self._work(0.0)
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = True) -> None:
        """Accept no more calls. Running ones continue; waiting ones are cancelled."""
        with self._changed:
            self._closed = True
            waiting, self._waiting = self._waiting, deque()
            self._changed.notify_all()
        for future, _ in waiting:
            future.cancel()

    def _work(self, idle_s: float) -> None:
        while (call := self._next(idle_s)) is not None:
            call()

    def _next(self, idle_s: float) -> Callable[[], None] | None:
        """Return the next call for this thread; None if the thread is to end."""
        with self._changed:
            if idle_s and not self._waiting and not self._closed:
                self._idle += 1
                self._changed.wait_for(lambda: self._waiting or self._closed, idle_s)
                self._idle -= 1
            if self._waiting:
                return self._waiting.popleft()[1]
            self._threads -= 1
            return None


def wait_calls(timeout_s: float) -> None:
    """Wait until no call of any pool runs, or the time is over.

    An interpreter that ends while a thread is in a call of gRPC crashes when that call returns.
    """
    with _some_ended:
        _some_ended.wait_for(lambda: not _running, timeout_s)


def forget_calls() -> None:
    """Reset the count of running calls in a fork, where its parent's calls do not run."""
    global _running, _some_ended
    _running, _some_ended = 0, threading.Condition()


def _count(change: int) -> None:
    global _running
    with _some_ended:
        _running += change
        if not _running:
            _some_ended.notify_all()


class LoopExecutor(ThreadPoolExecutor):
    """The same pool as an asyncio loop's default executor, which must be a `ThreadPoolExecutor`."""

    def __init__(self, most: int, name: str) -> None:
        super().__init__(1)  # starts no thread before `submit`, which this class replaces
        self._pool = OwnThreads(most, name, idle_s=_IDLE_S)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return self._pool.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pool.shutdown()
