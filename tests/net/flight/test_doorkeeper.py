"""Who may stand at the Flight port, and for how long."""

from __future__ import annotations

import contextlib
import resource
import select
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from duetlink.data.tuning import RateCap
from duetlink.errors import PathUnavailable
from duetlink.net.flight import doorkeeper
from duetlink.net.flight.certificate import Authority, Identity, check_issued, create_identity
from duetlink.net.flight.client import FlightClient
from duetlink.net.flight.guest import Guest
from duetlink.net.flight.own_sockets import OwnSockets, from_grpc
from duetlink.net.flight.receiving import Decoding
from duetlink.net.flight.server import FlightServer
from duetlink.net.flight.tickets import TicketTable
from duetlink.testing.faults import set_constants

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the doorkeeper needs Linux")

CLIENT_HELLO_BEGINS = b"\x16\x03\x01\x02\x00\x01"


class Served:
    """A Flight server on loopback with one guest."""

    def __init__(self) -> None:
        self.owner, authority = create_identity(), Authority()
        mine = create_identity()
        self.guest: Identity = check_issued(authority.issue(mine.certificate_pem, b"guest"), mine)
        self.pool = ThreadPoolExecutor(1)
        self.server = FlightServer(self.owner, authority.certificate_pem, self.pool, host="127.0.0.1")
        self.server.admit(b"guest", Guest(TicketTable(time.monotonic), RateCap()))
        self.clients: list[FlightClient] = []
        self.sockets = OwnSockets()

    def connect(self) -> FlightClient:
        """A client of the guest's with a connection of its own."""
        client = FlightClient(
            "127.0.0.1", self.server.port, self.guest, self.owner.certificate_pem, Decoding(self.pool, 1)
        )
        self.clients.append(client)
        client.probe(10.0)
        return client

    def silent(self) -> socket.socket:
        """A stranger's connection."""
        return socket.create_connection(("127.0.0.1", self.server.port), 30)

    def peers(self) -> set[int]:
        """The ports from which connections come that stand."""
        return {address[1] for _, address in self.sockets.connections(self.server.port)}

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.server.close()
        self.sockets.close()
        self.pool.shutdown()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(doorkeeper, "HANDSHAKE_S", 0.3)
    served = Served()
    yield served
    served.close()


def hears_the_end(stranger: socket.socket) -> bool:
    """Wait for the server to close a connection."""
    with stranger:
        try:
            return stranger.recv(1000) == b""
        except ConnectionResetError:
            return True


def one_is_shut(strangers: list[socket.socket]) -> None:
    """Wait until the server has closed one of these connections, and no more; close the others."""
    shut, _, _ = select.select(strangers, (), (), 30)
    assert len(shut) == 1
    for stranger in strangers:
        assert stranger not in shut or stranger.recv(1000) == b""
        stranger.close()


@pytest.mark.parametrize("says", [b"", CLIENT_HELLO_BEGINS], ids=["silent", "TLS begun"])
def test_a_stranger_is_shut_in_time_and_a_guest_stays(served: Served, says: bytes) -> None:
    served.connect()
    (guest,) = served.peers()
    stranger = served.silent()
    stranger.sendall(says)
    assert hears_the_end(stranger)
    while served.peers() != {guest}:  # gRPC closes it a moment later
        threading.Event().wait(0.01)
    served.clients[0].probe(10.0)
    assert served.peers() == {guest}


def test_too_many_strangers_of_one_address_are_shut_at_once_and_guests_come_in_after_them(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doorkeeper, "HANDSHAKE_S", 3600.0)
    monkeypatch.setattr(doorkeeper, "STRANGERS_PER_ADDRESS", 3)
    one_is_shut([served.silent() for _ in range(4)])
    served.connect()


def test_strangers_are_limited_in_sum_and_in_share_of_the_descriptors(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doorkeeper, "HANDSHAKE_S", 3600.0)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (16, 16))
    one_is_shut([served.silent() for _ in range(3)])  # one in eight of sixteen


def test_a_guest_has_so_many_connections_and_no_more(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorkeeper, "GUEST_CONNECTIONS", 2)
    for _ in range(4):
        served.connect()
    while len(served.peers()) > 2:
        threading.Event().wait(0.01)


def test_nobody_comes_in_while_the_door_is_closed(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    set_constants(monkeypatch, doorkeeper, CLOSED_S=3.0)
    monkeypatch.setattr(doorkeeper, "HANDSHAKE_S", 3600.0)
    monkeypatch.setattr(doorkeeper, "STRANGERS_PER_ADDRESS", 3)
    with contextlib.ExitStack() as strangers, pytest.raises(TimeoutError):
        for _ in range(10):  # one too many closes it
            stranger = socket.create_connection(("127.0.0.1", served.server.port), 0.2)
            strangers.enter_context(stranger)
            select.select((stranger,), (), (), 0.2)
    with pytest.raises(PathUnavailable):
        FlightClient(
            "127.0.0.1",
            served.server.port,
            served.guest,
            served.owner.certificate_pem,
            Decoding(served.pool, 1),
        ).probe(0.2)
    served.connect()


def test_a_connection_is_shut_only_if_it_still_is_of_the_same_peer(served: Served) -> None:
    stranger = served.silent()
    while not (found := served.sockets.connections(served.server.port)):
        threading.Event().wait(0.01)
    ((descriptor, (ip, port)),) = found
    assert (ip, port) == (b"\x7f\0\0\1", stranger.getsockname()[1])
    served.sockets.shut(descriptor, (ip, port + 1))
    assert served.peers() == {port}
    served.sockets.shut(descriptor, (ip, port))
    assert hears_the_end(stranger)


def test_addresses_are_read_as_grpc_writes_them() -> None:
    assert from_grpc("ipv4:127.0.0.1:39128") == (b"\x7f\0\0\1", 39128)
    assert from_grpc("ipv6:%5B::1%5D:443") == (bytes(15) + b"\1", 443)
    assert from_grpc("ipv6:%5B::ffff:10.0.0.1%5D:443") == (b"\x0a\0\0\1", 443)
    assert from_grpc("ipv6:%5Bfe80::1%25eth0%5D:443") == (b"\xfe\x80" + bytes(13) + b"\1", 443)
    assert from_grpc("unix:/tmp/socket") is None
