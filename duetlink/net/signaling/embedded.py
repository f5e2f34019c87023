"""A signaling server inside the owner's own process, for when no other is available."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import socket
from pathlib import Path

from duetlink.base.runtime.at_exit import open_here
from duetlink.errors import SignalingUnavailable
from duetlink.net.fixed_port import free_ports
from duetlink.net.signaling.discovery import Announcement, SignalingServer, announce
from duetlink.net.signaling.limits import Limits
from duetlink.net.signaling.server import MailboxServer

# Low, because it shares the process, and its descriptors, with the user's work.
LIMITS = Limits(mailboxes=200, connections=400)

_log = logging.getLogger(__name__)


class EmbeddedServer:
    """A `MailboxServer` that announces itself in the runtime directory.

    It listens on one address of this machine, by default all of IPv4, and on any free port unless `ports` is
    given.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        directory: Path | None = None,
        *,
        listen: str | None = None,
        ports: range | None = None,
    ) -> None:
        """`ports`: uses the first free one of these; None: any."""
        self._server = MailboxServer(limits or LIMITS)
        self._listen = listen or "0.0.0.0"
        self._ports = ports
        self._directory = directory
        self._announcement: Announcement | None = None
        self.host_for_peers: str | None = None
        """this machine's address for peers on other machines; None if only this machine can connect"""
        self.port = 0

    @property
    def address(self) -> SignalingServer:
        """The URL for this process, and the address that its codes carry."""
        everywhere = ipaddress.ip_address(self._listen).is_unspecified
        here = "127.0.0.1" if everywhere else self._listen
        in_code = f"{_in_url(self.host_for_peers or here)}:{self.port}"
        return SignalingServer(f"ws://{_in_url(here)}:{self.port}", in_code)

    async def start(self) -> None:
        """Listen and announce.

        Raises:
            SignalingUnavailable: it can listen neither on all addresses nor on the loopback, or not on the
                given one.
            PortUnavailable: none of the ports is free.
        """
        try:
            self.port = await self._start()
            if ipaddress.ip_address(self._listen).is_unspecified:
                self.host_for_peers = outward_address()
            elif not ipaddress.ip_address(self._listen).is_loopback:
                self.host_for_peers = self._listen
        except SignalingUnavailable:
            if self._listen != "0.0.0.0":
                raise
            _, self.port = await self._renewed().start("127.0.0.1", 0)
        try:
            self._announcement = announce(self.address, self._directory)
        except OSError as error:
            _log.warning("other notebooks of this machine will not find this signaling server: %s", error)
            return
        open_here.add_last(self._announcement.remove)

    async def _start(self) -> int:
        if self._ports is None:
            return (await self._server.start(self._listen, 0))[1]
        for port in free_ports(self._listen, self._ports, "signaling_port"):
            with contextlib.suppress(SignalingUnavailable):  # another process has just taken it
                return (await self._renewed().start(self._listen, port))[1]
        raise AssertionError("free_ports ends with an error")

    def _renewed(self) -> MailboxServer:
        """Replace the server, since one can be started only once."""
        self._server = MailboxServer(self._server.limits)
        return self._server

    async def stop(self) -> None:
        """Stop serving and remove the announcement. Safe to call twice."""
        if self._announcement is not None:
            self._announcement.remove()
            open_here.discard_last(self._announcement.remove)
            self._announcement = None
        await self._server.stop()


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def outward_address() -> str | None:
    """Return the IPv4 address from which this machine sends to others; None without a route.

    Sends nothing.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(
                ("192.0.2.1", 9)
            )  # TEST-NET-1 (RFC 5737); connecting a UDP socket only looks up the route
        except OSError:
            return None
        address = ipaddress.ip_address(probe.getsockname()[0])
    return None if address.is_loopback or address.is_unspecified else str(address)
