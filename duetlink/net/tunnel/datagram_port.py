"""The contract of a datagram port: it sends and receives batches of datagrams over one socket."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Octets = NDArray[np.uint8]
# Called with each packet that is not the tunnel's (STUN, other ChannelData) as it arrived, and its source
# address.
OtherReceiver = Callable[[bytes, Any], None]

MAX_DATAGRAM_BYTES = 65_507
CHANNEL_HEADER_BYTES = 4


@dataclass(slots=True)
class Received:
    """Datagrams as the rows of a matrix, of which the first `sizes_bytes` are valid."""

    rows: Octets
    sizes_bytes: NDArray[np.int64]


class DatagramPort(ABC):
    """Sends and receives batches of datagrams to and from one remote address.

    A port never raises because of the network: a datagram that cannot be sent counts as lost.
    """

    headroom_bytes: int = 0  # free columns that `send` needs at the start of each row, and fills
    batch_datagrams: int = 44  # more rows than this in one `send` are no faster

    @abstractmethod
    def start(
        self,
        loop: asyncio.AbstractEventLoop,
        on_readable: Callable[[], None],
        on_writable: Callable[[], None],
        on_closed: Callable[[Exception | None], None],
    ) -> None:
        """Begin.

        `on_writable` is called once when there is room again after a `send` that did not take all rows.
        """

    @abstractmethod
    def receive(self) -> list[Received]:
        """Return a bounded amount of what has arrived, without waiting. It is valid until the next call."""

    @abstractmethod
    def send(self, rows: Octets) -> int:
        """Send the rows in order. Return how many were taken: fewer than all if there was no room."""

    @abstractmethod
    def close(self) -> None:
        """Close the port and the socket under it. Safe to call twice."""


def sort_channel_data(
    rows: Octets, sizes_bytes: NDArray[np.int64], channel: int | None
) -> tuple[NDArray[np.bool_], Octets, NDArray[np.int64]]:
    """Return which rows are the tunnel's, and all rows and sizes without the channel header.

    Without a channel, the tunnel's rows begin with a byte of 192 or more (RFC 7983). With one, they have a
    ChannelData header of that channel (RFC 8656 §12.4) before that byte.
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
    """Fill the first four columns. All rows of a batch have one size, so the header is the same for each."""
    header = channel << 16 | (rows.shape[1] - CHANNEL_HEADER_BYTES)
    rows[:, :CHANNEL_HEADER_BYTES] = np.frombuffer(header.to_bytes(4), np.uint8)
