"""Threads that take turns more often while one of duetlink's own is there.

A cell that computes in pure Python gives a waiting thread the interpreter after `sys.getswitchinterval`,
5 ms. One that lets go of it by itself more often than that, around a file's or an array's operations, gives
it to nobody: each time it lets go, those that wait wake up, come too late, and begin to wait anew (CPython,
`take_gil`). A thread of duetlink's then waited for seconds, and the peer gave the link up. With an interval
below the time between two such operations they ask for their turn, and get it. While nobody waits, which is
nearly always, a short interval costs nothing; while one C call keeps the interpreter for long, each thread
that waits wakes up for every interval, to ask in vain.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

QUICK_S = 0.0002


class Turns:
    """Counts those who want quick turns. `quick` may be entered on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._usual_s = 0.0
        self._wanted = 0

    @contextlib.contextmanager
    def quick(self) -> Iterator[None]:
        """The interval is `QUICK_S` or less until the last one leaves; then it is as it was."""
        with self._lock:
            if self._wanted == 0:
                self._usual_s = sys.getswitchinterval()
                sys.setswitchinterval(min(QUICK_S, self._usual_s))
            self._wanted += 1
        try:
            yield
        finally:
            with self._lock:
                self._wanted -= 1
                # somebody else may have set it meanwhile: that stays
                if self._wanted == 0 and abs(sys.getswitchinterval() - QUICK_S) < 1e-6:
                    sys.setswitchinterval(self._usual_s)


turns = Turns()  # of this interpreter, as the interval is
