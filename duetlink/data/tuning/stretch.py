"""What one choice really brought: bytes of arrays per second over the chunks sent under it."""

from __future__ import annotations

from duetlink.data.tuning.choice import Choice

_SKIPPED = 2  # the first chunks still meet the buffers that their predecessors left
_CHUNKS = 6
_ENOUGH_S = 0.15
_MANY_CHUNKS = 16
_LONG = 64
_BUFFERS_BYTES = 8 << 20  # what a sender that is never held must have sent, for its speed to be the link's


class Stretch:
    """A run of chunks under one choice."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self._chunks = 0
        self._wire_bytes = 0
        self._held = False
        self._bytes, self._time_s = 0, 0.0
        self._open_bytes, self._open_s = 0, 0.0  # since the last holding moment

    def sent(self, raw_bytes: int, wire_bytes: int, passed_s: float, held: bool) -> None:
        """`passed_s` since the chunk before. Once the sender is held, time runs from holding moment to
        holding moment: what buffers take at once is not speed."""
        self._chunks += 1
        self._wire_bytes += wire_bytes
        if self._chunks <= _SKIPPED:
            return
        if held and not self._held:
            self._held = True
            self._bytes, self._time_s = 0, 0.0
            self._open_bytes, self._open_s = 0, 0.0
            return
        self._open_bytes += raw_bytes
        self._open_s += passed_s
        if held or not self._held:
            self._bytes += self._open_bytes
            self._time_s += self._open_s
            self._open_bytes, self._open_s = 0, 0.0

    @property
    def long(self) -> bool:
        """Whether what it brought is known well."""
        return self._chunks >= _LONG

    @property
    def settled(self) -> bool:
        """Whether it has lasted for so long that its beginning does not matter."""
        return self._time_s >= _ENOUGH_S or self.long

    @property
    def rate(self) -> float | None:
        """None until there is enough to judge by."""
        if self._chunks < _SKIPPED + _CHUNKS or self._time_s <= 0:
            return None
        if not self._held and self._wire_bytes < _BUFFERS_BYTES:
            return None
        if self._time_s < _ENOUGH_S and self._chunks < _MANY_CHUNKS:
            return None
        return self._bytes / self._time_s
