"""Whether bytes may pass: shut while somebody has paused them."""

from __future__ import annotations

import asyncio


class Valve:
    """Belongs to the loop thread. Where the valve `above` is shut, this one is as well."""

    def __init__(self, above: Valve | None = None) -> None:
        self._above = above
        self._opened = asyncio.Event()
        self._opened.set()

    @property
    def shut(self) -> bool:
        """Whether this very valve is shut."""
        return not self._opened.is_set()

    def pause(self, paused: bool) -> None:
        if paused:
            self._opened.clear()
        else:
            self._opened.set()

    async def wait_open(self) -> None:
        """Return once this valve and those above it are open together."""
        valve: Valve | None = self
        while valve is not None:
            if valve.shut:
                await valve._opened.wait()
                valve = self  # another one may have been shut meanwhile
            else:
                valve = valve._above
