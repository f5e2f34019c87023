"""Limits the connections to a Flight server, and closes those that do not authenticate in time.

gRPC accepts every connection, thousands a second, each with a file descriptor of this process, and gives TLS
two minutes; pyarrow offers no limit. Without one, 1,500 silent connections take every descriptor, and the
owner cannot open its own audit log. A listening socket of ours in front of gRPC's would count exactly, but a
connection cannot be passed to gRPC, so it would have to copy every byte of every transfer. So the doorkeeper
works from outside:

  1. A thread sleeps for a moment, or until the kernel reports a connection at gRPC's listening socket.
  2. It looks at all connections to the port. Those on which an authenticated call has come belong to guests;
      the
     others to strangers. Strangers above a number, or older than a time, are closed.
  3. While there are too many, a filter on the listening socket makes the kernel drop the packets that would
      open
     more (SYN). TCP repeats them, so a legitimate client connects when the filter is removed.

Between 1 and 3 the thread must wait for the interpreter's lock; meanwhile gRPC accepts at most a few hundred
more. Only Linux has the report and the filter: on other systems there is no limit.
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

# For TLS and a first call; paths also give up after 10 s.
HANDSHAKE_S = 10.0
# Sixteen members of a group on one machine connect to each other from one address, each by several paths.
STRANGERS_PER_ADDRESS = 64
STRANGERS = 128
_SHARE_OF_DESCRIPTORS = 8  # strangers may use one of so many descriptors, if that is less than STRANGERS
GUEST_CONNECTIONS = 64  # of one peer; our client opens a few per path

_BACKLOG = 64  # connections that gRPC may still accept after the filter was set
# The kernel reports a connection only while gRPC has not accepted it, as in a flood.
_TICK_S = 0.5
_CLOSED_S = 1.0  # the time after which TCP repeats a first SYN

# Linux's numbers, which Python does not define.
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
    subject: bytes | None = None  # the guest's name, after an authenticated call has come over it
    called_s: float = 0.0


class Doorkeeper:
    """Watches the connections to the server at `port` until `close`. Call methods from any thread."""

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
        """Note that an authenticated call of `subject` came over the connection that gRPC calls `peer`."""
        address, now_s = from_grpc(peer), time.monotonic()
        if address is not None:
            with self._lock:
                connection = self._seen.setdefault(address, _Seen(now_s))
                connection.subject, connection.called_s = subject, now_s

    def hang_up(self, subject: bytes) -> None:
        """Close all connections of this guest.

        A peer that no longer reads could otherwise keep a stream, its thread and the body in memory as long
        as the server exists.
        """
        for descriptor, address in self._sockets.connections(self._port):
            with self._lock:
                connection = self._seen.get(address)
            if connection is not None and connection.subject == subject:
                self._sockets.shut(descriptor, address)

    def close(self) -> None:
        """Stop watching. Safe to call twice."""
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
        # a daemon thread: it must not keep the interpreter from exiting
        self._thread = threading.Thread(target=self._run, name="duetlink-doorkeeper", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped:
            self._epoll.poll(_TICK_S)
            if not self._stopped and self._check_connections():
                self._accept_new(False)
                try:
                    self._waking.poll(_CLOSED_S * 1000)
                    self._check_connections()
                finally:
                    self._accept_new(True)
            if not self._stopped:
                with contextlib.suppress(BlockingIOError):  # the wake-up may have come from a forked child
                    os.eventfd_read(self._wake)

    def _check_connections(self) -> bool:
        """Close the connections that are not allowed. Return True if there were too many."""
        began_s = time.monotonic()
        found = self._sockets.connections(self._port)
        known = self._seen
        with self._lock:
            here = {address for _, address in found}
            for address in [each for each in known if each not in here and known[each].called_s < began_s]:
                del known[address]
            for _, address in found:
                known.setdefault(address, _Seen(began_s))
            # oldest first, so that the newest are the ones above the limit
            found.sort(key=lambda each: known[each[1]].since_s)
            due, crowded = self._to_close(found, began_s)
        for descriptor, address in due:
            self._sockets.shut(descriptor, address)
        return crowded

    def _to_close(
        self, found: list[tuple[int, Address]], now_s: float
    ) -> tuple[list[tuple[int, Address]], bool]:
        """Return the connections to close, and True if that is because there were too many."""
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

    def _accept_new(self, open_: bool) -> None:
        """Let the kernel accept new connections, or drop the packets that would open them."""
        assert self._listener is not None
        with contextlib.suppress(OSError):  # a system without this filter: connections are only closed
            if open_:
                self._listener.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)
            else:
                code = b"".join(struct.pack("HBBI", *step) for step in _NO_SYN)
                memory = ctypes.create_string_buffer(code)
                program = struct.pack("HP", len(_NO_SYN), ctypes.addressof(memory))
                self._listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


def _network(ip: bytes) -> bytes:
    """Return what counts as one address: an IPv4 address, or an IPv6 /64, all of which one host can use."""
    return ip if len(ip) == 4 else ip[:8]
