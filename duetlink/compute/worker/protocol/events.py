"""The rate limit of a room's progress events. The room keeps to it, and its kernel enforces it."""

from __future__ import annotations

from duetlink.errors import RemoteProtocolError

MAX_EVENT_BYTES = 64 * 1024
MAX_EVENT_NAME = 100  # characters

EVENTS_PER_S = 50
EVENTS_AT_ONCE = 200
_FLOOD = 20  # this many times the rate counts as hostile, not as a mistake


class Rate:
    """A token bucket of `at_once` permits, refilled at `per_s` permits a second."""

    def __init__(self, now_s: float, per_s: float = EVENTS_PER_S, at_once: float = EVENTS_AT_ONCE) -> None:
        self._per_s = per_s
        self._at_once = at_once
        self._left = float(at_once)
        self._seen_s = now_s

    def admits(self, now_s: float) -> bool:
        """Take a permit if there is one. Returns False if there is none."""
        self._left = min(self._at_once, self._left + (now_s - self._seen_s) * self._per_s)
        self._seen_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True


class EventGate:
    """The kernel's filter for the events of one room."""

    def __init__(self, now_s: float) -> None:
        self._rate = Rate(now_s)
        self._flood = Rate(now_s, EVENTS_PER_S * _FLOOD, EVENTS_AT_ONCE * _FLOOD)

    def admits(self, name: object, content: bytes, now_s: float) -> bool:
        """Return True for an event to pass on, False for one to drop because of the rate.

        Raises RemoteProtocolError for a malformed event, and for 20 times the permitted rate.
        """
        if type(name) is not str or len(name) > MAX_EVENT_NAME or len(content) > MAX_EVENT_BYTES:
            raise RemoteProtocolError("an event has no valid name, or too much content")
        if not self._flood.admits(now_s):
            raise RemoteProtocolError("it sends too many events")
        return self._rate.admits(now_s)
