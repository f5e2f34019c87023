"""A thread that runs functions in order for several users, and exists while there are users."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from duetlink.base.runtime.forks import in_child

Errand = Callable[[], object]

_log = logging.getLogger(__name__)


class Errands:
    """Call `begin`, then `put` as often as needed, then `end`. Any thread may call.

    The thread ends with its last user.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._waiting: queue.SimpleQueue[Errand | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Register a user; the first one starts the thread."""
        with self._lock:
            in_child(self._forget)
            self._users += 1
            if self._users == 1:
                self._waiting = queue.SimpleQueue()
                # not a pool, since pools accept no work while the interpreter is ending, as errands must
                self._thread = threading.Thread(
                    target=_work, args=(self._waiting,), name=self._name, daemon=True
                )
                self._thread.start()

    def put(self, errand: Errand) -> None:
        """Run `errand` after those that were put before."""
        with self._lock:
            self._waiting.put(errand)

    def end(self) -> None:
        """Unregister a user; the errands it has put are still run."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._waiting.put(None)
                self._thread = None

    def runs_here(self) -> bool:
        """Return True on the thread that runs the errands."""
        return threading.current_thread() is self._thread


def _work(waiting: queue.SimpleQueue[Errand | None]) -> None:
    while (errand := waiting.get()) is not None:
        try:
            errand()
        except Exception:  # one user's errand must not end the thread of the others
            _log.exception("an errand failed")
