"""Where datagrams come in and go out, whole batches at a time: the contract of a port."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Octets = NDArray[np.uint8]
# Gets what is not the tunnel's, whole as it arrived (STUN, other ChannelData), and where it came from.
OtherReceiver = Callable[[bytes, Any], None]

MAX_DATAGRAM_BYTES = 65_507
CHANNEL_HEADER_BYTES = 4


@dataclass(slots=True)
class Received:
    """Datagrams as the rows of a matrix, of which the first `sizes_bytes` count."""

    rows: Octets
    sizes_bytes: NDArray[np.int64]


class DatagramPort(ABC):
    """Sends and receives batches of datagrams to and from one remote address.

    A port never raises for what the network does: a datagram that cannot be sent is as good as lost.
    """

    headroom_bytes: int = 0  # columns that `send` wants free in front of each row, and fills
    batch_datagrams: int = 44  # more rows than this in one `send` gain nothing

    @abstractmethod
    def start(
        self,
        loop: asyncio.AbstractEventLoop,
        on_readable: Callable[[], None],
        on_writable: Callable[[], None],
        on_closed: Callable[[Exception | None], None],
    ) -> None:
        """Begin. `on_writable` is called once after a `send` that did not take all rows has room again."""

    @abstractmethod
    def receive(self) -> list[Received]:
        """What has arrived, a bounded amount of it, without waiting. Valid until the next call."""

    @abstractmethod
    def send(self, rows: Octets) -> int:
        """Send the rows in order; returns how many were taken, fewer than all if there was no room."""

    @abstractmethod
    def close(self) -> None:
        """End it and what it was made from. Safe to call twice."""


def sort_channel_data(
    rows: Octets, sizes_bytes: NDArray[np.int64], channel: int | None
) -> tuple[NDArray[np.bool_], Octets, NDArray[np.int64]]:
    """Which rows are the tunnel's, and all rows with their sizes without the header of the channel.

    Without a channel the tunnel's are those with a first byte of 192 or more (RFC 7983); with one, those that
    a ChannelData header of that channel (RFC 8656 §12.4) wraps.
    """
    if channel is None:
        return (rows[:, 0] >= 0xC0) & (sizes_bytes > 0), rows, sizes_bytes
    if rows.shape[1] <= CHANNEL_HEADER_BYTES:
        return np.zeros(len(rows), np.bool_), rows, sizes_bytes
    outer = rows[:, :CHANNEL_HEADER_BYTES].copy().view(">u2").astype(np.int64)
    inner_bytes = outer[:, 1]
    ours = (outer[:, 0] == channel) & (inner_bytes <= sizes_bytes - CHANNEL_HEADER_BYTES) & (inner_bytes > 0)
    ours &= rows[:, CHANNEL_HEADER_BYTES] >= 0xC0
    return ours, rows[:, CHANNEL_HEADER_BYTES:], inner_bytes


def write_channel_header(rows: Octets, channel: int) -> None:
    """Fill the first four columns: a constant, for the rows of a batch are of one size."""
    header = channel << 16 | (rows.shape[1] - CHANNEL_HEADER_BYTES)
    rows[:, :CHANNEL_HEADER_BYTES] = np.frombuffer(header.to_bytes(4), np.uint8)
