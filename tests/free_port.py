"""Ports for servers that cannot be asked to take any free one and to say which."""

from __future__ import annotations

import secrets
import socket

# below those that Linux gives to whoever asks for any (32768 to 60999): nobody is given it meanwhile
_LOWEST, _HIGHEST = 20_000, 32_000


def free_port() -> int:
    """A port of 127.0.0.1 that is free for TCP and for UDP, and stays so until a server is told to use it."""
    while True:
        port = _LOWEST + secrets.randbelow(_HIGHEST - _LOWEST)
        try:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                with socket.socket(socket.AF_INET, kind) as sock:
                    sock.bind(("127.0.0.1", port))
        except OSError:
            continue
        return port
