"""What a tunnel can tell about itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TunnelStatistics:
    """A snapshot."""

    sent_bytes: int  # of the stream, each counted once
    sent_datagrams: int  # that matter to the stream: without acknowledgements
    lost_datagrams: int
    datagram_bytes: int
    dropped: Mapping[str, int]  # datagrams that were not accepted, by reason
