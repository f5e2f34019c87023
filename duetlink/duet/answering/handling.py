"""A request with everything that the runner needs to answer it: its case, its askers, its policy decision."""

from __future__ import annotations

from dataclasses import dataclass, field

from duetlink.base.audit.entry import Entry
from duetlink.base.wire import schema_pb2 as pb
from duetlink.duet.answering.actions import Charged, Entries
from duetlink.duet.answering.incoming import Incoming
from duetlink.duet.answering.machine import Case, Phase
from duetlink.duet.answering.policies.book import Charging
from duetlink.duet.answering.policies.decision import Decision
from duetlink.duet.answering.policies.facts import Facts
from duetlink.duet.answering.policies.policy import Policy
from duetlink.duet.answering.states import PENDING
from duetlink.duet.objects.asset import Content
from duetlink.net.flight.body import Outgoing
from duetlink.net.link.transfer import Transfer


@dataclass(slots=True)
class Asker:
    """One question of the peer's, and the offer made for it."""

    request_id: bytes
    path: str  # the peer's best path when it asked; empty: none
    reason: str
    offer: pb.TransferOffer | None = None  # after it was sent, only the transfer's number
    outgoing: Outgoing | None = None  # until the release is recorded
    transfer: Transfer | None = None  # until the release is recorded; None: the offer contains the whole body
    # the recorded entry of an offer that contains the whole body, until it is sent
    release: Entry | None = None


@dataclass(slots=True, eq=False)
class Handling:
    """The runner's working record of one case. Used on the loop thread only."""

    request: Incoming
    case: Case = field(default_factory=Case)
    askers: dict[bytes, Asker] = field(default_factory=dict)
    decision: Decision | None = None  # what the policies decided, if they answered
    facts: Facts | None = None  # the facts of that decision
    charges: dict[Charged, Charging] = field(default_factory=dict)
    run_by: Policy | None = None  # the policy whose run of the job is going, or not answered yet
    is_again: bool = False  # a case of its own for a request that was granted before
    again_content: Content | None = None  # the content of that case

    @classmethod
    def resumed(cls, request: Incoming) -> Handling:
        """Make the handling of an earlier kernel's request, which has no askers."""
        phase = Phase.PENDING if request.state == PENDING else Phase.ENDED
        return cls(request, Case(phase, outcome=request.state))

    @classmethod
    def again(cls, request: Incoming, content: Content | None) -> Handling:
        """Make a case of its own for one more question for what `request` was granted."""
        return cls(request, is_again=True, again_content=content)

    @property
    def content(self) -> Content | None:
        return self.again_content if self.is_again else self.request.content

    def release(self) -> None:
        """Stop keeping the content in memory."""
        self.again_content = None
        if not self.is_again:
            self.request.release()

    @property
    def is_unmade(self) -> bool:
        """True if the request has a job whose result does not exist yet."""
        return self.request.job is not None and not self.request.job.made

    @property
    def is_open(self) -> bool:
        return self.case.phase is not Phase.ENDED

    def entries(self, what: Entries, asker: bytes = b"") -> tuple[Entry, ...]:
        """Return the lines for the audit log, in the request's present state; a question's line has its own
        reason.
        """
        request, waits = self.request, self.askers.get(asker)
        if what is Entries.WITHDRAWN:
            return (request.withdrawn_entry(),)
        asked = request.asked_entry(waits.reason if waits is not None else request.reason)
        answered = request.answered_entry()
        if what is Entries.ASKED_AND_ANSWERED:
            return asked, answered
        return (asked,) if what is Entries.ASKED else (answered,)
