"""The farewell: a member that leaves first waits until the others have ended the operations that it has
ended.

A member may finish an operation long before another one does: the root of a broadcast is done when its bytes
have left. If it left at once, the others would be interrupted in an operation that needs nothing more from
it. So it first sends each member a status message with the number of operations that it has ended. Each
member answers once it has ended as many operations of this epoch, at once if it has already. The caller
limits how long a member that does not answer is waited for.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

ASKS, ANSWERS = "leaving", "ended"  # topics of status messages
MOST_ENDED = 2**64 - 1  # reported by a member at which no operation of this epoch can end any more
_PLACE = struct.Struct("<QQ")  # the epoch, and how many operations of it have ended


class StatusMessages(Protocol):
    """Status messages between members: send to all, send to one, read the latest from one (`MemberLinks`)."""

    def send_status_to_all(self, topic: str, content: bytes) -> None: ...
    def send_status(self, seat: int, topic: str, content: bytes) -> None: ...
    def latest_status(self, seat: int, topic: str) -> bytes: ...


class Farewell:
    """Asks the others before this member leaves, and answers others that leave. Used on the loop thread."""

    def __init__(self, messages: StatusMessages) -> None:
        self._messages = messages
        self._answered: dict[int, bytes] = {}

    def answer(self, seats: Iterable[int], epoch: int, ended: int) -> None:
        """Answer each member that asks, once this one has ended as many operations of the epoch.

        `ended` counts the operations of `epoch` that have ended at this member.
        """
        for seat in seats:
            asked = self._messages.latest_status(seat, ASKS)
            if len(asked) != _PLACE.size or self._answered.get(seat) == asked:
                continue
            if _PLACE.unpack(asked) <= (epoch, ended):
                self._answered[seat] = asked
                self._messages.send_status(seat, ANSWERS, asked)

    async def wait(
        self,
        needing: Callable[[], Iterable[int]],
        epoch: int,
        ended: int,
        wait_change: Callable[[], Awaitable[None]],
    ) -> None:
        """Ask all members, and return when every seat that `needing()` then lists has answered.

        `ended` counts the operations of `epoch` that this member has ended. `wait_change` waits for the next
        status message or change of membership.
        """
        asked = _PLACE.pack(epoch, ended)
        self._messages.send_status_to_all(ASKS, asked)
        while any(self._messages.latest_status(seat, ANSWERS) != asked for seat in needing()):
            await wait_change()
