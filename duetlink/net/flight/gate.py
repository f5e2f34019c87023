"""Whether the blocks of one transfer may leave: shut while it is paused, and for good when it has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable

# pyarrow tells that a call was cancelled only when it is asked
_LOOK_S = 0.5


class Gate:
    """Shut and opened on the loop thread; passed, and waited for, on any."""

    def __init__(self) -> None:
        self.shut = False  # all that a sender looks at before each block
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
        """Let nothing pass any more, and nobody wait."""
        self._ended = self.shut = True
        self._opened.set()

    def wait_open(self, cancelled: Callable[[], bool]) -> bool:
        """Wait until blocks may leave; False where none will, or once `cancelled()`."""
        while self.shut and not self._ended:
            if not self._opened.wait(_LOOK_S) and cancelled():
                return False
        return not self._ended
