"""Links between members in one loop: what `GroupLife` needs of a `Link`, without sockets or cryptography.

Each direction of a link delivers in order, each message some turns of the loop after the one before it, as
the dice fall. A member can be killed at any message: nothing of what it sends arrives any more, what was
under way may be lost, and its peers learn of it by the end of their links.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from types import SimpleNamespace
from typing import Any

from duetlink.base.events import Sink
from duetlink.errors import LinkClosed, PeerLost, RemoteProtocolError, StreamClosed
from duetlink.groups.lifecycle.exit import Exit
from duetlink.groups.lifecycle.joining import Joining
from duetlink.groups.lifecycle.life import GroupLife
from duetlink.groups.links.transport import Message
from duetlink.groups.membership.member_state import MemberState
from duetlink.groups.membership.messages import Epoch
from duetlink.net.link.introducing import peer_closed
from duetlink.net.link.link import Link, LinkOwner

MOST_WAITING = 8  # messages of a stream, from which on its sender waits
_MOST_TURNS = 3


class Network:
    """All links, and where members meet."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.on_message: Callable[[str, str], None] = lambda of, to: None  # an operation's, before it leaves
        self.links: list[MemoryLink] = []
        self._waiting: dict[bytes, tuple[str, asyncio.Future[MemoryLink]]] = {}
        self.pumps: set[asyncio.Task[None]] = set()

    def link(self, one: str, other: str) -> tuple[MemoryLink, MemoryLink]:
        """Both ends of a new link between two members."""
        ends = MemoryLink(self, one, other), MemoryLink(self, other, one)
        ends[0].other, ends[1].other = ends[1], ends[0]
        self.links += ends
        return ends

    async def meet(self, place: bytes, name: str) -> MemoryLink:
        if place in self._waiting:
            other, future = self._waiting.pop(place)
            mine, theirs = self.link(name, other)
            future.set_result(theirs)
            return mine
        future = asyncio.get_running_loop().create_future()
        self._waiting[place] = name, future
        try:
            return await future
        finally:
            if self._waiting.get(place, ("", None))[1] is future:
                del self._waiting[place]

    def kill(self, name: str) -> None:
        """That member is gone in this very moment, without a word."""
        for link in self.links:
            if link.here == name and not link.ended:
                link.is_dead = True
                link.other.lose_some()
                asyncio.get_running_loop().call_later(
                    self.random.random() * 0.01, link.other.end, PeerLost(f"{name} was killed")
                )

    def bury(self, name: str) -> None:
        """End what is left of a member that was killed."""
        for link in self.links:
            if link.here == name:
                link.is_dead = False
                link.end(LinkClosed(f"{name} was killed"))

    async def close(self) -> None:
        for pump in list(self.pumps):
            pump.cancel()
        await asyncio.gather(*self.pumps, return_exceptions=True)


