"""The receiving half of a tunnel: assembles the stream and makes the acknowledgements."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from duetlink.net.tunnel.acknowledgement import MAX_SPAN_PACKETS, Acknowledgement
from duetlink.net.tunnel.datagram import DatagramKind, DatagramOpener
from duetlink.net.tunnel.datagram_port import Received
from duetlink.net.tunnel.reassembly import Reassembly


class Receiver:
    """Does no I/O and reads no clock; its owner passes in batches and times."""

    def __init__(self, opener: DatagramOpener, capacity_bytes: int, start: int, now_s: float) -> None:
        self.incoming = Reassembly(capacity_bytes, start)
        self.ack_due = False
        self.received_s = now_s  # when the last authentic datagram arrived
        self._opener = opener
        self._capacity = capacity_bytes
        self._end: int | None = None  # position where the stream ends, if the peer has sent it
        self._sent_limit = self.incoming.limit
        self._peer_floor = 0
        self._largest_at_s = now_s
        self._refused: Counter[str] = Counter()

    @property
    def dropped(self) -> dict[str, int]:
        return {**self._opener.dropped, **self._refused}

    @property
    def is_complete(self) -> bool:
        """True if all of the peer's stream has arrived."""
        return self._end == self.incoming.complete

    @property
    def has_ended(self) -> bool:
        """True if all of the peer's stream has been taken."""
        return self._end == self.incoming.taken

    @property
    def owes_limit(self) -> bool:
        """True if so much was taken since the last acknowledgement that the peer needs a new limit."""
        return self.incoming.limit - self._sent_limit >= self._capacity // 4

    def accept(self, now_s: float, received: Received) -> list[tuple[DatagramKind, bytes]]:
        """Process a batch. Return the acknowledgements and resets in it, which concern the sending half."""
        before = self._opener.window.largest
        opened = self._opener.open(received.rows, received.sizes_bytes)
        if not len(opened.kinds):
            return []
        self.received_s = now_s
        if self._opener.window.largest > before:
            self._largest_at_s = now_s
        self._peer_floor = max(self._peer_floor, int(opened.floors.max()))
        data = opened.kinds == DatagramKind.DATA
        if data.all():
            self._insert(opened.positions, opened.sizes_bytes, opened.payloads)
            return []
        messages = []
        for row in np.flatnonzero(~data).tolist():
            kind = int(opened.kinds[row])
            if kind in (DatagramKind.FIN, DatagramKind.PING):
                self.ack_due = True
            if kind == DatagramKind.FIN:
                self._finish(int(opened.positions[row]))
            if kind in (DatagramKind.ACK, DatagramKind.FIN, DatagramKind.RESET):
                messages.append((DatagramKind(kind), opened.payload(row)))
            elif kind != DatagramKind.PING:
                self.refuse("of an unknown kind")
        self._insert(opened.positions[data], opened.sizes_bytes[data], opened.payloads[data])
        return messages

    def refuse(self, reason: str, count: int = 1) -> None:
        """Count authentic datagrams that are malformed."""
        self._refused[reason] += count

    def acknowledgement(self, now_s: float) -> Acknowledgement | None:
        """Return an acknowledgement, which the caller must send; None while nothing has arrived."""
        window = self._opener.window
        if window.largest < 0:
            return None
        self.ack_due = False
        self._sent_limit = self.incoming.limit
        return Acknowledgement(
            largest=window.largest,
            received=window.received(max(self._peer_floor, window.largest - MAX_SPAN_PACKETS + 1)),
            # the end of the stream counts as one more byte
            complete=self.incoming.complete + self.is_complete,
            limit=self._sent_limit,
            delay_s=now_s - self._largest_at_s,
        )

    def _insert(
        self, positions: NDArray[np.int64], sizes_bytes: NDArray[np.int64], payloads: NDArray[np.uint8]
    ) -> None:
        count = len(positions)
        if not count:
            return
        self.ack_due = True
        # split into runs of rows of equal size with consecutive bytes
        follows = (positions[1:] == positions[:-1] + sizes_bytes[:-1]) & (sizes_bytes[1:] == sizes_bytes[:-1])
        for first, stop in pairwise([0, *(np.flatnonzero(~follows) + 1).tolist(), count]):
            rows = payloads[first:stop, : int(sizes_bytes[first])]
            position = int(positions[first])
            beyond = self._end is not None and position + rows.size > self._end
            if rows.size and (beyond or not self.incoming.insert(position, rows)):
                self.refuse("beyond the limit", len(rows))

    def _finish(self, end: int) -> None:
        if self._end is None and end >= self.incoming.furthest:
            self._end = end
        elif self._end != end:
            self.refuse("beyond the limit")
