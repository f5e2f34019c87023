"""The frames of a carried stream: a header of nine bytes, and for DATA the bytes themselves.

The reader hands the payload on as it comes, in views of what it was fed: nothing is put together.
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
    """What a frame says; `number` is its stream, `amount` depends."""

    HELLO = 1  # the first frame of each side; number: MAGIC, amount: the version
    OPEN = 2
    DATA = 3  # amount: how many bytes follow
    CREDIT = 4  # amount: how many bytes more may be sent
    END = 5
    BEAT = 6  # the sender is alive


MAGIC = int.from_bytes(b"DLM\n", "big")
VERSION = 1


class MuxFrame(NamedTuple):
    """One frame; of DATA a part, of `amount` bytes."""

    kind: MuxFrameKind
    number: int
    amount: int
    payload: memoryview


def header(kind: MuxFrameKind, number: int = 0, amount: int = 0) -> bytes:
    """A frame without payload, or the beginning of one with `amount` bytes."""
    return _HEADER.pack(kind, number, amount)


class FrameReader:
    """Cuts a stream of bytes into frames, wherever it was cut before."""

    def __init__(self) -> None:
        self._header = bytearray()
        self._number = 0
        self._left = 0  # of the payload at hand

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[MuxFrame]:
        """The frames in `data`, whose payloads are views of it.

        Raises:
            RemoteProtocolError: these are no frames; the reader is of no use any more.
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
    """The kind of a frame without payload, if there is such a frame."""
    if kind in (MuxFrameKind.HELLO, MuxFrameKind.CREDIT) or (
        kind in (MuxFrameKind.OPEN, MuxFrameKind.END, MuxFrameKind.BEAT) and amount == 0
    ):
        return MuxFrameKind(kind)
    raise RemoteProtocolError(
        f"the bytes of the path were changed on the way: there is no frame of kind {kind}, stream {number}, "
        f"length {amount}"
    )
