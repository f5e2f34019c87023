"""The helper's two pipes to its kernel: commands in, events out, one JSON object per line.

Each pipe has a thread, since not every system's loop can wait for pipes. If the kernel does not read for a
while, because it is computing, the carrier must not stop; if the kernel is gone, the helper must end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import threading
from collections.abc import Callable
from typing import Any

_READ_BYTES = 64 * 1024
_MAX_WAITING = 1000  # the most events that wait for the kernel to read them
_GRACE_S = 3.0


class Console:
    """Talks to the kernel on the file descriptors `commands` and `events`."""

    def __init__(self, commands: int = 0, events: int = 1) -> None:
        self._commands = commands
        self._events = events
        self._waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._writer = threading.Thread(target=self._write, name="events", daemon=True)
        self._writer.start()

    def read(self, on_line: Callable[[bytes], None], on_end: Callable[[], object]) -> None:
        """Call `on_line` on the running loop for every line, and `on_end` when the kernel has closed its end.

        If `close` does not follow within some seconds, this process is ended.
        """
        loop = asyncio.get_running_loop()
        threading.Thread(
            target=self._read, args=(loop, on_line, on_end), name="commands", daemon=True
        ).start()

    def tell(self, **event: Any) -> None:
        """Send an event; drop it if the kernel does not read."""
        if self._waiting.qsize() < _MAX_WAITING:
            self._waiting.put(json.dumps(event).encode() + b"\n")

    def close(self) -> None:
        """Send the waiting events, for at most a second."""
        self._closed.set()
        self._waiting.put(None)
        self._writer.join(1.0)

    def _read(
        self, loop: asyncio.AbstractEventLoop, on_line: Callable[[bytes], None], on_end: Callable[[], object]
    ) -> None:
        rest = b""
        with contextlib.suppress(RuntimeError):  # the loop has been closed
            while data := os.read(self._commands, _READ_BYTES):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    loop.call_soon_threadsafe(on_line, line)
            loop.call_soon_threadsafe(on_end)
        if not self._closed.wait(_GRACE_S):
            os._exit(1)  # the loop hangs, and the kernel is gone

    def _write(self) -> None:
        with contextlib.suppress(OSError):  # the kernel is gone, which `_read` notices
            while (line := self._waiting.get()) is not None:
                view = memoryview(line)
                while view:
                    view = view[os.write(self._events, view) :]
