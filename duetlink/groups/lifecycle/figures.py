"""Latency, rate and path of this member's links, from which the algorithms of operations are chosen."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

from duetlink.errors import DuetError
from duetlink.groups.collectives.planning.costs import UNKNOWN, LinkFigures
from duetlink.net.link.link import Link

# An operation that exchanges figures waits at most this long for links that have not been measured yet, such
# as those of a new member.
PATIENCE_S = 1.0

# The rate of streams over TLS on loopback: two notebooks of one host whose group has members elsewhere.
LOCAL_BYTES_PER_S = 400e6
CHANNEL_BYTES_PER_S = 5e6  # the data channel, until a better path is up

_GUESSES = {"local": LOCAL_BYTES_PER_S, "channel": CHANNEL_BYTES_PER_S}


async def measured(links: Mapping[int, Link]) -> dict[int, LinkFigures]:
    """Return the figures of each link, by rank; waits at most `PATIENCE_S` for links not measured yet."""

    async def settle(link: Link) -> None:
        with contextlib.suppress(DuetError, TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                if link.traffic.round_trip.typical_s is None:
                    await link.ping()
                await link.path_selector.wait_measured()

    await asyncio.gather(*(settle(link) for link in links.values()))
    return {rank: figures_of(link) for rank, link in links.items()}


def figures_of(link: Link) -> LinkFigures:
    """Return the figures of one link; the rate is that of bytes received from the other member."""
    best = link.path_selector.best
    round_trip_s = link.traffic.round_trip.typical_s
    if best is None:
        return UNKNOWN
    rate = next(each.bytes_per_s for each in link.path_selector.statuses() if each.name == best.name)
    guess = _GUESSES.get(best.name, UNKNOWN.rate_bytes_per_s)
    return LinkFigures(
        latency_s=round_trip_s / 2 if round_trip_s is not None else UNKNOWN.latency_s,
        rate_bytes_per_s=rate or guess,
        relayed=best.name == "relay",
        path=best.name,
        measured=bool(rate),
    )
