"""Messages from one member to one other, by tag. They run at the same time as the collective operations.

A message has a form (which describes its arrays) and content. A small message travels in its offer. Of a
large one only the form does; the content follows when the receiver asks for it, so a message that no call has
asked for takes up no memory here, and blocks no other message.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from duetlink.errors import DuetError, LimitExceeded, OperationMismatch, RemoteProtocolError
from duetlink.groups.collectives.execution.frame import Frame, Kind, Numbered, Offer

EAGER_BYTES = 64 * 1024  # about the size of a link's buffers; saves small messages a round trip
CONTENT_BYTES = 1024 * 1024
MAX_FORM_BYTES = 8 * 1024 * 1024
MAX_WAITING = 1024  # unreceived offers of one member; beyond this nothing more is read from it


Moved = Callable[[int, int], None]  # called with the bytes of a message that have moved, and its size


class SendTo(Protocol):
    """The type of `Transport.send`."""

    def __call__(self, to: int, head: bytes, body: memoryview) -> Awaitable[None]: ...


@dataclass(frozen=True, slots=True)
class ReceivedOffer:
    """A received offer: answer it with `accept` or `refuse`."""

    of: int
    offer: Offer
    body: memoryview

    @property
    def form(self) -> bytes:
        return bytes(self.body[: self.offer.form_bytes])

    @property
    def size_bytes(self) -> int:
        """The size of the content, without the form."""
        return self.offer.size_bytes - self.offer.form_bytes

    @property
    def is_eager(self) -> bool:
        return self.offer.size_bytes <= EAGER_BYTES


@dataclass(slots=True)
class _ReceiveBuffer:
    """The buffer for the content of an accepted message. `into` is None after the receiver has stopped
    waiting.
    """

    into: memoryview | None
    left_bytes: int
    done: asyncio.Future[None]
    moved: Moved | None = None


@dataclass(frozen=True, slots=True)
class _PendingReceive:
    of: int | None
    tag: int
    future: asyncio.Future[ReceivedOffer]

    def fits(self, received: ReceivedOffer) -> bool:
        return self.tag == received.offer.tag and self.of in (None, received.of) and not self.future.done()


class Messages:
    """The messages of one member in one epoch. Belongs to the loop thread. `check` raises after the epoch's
    end.
    """

    def __init__(self, rank: int, send: SendTo, check: Callable[[], None]) -> None:
        self._rank = rank
        self._send = send
        self._check = check
        self._numbers = itertools.count()
        self._waiting: dict[int, list[ReceivedOffer]] = {}
        self._arrivals: list[ReceivedOffer] = []  # the same letters, in the order of their arrival
        self._pending: list[_PendingReceive] = []
        self._answers: dict[tuple[int, int], asyncio.Future[bool]] = {}
        self._receive_buffers: dict[tuple[int, int], _ReceiveBuffer] = {}
        self._room = asyncio.Event()
        self._failed = False

    async def send(
        self, to: int, tag: int, form: bytes, content: memoryview, moved: Moved | None = None
    ) -> None:
        """Send a message. A large one waits until it is received; cancelled before that, it is withdrawn.

        Raises:
            LimitExceeded: the form is larger than 8 MiB.
            OperationMismatch: the receiver waits for a value of another form.
        """
        self._check()
        if len(form) > MAX_FORM_BYTES:
            raise LimitExceeded(
                f"the form of a message takes {len(form)} bytes; {MAX_FORM_BYTES} are allowed"
            )
        offer = Offer(next(self._numbers) % 2**32, tag, len(form) + len(content), len(form))
        if offer.size_bytes <= EAGER_BYTES:
            await self._send(to, offer.to_wire(), memoryview(b"".join((form, content))))
            return
        key = to, offer.number
        answer = self._answers[key] = asyncio.get_running_loop().create_future()
        try:
            await self._send(to, offer.to_wire(), memoryview(form))
            if not await answer:
                raise OperationMismatch(
                    f"rank {to} refused a message with tag {tag}: it waits for another form"
                )
            head = Numbered(Kind.CONTENT, offer.number).to_wire()
            for start in range(0, len(content), CONTENT_BYTES):
                await self._send(to, head, content[start : start + CONTENT_BYTES])
                if moved is not None:
                    moved(min(start + CONTENT_BYTES, len(content)), len(content))
        except asyncio.CancelledError:
            with contextlib.suppress(DuetError):
                await self._send(to, Numbered(Kind.WITHDRAWAL, offer.number).to_wire(), memoryview(b""))
            raise
        finally:
            del self._answers[key]

    async def receive(self, of: int | None, tag: int) -> ReceivedOffer:
        """Wait for the next message with that tag, from that member or, if `of` is None, from any.

        A small message that has arrived can still be received after the epoch's end: its sender may have
        left.
        """
        pending = _PendingReceive(of, tag, asyncio.get_running_loop().create_future())
        for received in self._arrivals:
            if pending.fits(received):
                self._forget(received)
                return received
        self._check()
        self._pending.append(pending)
        try:
            return await pending.future
        except asyncio.CancelledError:
            if (
                pending.future.done()
                and not pending.future.cancelled()
                and pending.future.exception() is None
            ):
                self._deliver(pending.future.result())  # it arrived at the moment of the cancellation
            raise
        finally:
            with contextlib.suppress(ValueError):
                self._pending.remove(pending)

    async def accept(self, received: ReceivedOffer, into: memoryview, moved: Moved | None = None) -> None:
        """Copy the content of a message into `into`, which has its size."""
        if received.is_eager:
            into[:] = received.body[received.offer.form_bytes :]
            return
        self._check()
        if received.size_bytes == 0:  # all of it was form
            await self._answer(received, refused=False)
            return
        done = asyncio.get_running_loop().create_future()
        buffer = _ReceiveBuffer(into, received.size_bytes, done, moved)
        self._receive_buffers[received.of, received.offer.number] = buffer
        try:
            await self._answer(received, refused=False)
            await done
        finally:
            buffer.into = None

    async def refuse(self, received: ReceivedOffer) -> None:
        """Notify the sender of a message that it will not be received."""
        if not received.is_eager:
            await self._answer(received, refused=True)

    async def arrived(self, of: int, found: Frame, body: memoryview) -> None:
        """Handle a frame about messages from that member.

        Raises:
            RemoteProtocolError: that member may not send this now.
            LimitExceeded: the form of an offer is larger than 8 MiB.
        """
        if self._failed and not (isinstance(found, Offer) and self._is_kept(of, found)):
            return
        match found:
            case Offer():
                body = body.cast("B")
                self._check_offer(found, body)
                self._deliver(ReceivedOffer(of, found, body))
                while len(self._waiting.get(of, ())) > MAX_WAITING and not self._failed:
                    self._room.clear()
                    await self._room.wait()
            case Numbered(Kind.GRANT):
                answer = self._answers.get((of, found.number))
                if answer is not None and not answer.done():  # otherwise it crossed with a withdrawal
                    answer.set_result(not found.refused)
            case Numbered(Kind.WITHDRAWAL):
                self._withdraw(of, found.number)
            case Numbered(Kind.CONTENT):
                self._write_content(of, found.number, body)

    def fail(self, error: DuetError) -> None:
        """Raise this error in all sends and receives that wait."""
        self._failed = True
        waiting: list[asyncio.Future[ReceivedOffer] | asyncio.Future[bool] | asyncio.Future[None]] = []
        waiting += [pending.future for pending in self._pending]
        waiting += list(self._answers.values())
        waiting += [buffer.done for buffer in self._receive_buffers.values() if buffer.into is not None]
        for future in waiting:
            if not future.done():
                future.set_exception(error)
        for received in [received for received in self._arrivals if not received.is_eager]:
            self._forget(received)  # its content can no longer be asked for
        self._room.set()

    def _is_kept(self, of: int, offer: Offer) -> bool:
        """Decide whether an offer that comes after the epoch's end is kept for a late `receive`."""
        return offer.size_bytes <= EAGER_BYTES and len(self._waiting.get(of, ())) < MAX_WAITING

    def _check_offer(self, offer: Offer, body: memoryview) -> None:
        if offer.form_bytes > MAX_FORM_BYTES:
            raise LimitExceeded(f"the form of a message takes {offer.form_bytes} bytes")
        expected = offer.size_bytes if offer.size_bytes <= EAGER_BYTES else offer.form_bytes
        if len(body) != expected:
            raise RemoteProtocolError(f"an offer with {len(body)} bytes, where {expected} were announced")

    def _deliver(self, received: ReceivedOffer) -> None:
        for pending in self._pending:
            if pending.fits(received):
                pending.future.set_result(received)
                return
        self._waiting.setdefault(received.of, []).append(received)
        self._arrivals.append(received)

    def _forget(self, received: ReceivedOffer) -> None:
        self._waiting[received.of].remove(received)
        self._arrivals.remove(received)
        self._room.set()

    def _withdraw(self, of: int, number: int) -> None:
        for received in self._waiting.get(of, ()):
            if received.offer.number == number:
                self._forget(received)
                return
        buffer = self._receive_buffers.pop((of, number), None)
        if buffer is not None and not buffer.done.done():
            buffer.done.set_exception(OperationMismatch(f"rank {of} has taken its message back"))

    def _write_content(self, of: int, number: int, body: memoryview) -> None:
        buffer = self._receive_buffers.get((of, number))
        if buffer is None or len(body) > buffer.left_bytes:
            raise RemoteProtocolError(
                f"rank {of} sent {len(body)} bytes of a message that were not asked for"
            )
        if buffer.into is not None:
            start = len(buffer.into) - buffer.left_bytes
            buffer.into[start : start + len(body)] = body.cast("B")
        buffer.left_bytes -= len(body)
        if buffer.moved is not None and buffer.into is not None:
            buffer.moved(len(buffer.into) - buffer.left_bytes, len(buffer.into))
        if buffer.left_bytes == 0:
            del self._receive_buffers[of, number]
            if not buffer.done.done():
                buffer.done.set_result(None)

    async def _answer(self, received: ReceivedOffer, *, refused: bool) -> None:
        head = Numbered(Kind.GRANT, received.offer.number, refused).to_wire()
        await self._send(received.of, head, memoryview(b""))
