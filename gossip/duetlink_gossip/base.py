"""What every way to gossip offers to whoever carries its datagrams, and what all of them refuse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from duetlink.errors import OperationMismatch, UnsupportedValue
from duetlink_gossip.chunks import ChunkHead, Floats, Strides

ReceivedOffer = tuple[int, bytes]  # to whom, or of whom; and the datagram

_MOST_SKIPPED = 1000  # rounds at once; who says more cannot make the numbers end


@dataclass(frozen=True, slots=True)
class Mixed:
    """What came of one round."""

    round: int
    received: dict[int, float]  # by neighbour, the share of its chunks that are here, 0 to 1
    duration_s: float
    # complete: all is there; spent: all have sent; deadline; alone: nobody was waited for; async: nobody is
    reason: str
    sent_bytes: int
    late: int  # datagrams of rounds that were over
    drift: float | None  # of the mean, see averaging.py
    mended: int = 0  # chunks that did not arrive, and were made of parities

    @property
    def share(self) -> float:
        """Of all neighbours' chunks, how many arrived."""
        return sum(self.received.values()) / len(self.received) if self.received else 0.0


class Node(Protocol):
    """What brings one member's datagrams to a network asks of it; GossipNode says what each means."""

    rank: int
    round: int

    @property
    def active(self) -> bool: ...

    def start(self, vector: Floats, now_s: float) -> None: ...

    def due(self, now_s: float) -> Iterator[ReceivedOffer]: ...

    def held(self, to: int, payload: bytes, now_s: float) -> None: ...

    def wake_s(self, now_s: float) -> float: ...

    def is_over(self, now_s: float) -> bool: ...

    def finish(self, now_s: float) -> tuple[Floats, Mixed]: ...

    def take(self, of: int, payload: bytes, now_s: float) -> None: ...

    def exclude(self, of: int) -> None: ...

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: dict[str, Any]) -> None: ...


def check_vector(vector: Floats, strides: Strides) -> None:
    """Raises UnsupportedValue for a model that cannot be given to the others."""
    if len(vector) != strides.count:
        raise UnsupportedValue(f"the model has {len(vector)} parameters, and had {strides.count}")
    if not np.isfinite(vector).all():
        bad = int((~np.isfinite(vector)).sum())
        raise UnsupportedValue(
            f"{bad} of {len(vector)} parameters are not finite: this model is not given to the others; "
            "go back to a checkpoint, or take a smaller learning rate"
        )


def check_form(of: int, head: ChunkHead, strides: Strides, form: int) -> None:
    """Raises OperationMismatch where rank `of` mixes something else."""
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
    """After round `own`, where others have begun `newest`."""
    return max(own + 1, min(newest, own + _MOST_SKIPPED))
