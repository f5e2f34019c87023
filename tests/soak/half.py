"""What both sides of a soak's duet do: lose the connection, find it again, end."""

from __future__ import annotations

import threading

from duetlink.duet.duet import Duet
from duetlink.settings import Settings
from duetlink.testing.faults import cut_link, link_of, run_inside


def settings(only: tuple[str, ...]) -> Settings:
    """A lost connection is noticed within seconds, and not on a busy machine without one."""
    return Settings(heartbeat_interval_s=0.3, heartbeat_timeout_s=2.5, only=only)


class Half:
    def __init__(self, duet: Duet) -> None:
        self.duet = duet

    def lose_connection(self) -> None:
        async def cut() -> None:
            cut_link(link_of(self.duet))

        run_inside(self.duet, cut())

    def reconnects(self) -> int:
        return self.duet.statistics().reconnects

    def wait_reconnected(self, before: int) -> None:
        while self.duet.statistics().reconnects <= before or self.duet.state != "connected":
            threading.Event().wait(0.02)

    def close(self) -> None:
        self.duet.close()
