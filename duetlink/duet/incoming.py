"""One request of the peer's, from its arrival to its answer."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from duetlink.audit import entry
from duetlink.audit.entry import Entry
from duetlink.duet.asset import AssetInfo
from duetlink.duet.recorder import described
from duetlink.wire import schema_pb2 as pb

PENDING, APPROVED, DENIED, WITHDRAWN = "pending", "approved", "denied", "withdrawn"
PERSON = "person"  # who answered, unless it was a policy


@dataclass(slots=True)
class Incoming:
    """Written on the loop thread only."""

    number: int
    request_id: bytes
    asset: AssetInfo
    peer_name: str
    reason: str
    path: str
    arrived: datetime.datetime
    state: str = PENDING
    by: str = ""  # who answered: PERSON or `policy NAME`
    answer_reason: str = ""
    answered: datetime.datetime | None = None
    times: int = 1  # how often it was asked: a grant answers the next times
    offer: pb.TransferOffer | None = None  # what an approval let out: its transfer's number only

    def settle(self, state: str, by: str = "", reason: str = "") -> None:
        """It has this state from now on."""
        self.state, self.by, self.answer_reason = state, by, reason
        self.answered = None if state == PENDING else utc_now()

    def asked_entry(self, reason: str) -> Entry:
        """For the log: that it was asked, in these words of the peer's."""
        return described(entry.REQUEST, self.asset, request=self.number, reason=reason)

    def answered_entry(self, by: str = "") -> Entry:
        """For the log: how it was answered; by whom this time, where it was asked again."""
        return described(
            entry.ANSWER,
            self.asset,
            request=self.number,
            state=self.state,
            answer_reason=self.answer_reason,
            by=by or self.by,
        )

    def withdrawn_entry(self) -> Entry:
        """For the log: that the peer took it back."""
        return described(entry.WITHDRAWN, self.asset, request=self.number)


def utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
