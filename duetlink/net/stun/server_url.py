"""URLs of STUN and TURN servers (RFC 7064, RFC 7065), read without a network."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from duetlink.errors import SettingError
from duetlink.settings import IceServer

Transport = Literal["udp", "tcp", "tls", "dtls"]

_SHAPE = re.compile(
    r"(?P<scheme>stuns?|turns?):(?P<host>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(:(?P<port>[0-9]{1,5}))?"
    r"(\?transport=(?P<transport>udp|tcp))?"
)
_PORT, _TLS_PORT = 3478, 5349


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """The address, transport and credentials of one server."""

    kind: Literal["stun", "turn"]
    host: str
    port: int
    transport: Transport
    username: str | None = field(default=None, repr=False)
    credential: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, url: str, server: IceServer) -> ServerUrl:
        """Parse one URL of `server`.

        Raises SettingError. Its text does not repeat the URL, which may contain a secret that was put in by
        mistake.
        """
        match = _SHAPE.fullmatch(url)
        if match is None:
            raise SettingError(
                "it must look like stun:host:port or turn:host:port?transport=tcp; a user name and password "
                "belong into 'username' and 'credential'"
            )
        scheme, port = match["scheme"], int(match["port"] or 0)
        secure = scheme.endswith("s")
        if port > 65535 or (scheme.startswith("stun") and match["transport"]):
            raise SettingError("its port is above 65535, or it is a STUN URL with a ?transport=")
        # stuns: and turns: are TLS over TCP unless DTLS is asked for (RFC 7065 §3.1)
        transport: Transport = "tls" if secure else "udp"
        if match["transport"]:
            transport = {("tcp", False): "tcp", ("udp", True): "dtls"}.get(  # type: ignore[assignment]
                (match["transport"], secure), transport
            )
        return cls(
            "stun" if scheme.startswith("stun") else "turn",
            match["host"].strip("[]"),
            port or (_TLS_PORT if secure else _PORT),
            transport,
            server.username,
            server.credential,
        )

    def __str__(self) -> str:
        """Return text for a person, such as `turn:turn.example.org:3478 by TCP`."""
        return f"{self.location} by {self.transport.upper()}"

    @property
    def location(self) -> str:
        """The URL without the transport, such as `turn:turn.example.org:3478`."""
        return self.at(self.host)

    def at(self, host: str) -> str:
        """Return `location` with another name or address of the same server."""
        host = f"[{host}]" if ":" in host else host
        return f"{self.kind}:{host}:{self.port}"


def parse_servers(servers: tuple[IceServer, ...]) -> tuple[list[ServerUrl], list[str]]:
    """Return all usable URLs in order, and one sentence for each URL that cannot be used."""
    parsed, wrong = [], []
    for server in servers:
        for url in server.urls:
            try:
                parsed.append(ServerUrl.parse(url, server))
            except SettingError as error:
                wrong.append(f"an ICE server's URL cannot be used: {error}")
    return parsed, wrong
