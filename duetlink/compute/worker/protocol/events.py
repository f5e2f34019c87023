"""How much a room may tell of its progress. Both sides count: it keeps to that, its kernel enforces it."""

from __future__ import annotations

from duetlink.errors import RemoteProtocolError

MAX_EVENT_BYTES = 64 * 1024
MAX_EVENT_NAME = 100  # characters

EVENTS_PER_S = 50
EVENTS_AT_ONCE = 200
_FLOOD = 20  # times as many are no mistake any more


class Rate:
    """A bucket of permits that fills again with time."""

    def __init__(self, now_s: float, per_s: float = EVENTS_PER_S, at_once: float = EVENTS_AT_ONCE) -> None:
        self._per_s = per_s
        self._at_once = at_once
        self._left = float(at_once)
        self._seen_s = now_s

    def admits(self, now_s: float) -> bool:
        """Whether there is a permit for one more, and takes it."""
        self._left = min(self._at_once, self._left + (now_s - self._seen_s) * self._per_s)
        self._seen_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True


class EventGate:
    """What a kernel lets through of a room's events."""

    def __init__(self, now_s: float) -> None:
        self._rate = Rate(now_s)
        self._flood = Rate(now_s, EVENTS_PER_S * _FLOOD, EVENTS_AT_ONCE * _FLOOD)

    def admits(self, name: object, content: bytes, now_s: float) -> bool:
        """Whether an event is told on, and not dropped. Raises RemoteProtocolError for what is no event."""
        if type(name) is not str or len(name) > MAX_EVENT_NAME or len(content) > MAX_EVENT_BYTES:
            raise RemoteProtocolError("an event has no name, or too much content")
        if not self._flood.admits(now_s):
            raise RemoteProtocolError("it tells of too much")
        return self._rate.admits(now_s)
