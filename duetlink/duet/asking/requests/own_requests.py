"""`duet.asked`: what this side has asked the peer for, and what became of it."""

from __future__ import annotations

import asyncio
import datetime
from dataclasses import dataclass, field

from duetlink.base.runtime.loop import LoopThread
from duetlink.duet.display import Listing, Table

ASKING, PENDING, APPROVED, DENIED = "asking", "pending", "approved", "denied"
WITHDRAWN, COMPLETE, FAILED = "withdrawn", "complete", "failed"
WAITING = (ASKING, PENDING)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclass(slots=True)
class OwnRequestRecord:
    """One request of this side, without its value. Written on the loop thread only."""

    name: str  # of an asset; of a result, as this side calls it, then as its owner does: a line of Python
    reason: str
    number: int = -1  # once it is asked
    state: str = ASKING
    answer_reason: str = ""
    asked: datetime.datetime = field(default_factory=_now)
    answered: datetime.datetime | None = None
    task: asyncio.Task[object] | None = None  # until it has ended

    def settle(self, state: str, words: str = "") -> None:
        """It has this state from now on."""
        if state not in WAITING and self.answered is None:
            self.answered = _now()
        self.state, self.answer_reason = state, words


class OwnRequest:
    """One request of this side's: what it asks for, and what became of it."""

    def __init__(self, record: OwnRequestRecord, thread: LoopThread) -> None:
        self._record = record
        self._thread = thread

    @property
    def number(self) -> int:
        """Counted from 0 in the order of asking."""
        return self._record.number

    @property
    def name(self) -> str:
        """Of an asset; of a result the line of Python that made it, once its owner has looked at it."""
        return self._record.name

    @property
    def reason(self) -> str:
        """This side's words."""
        return self._record.reason

    @property
    def state(self) -> str:
        """`asking`, `pending`, `approved`, `denied`, `withdrawn`, `complete` or `failed`."""
        return self._record.state

    @property
    def answer_reason(self) -> str:
        """The owner's words, or why it failed."""
        return self._record.answer_reason

    @property
    def asked(self) -> datetime.datetime:
        return self._record.asked

    @property
    def answered(self) -> datetime.datetime | None:
        """When it was answered, withdrawn or failed; None while it waits."""
        return self._record.answered

    def withdraw(self) -> None:
        """Take it back, or cancel its transfer. Without effect once it has ended."""
        if (task := self._record.task) is not None:
            self._thread.call(task.cancel)


class OwnRequestTable(Listing[OwnRequest]):
    """The latest 200 requests of this side, oldest first."""

    @property
    def pending(self) -> list[OwnRequest]:
        """Those without an answer."""
        return [request for request in self if request.state in WAITING]

    def table(self) -> Table:
        """All of them."""
        rows = [
            (
                str(request.number),
                request.state,
                request.name,
                request.reason,
                request.answer_reason,
                request.asked.astimezone().strftime("%H:%M:%S"),
            )
            for request in self
        ]
        headers = ("#", "state", "object", "reason", "answer", "asked")
        return Table("Asked by you", headers, rows, "you have asked for nothing yet")
