"""The last quarter of an hour as rows of float32, one per second, for charts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from duetlink.net.link.history import Second
from duetlink_widgets.contract import HISTORY_COLUMNS, HISTORY_S

_ROUND_TRIP = HISTORY_COLUMNS.index("round_trip_s")


class Timeline:
    """Makes rows of HISTORY_COLUMNS from a duet's history; silent seconds become rows of zeros.

    The column `second` counts from `epoch_s` (Unix time), so that float32 holds it exactly.
    """

    def __init__(
        self,
        history: Callable[[float], tuple[Second, ...]],
        is_closed: Callable[[], bool],
        now_s: int,
    ) -> None:
        self._history = history
        self._is_closed = is_closed
        self._connected_s: int | None = None
        self._sent_until_s = 0
        self.epoch_s = float(now_s - HISTORY_S)

    def all_rows(self) -> bytes:
        """Return all rows of the last 15 minutes."""
        return self._rows(int(time.time()) - HISTORY_S + 1)

    def new_rows(self) -> bytes:
        """Return the latest row that was returned before, again, and later ones."""
        return self._rows(self._sent_until_s)

    def _rows(self, since_s: int) -> bytes:
        if self._connected_s is None:
            begun = self._history(0)
            if not begun:
                return b""
            self._connected_s = begun[0].start_s
        seconds = self._history(since_s)
        latest_s = seconds[-1].start_s if seconds else self._sent_until_s
        last_s = latest_s if self._is_closed() else int(time.time())
        first_s = max(since_s, self._connected_s)
        if last_s < first_s:
            return b""
        rows = np.zeros((last_s - first_s + 1, len(HISTORY_COLUMNS)), np.float32)
        rows[:, 0] = np.arange(first_s, last_s + 1) - self.epoch_s
        rows[:, _ROUND_TRIP] = math.nan
        for second in seconds:
            if first_s <= second.start_s <= last_s:
                rows[second.start_s - first_s, 1:] = _values(second)
        self._sent_until_s = last_s
        return rows.tobytes()


def _values(second: Second) -> tuple[float, ...]:
    return (
        second.sent_bytes,
        second.received_bytes,
        second.sent_wire_bytes,
        second.received_wire_bytes,
        math.nan if second.round_trip_s is None else second.round_trip_s,
        second.queued_bytes,
    )
