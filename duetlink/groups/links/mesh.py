"""The transport of one epoch, or of one torch group: a stream to every other member, over its link.

Each message carries the epoch, the sender's rank and a number, which the receiver checks. A stream belongs to
one link and one epoch, so a message that does not fit comes from a member that breaks the protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

from duetlink.base.reraise import reraise
from duetlink.errors import (
    CallTimeout,
    DuetError,
    LimitExceeded,
    LinkClosed,
    LocalProtocolError,
    PathUnavailable,
    RemoteProtocolError,
    StreamClosed,
)
from duetlink.groups.links.transport import Message
from duetlink.net.streams.stream import Stream

MOST_HEAD_BYTES = 4096
MOST_BODY_BYTES = 8 * 1024 * 1024

_PREFIX = struct.Struct("<QHQ")  # epoch, rank of the sender, number of the message
_LEAVING = 2**64 - 1  # in place of a message number: the sender's last message
_WINDOW_BYTES = 32 * 1024 * 1024  # four of the largest messages

# A stream that ends is nearly always the first sign that a member is lost. The group finds out which one and
# calls `fail` with the error; a send or receive waits for that at most this long.
_TELL_S = 30.0

# A cancelled send waits this long for a message that is partly sent, before it closes the stream.
_FINISH_S = 2.0


class LinkWithStreams(Protocol):
    """The `streams` of a link, as a mesh uses them."""

    async def open(self, purpose: str, *, window_bytes: int = ...) -> Stream: ...
    def on_open(
        self,
        purpose: str,
        handler: Callable[[Stream], Coroutine[Any, Any, None]],
        *,
        window_bytes: int = ...,
        most: int = ...,
    ) -> None: ...
    def off(self, purpose: str) -> None: ...


class Mesh:
    """The `Transport` over links. Used on the loop thread, from construction until `close`."""

    def __init__(
        self,
        epoch: int,
        rank: int,
        streams: Sequence[LinkWithStreams | None],
        on_violation: Callable[[int, RemoteProtocolError], None],
        *,
        purpose: str | None = None,
        why: Callable[[int, DuetError], Awaitable[DuetError]] | None = None,
        patient: bool = False,
    ) -> None:
        """Open the streams to the other members, in the background.

        Args:
            epoch: its number, which every message carries.
            rank: this member's.
            streams: the `streams` of the links, by rank; None for this member, and for one that is lost.
            on_violation: called with the rank of a member that breaks the protocol.
            purpose: the name under which streams are opened; by default it names the epoch.
            why: returns the error to raise for a rank whose stream has ended. By default that is the error
                given to `fail`, which is awaited for up to 30 s.
            patient: keep trying to open a stream to a member that makes its mesh long after the others; the
                caller limits the wait.
        """
        self.epoch = epoch
        self._rank = rank
        self._size = len(streams)
        self._purpose = f"group/epoch-{epoch}" if purpose is None else purpose
        self._links = streams
        self._on_violation = on_violation
        self._why = self._reason if why is None else why
        self._patient = patient
        self._left: set[int] = set()  # ranks that have sent their last message
        self._ended: asyncio.Future[DuetError] = asyncio.get_running_loop().create_future()
        self._streams: dict[int, asyncio.Future[Stream]] = {}
        self._opening: list[asyncio.Task[None]] = []
        self._sending: set[asyncio.Task[None]] = set()
        self._sent = [0] * self._size
        self._received = [0] * self._size
        for other, link in enumerate(streams):
            if other != rank:
                self._streams[other] = asyncio.get_running_loop().create_future()
                if link is None:
                    self._streams[other].set_exception(StreamClosed(f"there is no link to rank {other}"))
                    self._streams[other].exception()
                elif rank < other:
                    self._opening.append(asyncio.ensure_future(self._open(other, link)))
                else:
                    link.on_open(self._purpose, self._taker(other), window_bytes=_WINDOW_BYTES, most=1)

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def size(self) -> int:
        return self._size

    async def send(self, to: int, head: bytes, body: memoryview) -> None:
        """See `Transport`. Also raises LocalProtocolError for a head over 4 KiB or a body over 8 MiB."""
        if len(head) > MOST_HEAD_BYTES or body.nbytes > MOST_BODY_BYTES:
            raise LocalProtocolError(
                f"a message between members has at most {MOST_HEAD_BYTES} bytes of head and "
                f"{MOST_BODY_BYTES} of body, not {len(head)} and {body.nbytes}"
            )
        try:
            stream = await self._stream(to)
            # nothing is awaited between taking the number and sending, so numbers stay in order
            prefix = _PREFIX.pack(self.epoch, self._rank, self._sent[to])
            self._sent[to] += 1
            sending = asyncio.ensure_future(stream.send(prefix + head, body))
            self._sending.add(sending)
            sending.add_done_callback(self._has_left)
            try:
                await asyncio.shield(sending)
            except asyncio.CancelledError:
                await asyncio.wait([sending], timeout=_FINISH_S)
                if not sending.done():
                    sending.cancel()
                    stream.close("a message was cancelled")  # else its number would be missing
                await asyncio.gather(sending, return_exceptions=True)
                raise
        except (StreamClosed, LinkClosed, PathUnavailable) as error:
            raise await self._why(to, error) from None

    async def receive(self, of: int) -> Message:
        """See `Transport`."""
        while (message := await self._next(of)) is None:
            pass  # it leaves; its stream ends when all others have received that
        return message

    async def wait_open(self) -> None:
        """Wait until there is a stream to every other member. Raises as `receive`."""
        for other in self._streams:
            try:
                await self._stream(other)
            except (StreamClosed, LinkClosed, PathUnavailable) as error:
                raise await self._why(other, error) from None

    async def leave(self) -> None:
        """Send the last message to all, and return when every other member has sent its own or is gone.

        Messages that arrive until then are dropped, so nothing else may be receiving. A member that does not
        leave keeps this waiting: the caller sets a limit.
        """

        async def part_from(other: int) -> None:
            with contextlib.suppress(DuetError):
                stream = await self._stream(other)
                await stream.send(_PREFIX.pack(self.epoch, self._rank, _LEAVING), memoryview(b""))
                while other not in self._left:
                    await self._next(other)

        await asyncio.gather(*(part_from(other) for other in self._streams))

    def fail(self, error: DuetError) -> None:
        """End the epoch: waiting and later calls raise this error. Only the first call has an effect."""
        if not self._ended.done():
            self._ended.set_result(error)
            for other, link in enumerate(self._links):
                if link is not None and other < self._rank:
                    link.off(self._purpose)
            for opening in self._opening:
                opening.cancel()
            for found in self._streams.values():
                if not found.done():
                    found.set_exception(reraise(error))
                    found.exception()  # marks it as retrieved, since it may never be awaited
                elif found.exception() is None:
                    found.result().close(f"epoch {self.epoch} is over")

    async def close(self) -> None:
        """Free everything. Safe to call twice."""
        self.fail(LinkClosed("the group is closed"))
        await asyncio.gather(*self._opening, *self._sending, return_exceptions=True)

    # -- inside ----------------------------------------------------------------------------------------------

    async def _stream(self, other: int) -> Stream:
        if self._ended.done():
            raise reraise(self._ended.result())
        return await asyncio.shield(self._streams[other])

    def _has_left(self, sending: asyncio.Task[None]) -> None:
        self._sending.discard(sending)
        if not sending.cancelled():
            sending.exception()  # marks it as retrieved: a caller that was cancelled twice does not ask

    async def _open(self, other: int, link: LinkWithStreams) -> None:
        found = self._streams[other]
        try:
            stream = await self._opened(link)
        except (StreamClosed, LinkClosed, PathUnavailable, CallTimeout) as error:
            if not found.done():
                found.set_exception(StreamClosed(str(error)))
                found.exception()
        else:
            if found.done():
                stream.close()
            else:
                found.set_result(stream)

    async def _opened(self, link: LinkWithStreams) -> Stream:
        while True:
            try:
                return await link.open(self._purpose, window_bytes=_WINDOW_BYTES)
            except CallTimeout:
                if not self._patient:
                    raise

    def _taker(self, other: int) -> Callable[[Stream], Coroutine[Any, Any, None]]:
        async def take(stream: Stream) -> None:
            if not self._streams[other].done():
                self._streams[other].set_result(stream)
                await asyncio.shield(self._ended)  # the stream is closed when this returns

        return take

    async def _next(self, of: int) -> Message | None:
        """Return the next message of that member, or None for its last one."""
        try:
            message = await (await self._stream(of)).receive()
        except (StreamClosed, LinkClosed, PathUnavailable) as error:
            raise await self._why(of, error) from None
        try:
            return self._checked(of, message)
        except RemoteProtocolError as error:
            self._on_violation(of, error)
            raise

    async def _reason(self, of: int, error: DuetError) -> DuetError:
        """Wait for the error given to `fail`, at most `_TELL_S`; then return the stream's own error."""
        try:
            async with asyncio.timeout(_TELL_S):
                return reraise(await asyncio.shield(self._ended))
        except TimeoutError:
            return error

    def _checked(self, of: int, message: Message) -> Message | None:
        head, body = message.head, message.body
        if len(head) > _PREFIX.size + MOST_HEAD_BYTES or len(body) > MOST_BODY_BYTES:
            raise LimitExceeded(
                f"rank {of} sent a message of {len(head)} and {len(body)} bytes; a head has at most "
                f"{MOST_HEAD_BYTES} bytes, a body {MOST_BODY_BYTES}"
            )
        if len(head) < _PREFIX.size:
            raise RemoteProtocolError(f"rank {of} sent a message whose head has {len(head)} bytes")
        epoch, rank, number = _PREFIX.unpack_from(head)
        if epoch != self.epoch:
            raise RemoteProtocolError(f"rank {of} sent a message of epoch {epoch} in epoch {self.epoch}")
        if rank != of:
            raise RemoteProtocolError(f"rank {of} sent a message in the name of rank {rank}")
        if of in self._left:
            raise RemoteProtocolError(f"rank {of} sent a message after it had left")
        if number == _LEAVING:
            self._left.add(of)
            return None
        if number != self._received[of]:
            raise RemoteProtocolError(
                f"rank {of} sent message {number} where message {self._received[of]} was due: repeated, or "
                "out of order"
            )
        self._received[of] += 1
        # a body that came in one Arrow buffer has another format, which cannot be copied into a byte view
        return Message(head[_PREFIX.size :], body.cast("B"))
