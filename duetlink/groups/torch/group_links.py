"""Links of the ranks of a job that a group has made: the group's own, which live as long as it does."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

from duetlink.errors import PeerLost
from duetlink.groups.collectives.sums.base import SumReport
from duetlink.groups.torch.group_store import GroupStore
from duetlink.groups.torch.links import deliver
from duetlink.net.streams.streams import Streams


class GroupLinks:
    """`Links`. Holds on to the store: torch keeps only the C++ half of it."""

    def __init__(self, store: GroupStore) -> None:
        self._store = store

    @property
    def sums(self) -> deque[SumReport] | None:
        return self._store.sums

    async def to(self, rank: int) -> Streams:
        return self._store.link(rank).streams

    async def close(self) -> None:
        links = []
        for rank in range(self._store.size):
            if rank != self._store.rank:
                with contextlib.suppress(PeerLost):
                    links.append(self._store.link(rank))
        await asyncio.gather(*(deliver(link) for link in links))

    def cut(self) -> None:
        """The links are the group's, which is cut as well."""
