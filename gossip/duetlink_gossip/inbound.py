"""What one neighbour has sent in one round, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from duetlink_gossip.averaging import Averaging, Heard
from duetlink_gossip.chunks import ChunkHead, Strides
from duetlink_gossip.parity import Mending, Parity


@dataclass(slots=True)
class Inbound:
    """Datagrams have an order, that in which they were sent: first chunks, then parities."""

    round: int
    heard: Heard
    mending: Mending | None
    count: int = 0  # chunks that are there
    mended: int = 0  # of these, by a parity
    arrived: int = 0  # datagrams
    first: tuple[int, float] = (0, 0.0)  # which in order, when
    last: tuple[int, float] = (0, 0.0)
    asked_s: float | None = None

    @classmethod
    def of(cls, round_: int, strides: Strides, averaging: Averaging, parity: Parity | None) -> Self:
        """Nothing yet."""
        heard = Heard(
            np.zeros((strides.chunks, strides.length), averaging.dtype),
            np.zeros(strides.chunks, np.uint32),
            np.zeros(strides.chunks, np.bool_),
        )
        return cls(round_, heard, Mending(parity, strides.length * averaging.item_bytes) if parity else None)

    @property
    def spacing_s(self) -> float:
        """Time between two datagrams that were sent one after the other."""
        (start, start_s), (end, end_s) = self.first, self.last
        return (end_s - start_s) / (end - start) if end > start else 0.0

    def timed(self, order: int, now_s: float) -> None:
        """The datagram of this place in the order has come."""
        if not self.arrived:
            self.first = (order, now_s)
        self.arrived += 1
        self.last = max(self.last, (order, now_s))

    def take(self, head: ChunkHead, body: memoryview, values: npt.NDArray[Any] | None) -> bool:
        """Keep a chunk, which has values, or a parity, which has none; False where it was there.

        Raises:
            RemoteProtocolError: a parity of another length than chunks have.
        """
        if values is None:
            return self.mending is not None and self.mending.add_parity(head.position, body)
        if self.heard.have[head.position]:
            return False
        self._keep(head.position, values, head.mass)
        if self.mending is not None:
            self.mending.add_chunk(head.position, head.scale, head.mass, body)
        return True

    def mend(self, group: int, averaging: Averaging, length: int) -> None:
        """Make the chunk again that is the only one missing of this group, if there is such a one.

        Raises:
            RemoteProtocolError: what comes out cannot have been sent.
        """
        if self.mending is None:
            return
        chunk = self.mending.mend(group, self.heard.have)
        if chunk is not None:
            self._keep(chunk.position, averaging.decode(chunk.body, chunk.scale, length), chunk.mass)
            self.mended += 1

    def _keep(self, position: int, values: npt.NDArray[Any], mass: int) -> None:
        heard = self.heard
        heard.values[position], heard.masses[position], heard.have[position] = values, mass, True
        self.count += 1
