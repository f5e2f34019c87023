"""One end of a port as a person holds it: what has passed, and how to keep it back."""

from __future__ import annotations

from duetlink.base.runtime.loop import LoopThread
from duetlink.errors import SettingError
from duetlink.net.ports.connection import PortEnd
from duetlink.net.ports.offer import MOST_NAME_BYTES


class PortHandle:
    """What both ends of a port show."""

    _loop_side: PortEnd
    _thread: LoopThread

    @property
    def name(self) -> str:
        return self._loop_side.name

    @property
    def port(self) -> int:
        """The number of the TCP port, on this machine or on `host`."""
        return self._loop_side.port

    @property
    def connections(self) -> int:
        """How many are open now."""
        return self._loop_side.traffic.connections

    @property
    def total_connections(self) -> int:
        """How many there have been."""
        return self._loop_side.traffic.total_connections

    @property
    def refused_connections(self) -> int:
        """How many could not be made: too many at once, or the service did not answer."""
        return self._loop_side.traffic.refused_connections

    @property
    def sent_bytes(self) -> int:
        """To the peer, of all connections."""
        return self._loop_side.traffic.sent_bytes

    @property
    def received_bytes(self) -> int:
        """From the peer, of all connections."""
        return self._loop_side.traffic.received_bytes

    @property
    def paused(self) -> bool:
        """Whether this side keeps it back."""
        return self._loop_side.valve.shut

    @property
    def closed(self) -> bool:
        return self._loop_side.closed

    def pause(self) -> None:
        """Let nothing pass, in either direction, and no new connection be made, until `resume`. Connections
        stay open; what is on its way arrives.
        """
        self._thread.run(self._pause(True))

    def resume(self) -> None:
        self._thread.run(self._pause(False))

    async def _pause(self, paused: bool) -> None:
        self._loop_side.pause(paused)


def checked_name(name: str) -> str:
    """Raises SettingError for what cannot be the name of a port."""
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name.encode()) <= MOST_NAME_BYTES:
        raise SettingError(f"the name of a port is text of 1 to {MOST_NAME_BYTES} bytes, not {name!r:.120}")
    return name


def checked_port(port: int, *, least: int = 1) -> int:
    """Raises SettingError for what is no TCP port."""
    if not isinstance(port, int) or not least <= port < 65536:
        raise SettingError(f"a port is a number from {least} to 65535, not {port!r:.40}")
    return port
