"""Finds and closes, by address, connections of this process whose descriptors a library does not expose.

Each scan holds the interpreter's lock from beginning to end, and needs no new descriptor. Python's own socket
calls release the lock at each of about a thousand steps, and a busy notebook gives it back only after a
switch interval; and when there is most to close, no descriptor may be left. No descriptor is duplicated:
closing a duplicate of a file releases the locks that this process holds on it (POSIX), for example SQLite's.
"""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import os
import resource
import socket
import sys
from urllib.parse import unquote

Address = tuple[bytes, int]
"""An IP address as its 4 or 16 bytes, and a port."""

_STATUS = "/proc/self/status"
_LARGEST_NAME = 128  # bytes of a sockaddr_storage
_MAPPED = bytes(10) + b"\xff\xff"  # prefix of an IPv4 address that came over IPv6


class OwnSockets:
    """Methods may be called on any thread. `close` frees the one descriptor that it keeps."""

    def __init__(self) -> None:
        self._libc = ctypes.PyDLL(None)  # unlike CDLL, it does not release the interpreter's lock
        self._status: int | None = None
        with contextlib.suppress(OSError):  # not Linux
            self._status = os.open(_STATUS, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Free the descriptor. Safe to call twice."""
        if self._status is not None:
            os.close(self._status)
            self._status = None

    def at(self, port: int) -> list[int]:
        """Return the descriptors of all sockets that are bound to a port, including listening ones."""
        name, size = ctypes.create_string_buffer(_LARGEST_NAME), ctypes.c_uint32()
        found = []
        for descriptor in range(self._end()):
            local = _address(self._libc.getsockname, descriptor, name, size)
            if local is not None and local[1] == port:
                found.append(descriptor)
        return found

    def connections(self, port: int) -> list[tuple[int, Address]]:
        """Return descriptor and peer address of each connection to a port of this process."""
        name, size = ctypes.create_string_buffer(_LARGEST_NAME), ctypes.c_uint32()
        found = []
        for descriptor in self.at(port):
            peer = _address(self._libc.getpeername, descriptor, name, size)
            if peer is not None:
                found.append((descriptor, peer))
        return found

    def shut(self, descriptor: int, peer: Address) -> None:
        """Shut a connection down in both directions, if the descriptor still has this peer; its owner closes
        it.
        """
        name, size = ctypes.create_string_buffer(_LARGEST_NAME), ctypes.c_uint32()
        if _address(self._libc.getpeername, descriptor, name, size) == peer:
            self._libc.shutdown(descriptor, int(socket.SHUT_RDWR))

    def _end(self) -> int:
        """Return one more than the largest possible descriptor."""
        if self._status is not None:
            for line in os.pread(self._status, 8192, 0).splitlines():
                if line.startswith(b"FDSize:"):
                    return int(line.split()[1])
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _address(
    call: ctypes._NamedFuncPointer, descriptor: int, name: ctypes.Array[ctypes.c_char], size: ctypes.c_uint32
) -> Address | None:
    """Return the result of getsockname or getpeername; None if it is not an IP address."""
    size.value = _LARGEST_NAME
    if call(descriptor, name, ctypes.byref(size)) != 0:
        return None
    raw = name.raw[: size.value]
    family = raw[1] if sys.platform == "darwin" else int.from_bytes(raw[:2], sys.byteorder)
    port = int.from_bytes(raw[2:4], "big")
    if family == socket.AF_INET:
        return raw[4:8], port
    if family == socket.AF_INET6:
        return plain(raw[8:24]), port
    return None


def plain(ip: bytes) -> bytes:
    """Return an IPv4 address that came over IPv6 as its 4 bytes; any other unchanged."""
    return ip[12:] if ip.startswith(_MAPPED) else ip


def from_grpc(peer: str) -> Address | None:
    """Parse gRPC's notation `ipv4:127.0.0.1:39128` or `ipv6:%5B::1%5D:39128`; None if it is another."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    try:
        return plain(ipaddress.ip_address(host.strip("[]").partition("%")[0]).packed), int(port)
    except ValueError:
        return None
