"""The frames between a kernel and its room: a header in JSON, content, and file descriptors.

Descriptors come beside the bytes, with the first byte of their frame, and the system never hands over those
of two frames at once (`unix(7)`, SCM_RIGHTS). A frame says how many are its own; any other breaks the
protocol.
"""

from __future__ import annotations

import json
import struct
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from duetlink.base.wire import json_
from duetlink.errors import LimitExceeded, RemoteProtocolError

MAX_HEADER_BYTES = 64 * 1024
MAX_CONTENT_BYTES = 64 * 1024 * 1024
MAX_FDS = 16

_PREFIX = struct.Struct("!IIB")  # sizes of header and content, number of descriptors


class Frame(NamedTuple):
    """One frame. Its descriptors belong to whoever gets it."""

    header: dict[str, Any]
    content: bytes
    fds: tuple[int, ...]


def head(header: Mapping[str, Any], content_bytes: int = 0, fds: int = 0) -> bytes:
    """A frame up to its content.

    Raises:
        LimitExceeded: it would be over the limits.
    """
    text = json.dumps(header, separators=(",", ":")).encode()
    _check(len(text), content_bytes, fds, MAX_FDS)
    return _PREFIX.pack(len(text), content_bytes, fds) + text


class FrameReader:
    """Cuts a stream into frames, wherever it was cut before. It opens and closes nothing."""

    def __init__(self, max_fds: int = MAX_FDS) -> None:
        self._max_fds = max_fds
        self._data = bytearray()
        self._fds: deque[int] = deque()

    def feed(self, data: bytes, fds: Sequence[int] = ()) -> Iterator[Frame]:
        """The frames that are complete with `data`; take all of them.

        Raises:
            LimitExceeded: a frame over the limits.
            RemoteProtocolError: these are no frames. The reader is of no use any more.
        """
        self._data += data
        self._fds.extend(fds)
        start = 0
        try:
            while (end := self._end(start)) is not None:
                header_bytes, _, count = _PREFIX.unpack_from(self._data, start)
                if len(self._fds) < count:
                    raise RemoteProtocolError(f"a frame with {count} descriptors has come without them")
                content = start + _PREFIX.size + header_bytes
                header = _parse(self._data[start + _PREFIX.size : content])
                taken = tuple(self._fds.popleft() for _ in range(count))
                yield Frame(header, bytes(memoryview(self._data)[content:end]), taken)
                start = end
        finally:
            del self._data[:start]
        self._check_fds()

    def release(self) -> list[int]:
        """The descriptors that belong to no frame yet: for whoever gives up, to close."""
        left, self._fds = list(self._fds), deque()
        return left

    def _end(self, start: int) -> int | None:
        """Where the frame at `start` ends; None: beyond what is there."""
        if len(self._data) - start < _PREFIX.size:
            return None
        header_bytes, content_bytes, count = _PREFIX.unpack_from(self._data, start)
        _check(header_bytes, content_bytes, count, self._max_fds)
        end = start + _PREFIX.size + header_bytes + content_bytes
        return int(end) if end <= len(self._data) else None

    def _check_fds(self) -> None:
        if not self._fds:
            return
        if len(self._data) < _PREFIX.size:
            most = self._max_fds if self._data else 0
        else:
            most = _PREFIX.unpack_from(self._data)[2]
        if len(self._fds) > most:
            raise RemoteProtocolError(f"{len(self._fds)} descriptors have come with a frame of {most}")


def _check(header_bytes: int, content_bytes: int, fds: int, max_fds: int) -> None:
    if header_bytes > MAX_HEADER_BYTES:
        raise LimitExceeded(f"a header of {header_bytes:,} bytes is over {MAX_HEADER_BYTES:,}")
    if content_bytes > MAX_CONTENT_BYTES:
        raise LimitExceeded(
            f"{content_bytes:,} bytes of content are over {MAX_CONTENT_BYTES:,}; put them into shared memory"
        )
    if fds > max_fds:
        raise LimitExceeded(f"{fds} descriptors are over {max_fds}")


def _parse(text: bytearray) -> dict[str, Any]:
    try:
        return json_.read(text, dict[str, Any])
    except ValueError:
        raise RemoteProtocolError("the header of a frame is no JSON object") from None
