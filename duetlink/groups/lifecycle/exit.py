"""The exit of a member: it serves the members that still need it, announces that it leaves, and ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from duetlink.errors import LinkClosed
from duetlink.groups.lifecycle.departures import LEFT
from duetlink.groups.lifecycle.joining import Joining
from duetlink.groups.lifecycle.life import GroupLife
from duetlink.groups.membership import events
from duetlink.net.link.link import Link

_LEAVING_S = 5.0  # for the others to agree on going on without this member


class Exit:
    """Closes one member's part in its group. Used on the loop thread."""

    def __init__(
        self,
        life: GroupLife,
        joining: Joining,
        at_end: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`at_end` is awaited last; it ends, for example, the signaling server in this kernel."""
        self._life = life
        self._joining = joining
        self.at_end = at_end
        # awaited first, in reverse order; they end users of the links, such as a torch job
        self.before_close: list[Callable[[], Awaitable[None]]] = []
        self._closing: asyncio.Task[None] | None = None

    async def close(self, reason: str = "", *, serving_s: float | None = None) -> None:
        """Leave the group, and return when everything is freed. The other members go on. Safe to call twice.

        If others are still in an operation that this member has finished, it serves them for at most
        `serving_s` seconds first, by default for the group's `patience_s`.
        """
        if self._closing is None:
            self._life.is_closing = True
            limit_s = self._life.patience_s if serving_s is None else serving_s
            self._closing = asyncio.ensure_future(self._close(reason, limit_s))
        await asyncio.shield(self._closing)

    def cut(self, reason: str) -> None:
        """End at once, without waiting for other members; a `close` that is under way then returns soon."""
        self._life.is_ending = True
        for link in self._links():
            link.cut(reason)
        self._life.end(LinkClosed(f"this side closed the group: {reason}"))

    def _links(self) -> list[Link]:
        links = [peer.link for peer in self._life.peers.values() if peer.link is not None]
        return links + list(self._life.entrance.arriving)

    async def _close(self, reason: str, serving_s: float) -> None:
        life = self._life
        for end in reversed(self.before_close):
            await end()
        self._joining.cancel()
        await life.entrance.close()
        await self._serve_out(serving_s)
        life.is_ending = True
        if life.member_state is not None and not life.member_state.stopped and life.why_closed is None:
            life.feed(events.Leave())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LEAVING_S):
                    while life.why_closed is None:
                        await life.wait_change()
        words = f": {reason}" if reason else ""
        life.end(LinkClosed(f"this side closed the group{words}; launch or join a new one"))
        for peer in life.peers.values():
            if peer.making is not None:
                peer.making.cancel()
        if life.open_epoch is not None:
            await life.open_epoch.close()
        for peer in life.peers.values():
            if peer.losing is not None:
                peer.losing.cancel()
        await asyncio.gather(*(link.close(reason or LEFT) for link in self._links()))
        await asyncio.gather(*life.tasks, return_exceptions=True)
        if self.at_end is not None:
            await self.at_end()

    async def _serve_out(self, limit_s: float) -> None:
        """Wait until the others have ended the operations that this member has ended, or for `limit_s`."""
        life, now, epoch = self._life, self._life.member_state, self._life.open_epoch
        if now is None or epoch is None or not now.is_member:
            return

        def needing() -> list[int]:
            then = life.member_state
            if then is None or then.epoch != now.epoch or then.revoked or life.why_closed is not None:
                return []
            return [
                seat for seat in now.epoch.members if seat != now.me and life.peers[seat].link is not None
            ]

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                completed = epoch.collectives.completed
                await life.farewell.wait(needing, now.epoch.number, completed, life.wait_change)
