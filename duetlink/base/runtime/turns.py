"""Make threads switch more often while a thread of duetlink runs.

A cell that computes in pure Python gives a waiting thread the interpreter after `sys.getswitchinterval`, 5
ms. A cell that releases the GIL by itself more often than that, around operations on files or arrays, does
not pass it on: at each release the waiting threads wake up, come too late, and start waiting again (CPython,
`take_gil`). A thread of duetlink then waited for seconds, and the peer gave up the link. With an interval
below the time between two such operations, waiting threads request the GIL and get it. While none waits,
which is nearly always, a short interval costs nothing; while one C call keeps the interpreter for long, each
waiting thread wakes up every interval, in vain.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

QUICK_S = 0.0002


class Turns:
    """Counts the threads that need the short interval. `quick` may be entered on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._usual_s = 0.0
        self._wanted = 0

    @contextlib.contextmanager
    def quick(self) -> Iterator[None]:
        """Set the interval to at most `QUICK_S` until the last block ends; then restore it."""
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
                # another library may have set it meanwhile: keep its value
                if self._wanted == 0 and abs(sys.getswitchinterval() - QUICK_S) < 1e-6:
                    sys.setswitchinterval(self._usual_s)


turns = Turns()  # one per interpreter, like the interval
