"""A switch that holds bytes back while the user has paused them."""

from __future__ import annotations

import asyncio


class Valve:
    """Open or shut; it also counts as shut while the valve `above` it is shut. Belongs to the loop thread."""

    def __init__(self, above: Valve | None = None) -> None:
        self._above = above
        self._opened = asyncio.Event()
        self._opened.set()

    @property
    def shut(self) -> bool:
        """True if this valve itself is shut, whatever the state of the one above."""
        return not self._opened.is_set()

    def pause(self, paused: bool) -> None:
        if paused:
            self._opened.clear()
        else:
            self._opened.set()

    async def wait_open(self) -> None:
        """Wait until this valve and all above it are open at the same moment."""
        valve: Valve | None = self
        while valve is not None:
            if valve.shut:
                await valve._opened.wait()
                valve = self  # another one may have been shut meanwhile
            else:
                valve = valve._above
