"""One request of the peer's, from its arrival to its answer."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duetlink.base.audit import entry
from duetlink.base.audit.entry import Entry
from duetlink.base.runtime.holdings import Holdings
from duetlink.duet.answering.states import EXPIRED, PENDING
from duetlink.duet.objects.asset import AssetInfo, Content
from duetlink.duet.objects.recorder import described
from duetlink.errors import RequestAnswered

if TYPE_CHECKING:
    from duetlink.duet.answering.job import Job

WAITED_FOR = "a request waits for it"
INPUT = "a function that waits gets it"


@dataclass(slots=True)
class Incoming:
    """The loop's record of one request; `Request` shows it to a person. Written on the loop thread only."""

    number: int
    asset: AssetInfo
    content: Content | None  # what would leave, as long as the request waits; see `hold`
    peer_name: str
    reason: str
    arrived: datetime.datetime
    expires: datetime.datetime | None
    waiting: tuple[bytes, ...] = ()  # the askers
    state: str = PENDING
    by: str = ""  # who answered: PERSON, BUDGET or `policy NAME`
    answer_reason: str = ""
    answered: datetime.datetime | None = None
    times: int = 1  # number of questions for it, also those that its grant answered
    job: Job | None = None  # its result becomes `asset` and `content`
    inputs: list[Content] = field(default_factory=list, compare=False)  # assets that a function gets

    @property
    def grant_key(self) -> tuple[str, ...]:
        """The peer and the thing asked for: requests with equal values are answered by one approval."""
        return self.peer_name, *self.asset.identity

    def settle(self, state: str, by: str = "", reason: str = "") -> None:
        """Set the state and the answer. If the request is no longer pending, stop its job and release its
        inputs.
        """
        self.state, self.by, self.answer_reason = state, by, reason
        self.answered = None if state == PENDING else utc_now()
        if self.job is not None and state != PENDING:
            while self.inputs:
                self.inputs.pop().held.let_go(INPUT, self.number)
            self.job.stop()

    def check_pending(self) -> None:
        """Raise RequestAnswered if it has been answered or withdrawn."""
        if self.state != PENDING:
            raise RequestAnswered(
                f"request {self.number} for {self.asset.name!r} is {self.state}; only a pending one "
                "can be answered"
            )

    def hold(self, content: Content, holdings: Holdings) -> None:
        """Keep `content`, which would leave, in memory until the request is answered."""
        self.release()
        self.content = content
        content.held.title = content.held.title or f"{self.asset.name}, for request {self.number}"
        holdings.keep(content.held, WAITED_FOR, self.number)

    def hold_input(self, content: Content, holdings: Holdings) -> None:
        """Keep an asset that the function gets in memory until the request is answered."""
        self.inputs.append(content)
        content.held.title = content.held.title or f"an input of request {self.number}"
        holdings.keep(content.held, INPUT, self.number)

    def release(self) -> None:
        """Stop keeping the content in memory."""
        if self.content is not None:
            self.content.held.let_go(WAITED_FOR, self.number)
            self.content = None

    def asked_entry(self, reason: str) -> Entry:
        """Return the audit entry of a question, with the peer's reason."""
        return described(entry.REQUEST, self.asset, peer=self.peer_name, request=self.number, reason=reason)

    def answered_entry(self, by: str = "") -> Entry:
        """Return the audit entry of the answer. `by` is who answered this time, if it was asked again."""
        return described(
            entry.ANSWER,
            self.asset,
            peer=self.peer_name,
            request=self.number,
            state=self.state,
            answer_reason=self.answer_reason,
            by=by or self.by,
        )

    def withdrawn_entry(self) -> Entry:
        """Return the audit entry of a withdrawal by the peer or of an expiry."""
        state = EXPIRED if self.state == EXPIRED else ""
        return described(entry.WITHDRAWN, self.asset, peer=self.peer_name, request=self.number, state=state)


def utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
