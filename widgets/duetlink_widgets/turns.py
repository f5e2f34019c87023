"""Threads that take turns more often while a click is done.

A click passes some fifteen times from one thread to another, or through a system call that lets go of the
interpreter. Where a cell computes in pure Python, each waits for `sys.getswitchinterval`, 5 ms, before it
gets it back: over 0.1 s in all. So the interval is shorter while a click is under way; for LONGEST_S at
most, since a click may have to wait for the peer.
"""

from __future__ import annotations

import sys
import threading

QUICK_S = 0.0005
LONGEST_S = 0.25


class Turns:
    """Counts the clicks under way. Methods may be called on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._usual_s = 0.0
        self._under_way = 0

    def quicken(self) -> None:
        """A click begins; `settle` follows."""
        with self._lock:
            if self._under_way == 0:
                self._usual_s = sys.getswitchinterval()
                sys.setswitchinterval(min(QUICK_S, self._usual_s))
            self._under_way += 1

    def settle(self) -> None:
        """A click is done, or has taken long enough."""
        with self._lock:
            self._under_way -= 1
            # somebody else may have set it meanwhile: that stays
            if self._under_way == 0 and abs(sys.getswitchinterval() - QUICK_S) < 1e-6:
                sys.setswitchinterval(self._usual_s)


turns = Turns()  # of this interpreter, as the interval is
