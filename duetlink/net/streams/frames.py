"""Frames and batches of frames: what one side sends to the other, as bytes. Pure.

A batch travels as one record batch: its table (the numbers and heads of the frames) is the metadata, and the
bodies of the frames, one after another, are the column. So a large body is neither copied nor escaped.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from duetlink.errors import LimitExceeded, RemoteProtocolError

# Kinds, and the meaning of `value` for each. `head` is empty unless noted, and only a PART has a body.
OPEN = 1  # first credit for the accepting side, in bytes; head: the purpose
ACCEPT = 2  # first credit for the opening side, in bytes
PART = 3  # bytes of this message that follow in later parts; head: the message's head, in its first part
CREDIT = 4  # additional credit, in bytes
CLOSE = 5  # head: the reason, as text for a person

MOST_HEAD_BYTES = 16 * 1024
# Large enough for fast large messages, small enough for other messages to pass in between (2 MiB is not
# faster).
PART_BYTES = 1024 * 1024
MOST_FRAMES = 256  # of one batch
MOST_TABLE_BYTES = 128 * 1024
MOST_BATCH_BYTES = PART_BYTES + 4096

# Small bodies are copied together into one batch; a larger one has a batch of its own.
_JOINED_BYTES = 64 * 1024
_MOST_JOINED_BYTES = 256 * 1024

# Credit that a frame costs in addition to its head and body, so that empty ones are not free.
OVERHEAD_BYTES = 64

_BATCH = struct.Struct("!QQ")  # number of the first frame; number of the peer's last frame that has arrived
_FRAME = struct.Struct("!BQQHI")  # kind, stream, value, length of the head, length of the body

Bytes = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Message:
    """One message: a short head that says what it is, and a body of bytes."""

    head: bytes
    body: memoryview  # read-only, format "B"; valid as long as it is referenced


@dataclass(frozen=True, slots=True)
class Frame:
    """One step of one stream."""

    kind: int
    stream: int
    value: int = 0
    head: bytes = b""
    body: Bytes = b""

    @property
    def cost_bytes(self) -> int:
        """The credit of its stream that it costs."""
        return OVERHEAD_BYTES + len(self.head) + len(self.body)

    @property
    def message_bytes(self) -> int:
        """The size of the message part in it; 0 unless it is a PART."""
        return len(self.head) + len(self.body) if self.kind == PART else 0


@dataclass(frozen=True, slots=True)
class FrameBatch:
    """Frames with consecutive numbers, and the number of the other side's last frame that has arrived."""

    first: int
    arrived: int
    frames: Sequence[Frame]

    def to_wire(self) -> tuple[bytes, Bytes]:
        """Return the table and the bodies."""
        table = [_BATCH.pack(self.first, self.arrived)]
        for frame in self.frames:
            table.append(_FRAME.pack(frame.kind, frame.stream, frame.value, len(frame.head), len(frame.body)))
            table.append(frame.head)
        bodies = [frame.body for frame in self.frames if len(frame.body)]
        return b"".join(table), bodies[0] if len(bodies) == 1 else b"".join(bodies)

    @classmethod
    def from_wire(cls, table: bytes, bodies: memoryview) -> FrameBatch:
        """Parse what `to_wire` returned.

        A body that came alone is a view of `bodies`, of format "B" whatever theirs is. Joined ones are
        copied, so that one of them does not keep the others in memory.

        Raises:
            LimitExceeded: it is too long, or has too many frames.
            RemoteProtocolError: it is malformed.
        """
        if len(table) > MOST_TABLE_BYTES or len(bodies) > MOST_BATCH_BYTES:
            raise LimitExceeded(f"the peer sent a batch of {len(table)} and {len(bodies)} bytes")
        if len(table) < _BATCH.size:
            raise RemoteProtocolError(f"the peer sent a batch whose table has {len(table)} bytes")
        first, arrived = _BATCH.unpack_from(table)
        bodies = bodies.cast("B") if len(bodies) else bodies  # Arrow's buffers have signed bytes
        frames: list[Frame] = []
        position, start = _BATCH.size, 0
        while position < len(table):
            if len(frames) == MOST_FRAMES:
                raise LimitExceeded(f"the peer sent over {MOST_FRAMES} frames in one batch")
            if position + _FRAME.size > len(table):
                raise RemoteProtocolError("the peer sent a batch whose table is cut short")
            kind, stream, value, head_bytes, body_bytes = _FRAME.unpack_from(table, position)
            position += _FRAME.size
            head = table[position : position + head_bytes]
            position += head_bytes
            if len(head) != head_bytes or head_bytes > MOST_HEAD_BYTES or body_bytes > PART_BYTES:
                raise RemoteProtocolError(
                    f"the peer sent a frame with {head_bytes} bytes of head and {body_bytes} of body"
                )
            if not OPEN <= kind <= CLOSE or (body_bytes and kind != PART):
                raise RemoteProtocolError(f"the peer sent a frame of kind {kind} with {body_bytes} bytes")
            body = bodies[start : start + body_bytes]
            start += body_bytes
            if start > len(bodies):
                raise RemoteProtocolError("the peer sent a batch whose bodies are cut short")
            frames.append(
                Frame(kind, stream, value, head, body if body_bytes == len(bodies) else bytes(body))
            )
        if start != len(bodies):
            raise RemoteProtocolError(f"the peer sent {len(bodies) - start} bytes that belong to no frame")
        return cls(first, arrived, frames)


class Packing:
    """Collects frames until a batch is full."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self._table_bytes = _BATCH.size
        self._bodies_bytes = 0

    def add(self, frame: Frame) -> bool:
        """Add a frame; return False if it does not fit into this batch."""
        size_bytes = len(frame.body)
        table_bytes = self._table_bytes + _FRAME.size + len(frame.head)
        if self.frames and (
            len(self.frames) == MOST_FRAMES
            or table_bytes > MOST_TABLE_BYTES
            or (size_bytes and self._bodies_bytes and not self._joins(size_bytes))
        ):
            return False
        self.frames.append(frame)
        self._table_bytes = table_bytes
        self._bodies_bytes += size_bytes
        return True

    def _joins(self, size_bytes: int) -> bool:
        return size_bytes <= _JOINED_BYTES and self._bodies_bytes + size_bytes <= _MOST_JOINED_BYTES
