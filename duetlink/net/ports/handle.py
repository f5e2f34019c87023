"""The objects with which a user watches, pauses and resumes one end of a port."""

from __future__ import annotations

from duetlink.base.runtime.loop import LoopThread
from duetlink.base.wire.text import MAX_NAME
from duetlink.errors import SettingError
from duetlink.net.ports.connection import PortEnd


class PortHandle:
    """Base class of both ends of a port. Its methods may be called on any thread but the loop's."""

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
        return self._loop_side.traffic.connections

    @property
    def total_connections(self) -> int:
        """The number of connections since the port was opened."""
        return self._loop_side.traffic.total_connections

    @property
    def refused_connections(self) -> int:
        """The number of connections that were refused: too many at once, or the service did not answer."""
        return self._loop_side.traffic.refused_connections

    @property
    def sent_bytes(self) -> int:
        """Bytes sent to the peer on all connections."""
        return self._loop_side.traffic.sent_bytes

    @property
    def received_bytes(self) -> int:
        """Bytes received from the peer on all connections."""
        return self._loop_side.traffic.received_bytes

    @property
    def paused(self) -> bool:
        """True if this side has paused the port."""
        return self._loop_side.valve.shut

    @property
    def closed(self) -> bool:
        return self._loop_side.closed

    def pause(self) -> None:
        """Stop both directions and the making of new connections, until `resume`.

        Connections stay open, and bytes that are already under way arrive.
        """
        self._thread.run(self._pause(True))

    def resume(self) -> None:
        self._thread.run(self._pause(False))

    async def _pause(self, paused: bool) -> None:
        self._loop_side.pause(paused)


def checked_name(name: str) -> str:
    """Return `name`; raise SettingError if it cannot be the name of a port."""
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= MAX_NAME:
        raise SettingError(f"the name of a port is text of 1 to {MAX_NAME} characters, not {name!r:.120}")
    return name


def checked_port(port: int, *, least: int = 1) -> int:
    """Return `port`; raise SettingError if it is not a TCP port number from `least` to 65535."""
    if not isinstance(port, int) or not least <= port < 65536:
        raise SettingError(f"a port is a number from {least} to 65535, not {port!r:.40}")
    return port
