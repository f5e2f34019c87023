"""`duet.asked`: the requests that this side has made, with their states."""

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
    """One request of this side, without its value. Changed on the loop thread only."""

    # the name of an asset; for a result this side's name, then the owner's (a line of Python)
    name: str
    reason: str
    number: int = -1  # set when the request is sent
    state: str = ASKING
    answer_reason: str = ""
    asked: datetime.datetime = field(default_factory=_now)
    answered: datetime.datetime | None = None
    task: asyncio.Task[object] | None = None  # None once it has ended

    def settle(self, state: str, words: str = "") -> None:
        """Set the state; the first one that is not a waiting state also sets the time of the answer."""
        if state not in WAITING and self.answered is None:
            self.answered = _now()
        self.state, self.answer_reason = state, words


class OwnRequest:
    """One request that this side has made, as `duet.asked` lists it."""

    def __init__(self, record: OwnRequestRecord, thread: LoopThread) -> None:
        self._record = record
        self._thread = thread

    @property
    def number(self) -> int:
        """The number of the request, counted from 0."""
        return self._record.number

    @property
    def name(self) -> str:
        """The name of the asset, or the line of Python that made the result, as the owner sees it."""
        return self._record.name

    @property
    def reason(self) -> str:
        """The reason that this side gave."""
        return self._record.reason

    @property
    def state(self) -> str:
        """`asking`, `pending`, `approved`, `denied`, `withdrawn`, `complete` or `failed`."""
        return self._record.state

    @property
    def answer_reason(self) -> str:
        """The owner's words on a denial, or the error of a request that failed."""
        return self._record.answer_reason

    @property
    def asked(self) -> datetime.datetime:
        return self._record.asked

    @property
    def answered(self) -> datetime.datetime | None:
        """The time at which the request was answered, withdrawn or failed; None while it waits."""
        return self._record.answered

    def withdraw(self) -> None:
        """Withdraw the request, or cancel its transfer. No effect once it has ended."""
        if (task := self._record.task) is not None:
            self._thread.call(task.cancel)


class OwnRequestTable(Listing[OwnRequest]):
    """The latest 200 requests of this side, oldest first."""

    @property
    def pending(self) -> list[OwnRequest]:
        """The requests that have no answer yet."""
        return [request for request in self if request.state in WAITING]

    def table(self) -> Table:
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
