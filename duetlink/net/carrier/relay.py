"""Driver `relay`: the tunnel through a TURN server; where that does not come about, a TCP stream through one.

The tunnel needs UDP on its way, if only from the server on. The stream (RFC 6062) does not: it helps a side
that has no TURN server and no UDP. It is the second choice, since it takes two more allocations, and many a
server relays no TCP. The controlling side chooses, and tells.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from duetlink.errors import DuetError, PathUnavailable, RemoteProtocolError
from duetlink.net.carrier import ice, stream_relay
from duetlink.net.carrier.driver import Established, Session
from duetlink.net.carrier.signals import Signals

PATIENCE_S = 2.0  # with the tunnel, before a stream is tried as well
CONNECT_TIMEOUT_S = 7.2  # shorter than the kernel waits, so that it hears the reason

_TUNNEL, _STREAM = b"t", b"s"
_BEGIN, _CHOOSE = b"b", b"c"


async def establish(session: Session) -> Established:
    """Through a TURN server of either side, or one of each."""
    relay = _Relay(session)
    chosen: Established | None = None
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            chosen = await (relay.choose() if session.controlling else relay.follow())
        return chosen
    except TimeoutError:
        raise PathUnavailable("the other side's helper did not answer in time") from None
    finally:
        await relay.close(keep=chosen)


class _Relay:
    """This side of one attempt: two drivers, whose signals share the session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._signals = Signals(session, (_TUNNEL, _STREAM, _BEGIN, _CHOOSE))
        self._ways: dict[bytes, asyncio.Task[Established]] = {}
        self._tasks: list[asyncio.Task[Any]] = [asyncio.ensure_future(self._signals.distribute())]
        self._begin(_TUNNEL)

    async def choose(self) -> Established:
        """The controlling side: take the first way that comes about. Raises PathUnavailable."""
        tunnel = self._ways[_TUNNEL]
        await asyncio.wait((tunnel, self._tasks[0]), timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        if not _came_about(tunnel):
            await self._session.send(_BEGIN)
            self._begin(_STREAM)
        while True:
            for kind, way in self._ways.items():
                if _came_about(way):
                    await self._session.send(_CHOOSE + kind)
                    return way.result()
            await self._wait_any()

    async def follow(self) -> Established:
        """The other side. Raises PathUnavailable where neither way comes about, or not the one chosen."""
        begun = asyncio.ensure_future(self._signals.session(_BEGIN).receive())
        chosen = asyncio.ensure_future(self._signals.session(_CHOOSE).receive())
        self._tasks += [begun, chosen]
        while not chosen.done():
            await self._wait_any(begun, chosen)
            if begun.done() and _STREAM not in self._ways:
                self._begin(_STREAM)
        if (way := self._ways.get(chosen.result())) is None:
            raise RemoteProtocolError("the peer's helper chose a way that there is not")
        await asyncio.wait((way, self._tasks[0]), return_when=asyncio.FIRST_COMPLETED)
        if self._tasks[0].done():
            self._tasks[0].result()
        return way.result()

    async def close(self, keep: Established | None) -> None:
        """End everything but this way."""
        for task in (*self._tasks, *self._ways.values()):
            task.cancel()
        for done in await asyncio.gather(*self._ways.values(), *self._tasks, return_exceptions=True):
            if isinstance(done, Established) and done is not keep:
                await done.close()

    async def _wait_any(self, *others: asyncio.Task[bytes]) -> None:
        """Wait until something has happened. Raises PathUnavailable where nothing good can any more."""
        pending = [task for task in (*self._tasks[:1], *self._ways.values(), *others) if not task.done()]
        if self._tasks[0].done():
            self._tasks[0].result()
        if len(self._ways) == 2 and all(way.done() and not _came_about(way) for way in self._ways.values()):
            whys = dict.fromkeys(str(way.exception()) for way in self._ways.values())
            raise PathUnavailable("; ".join(whys))
        await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)

    def _begin(self, kind: bytes) -> None:
        drivers: dict[bytes, Callable[[Session], Awaitable[Established]]] = {
            _TUNNEL: ice.establish_relayed,
            _STREAM: stream_relay.establish,
        }
        self._ways[kind] = asyncio.ensure_future(drivers[kind](self._signals.session(kind)))


def _came_about(way: asyncio.Task[Established]) -> bool:
    if not way.done() or way.cancelled():
        return False
    error = way.exception()
    if error is not None and not isinstance(error, DuetError | OSError):
        raise error
    return error is None
