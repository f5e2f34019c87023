"""The commands that a room has not answered yet, and how long it may take for the one that it is at."""

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
    """What a command gave. The descriptors are of sealed memory, and the receiver's to close."""

    content: bytes
    fds: tuple[int, ...]


@dataclass(slots=True, eq=False)
class PendingCommand:
    """One command. Whoever has sent it may have given it up: then `reply` is cancelled."""

    number: int
    timeout_s: float
    memory: bool  # whether its reply may come with memory
    reply: asyncio.Future[Reply]


class Calls:
    """In the order that they were sent, which is the order that they are answered in."""

    def __init__(self, on_late: Callable[[PendingCommand], None]) -> None:
        self._on_late = on_late
        self._waiting: deque[PendingCommand] = deque()
        self._made = 0
        self._timer: asyncio.TimerHandle | None = None

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def memory(self) -> bool:
        """Whether the room is at a call whose reply may come with memory."""
        return bool(self._waiting) and self._waiting[0].memory

    def next_number(self) -> int:
        """Of the call that is added next. Raises LocalProtocolError where too many wait."""
        if len(self._waiting) >= MAX_CALLS:
            raise LocalProtocolError(f"{MAX_CALLS} calls wait for the room already")
        return self._made + 1

    def add(self, number: int, timeout_s: float, *, memory: bool = False) -> PendingCommand:
        """A call that was sent just now."""
        assert number == self._made + 1
        self._made = number
        call = PendingCommand(number, timeout_s, memory, asyncio.get_running_loop().create_future())
        self._waiting.append(call)
        if len(self._waiting) == 1:
            self._await_first()
        return call

    def is_first(self, call: PendingCommand) -> bool:
        """Whether the room is at it."""
        return bool(self._waiting) and self._waiting[0] is call

    def first(self, number: object) -> PendingCommand:
        """The one that the room is at. Raises RemoteProtocolError where it has another number."""
        if not self._waiting or type(number) is not int or number != self._waiting[0].number:
            raise RemoteProtocolError("it answers what it was not asked")
        return self._waiting[0]

    def answer(self, call: PendingCommand, outcome: Reply | Exception) -> None:
        """The first call is done; the room is at the next one from now on."""
        assert self.is_first(call)
        self._waiting.popleft()
        self._await_first()
        if call.reply.done():  # nobody waits any more
            if isinstance(outcome, Reply):
                close_all(outcome.fds)
        elif isinstance(outcome, Reply):
            call.reply.set_result(outcome)
        else:
            call.reply.set_exception(outcome)

    def fail(self, make_error: Callable[[], Exception]) -> None:
        """None of them will be answered."""
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
