"""Feeds by Flight: batches as they were made, each ticket once, and no message that is too large."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from duetlink.data.tuning import RateCap
from duetlink.errors import PathUnavailable, TicketRefused
from duetlink.net.flight.certificate import Authority, check_issued, create_identity
from duetlink.net.flight.client import FlightClient
from duetlink.net.flight.guest import Guest
from duetlink.net.flight.receiving import Decoding
from duetlink.net.flight.server import FlightServer
from duetlink.net.flight.tickets import LIFETIME_S, TicketTable


class Parcels:
    """A feed of what it is given, then of nothing until it is told to end."""

    def __init__(self, *batches: tuple[bytes, bytes]) -> None:
        self._batches = batches
        self.ended = threading.Event()

    def batches(self) -> Iterator[tuple[bytes, bytes]]:
        yield from self._batches
        while not self.ended.wait(0.05):
            yield b"beat", b""


@pytest.fixture
def now_s() -> list[float]:
    return [0.0]


@pytest.fixture
def tickets(now_s: list[float]) -> TicketTable:
    return TicketTable(lambda: now_s[0])


@pytest.fixture
def client(tickets: TicketTable) -> Iterator[FlightClient]:
    owner, scientist, authority = create_identity(), create_identity(), Authority()
    issued = check_issued(authority.issue(scientist.certificate_pem, b"scientist"), scientist)
    with ThreadPoolExecutor(2) as pool:
        server = FlightServer(owner, authority.certificate_pem, pool, host="127.0.0.1")
        server.admit(b"scientist", Guest(tickets, RateCap()))
        client = FlightClient("127.0.0.1", server.port, issued, owner.certificate_pem, Decoding(pool, 2))
        yield client
        client.close()
        server.close()


def test_batches_arrive_as_they_were_made(client: FlightClient, tickets: TicketTable) -> None:
    got: list[tuple[bytes, bytes]] = []
    feed = Parcels((b"table", b""), (b"t", b"bodies"), (b"u" * 100_000, bytes(1 << 20)))

    def take(table: bytes, bodies: memoryview) -> None:
        got.append((table, bytes(bodies)))
        if len(got) == 3:
            feed.ended.set()

    client.follow(tickets.issue_feed(feed), take, lambda cancel: None)
    assert got[:3] == [(b"table", b""), (b"t", b"bodies"), (b"u" * 100_000, bytes(1 << 20))]


def test_a_feed_is_pulled_once_and_a_newer_one_voids_it(client: FlightClient, tickets: TicketTable) -> None:
    feed = Parcels()
    feed.ended.set()
    first, second = tickets.issue_feed(feed), tickets.issue_feed(feed)
    client.follow(second, lambda table, bodies: None, lambda cancel: None)
    for ticket in (first, second, b"", b"guess"):
        with pytest.raises(TicketRefused, match="not valid"):
            client.follow(ticket, lambda table, bodies: None, lambda cancel: None)


def test_the_ticket_of_a_feed_expires(client: FlightClient, tickets: TicketTable, now_s: list[float]) -> None:
    ticket = tickets.issue_feed(Parcels())
    now_s[0] = LIFETIME_S
    with pytest.raises(TicketRefused):
        client.follow(ticket, lambda table, bodies: None, lambda cancel: None)


def test_a_message_of_many_megabytes_is_refused_before_it_is_in_memory(
    client: FlightClient, tickets: TicketTable
) -> None:
    feed = Parcels((b"", bytes(20 << 20)))
    taken: list[int] = []
    with pytest.raises(PathUnavailable):
        client.follow(
            tickets.issue_feed(feed), lambda table, bodies: taken.append(len(bodies)), lambda cancel: None
        )
    feed.ended.set()
    assert taken == []


def test_a_feed_is_ended_from_another_thread(client: FlightClient, tickets: TicketTable) -> None:
    feed = Parcels()
    cancels: list[Callable[[], None]] = []
    with pytest.raises(PathUnavailable):
        client.follow(
            tickets.issue_feed(feed),
            lambda table, bodies: threading.Thread(target=cancels[0]).start(),
            cancels.append,
        )
    feed.ended.set()
