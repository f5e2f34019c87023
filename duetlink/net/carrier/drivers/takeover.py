"""The only module that uses internals of aioice: it takes over the socket for which ICE has found a route.

aioice handles one datagram per callback, and through TURN one per task; the tunnel handles batches. So the
tunnel's port gets the socket, and passes every STUN message back to aioice, which continues to answer and
send consent checks (RFC 7675) and keeps the TURN allocation and its channels alive. aioice uses `_Shadow` in
place of its socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
from importlib.metadata import version
from typing import Any

from aioice import Candidate, Connection, ice, turn

from duetlink.errors import PathUnavailable
from duetlink.net.tunnel.datagram_port import CHANNEL_HEADER_BYTES, DatagramPort
from duetlink.net.tunnel.turn_stream_port import TurnStreamPort
from duetlink.net.tunnel.udp_port import UdpPort

_CLIENT = "_TurnTransport__inner_protocol"
_COMPONENT = 1


def check_aioice() -> None:
    """Raise PathUnavailable if aioice's internals differ from what this module expects."""
    connection = Connection(ice_controlling=True)
    client = turn.TurnClientUdpProtocol(("", 0), "", "", 0, 0)
    known = (
        isinstance(getattr(connection, "_nominated", None), dict),
        isinstance(getattr(connection, "_protocols", None), list),
        callable(getattr(connection, "_pair_remote_candidate", None)),
        getattr(connection, "remote_is_lite", None) is False,
        getattr(turn.TurnTransport(client), _CLIENT, None) is client,
        isinstance(getattr(client, "peer_to_channel", None), dict),
    )
    if not all(known):
        raise PathUnavailable(
            f"this version of duetlink does not know aioice {version('aioice')} well enough for this path; "
            "install the version that duetlink was tested with: pip install 'aioice==0.13.0'"
        )


def make_connection(*, controlling: bool) -> Connection:
    """Return an ICE connection that agrees with the peer's on one pair, and drops data other than STUN."""
    connection = Connection(ice_controlling=controlling)
    # Makes aioice nominate only the first pair that answers (regular nomination, RFC 8445 §8.1.1). Otherwise
    # it nominates all that it checks, and the two sides may choose different ones.
    connection.remote_is_lite = True
    # aioice would queue other data without limit
    connection.data_received = lambda data, component: None  # type: ignore[method-assign]
    return connection


def add_local(connection: Connection, protocol: ice.StunProtocol) -> None:
    """Add a relayed candidate to the checks, whether they are running or not."""
    connection._protocols.append(protocol)
    for candidate in connection.remote_candidates:
        connection._pair_remote_candidate(candidate)
    connection.sort_check_list()


def local_protocols(connection: Connection) -> list[ice.StunProtocol]:
    """Return one protocol for each host candidate."""
    return list(connection._protocols)


class OnlyRelayed(Candidate):
    """A local candidate that is paired only with relayed candidates of the peer."""

    def __init__(self, like: Candidate) -> None:
        super().__init__(
            like.foundation, like.component, like.transport, like.priority, like.host, like.port, like.type
        )

    def can_pair_with(self, other: Candidate) -> bool:
        return other.type == "relay" and bool(super().can_pair_with(other))


class Pair:
    """The pair of addresses that both sides have nominated."""

    def __init__(self, connection: Connection) -> None:
        self._pair = connection._nominated[_COMPONENT]

    def __str__(self) -> str:
        local, remote = self._pair.local_candidate, self._pair.remote_candidate
        return f"{local.host}:{local.port} to {remote.host}:{remote.port}"

    @property
    def local(self) -> ice.StunProtocol:
        return self._pair.protocol

    def take_over(self) -> DatagramPort:
        """Return the socket, or its channel to the peer, as a port. Call it once."""
        protocol = self._pair.protocol
        if not isinstance(protocol.transport, turn.TurnTransport):
            sock = _take_socket(protocol, self._pair.remote_addr)
            return UdpPort(sock, on_other=functools.partial(_hand_back, protocol))
        client = getattr(protocol.transport, _CLIENT)
        channel = client.peer_to_channel[self._pair.remote_addr]
        hand_back = functools.partial(_hand_back, client)
        if isinstance(client, turn.TurnClientUdpProtocol):
            return UdpPort(_take_socket(client), channel=channel, on_other=hand_back)
        # until the port starts, so that no frame is split between the two readers
        client.transport.pause_reading()
        port = TurnStreamPort(client.transport, channel, hand_back)
        port.data_received(getattr(client, "buffer", b""))
        return port


def _take_socket(protocol: Any, remote: tuple[str, int] | None = None) -> socket.socket:
    """Return the socket of `protocol`, and give it a shadow instead."""
    transport = protocol.transport
    sock: socket.socket = transport.get_extra_info("socket").dup()
    if remote is not None:
        sock.connect(remote)  # from here on the system drops packets from other addresses
    transport.set_protocol(asyncio.DatagramProtocol())
    transport.close()
    protocol.transport = _Shadow(sock.dup(), protocol)
    return sock


class _Shadow(asyncio.DatagramTransport):
    """Sends aioice's packets through a socket that the tunnel's port reads."""

    def __init__(self, sock: socket.socket, protocol: asyncio.DatagramProtocol) -> None:
        super().__init__()
        self._sock = sock
        self._protocol = protocol
        self._remote = sock.getpeername()[:2]

    def sendto(self, data: Any, addr: Any = None) -> None:
        if self._sock.fileno() >= 0 and addr in (None, self._remote):
            with contextlib.suppress(OSError):  # counts as lost on the way
                self._sock.send(data)

    def is_closing(self) -> bool:
        return self._sock.fileno() < 0

    def close(self) -> None:
        if not self.is_closing():
            self._sock.close()
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        self.close()


def _hand_back(protocol: Any, data: bytes, source: Any) -> None:
    """Pass aioice its own packets: STUN, or STUN in ChannelData (RFC 7983)."""
    inner = data[CHANNEL_HEADER_BYTES:] if data and 0x40 <= data[0] < 0x80 else data
    if inner and inner[0] < 4:
        # aioice's parser gets untrusted bytes, and may raise any exception
        with contextlib.suppress(Exception):
            protocol.datagram_received(data, source)
