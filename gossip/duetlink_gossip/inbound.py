"""The datagrams of one neighbour in one round, and their arrival times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from duetlink_gossip.averaging import Averaging, ReceivedChunks
from duetlink_gossip.chunks import ChunkHead, Strides
from duetlink_gossip.parity import Mending, Parity


@dataclass(slots=True)
class Inbound:
    """The datagrams of one round so far, numbered in sending order: first chunks, then parities."""

    round: int
    received: ReceivedChunks
    mending: Mending | None
    count: int = 0  # chunks that have arrived or were recovered
    mended: int = 0  # chunks that were recovered from a parity
    arrived: int = 0  # datagrams
    first: tuple[int, float] = (0, 0.0)  # number in sending order, and arrival time
    last: tuple[int, float] = (0, 0.0)
    asked_s: float | None = None

    @classmethod
    def of(cls, round_: int, strides: Strides, averaging: Averaging, parity: Parity | None) -> Self:
        received = ReceivedChunks(
            np.zeros((strides.chunks, strides.length), averaging.dtype),
            np.zeros(strides.chunks, np.uint32),
            np.zeros(strides.chunks, np.bool_),
        )
        return cls(
            round_, received, Mending(parity, strides.length * averaging.item_bytes) if parity else None
        )

    @property
    def spacing_s(self) -> float:
        """The time between two datagrams that were sent one after the other; 0 if unknown."""
        (start, start_s), (end, end_s) = self.first, self.last
        return (end_s - start_s) / (end - start) if end > start else 0.0

    def timed(self, order: int, now_s: float) -> None:
        """Note the arrival of the datagram with that number in sending order."""
        if not self.arrived:
            self.first = (order, now_s)
        self.arrived += 1
        self.last = max(self.last, (order, now_s))

    def take(self, head: ChunkHead, body: memoryview, values: npt.NDArray[Any] | None) -> bool:
        """Keep a chunk, which has values, or a parity, which has none. Returns False for a duplicate.

        Raises:
            RemoteProtocolError: a parity of another length than chunks have.
        """
        if values is None:
            return self.mending is not None and self.mending.add_parity(head.position, body)
        if self.received.have[head.position]:
            return False
        self._keep(head.position, values, head.mass)
        if self.mending is not None:
            self.mending.add_chunk(head.position, head.scale, head.mass, body)
        return True

    def mend(self, group: int, averaging: Averaging, length: int) -> None:
        """Recover the missing chunk of this group, if exactly one is missing.

        Raises:
            RemoteProtocolError: the recovered chunk is not valid.
        """
        if self.mending is None:
            return
        chunk = self.mending.mend(group, self.received.have)
        if chunk is not None:
            self._keep(chunk.position, averaging.decode(chunk.body, chunk.scale, length), chunk.mass)
            self.mended += 1

    def _keep(self, position: int, values: npt.NDArray[Any], mass: int) -> None:
        received = self.received
        received.values[position], received.masses[position], received.have[position] = values, mass, True
        self.count += 1
