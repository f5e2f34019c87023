"""What a member that leaves still does for the others: it serves until they have ended what it has ended.

A member may end an operation long before another one does: the root of a broadcast is done when its bytes
have left. If it left at once, the others would be interrupted in an operation that needs nothing more from
it. So it first asks each by a word, and each answers once it has ended as many operations of this epoch.
Whoever is ahead of it answers at once. Who does not answer is waited for as long as the caller says.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

ASKS, ANSWERS = "leaving", "ended"  # topics of words
MOST_ENDED = 2**64 - 1  # for a member at which nothing of this epoch ends any more
_PLACE = struct.Struct("<QQ")  # the epoch, and how many operations of it have ended


class Words(Protocol):
    """What members have said to each other beside operations."""

    def say(self, topic: str, content: bytes) -> None: ...
    def say_to(self, seat: int, topic: str, content: bytes) -> None: ...
    def heard(self, seat: int, topic: str) -> bytes: ...


class Farewell:
    """Both parts of it at one member. Belongs to the loop thread."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._answered: dict[int, bytes] = {}

    def answer(self, seats: Iterable[int], epoch: int, ended: int) -> None:
        """Answer each that asks, if `ended` operations of `epoch` are as many as it has ended."""
        for seat in seats:
            asked = self._words.heard(seat, ASKS)
            if len(asked) != _PLACE.size or self._answered.get(seat) == asked:
                continue
            if _PLACE.unpack(asked) <= (epoch, ended):
                self._answered[seat] = asked
                self._words.say_to(seat, ANSWERS, asked)

    async def wait(
        self,
        needing: Callable[[], Iterable[int]],
        epoch: int,
        ended: int,
        wait_change: Callable[[], Awaitable[None]],
    ) -> None:
        """Ask all, and return when those have answered who are `needing` an answer then."""
        asked = _PLACE.pack(epoch, ended)
        self._words.say(ASKS, asked)
        while any(self._words.heard(seat, ANSWERS) != asked for seat in needing()):
            await wait_change()
