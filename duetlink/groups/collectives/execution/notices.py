"""Short frames from one member to the others (calls, aborts), sent in the background."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection

from duetlink.errors import DuetError
from duetlink.groups.links.transport import Transport

_NOTHING = memoryview(b"")


class Notices:
    """Sends notices. Belongs to the loop thread, from construction until `close`."""

    def __init__(self, transport: Transport, others: Collection[int]) -> None:
        """`others` are the ranks that `send_to_all` sends to."""
        self._transport = transport
        self._others = others
        self._sends: set[asyncio.Task[None]] = set()

    def send(self, to: int, head: bytes) -> None:
        """Send a notice to one member in the background; a lost member is ignored."""

        async def deliver() -> None:
            with contextlib.suppress(DuetError):
                await self._transport.send(to, head, _NOTHING)

        task = asyncio.ensure_future(deliver())
        self._sends.add(task)
        task.add_done_callback(self._sends.discard)

    def send_to_all(self, head: bytes) -> None:
        for rank in self._others:
            self.send(rank, head)

    async def wait_sent(self, limit_s: float | None = None) -> None:
        """Wait until every notice has been sent, or `limit_s` seconds have passed."""
        if self._sends:
            await asyncio.wait(list(self._sends), timeout=limit_s)
