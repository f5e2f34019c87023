"""The frames of the carrier's stream: a header of nine bytes, and for DATA the bytes themselves.

The reader passes payloads on as they arrive, as views of its input; it assembles nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from duetlink.errors import RemoteProtocolError

_HEADER = struct.Struct("!BII")

HEADER_BYTES = _HEADER.size
MAX_DATA_BYTES = 256 * 1024

_NOTHING = memoryview(b"")


class MuxFrameKind(IntEnum):
    """The kind of a frame; `number` is its stream, the meaning of `amount` depends on the kind."""

    HELLO = 1  # the first frame of each side; number: MAGIC, amount: the version
    OPEN = 2
    DATA = 3  # amount: bytes that follow
    CREDIT = 4  # amount: bytes that may be sent in addition
    END = 5
    BEAT = 6  # the sender is alive


MAGIC = int.from_bytes(b"DLM\n", "big")
VERSION = 1


class MuxFrame(NamedTuple):
    """One frame; for DATA a part of one, with `amount` bytes."""

    kind: MuxFrameKind
    number: int
    amount: int
    payload: memoryview


def header(kind: MuxFrameKind, number: int = 0, amount: int = 0) -> bytes:
    """Return a frame without payload, or the start of one with `amount` bytes."""
    return _HEADER.pack(kind, number, amount)


class FrameReader:
    """Splits a stream of bytes, given in pieces of any size, into frames."""

    def __init__(self) -> None:
        self._header = bytearray()
        self._number = 0
        self._left = 0  # remaining bytes of the current payload

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[MuxFrame]:
        """Yield the frames in `data`; their payloads are views of it.

        Raises:
            RemoteProtocolError: the bytes are no frames; the reader cannot be used any more.
        """
        view = memoryview(data)
        while view:
            if self._left:
                payload, view = view[: self._left], view[self._left :]
                self._left -= len(payload)
                yield MuxFrame(MuxFrameKind.DATA, self._number, len(payload), payload)
                continue
            missing = HEADER_BYTES - len(self._header)
            self._header += view[:missing]
            view = view[missing:]
            if len(self._header) == HEADER_BYTES:
                kind, number, amount = _HEADER.unpack(self._header)
                self._header.clear()
                if kind == MuxFrameKind.DATA and 0 < amount <= MAX_DATA_BYTES:
                    self._number, self._left = number, amount
                else:
                    yield MuxFrame(_checked(kind, number, amount), number, amount, _NOTHING)


def _checked(kind: int, number: int, amount: int) -> MuxFrameKind:
    """Return the kind of a frame without payload. Raises RemoteProtocolError if there is no such frame."""
    if kind in (MuxFrameKind.HELLO, MuxFrameKind.CREDIT) or (
        kind in (MuxFrameKind.OPEN, MuxFrameKind.END, MuxFrameKind.BEAT) and amount == 0
    ):
        return MuxFrameKind(kind)
    raise RemoteProtocolError(
        f"the bytes of the path were changed on the way: there is no frame of kind {kind}, stream {number}, "
        f"length {amount}"
    )
