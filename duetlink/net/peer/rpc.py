"""Calls over the control channel: ids, replies, deadlines and cancellation, with limits on both sides.

A call is one envelope with an id; its reply carries the same id in `reply_to`. At most MAX_CALLS may be in
flight: the caller waits, and the callee closes the link if there are more. Handlers start in the order in
which calls arrive, and a handler that does not await has finished before the next one starts. While there is
no connection, calls wait and their deadlines stop (`deadline.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from google.protobuf.message import Message

from duetlink.base.wire import failures
from duetlink.base.wire import schema_pb2 as pb
from duetlink.base.wire.envelope import pack, unpack
from duetlink.base.wire.fragments import MAX_MESSAGE_BYTES
from duetlink.errors import CallTimeout, DuetError, LimitExceeded, LinkClosed, RemoteProtocolError
from duetlink.net.peer.deadline import Deadline
from duetlink.net.peer.durable import DurableChannel

MAX_CALLS = 256

_BEFORE_START = frozenset(kind.DESCRIPTOR.full_name for kind in (pb.Introduction, pb.Bye, pb.Cancel))

M = TypeVar("M", bound=Message)
Handler = Callable[[M], Awaitable[Message]]


class Rpc:
    """One end of the control channel. All methods belong to the loop thread."""

    def __init__(self, channel: DurableChannel, *, call_timeout_s: float) -> None:
        self._channel = channel
        self._call_timeout_s = call_timeout_s
        self._ids = itertools.count(1)
        self._slots = asyncio.Semaphore(MAX_CALLS)
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._serving: dict[int, asyncio.Task[None]] = {}
        self._handlers: dict[str, Handler[Message]] = {}
        self._notices: dict[str, Callable[[Message], None]] = {}
        self._closed: LinkClosed | None = None
        self._paused = False
        # messages that arrive before `start`, if the peer is ready earlier
        self._early: list[tuple[pb.Envelope, Message]] | None = []
        self._early_bytes = 0
        channel.listen(self._received)

    def handle(self, kind: type[M], handler: Handler[M]) -> None:
        """Answer calls of message type `kind` with `handler`.

        Its errors are sent to the caller as failures.
        """
        self._handlers[kind.DESCRIPTOR.full_name] = cast("Handler[Message]", handler)

    def notice(self, kind: type[M], receiver: Callable[[M], None]) -> None:
        """Call `receiver` for notices of message type `kind`, in order."""
        self._notices[kind.DESCRIPTOR.full_name] = cast("Callable[[Message], None]", receiver)

    def start(self) -> None:
        """Handle early messages, then new ones. Call it when all handlers are registered."""
        early, self._early = self._early or [], None
        try:
            for envelope, body in early:
                self._dispatch(envelope, body)
        except RemoteProtocolError as error:
            self._channel.violated(error)

    async def call(self, body: Message, reply: type[M], *, timeout_s: float | None = None) -> M:
        """Call the peer and return its reply, of type `reply`.

        If the call is cancelled or late, the peer is asked to stop; it may or may not have acted by then.

        Raises:
            CallTimeout: there was no reply within `timeout_s` (default: settings.call_timeout_s).
            LinkClosed: the link closed first.
            RemoteProtocolError: the reply is of another type.
            DuetError: the failure that the peer reported, by type (`wire.failures`).
        """
        timeout_s = self._call_timeout_s if timeout_s is None else timeout_s
        call_id = next(self._ids)
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        try:
            async with self._deadline(timeout_s), self._slots:
                self._check_open()
                self._waiting[call_id] = future
                await self._channel.send(pack(body, call_id=call_id, deadline_s=timeout_s))
                answer = await future
        except TimeoutError:
            self.tell_nowait(pb.Cancel(call_id=call_id))
            raise CallTimeout(
                f"the peer did not answer {type(body).__name__} within {timeout_s:g} s; "
                "it may be busy or gone, see duet.state"
            ) from None
        except asyncio.CancelledError:
            self.tell_nowait(pb.Cancel(call_id=call_id))
            raise
        finally:
            self._waiting.pop(call_id, None)
        if isinstance(answer, pb.Failure):
            raise failures.from_wire(answer)
        if not isinstance(answer, reply):
            raise RemoteProtocolError(
                f"the peer answered {type(body).__name__} with {type(answer).__name__}, not {reply.__name__}"
            )
        return answer

    def pause(self) -> None:
        """Stop all deadlines, because there is no connection."""
        self._paused = True

    def resume(self) -> None:
        """Let all deadlines run again, because there is a connection."""
        self._paused = False

    def _deadline(self, time_s: float) -> Deadline:
        return Deadline(time_s, lambda: self._paused)

    def tell_nowait(self, body: Message) -> None:
        """Send a notice, however much is queued; do nothing if the link is closed."""
        if self._closed is None:
            with contextlib.suppress(LinkClosed):
                self._channel.send_nowait(pack(body))

    def close(self, error: LinkClosed) -> None:
        """Make all waiting calls raise `error`, and stop all handlers."""
        if self._closed is not None:
            return
        self._closed = error
        self._channel.fail(str(error))
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)
        for task in list(self._serving.values()):
            task.cancel()

    def _check_open(self) -> None:
        if self._closed is not None:
            raise type(self._closed)(str(self._closed))

    def _received(self, data: bytes) -> None:
        if self._closed is not None:
            return
        envelope, body = unpack(data)
        if envelope.reply_to:
            self._reply(envelope.reply_to, body)
        elif self._early is None or body.DESCRIPTOR.full_name in _BEFORE_START:
            self._dispatch(envelope, body)
        else:
            self._early_bytes += len(data)
            if self._early_bytes > MAX_MESSAGE_BYTES:
                raise LimitExceeded(
                    f"the peer sent over {MAX_MESSAGE_BYTES} bytes before this side was ready"
                )
            self._early.append((envelope, body))

    def _dispatch(self, envelope: pb.Envelope, body: Message) -> None:
        if envelope.id:
            self._serve(envelope, body)
        else:
            self._handle_notice(body)

    def _reply(self, call_id: int, body: Message) -> None:
        future = self._waiting.get(call_id)
        if future is not None and not future.done():  # otherwise the call was cancelled meanwhile
            future.set_result(body)

    def _handle_notice(self, body: Message) -> None:
        if isinstance(body, pb.Cancel):
            task = self._serving.get(body.call_id)
            if task is not None:
                task.cancel()
            return
        receiver = self._notices.get(body.DESCRIPTOR.full_name)
        if receiver is None:
            raise RemoteProtocolError(
                f"the peer sent {type(body).__name__}, which this side does not accept as a notice"
            )
        receiver(body)

    def _serve(self, envelope: pb.Envelope, body: Message) -> None:
        if isinstance(body, pb.Ping):  # answered without a task, since it measures the round trip
            self._channel.send_nowait(pack(pb.Done(), reply_to=envelope.id))
            return
        handler = self._handlers.get(body.DESCRIPTOR.full_name)
        if handler is None:
            raise RemoteProtocolError(
                f"the peer called {type(body).__name__}, which this side does not accept as a call"
            )
        if envelope.id in self._serving:
            raise RemoteProtocolError(f"the peer used call number {envelope.id} twice")
        if len(self._serving) >= 2 * MAX_CALLS:  # twice MAX_CALLS: cancelled calls may still be ending
            raise LimitExceeded(f"the peer made over {MAX_CALLS} calls at once")
        deadline_s = envelope.deadline_ms / 1000 or self._call_timeout_s
        task = asyncio.ensure_future(self._answer(envelope.id, handler, body, deadline_s))
        self._serving[envelope.id] = task
        task.add_done_callback(lambda _: self._serving.pop(envelope.id, None))

    async def _answer(
        self, call_id: int, handler: Handler[Message], body: Message, deadline_s: float
    ) -> None:
        try:
            async with self._deadline(deadline_s):  # the caller no longer waits after it
                reply = await handler(body)
        except DuetError as error:
            reply = failures.to_wire(error)
        except asyncio.CancelledError:
            return  # the caller cancelled, or the link closes: no reply is needed
        except Exception as error:
            reply = failures.to_wire(error)
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"handling {type(body).__name__} failed", "exception": error}
            )
        if self._closed is None:
            try:
                self._channel.send_nowait(pack(reply, reply_to=call_id))
            except LinkClosed:
                return