class MemoryLink:
    """One end. It is its own `rpc`, `streams`, `path_selector` and `traffic`, as a group uses them."""

    other: MemoryLink
    allows_local = True

    def __init__(self, network: Network, here: str, there: str) -> None:
        self.here, self.there = here, there
        self.is_dead = False  # sends and hears nothing
        self.ended = False
        self._has_begun = False
        self._end: LinkClosed | None = None
        self.own_absence = ""
        self.owner = LinkOwner()
        self.sink = Sink()
        self.rpc = self.streams = self.path_selector = self.traffic = self
        self.round_trip = SimpleNamespace(typical_s=0.001)
        self.best = SimpleNamespace(name="tcp")
        self._network = network
        self._arriving: deque[tuple[Any, ...]] = deque()
        self._stirred = asyncio.Event()
        self._heard: Callable[[Any], None] | None = None
        self._purposes: dict[str, Callable[[Any], Coroutine[Any, Any, None]]] = {}
        self._pending: list[tuple[str, MemoryStream]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: set[MemoryStream] = set()

    # -- as a ladder and as traffic --------------------------------------------------------------------------

    def statuses(self) -> list[Any]:
        return [SimpleNamespace(name="tcp", bytes_per_s=1e8)]

    async def wait_measured(self) -> None:
        return

    # -- control messages ------------------------------------------------------------------------------------

    def notice(self, kind: type, handler: Callable[[Any], None]) -> None:
        self._heard = handler

    def tell_nowait(self, message: Any) -> None:
        self.put("notice", message)

    def start(self) -> None:
        """From here on it delivers and tells its end, as a real link does."""
        self._has_begun = True
        if self._end is not None:
            asyncio.get_running_loop().call_soon(self.owner.closed, self._end)
            return
        pump = asyncio.ensure_future(self._pump())
        self._network.pumps.add(pump)
        pump.add_done_callback(self._network.pumps.discard)

    def belong_to(self, owner: LinkOwner) -> None:
        self.owner = owner

    def put(self, *item: Any) -> None:
        """On its way to the other end."""
        if not (self.is_dead or self.ended or self.other.ended):
            self.other._arriving.append(item)
            self.other._stirred.set()

    def lose_some(self) -> None:
        """Of what is on its way here, the last may never arrive."""
        for _ in range(self._network.random.randint(0, len(self._arriving))):
            self._arriving.pop()

    async def close(self, reason: str = "") -> None:
        self.put("bye", reason)
        self.end(LinkClosed(f"this side closed the link: {reason}"))

    def end(self, error: LinkClosed) -> None:
        if self.ended or self.is_dead:
            return
        self.ended = True
        for stream in list(self._open):
            stream.end(StreamClosed(str(error)))
        for task in self._tasks:
            task.cancel()
        self._stirred.set()
        self._end = error
        if self._has_begun:
            self.owner.closed(error)

    async def _pump(self) -> None:
        while not (self.ended or self.is_dead):
            for _ in range(self._network.random.randint(0, _MOST_TURNS)):
                await asyncio.sleep(0)
            if self._arriving:
                self._deliver(*self._arriving.popleft())
            else:
                self._stirred.clear()
                await self._stirred.wait()

    def _deliver(self, kind: str, *rest: Any) -> None:
        match kind:
            case "notice":
                assert self._heard is not None
                try:
                    self._heard(rest[0])
                except RemoteProtocolError as error:
                    self.put("bye", f"protocol violation: {error}")
                    self.end(LinkClosed(str(error)))
            case "bye":
                self.end(peer_closed(rest[0]))
            case "open":
                self._opened(*rest)
            case "message":
                stream, message = rest
                stream.take(message)
            case "close":
                stream, why = rest
                stream.end(StreamClosed(f"the peer closed the stream: {why}"))

    # -- streams ---------------------------------------------------------------------------------------------

    async def open(self, purpose: str, *, window_bytes: int = 0) -> MemoryStream:
        mine, theirs = MemoryStream(self), MemoryStream(self.other)
        mine.other, theirs.other = theirs, mine
        self._open.add(mine)
        self.put("open", purpose, theirs)
        await mine.accepted
        return mine

    def on_open(
        self,
        purpose: str,
        handler: Callable[[Any], Coroutine[Any, Any, None]],
        *,
        window_bytes: int = 0,
        most: int = 1,
    ) -> None:
        self._purposes[purpose] = handler
        pending, self._pending = self._pending, []
        for wanted, stream in pending:
            self._opened(wanted, stream)

    def off(self, purpose: str) -> None:
        self._purposes.pop(purpose, None)

    def _opened(self, purpose: str, stream: MemoryStream) -> None:
        if purpose not in self._purposes:
            self._pending.append((purpose, stream))
            return
        handler = self._purposes[purpose]
        self._open.add(stream)
        if not stream.other.accepted.done():
            stream.other.accepted.set_result(None)

        async def handle() -> None:
            try:
                await handler(stream)
            finally:
                stream.close()

        task = asyncio.ensure_future(handle())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def forget(self, stream: MemoryStream) -> None:
        self._open.discard(stream)


class MemoryStream:
    """One end of a stream."""

    other: MemoryStream

    def __init__(self, link: MemoryLink) -> None:
        self._link = link
        self._messages: deque[Message] = deque()
        self._under_way = 0  # to the other end, and not received there
        self._ended: StreamClosed | None = None
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()  # messages leave in the order of the calls
        self.accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def closed(self) -> bool:
        return self._ended is not None

    async def send(self, head: bytes, body: memoryview) -> None:
        self._link._network.on_message(self._link.here, self._link.there)
        async with self._turn:
            while (self._link.is_dead or self._under_way >= MOST_WAITING) and self._ended is None:
                self._changed.clear()
                await self._changed.wait()
            self._check()
            self._under_way += 1
            self._link.put("message", self.other, Message(bytes(head), memoryview(bytes(body))))

    async def receive(self) -> Message:
        while not self._messages:
            self._check()
            self._changed.clear()
            await self._changed.wait()
        self.other._under_way -= 1
        self.other._changed.set()
        return self._messages.popleft()

    def take(self, message: Message) -> None:
        self._messages.append(message)
        self._changed.set()

    def close(self, reason: str = "") -> None:
        if self._ended is None:
            self._link.put("close", self.other, reason)
            self._messages.clear()
            self.end(StreamClosed(f"this side closed the stream: {reason}"))

    def end(self, error: StreamClosed) -> None:
        if self._ended is None:
            self._ended = error
            self._changed.set()
            self._link.forget(self)
            if not self.accepted.done():
                self.accepted.set_exception(error)
                self.accepted.exception()

    def _check(self) -> None:
        if self._ended is not None:
            raise StreamClosed(str(self._ended))


class _Wiring:
    """Meets other members on the network in memory."""

    def __init__(self, network: Network, name: str) -> None:
        self.hello = SimpleNamespace(name=name)
        self._network = network

    async def meet(self, key: Any, url: str) -> Any:
        return await self._network.meet(key.derive("place in memory", 16), self.hello.name)


class MemoryMember:
    """One member of an open group: its life, as `Group` drives it."""

    def __init__(
        self,
        network: Network,
        name: str,
        on_loss: str = "raise",
        patience_s: float = 0.0,
        knock: Callable[[], Awaitable[tuple[Link, str]]] | None = None,
    ) -> None:
        self.name = name
        self.network = network
        self.is_dead = False
        wiring: Any = _Wiring(network, name)
        self.life = GroupLife(wiring, on_loss=on_loss, patience_s=patience_s, size=None)
        self.joining = Joining(self.life, knock)
        self.exit = Exit(self.life, self.joining)

    def found(self) -> None:
        """Open a group, without a door."""
        self.life.entrance.is_hosting = True
        self.life.roster = self.life.roster.with_entry(self.life.links.me)
        self.life.member_state = MemberState(0, Epoch(0, (0,)), 0)

    async def join(self, founder: MemoryMember) -> None:
        """Come in as one who knew the code."""
        mine, theirs = self.network.link(self.name, founder.name)
        founder.life.entrance.seat(theirs)  # type: ignore[arg-type]
        self.joining.join(mine, "memory")  # type: ignore[arg-type]
        await self.joining.wait_seated()

    @property
    def is_host(self) -> bool:
        """Whether newcomers may come to this member."""
        return self.life.entrance.is_hosting and self.life.is_host and self.life.why_closed is None

    @property
    def seat(self) -> int:
        assert self.life.member_state is not None
        return self.life.member_state.me

    @property
    def epoch(self) -> Epoch:
        assert self.life.member_state is not None
        return self.life.member_state.epoch

    def kill(self) -> None:
        """As `kill -9` does. What of it is left here can only wait."""
        self.is_dead = True
        self.network.kill(self.name)

    async def close(self) -> None:
        if self.is_dead:
            self.network.bury(self.name)
        await self.exit.close()


async def grown(
    network: Network, size: int, on_loss: str = "raise", patience_s: float = 0.0
) -> list[MemoryMember]:
    """A group of that size in its first epoch, by rank; named `member 0` and so on."""
    members = [MemoryMember(network, f"member {number}", on_loss, patience_s) for number in range(size)]
    members[0].found()
    for member in members[1:]:
        await member.join(members[0])
    while len(members[0].life.links.newcomers()) < size - 1:
        await asyncio.sleep(0)
    await asyncio.gather(*(member.life.join_points.admit_newcomers("begin") for member in members))
    assert [member.epoch.members for member in members] == [tuple(range(size))] * size
    return members
