"""One thread that does errands in their order, for all who have some; there while somebody wants it."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from duetlink.base.runtime.forks import in_child

Errand = Callable[[], object]

_log = logging.getLogger(__name__)


class Errands:
    """`begin`, then `put` as often as needed, then `end`: the thread ends with the last one. Any thread may
    call.
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
        """The caller will have errands."""
        with self._lock:
            in_child(self._forget)
            self._users += 1
            if self._users == 1:
                self._waiting = queue.SimpleQueue()
                # no pool: those take no more work when the interpreter is ending, and there are errands then
                self._thread = threading.Thread(
                    target=_work, args=(self._waiting,), name=self._name, daemon=True
                )
                self._thread.start()

    def put(self, errand: Errand) -> None:
        """Do `errand` after those that were put before."""
        with self._lock:
            self._waiting.put(errand)

    def end(self) -> None:
        """The caller has no more; what it has put is done."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._waiting.put(None)
                self._thread = None

    def runs_here(self) -> bool:
        """Whether this is the thread that does them."""
        return threading.current_thread() is self._thread


def _work(waiting: queue.SimpleQueue[Errand | None]) -> None:
    while (errand := waiting.get()) is not None:
        try:
            errand()
        except Exception:  # one user's errand must not end the thread of the others
            _log.exception("an errand failed")
