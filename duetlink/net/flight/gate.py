"""The gate of one transfer: blocks may be sent only while it is open."""

from __future__ import annotations

import threading
from collections.abc import Callable

# seconds between checks if the call was cancelled, which pyarrow does not report by itself
_CHECK_S = 0.5


class Gate:
    """Shut while the transfer is paused, and for good when it has ended.

    Changed on the loop thread; any thread may wait for it.
    """

    def __init__(self) -> None:
        self.shut = False  # a sender reads only this before each block
        self._ended = False
        self._opened = threading.Event()

    def pause(self, paused: bool) -> None:
        if self._ended:
            return
        if paused:
            self._opened.clear()
        self.shut = paused
        if not paused:
            self._opened.set()

    def end(self) -> None:
        """Shut the gate for good, and wake all waiting threads."""
        self._ended = self.shut = True
        self._opened.set()

    def wait_open(self, cancelled: Callable[[], bool]) -> bool:
        """Wait until blocks may be sent. Return False if the transfer has ended, or `cancelled()` is True."""
        while self.shut and not self._ended:
            if not self._opened.wait(_CHECK_S) and cancelled():
                return False
        return not self._ended
