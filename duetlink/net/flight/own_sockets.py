"""Connections of this process whose descriptors a library keeps to itself, found and shut by address.

Every look here keeps the interpreter's lock from beginning to end and needs no descriptor. Python's own
calls let the lock go, and a busy notebook gives it back after a switch interval, a thousand times in a look;
and when there is most to be shut, no descriptor may be left. Nothing is duplicated: closing a duplicate of a
file drops the locks that this process holds on it (POSIX), SQLite's for one.
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
_MAPPED = bytes(10) + b"\xff\xff"  # what an IPv4 address that came over IPv6 begins with


class OwnSockets:
    """Methods may be called on any thread. `close` frees the one descriptor that it keeps."""

    def __init__(self) -> None:
        self._libc = ctypes.PyDLL(None)  # unlike CDLL it keeps the lock
        self._status: int | None = None
        with contextlib.suppress(OSError):  # not Linux
            self._status = os.open(_STATUS, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Safe to call twice."""
        if self._status is not None:
            os.close(self._status)
            self._status = None

    def at(self, port: int) -> list[int]:
        """The descriptors of all sockets that are bound to a port, listening ones too."""
        name, size = ctypes.create_string_buffer(_LARGEST_NAME), ctypes.c_uint32()
        found = []
        for descriptor in range(self._end()):
            local = _address(self._libc.getsockname, descriptor, name, size)
            if local is not None and local[1] == port:
                found.append(descriptor)
        return found

    def connections(self, port: int) -> list[tuple[int, Address]]:
        """The descriptor and the peer's address of each connection to a port of this process."""
        name, size = ctypes.create_string_buffer(_LARGEST_NAME), ctypes.c_uint32()
        found = []
        for descriptor in self.at(port):
            peer = _address(self._libc.getpeername, descriptor, name, size)
            if peer is not None:
                found.append((descriptor, peer))
        return found

    def shut(self, descriptor: int, peer: Address) -> None:
        """End this connection in both directions, if the descriptor still is of it; its owner closes it."""
        name, size = ctypes.create_string_buffer(_LARGEST_NAME), ctypes.c_uint32()
        if _address(self._libc.getpeername, descriptor, name, size) == peer:
            self._libc.shutdown(descriptor, int(socket.SHUT_RDWR))

    def _end(self) -> int:
        """One more than the largest descriptor that there may be."""
        if self._status is not None:
            for line in os.pread(self._status, 8192, 0).splitlines():
                if line.startswith(b"FDSize:"):
                    return int(line.split()[1])
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _address(
    call: ctypes._NamedFuncPointer, descriptor: int, name: ctypes.Array[ctypes.c_char], size: ctypes.c_uint32
) -> Address | None:
    """What getsockname or getpeername says, if it is an address of the internet."""
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
    """An IPv4 address that came over IPv6 as itself."""
    return ip[12:] if ip.startswith(_MAPPED) else ip


def from_grpc(peer: str) -> Address | None:
    """The address in gRPC's `ipv4:127.0.0.1:39128` or `ipv6:%5B::1%5D:39128`."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    try:
        return plain(ipaddress.ip_address(host.strip("[]").partition("%")[0]).packed), int(port)
    except ValueError:
        return None
