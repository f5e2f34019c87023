"""The commands that a room has not answered yet, and the time limit of the one that it is working on."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from duetlink.compute.worker.protocol.memory import close_all
from duetlink.errors import LocalProtocolError, RemoteProtocolError

MAX_CALLS = 1000


class Reply(NamedTuple):
    """The reply to a command. Its descriptors are of sealed memory; the receiver must close them."""

    content: bytes
    fds: tuple[int, ...]


@dataclass(slots=True, eq=False)
class PendingCommand:
    """One command that was sent. `reply` is cancelled if the caller no longer waits for it."""

    number: int
    timeout_s: float
    memory: bool  # the reply may come with memory
    reply: asyncio.Future[Reply]


class Calls:
    """The unanswered commands in the order in which they were sent; a room answers them in the same order.

    The time limit of a command begins when the previous one is answered. `on_late` is called with the command
    whose limit is over.
    """

    def __init__(self, on_late: Callable[[PendingCommand], None]) -> None:
        self._on_late = on_late
        self._waiting: deque[PendingCommand] = deque()
        self._made = 0
        self._timer: asyncio.TimerHandle | None = None

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def memory(self) -> bool:
        """True if the reply to the current command may come with memory."""
        return bool(self._waiting) and self._waiting[0].memory

    def next_number(self) -> int:
        """Return the number of the call that is added next. Raises LocalProtocolError if too many wait."""
        if len(self._waiting) >= MAX_CALLS:
            raise LocalProtocolError(f"{MAX_CALLS} calls are waiting for the room already")
        return self._made + 1

    def add(self, number: int, timeout_s: float, *, memory: bool = False) -> PendingCommand:
        """Register a call that was just sent. `number` must be `next_number()`."""
        assert number == self._made + 1
        self._made = number
        call = PendingCommand(number, timeout_s, memory, asyncio.get_running_loop().create_future())
        self._waiting.append(call)
        if len(self._waiting) == 1:
            self._await_first()
        return call

    def is_first(self, call: PendingCommand) -> bool:
        """True if the room is working on this call."""
        return bool(self._waiting) and self._waiting[0] is call

    def first(self, number: object) -> PendingCommand:
        """Return the current call. Raises RemoteProtocolError if it has another number."""
        if not self._waiting or type(number) is not int or number != self._waiting[0].number:
            raise RemoteProtocolError("it answered a command that it was not working on")
        return self._waiting[0]

    def answer(self, call: PendingCommand, outcome: Reply | Exception) -> None:
        """Finish the first call with a reply or an error, and start the time limit of the next one."""
        assert self.is_first(call)
        self._waiting.popleft()
        self._await_first()
        if call.reply.done():  # its caller no longer waits
            if isinstance(outcome, Reply):
                close_all(outcome.fds)
        elif isinstance(outcome, Reply):
            call.reply.set_result(outcome)
        else:
            call.reply.set_exception(outcome)

    def fail(self, make_error: Callable[[], Exception]) -> None:
        """Raise an error at the callers of all waiting calls."""
        failed = list(self._waiting)
        self._waiting.clear()
        self._await_first()
        for call in failed:
            if not call.reply.done():
                call.reply.set_exception(make_error())

    def _await_first(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            first = self._waiting[0]
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(first.timeout_s, self._on_late, first)
