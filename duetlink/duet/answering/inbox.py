"""Receives the peer's questions and the person's answers, and finds the request that each belongs to.

The state machine (`machine.py`) decides what follows, and the runner (`runner.py`) performs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
from collections.abc import Iterable

from duetlink.base.events import Sink
from duetlink.base.wire import schema_pb2 as pb
from duetlink.duet.answering import work
from duetlink.duet.answering.events import (
    Answered,
    AskedAgain,
    Event,
    Fail,
    Joined,
    No,
    PeerGone,
    RequestArrived,
    Retired,
    Withdrawn,
    Yes,
)
from duetlink.duet.answering.grants import Grants
from duetlink.duet.answering.handling import Asker, Handling
from duetlink.duet.answering.incoming import Incoming, utc_now
from duetlink.duet.answering.job import Job, ProgramJob
from duetlink.duet.answering.job_intake import Arrival, JobIntake
from duetlink.duet.answering.jobs import Jobs
from duetlink.duet.answering.machine import Phase
from duetlink.duet.answering.pace import Pace
from duetlink.duet.answering.persistence import Persistence
from duetlink.duet.answering.policies.book import PolicyBook
from duetlink.duet.answering.policies.facts import Facts
from duetlink.duet.answering.policies.policy import APPROVE
from duetlink.duet.answering.programs import Programs
from duetlink.duet.answering.queue import Questions, Queue
from duetlink.duet.answering.releases import Releases
from duetlink.duet.answering.runner import Runner, answer_of
from duetlink.duet.answering.states import BUDGET, NO_LOG, PENDING, PERSON
from duetlink.duet.objects.asset import REQUEST_ID_BYTES, AssetInfo, Content
from duetlink.duet.objects.catalogue import Catalogue
from duetlink.duet.objects.decoding import Decoding
from duetlink.duet.objects.recorder import Recorder
from duetlink.errors import (
    AuditBroken,
    AuditUnavailable,
    DuetError,
    LimitExceeded,
    RemoteProtocolError,
)
from duetlink.net.link.link import Link
from duetlink.settings import Settings

MAX_REASON = 2000  # characters
MAX_ASKERS = 100  # of one request
MAX_EXPIRES_S = 366 * 24 * 3600

_SETTLING_S = 5.0

_log = logging.getLogger(__name__)


class Inbox:
    """The peer's requests in order of arrival. Used on the loop thread only."""

    def __init__(
        self,
        catalogue: Catalogue,
        settings: Settings,
        recorder: Recorder,
        policies: PolicyBook,
        programs: Programs,
        decoding: Decoding,
        persistence: Persistence,
        sink: Sink,
    ) -> None:
        self.catalogue = catalogue
        self.settings = settings
        self.recorder = recorder
        self.policies = policies
        self._sink = sink
        self.programs = programs
        self.planned_charges = programs.planned_charges
        self.jobs = Jobs(catalogue, settings, recorder, decoding, sink, programs)
        self._intake = JobIntake(
            catalogue, programs, settings.max_received_bytes, self._held_bytes, self._is_paid
        )
        self._persistence = persistence
        self._grants = Grants(persistence)
        self._releases = Releases(catalogue, recorder)
        self._runner = Runner(
            self._releases,
            recorder,
            policies,
            self.jobs,
            self._grants,
            persistence,
            Pace(settings.answer_grid_s),
            sink,
            self._call_person,
            self._ended,
        )
        self._queue = Queue(self._grants.is_granted_by, self._forgotten)
        self._questions = Questions(self._releases.is_moving)
        self._link: Link | None = None
        self._arrived = asyncio.Event()
        self._statistics = asyncio.Lock()  # two questions must not both take the one that was charged before
        self._programs = programs
        catalogue.answer_for(self)

    def attach(self, link: Link) -> None:
        """Start to answer the peer of this link."""
        self._link = link
        self.jobs.attach(link)
        self._intake.attach(link)
        self._releases.attach(link)
        link.rpc.handle(pb.Ask, self._asked)
        link.rpc.notice(pb.Withdraw, self._withdrawn)

    async def forget_peer(self) -> None:
        """Forget the questions of a peer that has left for good; its link is closed. Its pending requests
        stay pending without askers, as after a restart, and the next peer gets the answer when it asks again.
        """
        with contextlib.suppress(TimeoutError):
            # the closed link makes each answer that is being sent fail
            async with asyncio.timeout(_SETTLING_S):
                while any(handling.case.phase is not Phase.PENDING for handling in self._queue.open):
                    self._runner.stepped.clear()
                    await self._runner.stepped.wait()
        for handling in self._queue.open:
            self._runner.handle(handling, PeerGone())
            handling.askers.clear()
        self._questions = Questions(self._releases.is_moving)

    def resume(self, requests: list[Incoming], granted: Iterable[Incoming]) -> None:
        """Load the requests and grants of an earlier kernel. These requests have no askers: a person may
        answer them, and the peer gets the answer when it asks again. Policies answer only when it asks.
        """
        self._grants.resume(granted)
        self._queue.resume(requests)
        for handling in self._queue.open:
            self._runner.start_timer(handling)

    async def restore_job(self, request: Incoming, content: bytes) -> None:
        """Restore the job of a request from the bytes that an earlier kernel saved. Call it before `resume`.
        Raises ValueError: the bytes are no job.
        """
        job = request.job = await asyncio.to_thread(work.read, content, request.asset)
        if job.claim is not None:
            # then the run finds the charge in the ledger
            with contextlib.suppress(AuditUnavailable, AuditBroken):
                assets = request.asset.sources
                job.is_charged = not await asyncio.to_thread(self._programs.unpaid, assets, job.key)

    async def close(self) -> None:
        """Stop the jobs that run; their rooms are gone when this returns."""
        await self._runner.close()
        await self.jobs.close()

    def changed(self) -> None:
        """Refresh what is displayed."""
        self._sink.changed()

    # -- the queue -------------------------------------------------------------------------------------------

    @property
    def requests(self) -> list[Incoming]:
        """The open requests and the latest answered ones. Any thread may read it."""
        return self._queue.requests

    @property
    def pending(self) -> list[Incoming]:
        return self._queue.pending

    def _ended(self, handling: Handling) -> None:
        self._questions.end(handling)
        if not handling.is_again:
            self._queue.end(handling)

    def _forgotten(self, request: Incoming) -> None:
        self._grants.forget(request)
        self._persistence.forgotten(request)

    async def wait_pending(self) -> Incoming:
        """Return the oldest request that waits for a person; wait until there is one."""
        while True:
            for request in self.pending:
                by_policy = self._queue[request.number].run_by is not None
                # a running job does not wait for a person
                if request.job is None or not (request.job.busy or by_policy):
                    return request
            self._arrived.clear()
            await self._arrived.wait()

    def _call_person(self) -> None:
        self._arrived.set()
        self._sink.changed()

    def _held_bytes(self) -> int:
        return sum(request.job.held_bytes for request in self.pending if request.job is not None)

    # -- questions of the peer -------------------------------------------------------------------------------

    async def _asked(self, ask: pb.Ask) -> pb.Answer:
        """Answer a question: by a grant, a policy or a budget, or with "pending"."""
        self._check_number(ask.request_id)
        try:
            async with self._statistics if ask.statistic else contextlib.nullcontext():
                arrival = await self._intake.take(ask)
                self._check_number(ask.request_id)
                handling, event = self._route(ask, arrival)
        except AuditUnavailable:
            return pb.Answer(request_id=ask.request_id, state=pb.Answer.DENIED, reason=NO_LOG)
        handling.askers[ask.request_id] = Asker(ask.request_id, ask.path, ask.reason[:MAX_REASON])
        self._questions.add(ask.request_id, handling)
        reply = await self._runner.run(handling, event)
        assert reply is not None
        answer = self._releases.answer(handling, reply)
        answer.request_id = ask.request_id
        return answer

    def _check_number(self, number: bytes) -> None:
        if len(number) != REQUEST_ID_BYTES:
            raise RemoteProtocolError(f"a request's number has {REQUEST_ID_BYTES} bytes")
        known = self._questions.get(number)
        if known is not None and known.is_open:
            raise RemoteProtocolError("a request of this number is pending")

    def _route(self, ask: pb.Ask, arrival: Arrival) -> tuple[Handling, Event]:
        """Find the case that a question belongs to, or make one. Return it with the event that the question
        is to it. Rules are tried in order.
        """
        assert self._link is not None
        runs = arrival.job is not None and arrival.job.runs_on_arrival
        if isinstance(arrival.job, ProgramJob) and arrival.job.is_paid:  # its budget is the owner's approval
            handling = self._unanswered(arrival.info) or self._enter(ask, arrival)
            return handling, RequestArrived(ask.request_id, Yes(BUDGET), handling.is_unmade, runs=True)
        grant_key = (self._link.peer_name, *arrival.info.identity)
        granted = self._grants.find(grant_key)
        if granted is not None and granted.by == PERSON:
            again = Handling.again(granted.request, arrival.content)
            return again, AskedAgain(ask.request_id, Yes(PERSON))
        facts = Facts.of(arrival.info, self._link.peer_name)
        decision = self.policies.decide(facts)
        if granted is not None and decision.action == APPROVE:
            again = Handling.again(granted.request, arrival.content)
            again.decision, again.facts = decision, facts
            return again, AskedAgain(ask.request_id, Yes(decision.by, is_charged=True))
        answer, same = answer_of(decision), self._same(ask, grant_key)
        is_asked = same is not None and bool(same.request.waiting)
        if same is not None and answer is None and (is_asked or not runs):
            return same, Joined(ask.request_id)
        if same is None or is_asked:
            same = self._enter(ask, arrival, waits=not isinstance(answer, No))
        # otherwise it is a request of an earlier kernel, asked again, which is run or answered now
        same.decision, same.facts = decision, facts
        return same, RequestArrived(ask.request_id, answer, same.is_unmade, runs and same.is_unmade)

    def _same(self, ask: pb.Ask, grant_key: tuple[str, ...]) -> Handling | None:
        """Return the pending request for the same thing with the same reason, if one more question may join
        it.
        """
        reason = ask.reason[:MAX_REASON]
        for request in self.pending:
            if _joins(request.grant_key, grant_key) and request.reason == reason and not ask.expires_s:
                has_room = request.expires is None and len(request.waiting) < MAX_ASKERS
                return self._queue[request.number] if has_room else None
        return None

    def _is_paid(self, info: AssetInfo) -> bool:
        return self._unanswered(info) is not None

    def _unanswered(self, info: AssetInfo) -> Handling | None:
        """Return the request for this private statistic that an earlier kernel charged and did not answer."""
        assert self._link is not None
        grant_key = (self._link.peer_name, *info.identity)
        for request in self.pending:
            is_paid = isinstance(request.job, ProgramJob) and request.job.is_paid
            if is_paid and not request.waiting and request.grant_key[:-1] == grant_key[:-1]:
                return self._queue[request.number]
        return None

    def _enter(self, ask: pb.Ask, arrival: Arrival, *, waits: bool = True) -> Handling:
        """Make a new request and add it to the queue. If it `waits` for an answer, save its job for a
        restart. Raises LimitExceeded, and ValueRefused if the saved jobs take up too much already.
        """
        assert self._link is not None
        limit = self.settings.max_pending_requests
        if len(self.pending) >= limit:
            raise LimitExceeded(
                f"{limit} requests are waiting for an answer, which is the limit; wait, or withdraw some"
            )
        now = utc_now()
        request = Incoming(
            self._queue.next_number(),
            arrival.info,
            None,
            self._link.peer_name,
            ask.reason[:MAX_REASON],
            now,
            _after(now, ask.expires_s),
        )
        if arrival.content is not None:
            request.hold(arrival.content, self.catalogue.holdings)
        if arrival.job is not None:
            self._hold_job(request, arrival.job, waits)
        self._persistence.request(request)
        return self._queue.add(request)

    def _hold_job(self, request: Incoming, job: Job, waits: bool) -> None:
        request.job = job
        inputs = [self.catalogue.find_mine(name, revision).content for name, revision in job.whole_assets]
        if waits:
            self._persistence.keep_work(request, work.pieces(job))
        for content in inputs:
            request.hold_input(content, self.catalogue.holdings)

    # -- answers of a person or a policy ---------------------------------------------------------------------

    async def approve(self, request: Incoming) -> None:
        """Grant the peer this revision of the asset, and answer every pending request for it.

        Raises:
            RequestAnswered: it was answered or withdrawn before.
            AssetNotFound, AssetChanged: the object is no longer shared.
            AuditUnavailable: it could not be recorded; nothing has left, and the request is pending.
            LinkClosed: the peer is gone.
        """
        request.check_pending()
        self.catalogue.check_offered(request.asset)
        failed: DuetError | None = None
        others = [
            same for same in self.pending if same is not request and same.grant_key == request.grant_key
        ]
        for same in (request, *others):
            try:
                await self._runner.run(self._queue[same.number], Answered(Yes(PERSON)))
            except DuetError as error:  # the others are answered nevertheless
                failed = failed or error
        if failed is not None:
            raise failed

    async def refuse(self, request: Incoming, answer: No | Fail) -> None:
        """Answer no, or that the run failed; the peer gets the reason. Raises RequestAnswered, LinkClosed."""
        request.check_pending()
        try:
            await self._runner.run(self._queue[request.number], Answered(answer))
        finally:
            await self._persistence.written()

    async def examine(self) -> None:
        """Let the policies answer the pending requests. A request that no policy answers stays pending."""
        for request in self.pending:
            if request.state != PENDING or not request.waiting:  # answered meanwhile, or without askers
                continue
            handling = self._queue[request.number]
            answered = self._runner.decide(handling)
            if answered.answer is None or not self._may_answer(handling, answered):
                continue
            try:
                await self._runner.run(handling, answered)
            except DuetError as error:
                by = answered.answer.by
                _log.warning("request %d was not answered by %s: %s", request.number, by, error)

    def _may_answer(self, handling: Handling, answered: Answered) -> bool:
        """Return whether the policies' present decision may be carried out.

        While a run that a policy has started is going, only a refusal may. An approval must not start a run
        that is going already, nor one that has failed, unless its policy says what to report of failures.
        """
        job, is_yes = handling.request.job, isinstance(answered.answer, Yes)
        if handling.run_by is not None:
            return answered.is_unmade and not is_yes
        if job is None or not answered.is_unmade or not is_yes:
            return True
        assert handling.decision is not None
        assert handling.decision.policy is not None
        return not job.busy and (job.failure is None or handling.decision.policy.failures != "")

    # -- withdrawals and retired assets ----------------------------------------------------------------------

    def _withdrawn(self, withdraw: pb.Withdraw) -> None:
        handling = self._questions.get(withdraw.request_id)
        if handling is not None:
            self._runner.handle(handling, Withdrawn(withdraw.request_id))
            if handling.case.phase is Phase.PENDING:  # it has other askers
                self._questions.drop(withdraw.request_id, handling)

    def asset_retired(self, info: AssetInfo, why: str) -> None:
        """Implement `AssetRequests`: end the requests and grants of a revision that is no longer shared."""
        self.programs.retired(info.name, info.revision)
        for request in self._grants.retire(info):
            self._queue.retired(request)
        for handling in self._queue.open:
            if (info.name, info.revision) in handling.request.asset.sources:
                self._runner.handle(handling, Retired(why))

    def asset_continued(self, info: AssetInfo, content: Content) -> None:
        """Implement `AssetRequests`: give pending requests the new content of an asset whose revision is the
        same.
        """
        for request in self.pending:
            if request.asset.identity == info.identity:
                request.asset = info
                request.hold(content, self.catalogue.holdings)
                self._persistence.request(request)
            elif request.job is not None and (info.name, info.revision) in request.job.whole_assets:
                request.hold_input(content, self.catalogue.holdings)
        self._sink.changed()


def _joins(known: tuple[str, ...], asked: tuple[str, ...]) -> bool:
    """Return True if both keys mean the same thing. The last item is the fingerprint of the content; it is
    empty for a result that has not been made, and then the program's digest and assets decide.
    """
    return known == asked or (not asked[-1] and known[:-1] == asked[:-1])


def _after(now: datetime.datetime, seconds: float) -> datetime.datetime | None:
    """Return the time at which a request expires; None for `seconds` 0. Raises RemoteProtocolError for a time
    out of range.
    """
    if not seconds:
        return None
    if not 0 < seconds <= MAX_EXPIRES_S:
        raise RemoteProtocolError(f"a request expires after at most {MAX_EXPIRES_S:,} seconds")
    return now + datetime.timedelta(seconds=seconds)
