"""What a tunnel can tell about itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TunnelStatistics:
    """A snapshot. Rates and round trips are this side's, as a sender; None until they have been measured."""

    round_trip_s: float | None
    smallest_round_trip_s: float | None
    pacing_rate_bytes_per_s: float
    window_bytes: int
    inflight_bytes: int
    sent_bytes: int  # of the stream, each counted once
    received_bytes: int  # of the stream, in order
    sent_datagrams: int  # that matter to the stream: without acknowledgements
    lost_datagrams: int
    repeated_bytes: int
    timeouts: int
    reordering_packets: int  # so much later may a packet arrive before it counts as lost
    datagram_bytes: int
    offload: bool
    receive_buffer_bytes: int | None
    send_buffer_bytes: int | None
    dropped: Mapping[str, int]  # datagrams that were not accepted, by reason
    errors: Mapping[str, int]  # what the system answered, by name
