"""What another member has sent, and nobody here has taken yet."""

from __future__ import annotations

import asyncio
from collections import deque

from duetlink.groups.collectives.execution.frame import Called, Piece
from duetlink.groups.links.transport import Message

# A member that is ahead is read no further once this much of it waits here. More than what the parts under
# way can have sent, so that an operation never waits for itself.
_AHEAD_BYTES = 64 * 1024 * 1024


class Ahead:
    """That of one member in one epoch. Belongs to the loop thread."""

    def __init__(self) -> None:
        self.latest = -1  # the latest operation of which anything has come
        self.calls: dict[int, tuple[bytes, str]] = {}  # by operation: digest and text
        self._pieces: dict[int, dict[int, deque[Message]]] = {}  # by operation and part
        self._held_bytes = 0
        self._room = asyncio.Event()

    def note(self, found: Piece | Called) -> bool:
        """Keep what it has called under this number. Whether that is what it has told of it before."""
        known = self.calls.setdefault(found.sequence, (found.digest, found.call))
        return known[0] == found.digest and found.call in ("", known[1])

    def keep(self, piece: Piece, message: Message) -> None:
        self._pieces.setdefault(piece.sequence, {}).setdefault(piece.part, deque()).append(message)
        self._held_bytes += len(message.body)

    def take(self, sequence: int, part: int) -> Message | None:
        """The next piece of that part of an operation, if it has come."""
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
        """That operation has ended here."""
        self.calls.pop(sequence, None)
        self._pieces.pop(sequence, None)

    def clear(self) -> None:
        """Nobody will take what has come, and nothing more is kept."""
        self._pieces.clear()
        self._held_bytes = 0
        self._room.set()

    async def wait_room(self) -> None:
        """Until so little waits here that more may be read."""
        while self._held_bytes > _AHEAD_BYTES:
            self._room.clear()
            await self._room.wait()
