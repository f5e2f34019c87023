"""The interface of a gossip node, and the checks that all kinds of node share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from duetlink.errors import OperationMismatch, UnsupportedValue
from duetlink_gossip.chunks import ChunkHead, Floats, Strides

AddressedDatagram = tuple[int, bytes]  # the receiver's or sender's rank, and the datagram

_MOST_SKIPPED = 1000  # rounds at once, so that a dishonest member cannot use up the numbers


@dataclass(frozen=True, slots=True)
class Mixed:
    """The outcome of one round."""

    round: int
    received: dict[int, float]  # by neighbour, the share of its chunks that arrived, 0 to 1
    duration_s: float
    # complete: all arrived; spent: all have sent; deadline; alone: no neighbour to wait for; async
    reason: str
    sent_bytes: int
    late: int  # datagrams of earlier rounds
    drift: float | None  # of the mean; see averaging.py
    mended: int = 0  # lost chunks that were recovered from parities

    @property
    def share(self) -> float:
        """The share of all neighbours' chunks that arrived, 0 to 1."""
        return sum(self.received.values()) / len(self.received) if self.received else 0.0


class Node(Protocol):
    """The interface of a node for its courier; `GossipNode` documents the methods."""

    rank: int
    round: int

    @property
    def active(self) -> bool: ...

    def start(self, vector: Floats, now_s: float) -> None: ...

    def due(self, now_s: float) -> Iterator[AddressedDatagram]: ...

    def held(self, to: int, payload: bytes, now_s: float) -> None: ...

    def wake_s(self, now_s: float) -> float: ...

    def is_over(self, now_s: float) -> bool: ...

    def finish(self, now_s: float) -> tuple[Floats, Mixed]: ...

    def take(self, of: int, payload: bytes, now_s: float) -> None: ...

    def exclude(self, of: int) -> None: ...

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: dict[str, Any]) -> None: ...


def check_vector(vector: Floats, strides: Strides) -> None:
    """Raises UnsupportedValue if the model is not finite, or of another length than before."""
    if len(vector) != strides.count:
        raise UnsupportedValue(f"the model has {len(vector)} parameters, and had {strides.count}")
    if not np.isfinite(vector).all():
        bad = int((~np.isfinite(vector)).sum())
        raise UnsupportedValue(
            f"{bad} of {len(vector)} parameters are not finite: this model is not given to the others; "
            "go back to a checkpoint, or take a smaller learning rate"
        )


def check_form(of: int, head: ChunkHead, strides: Strides, form: int) -> None:
    """Raises OperationMismatch if rank `of` has a model of another shape, or other settings."""
    if head.parameters != strides.count:
        raise OperationMismatch(
            f"rank {of} mixes a model of {head.parameters} parameters, this member one of "
            f"{strides.count}: all members give models of the same shape"
        )
    if head.form != form:
        raise OperationMismatch(
            f"rank {of} mixes by other settings: names and shapes of parameters, graph, degree, seed, "
            "precision, push_sum, fec and mode are to be the same at all members"
        )


def next_round(own: int, newest: int) -> int:
    """Return the round after `own`, or the newest one of the others, at most 1,000 rounds ahead."""
    return max(own + 1, min(newest, own + _MOST_SKIPPED))
