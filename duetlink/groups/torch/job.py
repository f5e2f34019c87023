"""The ranks of one torch job, and the links between them, made through the job's store."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

from duetlink.base.runtime.loop import LoopThread
from duetlink.errors import DuetError, GroupError, PeerLost
from duetlink.groups.collectives.collectives import Collectives
from duetlink.net.link.introducing import Introducing
from duetlink.net.link.link import Link
from duetlink.net.link.shared_endpoint import EndpointUse, shared_endpoint
from duetlink.net.peer.connection import PeerConnection
from duetlink.net.peer.ice_servers import choose_ice_servers
from duetlink.net.streams.message import Message
from duetlink.net.streams.stream import Stream
from duetlink.settings import Settings

_LOOK_S = 0.02  # between looks into the store, whose waiting calls keep its other users out


class StreamTransport:
    """The contract of `duetlink/groups/transport.py`, over one stream to each other member."""

    def __init__(self, rank: int, size: int, streams: dict[int, Stream]) -> None:
        self.rank, self.size = rank, size
        self._streams = streams

    async def send(self, to: int, head: bytes, body: memoryview) -> None:
        with _lost(to):
            await self._streams[to].send(head, body)

    async def receive(self, of: int) -> Message:
        with _lost(of):
            return await self._streams[of].receive()

    def close(self) -> None:
        for stream in self._streams.values():
            stream.close("the group has ended")


@contextlib.contextmanager
def _lost(rank: int) -> Any:
    try:
        yield
    except DuetError as error:
        raise PeerLost(f"rank {rank} is gone: {error}", rank=rank, name=f"rank {rank}") from error


class Job:
    """From `init_process_group` to `destroy_process_group`, in one process."""

    def __init__(self, store: Any, rank: int, size: int, use: EndpointUse) -> None:
        self.rank, self.size = rank, size
        self.thread: LoopThread = use.thread
        self._use = use
        self._store = store
        # a store may have seen a job of the same ranks before: everybody counts its own
        self._generation = store.add(f"duetlink/rank-{rank}", 1)
        self.settings = Settings.from_environment()
        self._links: dict[int, asyncio.Task[Link]] = {}
        self._groups: dict[str, StreamTransport] = {}
        self._storing = asyncio.Lock()  # one look at a time: a store need not bear several

    async def enter(self, name: str, ranks: Sequence[int], timeout_s: float) -> Collectives:
        """Connect the members of one group. All of them call it.

        Raises:
            GroupError: not all have come in time.
        """
        me = ranks.index(self.rank)
        try:
            async with asyncio.timeout(timeout_s):
                found = await asyncio.gather(
                    *(self._stream(f"torch/{name}", other) for other in ranks if other != self.rank)
                )
        except TimeoutError:
            raise GroupError(
                f"Timed out: not all of ranks {list(ranks)} came to group {name!r} within {timeout_s:g} s"
            ) from None
        streams = dict(zip([at for at in range(len(ranks)) if at != me], found, strict=True))
        transport = self._groups[name] = StreamTransport(me, len(ranks), streams)
        return Collectives(transport, names=[f"torch rank {rank}" for rank in ranks])

    def leave(self, name: str) -> None:
        """This group has ended here; the job does with the last one."""
        transport = self._groups.pop(name, None)
        if transport is not None and not self.thread.stopped:
            self.thread.loop.call_soon_threadsafe(transport.close)
        if not self._groups:
            self.close()

    def close(self) -> None:
        if self.thread.stopped:
            return
        self.thread.run(self._close())
        self.thread.stop()

    async def _close(self) -> None:
        for making in self._links.values():
            making.cancel()
        for making in self._links.values():
            with contextlib.suppress(asyncio.CancelledError, DuetError):
                await (await making).close()

    # -- links -----------------------------------------------------------------------------------------------

    async def _stream(self, purpose: str, other: int) -> Stream:
        if other not in self._links:
            self._links[other] = asyncio.ensure_future(self._connect(other))
        link = await asyncio.shield(self._links[other])
        if self.rank < other:
            return await link.streams.open(purpose)
        opened: asyncio.Future[Stream] = asyncio.get_running_loop().create_future()

        async def take(stream: Stream) -> None:
            opened.set_result(stream)
            await asyncio.Event().wait()  # it is closed when this returns, or with the link

        link.streams.on_open(purpose, take, most=1)
        return await opened

    async def _connect(self, other: int) -> Link:
        """The lower rank makes the offer, the other one answers; both lie in the store for a while."""
        settings = self.settings
        low, high = sorted((self.rank, other))
        chosen, _ = await choose_ice_servers(settings.allowed_ice_servers, settings.ice_probe_timeout_s)
        connection = PeerConnection(chosen)
        introducing = Introducing(connection, settings, self._use.endpoint)
        place = f"duetlink/{self._generation}/{low}/{high}"
        offer_at, answer_at = f"{place}/offer", f"{place}/answer"
        if self.rank == low:
            await self._put(offer_at, await connection.offer())
            await introducing.accept(await self._get(answer_at))
        else:
            answer = await connection.answer(await self._get(offer_at), patient=True)
            await self._put(answer_at, answer)
        link = await Link.connect(
            introducing, settings, self._use.endpoint, f"rank {self.rank}", initiator=self.rank == low
        )
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


class Jobs:
    """The job of this process: torch has one at a time."""

    def __init__(self) -> None:
        self._current: Job | None = None

    @property
    def begun(self) -> bool:
        return self._current is not None and not self._current.thread.stopped

    @property
    def current(self) -> Job:
        """Raises GroupError before `init_process_group`."""
        if self._current is None or self._current.thread.stopped:
            raise GroupError("there is no job: call torch.distributed.init_process_group first")
        return self._current

    def begin(self, store: Any, rank: int, size: int) -> None:
        if self._current is not None:
            self._current.close()
        self._current = Job(store, rank, size, shared_endpoint.use())


jobs = Jobs()
