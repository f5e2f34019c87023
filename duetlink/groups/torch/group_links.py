"""The links of a job that runs in a group: they are the group's own, and stay open after the job."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

from duetlink.errors import PeerLost
from duetlink.groups.collectives.sums.base import SumReport
from duetlink.groups.torch.group_store import GroupStore
from duetlink.groups.torch.links import deliver
from duetlink.net.link.link import Link


class GroupLinks:
    """The `Links` of a group. Keeps a reference to the store, since torch keeps only its C++ half alive."""

    def __init__(self, store: GroupStore) -> None:
        self._store = store

    @property
    def sums(self) -> deque[SumReport] | None:
        return self._store.sums

    async def to(self, rank: int) -> Link:
        return self._store.link(rank)

    async def close(self) -> None:
        links = []
        for rank in range(self._store.size):
            if rank != self._store.rank:
                with contextlib.suppress(PeerLost):
                    links.append(self._store.link(rank))
        await asyncio.gather(*(deliver(link) for link in links))

    def cut(self) -> None:
        """Do nothing: the group closes its links itself."""
