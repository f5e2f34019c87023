"""The kernel's end of the socket, on its loop. Everything that comes from the room counts as hostile."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from duetlink.compute.worker.protocol.frames import Frame, FrameReader, head
from duetlink.compute.worker.protocol.memory import close_all
from duetlink.errors import RemoteProtocolError

_RECEIVE_BYTES = 256 * 1024
_TURNS = 16  # reads before other callbacks of the loop run


class _Outgoing:
    def __init__(self, pieces: Sequence[bytes], fds: list[int]) -> None:
        self.pieces = deque(memoryview(piece) for piece in pieces if piece)
        self.fds = fds  # duplicates, which are closed after they have been sent
        self.begun = False


class Channel:
    """Sends frames, and passes the frames that arrive to `on_frame`.

    `on_end(why, broken)` is called once; `broken` means that the room violated the protocol.

    Descriptors go from the kernel to the room only. One that the room sends is never accepted, and ends the
    channel.
    """

    def __init__(
        self, sock: socket.socket, on_frame: Callable[[Frame], None], on_end: Callable[[str, bool], None]
    ) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._on_frame = on_frame
        self._on_end = on_end
        self._reader = FrameReader(max_fds=0)
        self._outgoing: deque[_Outgoing] = deque()
        self._writing = False
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock, self._readable)

    def send(
        self, header: Mapping[str, Any], content: bytes = b"", fds: Sequence[int] = (), urgent: bool = False
    ) -> None:
        """Send a frame, an urgent one before those that wait. The caller keeps and closes its descriptors.

        Raises:
            LimitExceeded: the frame is too large.
            OSError: this process has no free descriptor, or one of `fds` is invalid.
        """
        start = head(header, len(content), len(fds))
        if self._closed:
            return
        frame = _Outgoing((start, content), _duplicates(fds))
        if urgent:
            self._outgoing.insert(1 if self._outgoing and self._outgoing[0].begun else 0, frame)
        else:
            self._outgoing.append(frame)
        if not self._writing:
            self._writable()

    def drain(self) -> None:
        """Pass on all frames that have arrived."""
        while not self._closed and self._receive():
            pass

    def close(self, why: str = "it was closed", broken: bool = False) -> None:
        """Stop at once. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        for frame in self._outgoing:
            close_all(frame.fds)
        self._outgoing.clear()
        self._on_end(why, broken)

    def _readable(self) -> None:
        for _ in range(_TURNS):
            if self._closed or not self._receive():
                return

    def _receive(self) -> bool:
        """Read once and pass on the complete frames. Returns True if there may be more to read."""
        try:
            # recvmsg without a buffer for descriptors: the system closes any that come, and sets MSG_CTRUNC
            data, _, flags, _ = self._socket.recvmsg(_RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            self.close(f"the socket to the room cannot be read: {error.strerror}")
            return False
        if not data:
            self.close("the room has closed its end")
            return False
        try:
            if flags & socket.MSG_CTRUNC:
                raise RemoteProtocolError("it sent descriptors")
            for frame in self._reader.feed(data):
                if self._closed:
                    break
                self._on_frame(frame)
        except RemoteProtocolError as error:
            self.close(f"the room broke its protocol: {error}", broken=True)
            return False
        return True

    def _writable(self) -> None:
        try:
            while self._outgoing:
                self._write(self._outgoing[0])
                self._outgoing.popleft()
        except (BlockingIOError, InterruptedError):
            if not self._writing:
                self._loop.add_writer(self._socket, self._writable)
                self._writing = True
            return
        except OSError:
            # the room has ended; its last frames are still to be read
            self._loop.remove_writer(self._socket)
            return
        if self._writing:
            self._loop.remove_writer(self._socket)
            self._writing = False

    def _write(self, frame: _Outgoing) -> None:
        while frame.pieces:
            if frame.fds:
                sent = socket.send_fds(self._socket, [frame.pieces[0]], frame.fds)
                close_all(frame.fds)
                frame.fds = []
            else:
                sent = self._socket.sendmsg(frame.pieces)
            frame.begun = True
            while frame.pieces and sent >= len(frame.pieces[0]):
                sent -= len(frame.pieces.popleft())
            if sent:
                frame.pieces[0] = frame.pieces[0][sent:]


def _duplicates(fds: Sequence[int]) -> list[int]:
    made: list[int] = []
    try:
        for fd in fds:
            made.append(os.dup(fd))
    except OSError:
        close_all(made)
        raise
    return made
