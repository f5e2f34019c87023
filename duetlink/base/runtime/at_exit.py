"""Close everything that is open in this process when the interpreter ends.

CPython ends in this order: the main thread finishes, hooks of `threading` run, non-daemon threads are joined,
hooks of `atexit` run. pyarrow has a hook of `atexit` (a `weakref.finalize`) that waits for every open Flight
stream, and a stream ends only when its link does, so links have to close before. `threading` has no public
name for its hooks; `concurrent.futures` uses the same private one.

Ending has two phases. First everything closes politely and at the same time: peers are notified, and members
of a group that still need data are served. Whatever has not closed by a deadline, because a peer does not
answer, is then cut: its links end without a goodbye, so that no stream remains, and its child processes are
killed. A second Ctrl-C cuts at once. A fork has the objects but none of the threads: there the hook does
nothing.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import concurrent.futures.thread  # its own hook is registered by now, so that ours runs before it
import contextlib
import logging
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from duetlink.base.runtime.forks import in_child
from duetlink.base.runtime.loop import LoopThread
from duetlink.base.runtime.own_threads import forget_calls, wait_calls
from duetlink.errors import LinkClosed

KERNEL_ENDED = "its kernel has ended"  # the reason that peers get

# A member of a group that ends while others are in an operation serves them for half of this. Running peers
# answer within two round trips, so a script waits this long only for a peer that does not answer.
POLITE_S = 4.0
# Jupyter asks a kernel to end, sends SIGTERM after 2.5 s and SIGKILL after 5 s (`shutdown_wait_time`).
POLITE_IN_A_KERNEL_S = 1.5
_CUT_S = 1.0  # time for the steps after a cut, which wait for no peer
_CALLS_S = 3.5  # a dial that a stopped peer's kernel has accepted ends after 3 s (net/paths/tcp.py)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class ExitPlan:
    """The steps that end one duet, group or torch job with its process."""

    thread: LoopThread  # its share of the loop; stopping it is the last step
    close: Callable[[float], Coroutine[Any, Any, None]]
    """Closes politely, within the seconds that it is given."""
    cut: Callable[[], None]
    """Called on the loop thread: from then on `close` waits for no peer. `close` may run or have ended."""


class Killable(Protocol):
    """A child process, such as `asyncio.subprocess.Process`."""

    def kill(self) -> None:
        """Raise ProcessLookupError if the process has ended."""


class OpenHere:
    """Everything that is open in this process. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun = False  # the hooks are registered
        self._plans: list[ExitPlan] = []  # oldest first
        self._last: dict[Callable[[], None], None] = {}  # in order, each once
        self._children: weakref.WeakSet[Killable] = weakref.WeakSet()

    def add(self, plan: ExitPlan) -> None:
        """Run this plan when the interpreter ends, unless `discard` is called before."""
        self._begin()
        with self._lock:
            self._plans.append(plan)

    def discard(self, plan: ExitPlan) -> None:
        """Forget a plan whose duet or group has closed."""
        self._begin()
        with self._lock, contextlib.suppress(ValueError):
            self._plans.remove(plan)

    def add_last(self, end: Callable[[], None]) -> None:
        """Call `end` after all plans, on the thread that ends the interpreter."""
        self._begin()
        with self._lock:
            self._last[end] = None

    def discard_last(self, end: Callable[[], None]) -> None:
        """Forget a function of `add_last` that has been called."""
        with self._lock:
            self._last.pop(end, None)

    def add_child(self, child: Killable) -> None:
        """Kill this child process if it still runs after everything has closed."""
        self._begin()
        with self._lock:
            self._children.add(child)

    def _begin(self) -> None:
        if self._begun:
            return
        self._begun = True
        in_child(self._forget)
        with contextlib.suppress(RuntimeError):  # the interpreter is ending already
            threading._register_atexit(self._end)  # type: ignore[attr-defined]
        # a Ctrl-C between two hooks of `threading` skips those that are left
        atexit.register(self._end)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._plans, self._last, self._children = [], {}, weakref.WeakSet()
        forget_calls()

    def _end(self) -> None:
        with _logged():
            self._end_all()

    def _end_all(self) -> None:
        with self._lock:
            plans, last = list(self._plans), list(self._last)
        limit_s = POLITE_IN_A_KERNEL_S if _is_kernel() else POLITE_S
        closing: dict[ExitPlan, Future[None]] = {}

        def begin() -> None:
            for plan in plans:
                if plan not in closing:
                    with contextlib.suppress(LinkClosed):  # its loop was closed a moment ago
                        closing[plan] = plan.thread.submit(plan.close(limit_s))

        # an error or a Ctrl-C that came out of here would skip the hooks of other libraries
        with _logged():
            begin()
            concurrent.futures.wait(closing.values(), limit_s)
        with _logged():
            begin()  # a Ctrl-C may have come in between
            if not all(each.done() for each in closing.values()):
                for plan in closing:
                    with contextlib.suppress(RuntimeError):  # its loop has been closed
                        plan.thread.loop.call_soon_threadsafe(_cut, plan)
                concurrent.futures.wait(closing.values(), _CUT_S)
        for end in [*(plan.thread.stop for plan in plans), *last, _wait_calls]:
            with _logged():
                end()
        with self._lock:
            children = list(self._children)
            self._plans, self._last = [], {}
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                child.kill()


def _cut(plan: ExitPlan) -> None:
    # aiortc's tasks fail when they lose their connection, and asyncio would print these errors
    plan.thread.loop.set_exception_handler(lambda loop, context: _log.debug("%s", context["message"]))
    plan.cut()


def _wait_calls() -> None:
    wait_calls(_CALLS_S)


@contextlib.contextmanager
def _logged() -> Iterator[None]:
    """Log an exception of the block, and continue. Ctrl-C ends the block."""
    try:
        yield
    except KeyboardInterrupt:
        pass
    except BaseException:
        _log.exception("something did not close when the interpreter ended")


def _is_kernel() -> bool:
    """Return True in a Jupyter kernel, which is killed soon after it was asked to end."""
    kernelapp = sys.modules.get("ipykernel.kernelapp")
    return kernelapp is not None and bool(kernelapp.IPKernelApp.initialized())


open_here = OpenHere()
