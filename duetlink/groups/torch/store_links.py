"""Links of the ranks of a job that meet in torch's own store (`env://`, `tcp://`, `file://`)."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import deque
from collections.abc import Callable
from typing import Any

from duetlink.base.runtime.at_exit import KERNEL_ENDED
from duetlink.errors import DuetError
from duetlink.groups.collectives.sums.base import SumReport
from duetlink.groups.torch.links import deliver
from duetlink.net.link.endpoint import Endpoint
from duetlink.net.link.introducing import Introducing
from duetlink.net.link.link import Link
from duetlink.net.peer.connection import PeerConnection
from duetlink.net.peer.ice_servers import choose_ice_servers
from duetlink.settings import Settings

_LOOK_S = 0.02  # poll interval; a waiting call of the store would block its other users


class StoreLinks:
    """The `Links` of ranks that exchange offer and answer through a torch store.

    Anyone who can write to the store can take a rank's place.
    """

    def __init__(self, store: Any, prefix: str, rank: int, settings: Settings, endpoint: Endpoint) -> None:
        """`prefix` begins the keys of this job; no other job in the same store may use it."""
        self._store = store
        self._prefix = prefix
        self._rank = rank
        self._settings = settings
        self._endpoint = endpoint
        self.sums: deque[SumReport] | None = None  # there is no group
        self._links: dict[int, asyncio.Task[Link]] = {}
        self._storing = asyncio.Lock()  # one call at a time: a store may not be thread-safe

    async def to(self, rank: int) -> Link:
        if rank not in self._links:
            self._links[rank] = asyncio.ensure_future(self._connect(rank))
        return await asyncio.shield(self._links[rank])

    async def close(self) -> None:
        await asyncio.gather(*(self._part_from(making) for making in self._links.values()))

    def cut(self) -> None:
        for making in self._links.values():
            making.cancel()
            if making.done() and not making.cancelled() and making.exception() is None:
                making.result().cut(KERNEL_ENDED)

    async def _part_from(self, making: asyncio.Task[Link]) -> None:
        making.cancel()
        with contextlib.suppress(asyncio.CancelledError, DuetError):
            link = await making
            await deliver(link)
            await link.close()

    async def _connect(self, other: int) -> Link:
        """Connect to a rank by way of the store: the lower rank makes the offer, the other one answers."""
        settings = self._settings
        low, high = sorted((self._rank, other))
        chosen, _ = await choose_ice_servers(settings.allowed_ice_servers, settings.ice_probe_timeout_s)
        connection = PeerConnection(chosen)
        introducing = Introducing(connection, settings, self._endpoint)
        place = f"{self._prefix}/{low}/{high}"
        offer_at, answer_at = f"{place}/offer", f"{place}/answer"
        if self._rank == low:
            await self._put(offer_at, await connection.offer())
            await introducing.accept(await self._get(answer_at))
        else:
            answer = await connection.answer(await self._get(offer_at), patient=True)
            await self._put(answer_at, answer)
        name, initiator = f"rank {self._rank}", self._rank == low
        link = await Link.connect(introducing, settings, self._endpoint, name, initiator=initiator)
        link.start()
        return link

    async def _put(self, key: str, value: bytes) -> None:
        await self._stored(functools.partial(self._store.set, key, value))

    async def _get(self, key: str) -> bytes:
        while not await self._stored(functools.partial(self._store.check, [key])):  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)  # a store has no event
        return bytes(await self._stored(functools.partial(self._store.get, key)))

    async def _stored(self, call: Callable[[], Any]) -> Any:
        async with self._storing:
            return await asyncio.to_thread(call)
