"""What a member knows of its links, in figures that algorithms are chosen by."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

from duetlink.errors import DuetError
from duetlink.groups.collectives.costs import UNKNOWN, LinkFigures
from duetlink.net.link.link import Link

# The first operation of an epoch waits so long for links that are being measured. A member that came a moment
# ago is; links of earlier epochs have their figures.
PATIENCE_S = 1.0

# Two notebooks of one host whose group has members elsewhere: streams over TLS on loopback bring this.
LOCAL_BYTES_PER_S = 400e6


async def measured(links: Mapping[int, Link]) -> dict[int, LinkFigures]:
    """Figures of each link, by rank; waits a moment for those that have none yet."""

    async def settle(link: Link) -> None:
        with contextlib.suppress(DuetError, TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                if link.traffic.round_trip.typical_s is None:
                    await link.ping()
                await link.ladder.wait_measured()

    await asyncio.gather(*(settle(link) for link in links.values()))
    return {rank: figures_of(link) for rank, link in links.items()}


def figures_of(link: Link) -> LinkFigures:
    """How bytes come from that member, as far as this side knows."""
    best = link.ladder.best
    round_trip_s = link.traffic.round_trip.typical_s
    if best is None or round_trip_s is None:
        return UNKNOWN
    rate = next(each.bytes_per_s for each in link.ladder.statuses() if each.name == best.name)
    if best.name == "local":
        rate = LOCAL_BYTES_PER_S
    return LinkFigures(
        latency_s=round_trip_s / 2,
        rate_bytes_per_s=rate or UNKNOWN.rate_bytes_per_s,
        relayed=best.name == "relay",
        path=best.name,
        measured=bool(rate) and best.name != "local",
    )
