"""Single-use tickets: the holder may fetch parts of one body, once, until the ticket expires.

A ticket is 32 random bytes that mean nothing outside this table. The loop issues tickets, Flight's threads
redeem them.
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
    """One endless pull of batches, on a thread of the server. Batches are made when they are requested."""

    def batches(self) -> Iterator[tuple[bytes, bytes | memoryview]]:
        """Yield a table and bodies, see `net/streams/frames.py`.

        Waits for the next batch; stops when the feed ends.

        It must yield every few seconds: a cancelled call is noticed only by sending.
        """


@dataclass(frozen=True, slots=True)
class Admission:
    """The right that one ticket gives: to fetch the ordered parts of a body until it expires."""

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
        self._feed: tuple[bytes, Feed, float] | None = None  # ticket, feed, expiry time

    def issue(self, transfer_id: bytes, outgoing: Outgoing, order: Order, *, most_chunk_bytes: int) -> bytes:
        """Return a new ticket for the ordered parts of `outgoing`; earlier ones of the transfer become
        invalid.
        """
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
            TicketRefused: it is unknown, used, expired, or of another link. The holder cannot tell these
                apart, on purpose.
        """
        with self._lock:
            admission = self._admissions.pop(ticket, None)
        if admission is None or admission.expires_s <= self._clock():
            raise TicketRefused(REFUSED)
        return admission

    def issue_feed(self, feed: Feed) -> bytes:
        """Return a new ticket for a feed; the previous one becomes invalid."""
        ticket = secrets.token_bytes(TICKET_BYTES)
        with self._lock:
            self._feed = (ticket, feed, self._clock() + LIFETIME_S)
        return ticket

    def redeem_feed(self, ticket: bytes) -> Feed | None:
        """Use up the ticket of a feed; None if it is not one."""
        with self._lock:
            if self._feed is None or not hmac.compare_digest(self._feed[0], ticket):
                return None
            (_, feed, expires_s), self._feed = self._feed, None
        return feed if expires_s > self._clock() else None

    def revoke(self, transfer_id: bytes) -> None:
        """Invalidate the remaining tickets of a transfer that has ended."""
        with self._lock:
            self._admissions = {
                ticket: admission
                for ticket, admission in self._admissions.items()
                if admission.transfer_id != transfer_id
            }
