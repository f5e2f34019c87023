"""Path MTU discovery for datagrams (RFC 8899) in few round trips: finds how large a datagram may be.

It begins with a size that every path carries. Then one padded datagram of each larger candidate is sent, with
DF; the largest that is acknowledged is used from then on. Candidates without an answer after three tries are
tried again after ten minutes. If only large datagrams disappear (a black hole: the route has changed), it
starts again.
"""

from __future__ import annotations

import math

from duetlink.net.tunnel.acknowledgement import Acknowledgement

BASE_BYTES = 1200  # the size that QUIC assumes for every path (RFC 9000 §14)
# Sizes without the headers of IP, UDP and ChannelData; multiples of 4.
CANDIDATES_BYTES = (
    1280,  # nested tunnels, mobile networks
    1360,  # WireGuard
    1400,
    1440,  # PPPoE, and Ethernet over IPv6
    1468,  # Ethernet over IPv4
    8900,  # large frames in a data centre
    16_272,  # loopback; of larger ones, only few fit a receive buffer
)
LARGEST_BYTES = CANDIDATES_BYTES[-1]

_TRIES = 3  # RFC 8899 §5.1.2, MAX_PROBES
_RAISE_S = 600.0  # RFC 8899 §5.1.1, PMTU_RAISE_TIMER
_SHORTEST_WAIT_S = 0.1
# More than congestion: so many timeouts in a row, or so many lost datagrams of full size while none arrived.
_BLACK_HOLE_TIMEOUTS = 3
_BLACK_HOLE_LOST = 32


class MtuSearch:
    """State of the search. `datagram_bytes` is the size that may be sent now."""

    def __init__(self) -> None:
        self.datagram_bytes = BASE_BYTES
        self.deadline_s = math.inf  # when `due` has probes to send; set by `begin`
        self._tries = 0
        self._probes: dict[int, int] = {}  # packet number -> size
        self._lost_full = 0

    def begin(self, now_s: float) -> None:
        """Start to search, now that the peer has answered."""
        self._tries = 0
        self.deadline_s = now_s

    def due(self, now_s: float, round_trip_s: float) -> tuple[int, ...]:
        """Return the sizes of the probes to send now."""
        if now_s < self.deadline_s:
            return ()
        larger = tuple(size for size in CANDIDATES_BYTES if size > self.datagram_bytes)
        if self._tries >= _TRIES or not larger:
            self._tries = 0
            self._probes.clear()
            self.deadline_s = now_s + _RAISE_S
            return ()
        self._tries += 1
        self.deadline_s = now_s + max(3 * round_trip_s, _SHORTEST_WAIT_S)
        return larger

    def on_probe(self, packet_number: int, datagram_bytes: int) -> None:
        self._probes[packet_number] = datagram_bytes

    def on_ack(self, ack: Acknowledgement) -> bool:
        """Return True if larger datagrams may be sent from now on."""
        before = self.datagram_bytes
        for number in [number for number in self._probes if ack.base <= number <= ack.largest]:
            if ack.received[number - ack.base]:
                self.datagram_bytes = max(self.datagram_bytes, self._probes.pop(number))
        return self.datagram_bytes > before

    def on_traffic(self, largest_acked_bytes: int, lost_full: int) -> None:
        """Note, after a round, the largest datagram that arrived and how many of the present size were
        lost.
        """
        if largest_acked_bytes >= self.datagram_bytes:
            self._lost_full = 0
        else:
            self._lost_full += lost_full

    def is_black_hole(self, timeouts: int) -> bool:
        """Return True if datagrams of the present size disappear. `timeouts`: in a row, without an answer."""
        return self.datagram_bytes > BASE_BYTES and (
            timeouts >= _BLACK_HOLE_TIMEOUTS or self._lost_full >= _BLACK_HOLE_LOST
        )

    def fall_back(self, now_s: float, round_trip_s: float) -> None:
        """Return to the base size, and search again when the path has had time to settle."""
        self.datagram_bytes = BASE_BYTES
        self._lost_full = 0
        self._tries = 0
        self._probes.clear()
        self.deadline_s = now_s + max(10 * round_trip_s, 1.0)
