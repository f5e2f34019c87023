"""How the ranks of a torch job reach each other: the contract, and how a link is left."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Protocol

from duetlink.errors import DuetError
from duetlink.groups.collectives.sums.base import SumReport
from duetlink.net.link.link import Link
from duetlink.net.streams.streams import Streams

# What was sent last has nearly always arrived by then; a peer that is gone is not waited for any longer.
_DELIVERY_S = 5.0


class Links(Protocol):
    """Methods belong to the loop thread."""

    @property
    def sums(self) -> deque[SumReport] | None:
        """Where it is told how sums with a codec went: with those of the group that the job is in, if any."""

    async def to(self, rank: int) -> Streams:
        """The streams of the link to that rank of the job, made by whoever asks first.

        Raises:
            PeerLost: there is no such rank any more.
        """

    async def close(self) -> None:
        """Free what was made here. What was sent has arrived when this returns, or 5 s have passed."""

    def cut(self) -> None:
        """End what was made here without waiting for any peer; `close` then returns soon."""


async def deliver(link: Link) -> None:
    """Wait until the peer has all that was sent, for 5 s at most."""
    with contextlib.suppress(TimeoutError, DuetError):
        async with asyncio.timeout(_DELIVERY_S):
            await link.streams.wait_delivered()
