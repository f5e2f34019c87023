"""The `Links` contract: the connections between the ranks of a torch job."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Protocol

from duetlink.errors import DuetError
from duetlink.groups.collectives.sums.base import SumReport
from duetlink.net.link.link import Link

# The last bytes have nearly always arrived after this time; a peer that is gone is not waited for any longer.
_DELIVERY_S = 5.0


class Links(Protocol):
    """The connections of this rank to the other ranks of its job. Methods are called on the loop thread."""

    @property
    def sums(self) -> deque[SumReport] | None:
        """The list for reports on sums with a codec: that of the group the job runs in, or None."""

    async def to(self, rank: int) -> Link:
        """Return the link to that rank; the first call for a rank makes it.

        Raises:
            PeerLost: the rank is gone.
        """

    async def close(self) -> None:
        """Close the links that were made here, after all sent bytes have arrived or 5 s have passed."""

    def cut(self) -> None:
        """Close the links that were made here without waiting for a peer; `close` then returns soon."""


async def deliver(link: Link) -> None:
    """Wait until the peer has received all sent bytes, for at most 5 s."""
    with contextlib.suppress(TimeoutError, DuetError):
        async with asyncio.timeout(_DELIVERY_S):
            await link.streams.wait_delivered()
