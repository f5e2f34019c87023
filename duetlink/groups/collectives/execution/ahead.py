"""Frames that have arrived from another member before this member has asked for them."""

from __future__ import annotations

import asyncio
from collections import deque

from duetlink.groups.collectives.execution.frame import Called, Piece
from duetlink.groups.links.transport import Message

# Nothing more is read from a member while more than this of its early pieces is held. It is more than the
# parts of one operation can have sent, so an operation never blocks itself.
_AHEAD_BYTES = 64 * 1024 * 1024


class Ahead:
    """The early frames of one other member in one epoch. Belongs to the loop thread."""

    def __init__(self) -> None:
        self.latest = -1  # the highest sequence that a frame has named
        self.calls: dict[int, tuple[bytes, str]] = {}  # by operation: digest and text
        self._pieces: dict[int, dict[int, deque[Message]]] = {}  # by operation and part
        self._held_bytes = 0
        self._room = asyncio.Event()

    def note(self, found: Piece | Called) -> bool:
        """Remember the call that a frame names; False if it contradicts an earlier frame of the operation."""
        known = self.calls.setdefault(found.sequence, (found.digest, found.call))
        return known[0] == found.digest and found.call in ("", known[1])

    def keep(self, piece: Piece, message: Message) -> None:
        self._pieces.setdefault(piece.sequence, {}).setdefault(piece.part, deque()).append(message)
        self._held_bytes += len(message.body)

    def take(self, sequence: int, part: int) -> Message | None:
        """Remove and return the next piece of that part of an operation; None if none has arrived."""
        parts = self._pieces.get(sequence, {})
        if part not in parts:
            return None
        message = parts[part].popleft()
        if not parts[part]:
            del parts[part]
        self._held_bytes -= len(message.body)
        if self._held_bytes <= _AHEAD_BYTES:
            self._room.set()
        return message

    def has_pieces(self, sequence: int) -> bool:
        return bool(self._pieces.get(sequence))

    def forget(self, sequence: int) -> None:
        """Drop everything about an operation that has ended at this member."""
        self.calls.pop(sequence, None)
        self._pieces.pop(sequence, None)

    def clear(self) -> None:
        """Drop all pieces, and let a reader that waits in `wait_room` go on."""
        self._pieces.clear()
        self._held_bytes = 0
        self._room.set()

    async def wait_room(self) -> None:
        """Wait until at most 64 MiB of early pieces are held, so that more may be read from that member."""
        while self._held_bytes > _AHEAD_BYTES:
            self._room.clear()
            await self._room.wait()
