"""The frames between a kernel and its room: a header in JSON, content, and file descriptors.

Descriptors are ancillary data of the first byte of their frame. The system never delivers those of two frames
with one read (unix(7), SCM_RIGHTS). A frame declares its number of descriptors; any other number violates the
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
    """One frame. The receiver owns its descriptors and closes them."""

    header: dict[str, Any]
    content: bytes
    fds: tuple[int, ...]


def head(header: Mapping[str, Any], content_bytes: int = 0, fds: int = 0) -> bytes:
    """Return the bytes of a frame that precede its content.

    Raises:
        LimitExceeded: the header, the content or the number of descriptors is over its limit.
    """
    text = json.dumps(header, separators=(",", ":")).encode()
    _check(len(text), content_bytes, fds, MAX_FDS)
    return _PREFIX.pack(len(text), content_bytes, fds) + text


class FrameReader:
    """Splits a stream of bytes into frames. It opens and closes no descriptors."""

    def __init__(self, max_fds: int = MAX_FDS) -> None:
        self._max_fds = max_fds
        self._data = bytearray()
        self._fds: deque[int] = deque()

    def feed(self, data: bytes, fds: Sequence[int] = ()) -> Iterator[Frame]:
        """Yield the frames that `data` completes. The caller must consume all of them.

        Raises:
            LimitExceeded: a frame is over the limits.
            RemoteProtocolError: bytes or descriptors are no valid frames. The reader must not be used again.
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
        """Return the descriptors that belong to no complete frame; the caller must close them."""
        left, self._fds = list(self._fds), deque()
        return left

    def _end(self, start: int) -> int | None:
        """Return the end of the frame that begins at `start`; None if it is not complete."""
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
