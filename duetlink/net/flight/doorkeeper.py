"""The doorkeeper of a Flight server: counts its connections, and shuts those that prove nothing in time.

Theory. gRPC accepts whatever comes, thousands of connections a second, each with a descriptor of this
process, and gives TLS two minutes; pyarrow lets nobody bound that. Left alone, 1,500 silent connections take
every descriptor, and the owner cannot open its own audit log. A listening socket of ours in front of gRPC's
would count exactly, but no connection can be handed over to gRPC, so that it would have to copy every byte of
every transfer. So the doorkeeper works from beside:

1. A thread sleeps for a moment, or until the kernel reports a connection at gRPC's listening socket.
2. It looks at all connections to the port. One by which an authenticated call came is a guest's; the others
   are strangers'. Strangers above a number, or older than a time, are shut.
3. While there are too many, a filter on the listening socket lets the kernel drop what would open one more
   (SYN packets); TCP repeats them, so that whoever was not meant comes in when it is open again.

Between 1 and 3 lies the time that the thread needs to get the interpreter's lock, in which gRPC takes some
hundred more at most. Only Linux has the report and the filter: elsewhere nothing is counted.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import socket
import struct
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass

from duetlink.net.flight.own_sockets import Address, OwnSockets, from_grpc

# TLS and a first call; paths give up after 10 s themselves.
HANDSHAKE_S = 10.0
# Sixteen members of a group on one machine dial each other from one address, by some paths each.
STRANGERS_PER_ADDRESS = 64
STRANGERS = 128
_SHARE_OF_DESCRIPTORS = 8  # strangers get one in so many, where that is less
GUEST_CONNECTIONS = 64  # of one peer; ours opens a few per path

_BACKLOG = 64  # connections that gRPC may still accept when the door has just been closed
# The kernel reports a connection only if gRPC has not accepted it by then, which in a flood it has not.
_TICK_S = 0.5
_CLOSED_S = 1.0  # as long as TCP waits before it repeats a first SYN

# Linux's numbers, which Python does not name.
_SO_ATTACH_FILTER, _SO_DETACH_FILTER = 26, 27
# Classic BPF: load the TCP flags, keep SYN and ACK, drop a packet that has SYN alone. Connections inherit
# the filter of their listening socket, and none of them ever gets such a packet.
_NO_SYN = (
    (0x30, 0, 0, 13),
    (0x54, 0, 0, 0x12),
    (0x15, 0, 1, 0x02),
    (0x06, 0, 0, 0),
    (0x06, 0, 0, 0xFFFFFFFF),
)


@dataclass(slots=True)
class _Seen:
    since_s: float
    subject: bytes | None = None  # whose it is, once an authenticated call came over it
    called_s: float = 0.0


class Doorkeeper:
    """Watches the server at `port` until `close`. Methods may be called on any thread."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._sockets = OwnSockets()
        self._lock = threading.Lock()
        self._seen: dict[Address, _Seen] = {}
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._stopped = False
        if sys.platform == "linux":
            self._watch()

    def admitted(self, peer: str, subject: bytes) -> None:
        """An authenticated call of `subject` came over the connection that gRPC calls `peer`."""
        address, now_s = from_grpc(peer), time.monotonic()
        if address is not None:
            with self._lock:
                connection = self._seen.setdefault(address, _Seen(now_s))
                connection.subject, connection.called_s = subject, now_s

    def hang_up(self, subject: bytes) -> None:
        """Shut its connections: a peer that no longer reads could otherwise keep a stream, its thread and the
        body in memory for as long as the server lives.
        """
        for descriptor, address in self._sockets.connections(self._port):
            with self._lock:
                connection = self._seen.get(address)
            if connection is not None and connection.subject == subject:
                self._sockets.shut(descriptor, address)

    def close(self) -> None:
        """Watch no longer. Safe to call twice."""
        self._stopped = True
        thread, self._thread = self._thread, None
        if thread is not None:
            os.eventfd_write(self._wake, 1)
            thread.join()
            self._epoll.close()
            os.close(self._wake)
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self._sockets.close()

    def _watch(self) -> None:
        for descriptor in self._sockets.at(self._port):
            candidate = socket.socket(fileno=os.dup(descriptor))
            if candidate.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                self._listener = candidate
                break
            candidate.close()
        else:
            return
        self._listener.listen(_BACKLOG)
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._waking = select.poll()
        self._waking.register(self._wake, select.POLLIN)
        self._epoll = select.epoll()
        self._epoll.register(self._wake, select.EPOLLIN)
        # edge-triggered: gRPC, not this thread, takes connections out of the queue
        self._epoll.register(self._listener, select.EPOLLIN | select.EPOLLET)
        # a daemon: it must not keep an interpreter from ending that nobody has told of it
        self._thread = threading.Thread(target=self._run, name="duetlink-doorkeeper", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped:
            self._epoll.poll(_TICK_S)
            if not self._stopped and self._look():
                self._let_in(False)
                try:
                    self._waking.poll(_CLOSED_S * 1000)
                    self._look()
                finally:
                    self._let_in(True)
            if not self._stopped:
                with contextlib.suppress(BlockingIOError):  # a forked child may have meant its own thread
                    os.eventfd_read(self._wake)

    def _look(self) -> bool:
        """Shut who has no business here. Returns whether too many had come."""
        began_s = time.monotonic()
        found = self._sockets.connections(self._port)
        known = self._seen
        with self._lock:
            here = {address for _, address in found}
            for address in [each for each in known if each not in here and known[each].called_s < began_s]:
                del known[address]
            for _, address in found:
                known.setdefault(address, _Seen(began_s))
            # the oldest first: whoever came last is too many
            found.sort(key=lambda each: known[each[1]].since_s)
            due, crowded = self._judged(found, began_s)
        for descriptor, address in due:
            self._sockets.shut(descriptor, address)
        return crowded

    def _judged(
        self, found: list[tuple[int, Address]], now_s: float
    ) -> tuple[list[tuple[int, Address]], bool]:
        """Which connections are to be shut, and whether because there were too many."""
        due: list[tuple[int, Address]] = []
        guests: Counter[bytes] = Counter()
        strangers: Counter[bytes] = Counter()
        most = min(STRANGERS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE_OF_DESCRIPTORS)
        crowded = False
        for descriptor, address in found:
            connection = self._seen[address]
            if connection.subject is not None:
                guests[connection.subject] += 1
                if guests[connection.subject] > GUEST_CONNECTIONS:
                    due.append((descriptor, address))
                continue
            network = _network(address[0])
            if now_s - connection.since_s >= HANDSHAKE_S:
                due.append((descriptor, address))
            elif strangers[network] >= STRANGERS_PER_ADDRESS or strangers.total() >= most:
                due.append((descriptor, address))
                crowded = True
            else:
                strangers[network] += 1
        return due, crowded

    def _let_in(self, open_: bool) -> None:
        """Let the kernel take new connections, or drop what would open them."""
        assert self._listener is not None
        with contextlib.suppress(OSError):  # a system that has no such filter: then they are only shut
            if open_:
                self._listener.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)
            else:
                code = b"".join(struct.pack("HBBI", *step) for step in _NO_SYN)
                memory = ctypes.create_string_buffer(code)
                program = struct.pack("HP", len(_NO_SYN), ctypes.addressof(memory))
                self._listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


def _network(ip: bytes) -> bytes:
    """What counts as one address: an IPv4 address, or an IPv6 /64, which one host can use all of."""
    return ip if len(ip) == 4 else ip[:8]
