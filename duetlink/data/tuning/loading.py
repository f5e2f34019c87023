"""Libraries of codecs, loaded on a thread of their own while it lasts."""

from __future__ import annotations

import logging
import threading
from collections import deque

from duetlink.data.codecs.base import Codec

_logger = logging.getLogger(__name__)


class Loader:
    """Loads one after the other: two may need the same library. Any thread may call."""

    def __init__(self) -> None:
        self._asked: set[str] = set()
        self._waiting: deque[Codec] = deque()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def load(self, codec: Codec) -> bool:
        """Make it ready in a while; returns whether nobody had asked for it before."""
        with self._lock:
            if codec.name in self._asked:
                return False
            self._asked.add(codec.name)
            self._waiting.append(codec)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="duetlink-load")
                self._thread.start()
            return True

    def join(self) -> None:
        """Return when all that was asked for by now is loaded, or cannot be."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                codec = self._waiting.popleft()
            try:
                codec.load()
            except Exception as error:  # it stays what it is: not ready
                _logger.warning("codec %s is installed, but does not load: %s", codec.name, error)
