"""One link as the Flight server knows it: what its peer may fetch, and over which connections it has come."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote

from duetlink.data.tuning import RateCap
from duetlink.errors import LimitExceeded
from duetlink.net.flight.tickets import TicketTable

# At once. A peer of ours opens 8; those of a connection that was lost stay for a while. With more, one peer
# could fill the queue of the threads that encode for all.
MOST_STREAMS = 64

_MOST_REMEMBERED = 256  # connections; a peer opens a few per path


@dataclass(slots=True, eq=False)
class Guest:
    """Each link has a ticket table of its own: the ticket of another link is unknown in it."""

    tickets: TicketTable
    rate_cap: RateCap
    on_bytes: Callable[[bytes, int, int], None] = lambda transfer_id, raw_bytes, wire_bytes: None
    on_changed: Callable[[bytes], None] = lambda transfer_id: None
    _streams: int = 0
    _came_from: dict[str, None] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def came_from(self, peer: str) -> None:
        """It makes a call over the connection that gRPC calls `peer`."""
        with self._lock:
            self._came_from[peer] = None
            if len(self._came_from) > _MOST_REMEMBERED:
                del self._came_from[next(iter(self._came_from))]

    @contextlib.contextmanager
    def stream(self) -> Iterator[None]:
        """While one of its streams is served. Raises LimitExceeded."""
        with self._lock:
            if self._streams >= MOST_STREAMS:
                raise LimitExceeded(f"{MOST_STREAMS} streams are open; finish some before you open more")
            self._streams += 1
        try:
            yield
        finally:
            with self._lock:
                self._streams -= 1

    def hang_up(self, port: int) -> None:
        """Shut its connections to the server at `port`: a peer that no longer reads could otherwise keep a
        stream, its thread and the body in memory for as long as the server lives.
        """
        with self._lock:
            addresses = {address for peer in self._came_from if (address := _address(peer)) is not None}
            self._came_from.clear()
        if addresses:
            _shut(addresses, port)


def _address(peer: str) -> tuple[str, int] | None:
    """Host and port of gRPC's `ipv4:127.0.0.1:39128` or `ipv6:%5B::1%5D:39128`."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return (_plain(host.strip("[]")), int(port)) if port.isdecimal() else None


def _plain(host: str) -> str:
    """An IPv4 address that came over IPv6 as itself, and without the scope of a link-local one."""
    return host.removeprefix("::ffff:").partition("%")[0]


def _shut(addresses: Collection[tuple[str, int]], port: int) -> None:
    # gRPC has no call for it, so its sockets are found among this process's descriptors
    for name in os.listdir("/dev/fd") if os.path.isdir("/dev/fd") else ():
        with contextlib.suppress(OSError):  # no socket, not connected, or closed meanwhile
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as shared:
                if shared.family not in (socket.AF_INET, socket.AF_INET6):
                    continue
                host, from_port = shared.getpeername()[:2]
                if shared.getsockname()[1] == port and (_plain(host), from_port) in addresses:
                    shared.shutdown(socket.SHUT_RDWR)
