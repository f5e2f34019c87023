"""Cuts the network under a link that is connected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from duetlink.net.link.link import Link


def cut_link(link: Link) -> Callable[[], None]:
    """Let nothing leave the sockets of the link's connection any more; returns what undoes it.

    To be called on the link's loop thread.
    """
    connection: Any = link._lifeline._connection
    transports = [
        protocol.transport for protocol in connection._pc.sctp.transport.transport._connection._protocols
    ]
    kept = [transport.sendto for transport in transports]
    for transport in transports:
        transport.sendto = lambda data, address=None: None

    def heal() -> None:
        for transport, sendto in zip(transports, kept, strict=True):
            transport.sendto = sendto

    return heal
