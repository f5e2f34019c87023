"""The limits of a signaling server, and the token bucket that enforces a rate."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from duetlink.errors import SettingError
from duetlink.net.signaling.base import MAX_MESSAGE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a signaling server. Sizes in bytes, times in seconds. A refusal names the figure."""

    message_bytes: int = MAX_MESSAGE_BYTES
    mailbox_messages: int = 64
    """messages that a mailbox relays in total, both ways together"""
    mailbox_bytes: int = 1024 * 1024
    mailboxes: int = 1000
    seats: int = 15
    """mailboxes that may share one nameplate, each for one joiner"""
    lifetime_s: float = 3600.0
    """how long a claimed mailbox waits for the scientist; a client may ask for less"""
    pairing_s: float = 600.0
    """how long a mailbox exists after both sides have come"""
    connections: int = 4000
    """in total; more are closed without an answer"""
    connections_per_address: int = 100
    """more are refused when they send something; above twice as many, they are closed without an answer"""
    arrivals_per_address_per_minute: int = 60
    """claims and joins together"""
    meetings_per_address_per_minute: int = 600
    """at a meeting place, or for one more seat of a hall: both need a secret, so they cannot be guesses of
    a code
    """
    opening_s: float = 10.0
    """how long a connection has to upgrade to a WebSocket, TLS included, and then to claim or join"""
    stalled_s: float = 10.0
    """how long a client may leave sent data unread"""

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):
            if not getattr(self, each.name) > 0:
                raise SettingError(f"limit {each.name} must be positive, got {getattr(self, each.name)!r}")


class TokenBucket:
    """Enforces a rate: a full bucket allows `capacity` at once, and refills at `rate_per_s`."""

    __slots__ = ("_capacity", "_rate_per_s", "_then_s", "_tokens")

    def __init__(self, capacity: float, rate_per_s: float, now_s: float) -> None:
        self._capacity = capacity
        self._rate_per_s = rate_per_s
        self._tokens = capacity
        self._then_s = now_s

    def take(self, now_s: float) -> bool:
        """Take one token; return False if there is none."""
        self._refill(now_s)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def is_full(self, now_s: float) -> bool:
        """Return True if the bucket is full, so that it can be forgotten."""
        self._refill(now_s)
        return self._tokens >= self._capacity

    def _refill(self, now_s: float) -> None:
        self._tokens = min(self._capacity, self._tokens + (now_s - self._then_s) * self._rate_per_s)
        self._then_s = now_s
