"""The kernel's end of the socket, on its loop. What comes from the room is hostile."""

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
_TURNS = 16  # reads before others on the loop get theirs


class _Outgoing:
    """What is left to send of a frame."""

    def __init__(self, pieces: Sequence[bytes], fds: list[int]) -> None:
        self.pieces = deque(memoryview(piece) for piece in pieces if piece)
        self.fds = fds  # our own, to be closed once they are gone
        self.begun = False


class Channel:
    """Sends frames and hands over those that come.

    `on_end` is called once, with the reason in words, and whether the room broke the protocol.

    Descriptors go one way only: what the room sends of them is never taken up, and ends the channel.
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
        """Send a frame, an urgent one before those that wait. The descriptors stay the caller's.

        Raises:
            LimitExceeded: the frame is too large.
            OSError: no descriptor is free, or one of these is none.
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
        """Hand over all that has come by now."""
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
        """Whether there may be more."""
        try:
            # without room for descriptors, the system closes those that come, and says so
            data, _, flags, _ = self._socket.recvmsg(_RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            self.close(f"the room cannot be heard: {error.strerror}")
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
            # the room has ended: its last words are still to be read
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
