"""The room's end of the socket. It blocks, and belongs to the main thread; other threads may call `emit`."""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from duetlink.compute.worker.protocol import failures
from duetlink.compute.worker.protocol.events import MAX_EVENT_BYTES, MAX_EVENT_NAME, Rate
from duetlink.compute.worker.protocol.frames import MAX_FDS, Frame, FrameReader, head
from duetlink.errors import WorkLimit

_RECEIVE_BYTES = 64 * 1024
_RESERVE_BYTES = 4 * 1024 * 1024


class KernelGone(BaseException):
    """Raised when the kernel's end is closed. A BaseException: `except Exception` must not catch it."""


class Console:
    """Receives the kernel's commands, and sends replies, errors, events and requests for memory."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._reader = FrameReader()
        self._frames: deque[Frame] = deque()
        self._sending = threading.Lock()
        self._rate = Rate(time.monotonic())
        self._requests = 0
        # address space, which counts as used; freed to report an error when a command has used all memory
        self._reserve: mmap.mmap | None = None
        # memory that was requested during this call: descriptor -> its number, and its inode, because the
        # code that got the descriptor may have closed it and its number may be in use again
        self._memory: dict[int, tuple[int, int]] = {}

    def fileno(self) -> int:
        return self._socket.fileno()

    def detach(self) -> None:
        """Stop using the socket without closing it."""
        self._socket.detach()

    def receive(self) -> Frame:
        """Wait for the next command. Raises KernelGone."""
        if self._reserve is None:
            with contextlib.suppress(OSError):
                self._reserve = mmap.mmap(-1, _RESERVE_BYTES, access=mmap.ACCESS_COPY)
        while not self._frames:
            self._read()
        return self._frames.popleft()

    def send(self, header: Mapping[str, Any], content: bytes | memoryview = b"") -> None:
        """Send a frame, from any thread. Raises LimitExceeded, KernelGone."""
        view = memoryview(content).cast("B")
        start = head(header, len(view))
        with self._sending:
            try:
                self._socket.sendall(start)
                self._socket.sendall(view)
            except OSError:
                raise KernelGone from None

    def request_memory(self, size_bytes: int) -> int:
        """Ask the kernel for memory and return its descriptor. Raises WorkLimit if the kernel refuses."""
        self._requests += 1
        self.send({"want": self._requests, "size_bytes": size_bytes})
        while True:
            # commands that arrived before the kernel's answer stay queued
            for index, frame in enumerate(self._frames):
                if "room" in frame.header:
                    del self._frames[index]
                    if not frame.fds:
                        raise WorkLimit(frame.header["refused"])
                    self._memory[frame.fds[0]] = self._requests, os.fstat(frame.fds[0]).st_ino
                    return frame.fds[0]
            self._read()

    def reply(self, number: int, content: bytes | memoryview, fds: Sequence[int]) -> None:
        """Answer a command. `fds` is the memory with the result; other memory of this call is discarded."""
        numbers = [self._memory[fd][0] for fd in fds]
        self._discard_memory()
        self.send({"reply": number, "rooms": numbers}, content)

    def fail(self, number: int, error: BaseException) -> None:
        """Answer a command with an error."""
        if isinstance(error, MemoryError):
            self._free_reserve()
        self._discard_memory()
        self.send({"failure": number} | failures.to_wire(error))

    def emit(self, name: str, content: bytes) -> None:
        """Send a progress event, from any thread. Events above the rate are dropped, long ones cut."""
        with self._sending:
            admitted = self._rate.admits(time.monotonic())
        if admitted:
            self.send({"event": name[:MAX_EVENT_NAME]}, content[:MAX_EVENT_BYTES])

    def _free_reserve(self) -> None:
        if self._reserve is not None:
            self._reserve.close()
            self._reserve = None

    def _discard_memory(self) -> None:
        for fd, (_, inode) in self._memory.items():
            with contextlib.suppress(OSError):
                if os.fstat(fd).st_ino == inode:
                    os.close(fd)
        self._memory.clear()

    def _read(self) -> None:
        try:
            try:
                data, fds, _, _ = socket.recv_fds(self._socket, _RECEIVE_BYTES, MAX_FDS)
            except MemoryError:
                self._free_reserve()
                data, fds, _, _ = socket.recv_fds(self._socket, _RECEIVE_BYTES, MAX_FDS)
        except OSError:
            raise KernelGone from None
        if not data:
            raise KernelGone
        self._frames.extend(self._reader.feed(data, fds))
