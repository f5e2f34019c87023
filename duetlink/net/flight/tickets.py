"""Single-use tickets: who holds one may fetch parts of one body, once, until it expires.

A ticket is 32 random bytes that mean nothing outside this table. Flight threads redeem, the loop issues.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from duetlink.errors import TicketRefused
from duetlink.net.flight.body import Outgoing
from duetlink.net.flight.sending import Order

TICKET_BYTES = 32
LIFETIME_S = 60.0
REFUSED = "this ticket is not valid: used, expired, or never issued; ask for a new one"


class Feed(Protocol):
    """One pull, on a thread of the server, of parcels without an end, which are made while they are asked
    for.
    """

    def parcels(self) -> Iterator[tuple[bytes, bytes | memoryview]]:
        """A table and bodies, see `net/streams/frames.py`; waits for the next one, and ends with its feed.

        Something comes at least every few seconds: that a call was cancelled is noticed only by sending.
        """


@dataclass(frozen=True, slots=True)
class Admission:
    """What one ticket admits to."""

    transfer_id: bytes
    outgoing: Outgoing
    order: Order
    most_chunk_bytes: int
    expires_s: float


class TicketTable:
    """The valid tickets of one link. Thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._admissions: dict[bytes, Admission] = {}
        self._feed: tuple[bytes, Feed, float] | None = None  # ticket, feed, until when

    def issue(self, transfer_id: bytes, outgoing: Outgoing, order: Order, *, most_chunk_bytes: int) -> bytes:
        """A new ticket for what is ordered of `outgoing`; earlier ones of the transfer are void."""
        now_s = self._clock()
        ticket = secrets.token_bytes(TICKET_BYTES)
        with self._lock:
            self._admissions = {
                known: admission
                for known, admission in self._admissions.items()
                if admission.expires_s > now_s and admission.transfer_id != transfer_id
            }
            self._admissions[ticket] = Admission(
                transfer_id, outgoing, order, most_chunk_bytes, now_s + LIFETIME_S
            )
        return ticket

    def redeem(self, ticket: bytes) -> Admission:
        """Use up a ticket.

        Raises:
            TicketRefused: unknown, used, expired, or of another link. They look alike to the holder, on
                purpose.
        """
        with self._lock:
            admission = self._admissions.pop(ticket, None)
        if admission is None or admission.expires_s <= self._clock():
            raise TicketRefused(REFUSED)
        return admission

    def issue_feed(self, feed: Feed) -> bytes:
        """A new ticket for a feed; the one before is void."""
        ticket = secrets.token_bytes(TICKET_BYTES)
        with self._lock:
            self._feed = (ticket, feed, self._clock() + LIFETIME_S)
        return ticket

    def redeem_feed(self, ticket: bytes) -> Feed | None:
        """Use up the ticket of a feed; None where it is not that."""
        with self._lock:
            if self._feed is None or not hmac.compare_digest(self._feed[0], ticket):
                return None
            (_, feed, expires_s), self._feed = self._feed, None
        return feed if expires_s > self._clock() else None

    def revoke(self, transfer_id: bytes) -> None:
        """Void what is left of a transfer that ended."""
        with self._lock:
            self._admissions = {
                ticket: admission
                for ticket, admission in self._admissions.items()
                if admission.transfer_id != transfer_id
            }
