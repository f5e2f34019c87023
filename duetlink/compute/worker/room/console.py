"""The room's end of the socket: blocking, for the main thread; only `emit` may be called from others."""

from __future__ import annotations

import contextlib
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
    """The other end is closed. No `Exception`: what catches those amid work must not catch this."""


class Console:
    """Where the kernel's commands come in and replies go out."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._reader = FrameReader()
        self._frames: deque[Frame] = deque()
        self._sending = threading.Lock()
        self._rate = Rate(time.monotonic())
        self._wanted = 0
        self._reserve: bytearray | None = None  # to have memory for words where a command has taken up all
        # memory that was asked for in this call: descriptor -> its number, and the inode, since whoever has
        # the descriptor may have closed it
        self._rooms: dict[int, tuple[int, int]] = {}

    def fileno(self) -> int:
        return self._socket.fileno()

    def detach(self) -> None:
        """Let go of the socket, which stays open."""
        self._socket.detach()

    def receive(self) -> Frame:
        """The next command. Raises KernelGone."""
        with contextlib.suppress(MemoryError):
            self._reserve = self._reserve or bytearray(_RESERVE_BYTES)
        while not self._frames:
            self._read()
        return self._frames.popleft()

    def send(self, header: Mapping[str, Any], content: bytes | memoryview = b"") -> None:
        """Raises LimitExceeded, KernelGone."""
        view = memoryview(content).cast("B")
        start = head(header, len(view))
        with self._sending:
            try:
                self._socket.sendall(start)
                self._socket.sendall(view)
            except OSError:
                raise KernelGone from None

    def want(self, size_bytes: int) -> int:
        """A descriptor of new memory, which the kernel makes. Raises WorkLimit."""
        self._wanted += 1
        self.send({"want": self._wanted, "size_bytes": size_bytes})
        while True:
            # commands that were sent before it stay where they are
            for index, frame in enumerate(self._frames):
                if "room" in frame.header:
                    del self._frames[index]
                    if not frame.fds:
                        raise WorkLimit(frame.header["refused"])
                    self._rooms[frame.fds[0]] = self._wanted, os.fstat(frame.fds[0]).st_ino
                    return frame.fds[0]
            self._read()

    def reply(self, number: int, content: bytes | memoryview, fds: Sequence[int]) -> None:
        """Answer a command. Of the memory that was made for it, `fds` goes back; the rest is given up."""
        rooms = [self._rooms[fd][0] for fd in fds]
        self._give_up_rooms()
        self.send({"reply": number, "rooms": rooms}, content)

    def fail(self, number: int, error: BaseException) -> None:
        """Tell that a command has failed."""
        if isinstance(error, MemoryError):
            self._reserve = None
        self._give_up_rooms()
        self.send({"failure": number} | failures.to_wire(error))

    def emit(self, name: str, content: bytes) -> None:
        """Tell of progress. Events that are too many are dropped, and what is too long is cut."""
        with self._sending:
            admitted = self._rate.admits(time.monotonic())
        if admitted:
            self.send({"event": name[:MAX_EVENT_NAME]}, content[:MAX_EVENT_BYTES])

    def _give_up_rooms(self) -> None:
        for fd, (_, inode) in self._rooms.items():
            with contextlib.suppress(OSError):
                if os.fstat(fd).st_ino == inode:
                    os.close(fd)
        self._rooms.clear()

    def _read(self) -> None:
        try:
            try:
                data, fds, _, _ = socket.recv_fds(self._socket, _RECEIVE_BYTES, MAX_FDS)
            except MemoryError:
                self._reserve = None
                data, fds, _, _ = socket.recv_fds(self._socket, _RECEIVE_BYTES, MAX_FDS)
        except OSError:
            raise KernelGone from None
        if not data:
            raise KernelGone
        self._frames.extend(self._reader.feed(data, fds))
