"""One asyncio loop in a daemon thread, and the synchronous way into it.

The kernel's main thread belongs to the user: cells block, sleep and compute there. The duets of a process
therefore share a loop in its own thread; public methods post coroutines to it and wait. An interrupt of the
wait (Ctrl-C, the kernel's stop button) cancels the coroutine on the loop.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from duetlink import tracebacks
from duetlink.base.runtime.lent_loop import LentLoop, later_interrupts
from duetlink.base.runtime.own_threads import LoopExecutor
from duetlink.base.runtime.turns import turns
from duetlink.errors import LinkClosed, LocalProtocolError

T = TypeVar("T")

# Interval between checks for an interrupt. On Windows, Ctrl-C cannot interrupt the wait for a lock at all.
# Meanwhile `on_wait` draws progress.
_TICK_S = 0.1

_WORKERS = 8  # threads of `asyncio.to_thread`, started when needed


class LoopThread:
    """Owns a thread and its loop from construction until `stop`."""

    def __init__(self, name: str = "duetlink") -> None:
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop = new_loop()
        # several duets share the pool, so its size must not depend on the number of processors
        self._loop.set_default_executor(LoopExecutor(_WORKERS, "asyncio"))
        started = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(started,), name=name, daemon=True)
        self._thread.start()
        started.wait()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    @property
    def stopped(self) -> bool:
        return self._loop.is_closed()

    def submit(
        self, coroutine: Coroutine[Any, Any, T], *, here: bool = False
    ) -> concurrent.futures.Future[T]:
        """Start `coroutine` on the loop; the future may be waited for, cancelled, or awaited elsewhere.

        With `here`, this thread runs its first step if the loop is idle. An interrupt cancels it, and
        is raised after the step.

        Raises:
            LinkClosed: the loop has been stopped, or belongs to the process that this one was forked from.
        """
        self.check_process(coroutine)
        future: concurrent.futures.Future[T] | None = None
        try:
            with later_interrupts() if here else contextlib.nullcontext():
                begun = self._loop.begin(coroutine) if here and isinstance(self._loop, LentLoop) else None
                if begun is None:
                    future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
                else:
                    future = _future_of(begun, self._loop)
            return future
        except KeyboardInterrupt:
            if future is not None:
                future.cancel()
            raise
        except RuntimeError:
            coroutine.close()
            raise LinkClosed("this duet or group is closed; launch or join a new one") from None

    def run(
        self,
        coroutine: Coroutine[Any, Any, T],
        *,
        on_wait: Callable[[], None] | None = None,
        here: bool = False,
    ) -> T:
        """Run `coroutine` on the loop and return its result, from any thread but the loop's own.

        An interrupt cancels the coroutine; it is raised again when the coroutine's clean-up has run, or after
        2 s. `on_wait` is called about ten times a second meanwhile. `here` is that of `submit`.
        """
        is_lent_here = isinstance(self._loop, LentLoop) and self._loop.is_lent_here
        if is_lent_here or threading.current_thread() is self._thread:
            coroutine.close()
            raise LocalProtocolError("this method blocks and was called on duetlink's own loop thread")
        call = _Call(coroutine)
        future: concurrent.futures.Future[T] | None = None
        try:
            # an interrupt may arrive during this call, when the coroutine has begun already
            future = self.submit(call.run(), here=here)
            while True:
                try:
                    return future.result(_TICK_S)
                except concurrent.futures.TimeoutError:
                    if future.done():  # meanwhile, or with a TimeoutError of its own
                        return future.result()
                    if on_wait is not None:
                        on_wait()
        except LinkClosed:
            if future is None:
                coroutine.close()
            raise
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                tracebacks.shorten(error)
            if future is None or not future.done():
                with contextlib.suppress(RuntimeError):  # the loop is closed, and nothing runs on it
                    self._loop.call_soon_threadsafe(call.cancel)
                    self._settle()
            raise

    def call(self, function: Callable[[], T]) -> T:
        """Run a function that does not block on the loop thread, and return its result."""

        async def called() -> T:
            return function()

        return self.run(called())

    def stop(self) -> None:
        """Cancel running tasks, end the thread, close the loop. Safe to call twice."""
        if os.getpid() != self._process:
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed, maybe by another thread at this moment
            self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def check_process(self, refused: Coroutine[Any, Any, object] | None = None) -> None:
        """Raise LinkClosed in a fork, which has no thread for this loop; `refused` is closed then."""
        if os.getpid() != self._process:
            if refused is not None:
                refused.close()
            raise LinkClosed(
                f"this duet or group belongs to process {self._process}, and a fork of it (process "
                f"{os.getpid()}) cannot use it; launch or join one here"
            )

    def _settle(self) -> None:
        """Wait until the cancellations posted so far have been delivered and handled."""

        async def others_done() -> None:
            await asyncio.sleep(0)
            await asyncio.sleep(0)

        try:
            asyncio.run_coroutine_threadsafe(others_done(), self._loop).result(2.0)
        except (concurrent.futures.TimeoutError, concurrent.futures.CancelledError, RuntimeError):
            return

    def _serve(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        if isinstance(self._loop, LentLoop):
            self._loop.lock.acquire()
        self._loop.call_soon(started.set)
        try:
            with turns.quick():
                self._loop.run_forever()
        finally:
            try:
                tasks = asyncio.all_tasks(self._loop)
                for task in tasks:
                    task.cancel()
                if tasks:
                    self._loop.run_until_complete(asyncio.wait(tasks, timeout=2.0))
                    # one more iteration, in which futures that other threads wait for are notified
                    self._loop.run_until_complete(asyncio.sleep(0))
                self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            finally:
                asyncio.set_event_loop(None)
                self._loop.close()


class LoopShare(LoopThread):
    """One user's share of a loop thread, which can be stopped without stopping the others."""

    def __init__(self, whole: LoopThread, on_stop: Callable[[], None] = lambda: None) -> None:
        """Call `on_stop` once, on the thread that calls `stop`, when no task of this share runs any more."""
        self._process = whole._process
        self._loop = whole._loop
        self._thread = whole._thread
        self._on_stop = on_stop
        self._lock = threading.RLock()  # held while a first step runs here
        self._running: set[concurrent.futures.Future[Any]] = set()
        self._stopped = False

    @property
    def stopped(self) -> bool:
        return self._stopped

    def submit(
        self, coroutine: Coroutine[Any, Any, T], *, here: bool = False
    ) -> concurrent.futures.Future[T]:
        self.check_process(coroutine)
        with self._lock:
            if self._stopped:
                coroutine.close()
                raise LinkClosed("this duet or group is closed; launch or join a new one")
            future = super().submit(coroutine, here=here)
            self._running.add(future)
        future.add_done_callback(self._running.discard)
        return future

    def stop(self) -> None:
        """Cancel the coroutines submitted here that still run. The loop continues. Safe to call twice."""
        if os.getpid() != self._process:
            return
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
        for future in list(self._running):
            future.cancel()
        if threading.current_thread() is not self._thread:
            self._settle()
        self._on_stop()


def new_loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop() if sys.platform == "win32" else LentLoop()


def _future_of(begun: asyncio.Task[T], loop: asyncio.AbstractEventLoop) -> concurrent.futures.Future[T]:
    """Return a future of a task that has run its first step; any thread may wait for it."""
    if not begun.done():

        async def rest() -> T:
            return await begun

        return asyncio.run_coroutine_threadsafe(rest(), loop)
    future: concurrent.futures.Future[T] = concurrent.futures.Future()
    if begun.cancelled():
        future.cancel()
        future.set_running_or_notify_cancel()
    elif (error := begun.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(begun.result())
    return future


class _Call:
    """A coroutine that can be cancelled before and after its start. Methods run on the loop thread."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine = coroutine
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False

    async def run(self) -> Any:
        if self._cancelled:
            self._coroutine.close()
            raise asyncio.CancelledError
        self._task = asyncio.current_task()
        return await self._coroutine

    def cancel(self) -> None:
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()
