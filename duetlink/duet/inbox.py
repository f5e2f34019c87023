"""Loop side of the owner's queue: requests that came in, the answers given, the grants that stand."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from duetlink.base.audit import entry
from duetlink.base.audit.entry import Entry
from duetlink.base.wire import schema_pb2 as pb
from duetlink.duet.asset import AssetInfo, Content
from duetlink.duet.catalogue import Catalogue, Mine
from duetlink.duet.decoding import Decoding
from duetlink.duet.incoming import (
    APPROVED,
    BUDGET,
    DENIED,
    EXPIRED,
    FAILED,
    PENDING,
    PERSON,
    WITHDRAWN,
    Asker,
    Incoming,
    utc_now,
)
from duetlink.duet.persistence import Persistence
from duetlink.duet.policies.announcement import announce
from duetlink.duet.policies.book import PolicyBook
from duetlink.duet.policies.decision import Decision
from duetlink.duet.policies.facts import Facts
from duetlink.duet.policies.policy import APPROVE, DENY
from duetlink.duet.recorder import Recorder, leaving
from duetlink.duet.remote.job_intake import JobIntake
from duetlink.duet.remote.jobs import Jobs
from duetlink.duet.remote.workplace import Workplace
from duetlink.errors import (
    AssetChanged,
    AssetNotFound,
    AuditUnavailable,
    DuetError,
    LimitExceeded,
    OperationFailed,
    RemoteProtocolError,
    RequestAnswered,
)
from duetlink.net.link.link import Link
from duetlink.net.link.transfer import Transfer
from duetlink.settings import Settings

REQUEST_ID_BYTES = 16
MAX_REASON = 2000  # characters
MAX_ASKERS = 100  # of one request
MAX_EXPIRES_S = 366 * 24 * 3600
HISTORY = 10_000  # requests of one session, answered or not
_TICKET_ALONG_BYTES = 1024 * 1024 * 1024
_NO_LOG = "the audit log cannot be written, and nothing leaves without it; ask again later"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Grant:
    """A yes that stands. A person's answers the next times; a policy's only as long as the policies agree."""

    request: Incoming
    by: str


@dataclass(slots=True)
class Inbox:
    """Requests of the peer in the order in which they came, and what was answered."""

    catalogue: Catalogue
    settings: Settings
    recorder: Recorder
    policies: PolicyBook
    workplace: Workplace
    decoding: Decoding
    persistence: Persistence
    jobs: Jobs = field(init=False)
    _intake: JobIntake = field(init=False)
    requests: list[Incoming] = field(default_factory=list)
    on_change: Callable[[], None] = lambda: None
    _granted: dict[tuple[str, ...], _Grant] = field(default_factory=dict)  # by peer and identity
    _link: Link | None = None
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _policy_runs: set[asyncio.Task[None]] = field(default_factory=set)
    _announcing: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.jobs = Jobs(self, self.settings, self.recorder, self.decoding)
        self._intake = JobIntake(
            self.catalogue, self.workplace.freeze, self.settings.max_received_bytes, self._held_bytes
        )

    def attach(self, link: Link) -> None:
        """Answer this peer."""
        self._link = link
        self.jobs.attach(link)
        self._intake.attach(link)
        self.catalogue.on_retired = self._retired
        link.rpc.handle(pb.Ask, self._asked)
        link.rpc.notice(pb.Withdraw, self._withdrawn)

    def resume(self, requests: list[Incoming], granted: Iterable[Incoming]) -> None:
        """Go on where an earlier kernel was. Nobody waits for these requests any more; a person may answer
        them, and the peer is told when it asks again. Policies answer only whoever asks.
        """
        self.catalogue.on_retired, self.catalogue.on_continued = self._retired, self._continued
        self.requests = requests
        self._granted = {request.whose: _Grant(request, PERSON) for request in granted}
        for request in self.pending:
            if request.expires is not None:
                left_s = max((request.expires - utc_now()).total_seconds(), 0)
                asyncio.get_running_loop().call_later(left_s, self._expire, request)

    async def close(self) -> None:
        """End the functions that run; their workers are gone when this returns."""
        for task in self._policy_runs:
            task.cancel()
        await asyncio.gather(*self._policy_runs, return_exceptions=True)
        await self.jobs.close()

    def changed(self) -> None:
        self.on_change()

    def _held_bytes(self) -> int:
        return sum(request.job.held_bytes for request in self.pending if request.job is not None)

    @property
    def pending(self) -> list[Incoming]:
        return [request for request in self.requests if request.state == PENDING]

    async def wait_pending(self) -> Incoming:
        """The oldest request without an answer, waiting for one."""
        while True:
            for request in self.pending:
                if request.job is None or not request.job.busy:  # then nobody need look at it now
                    return request
            self._arrived.clear()
            await self._arrived.wait()

    # -- the person answers ----------------------------------------------------------------------------------

    async def approve(self, request: Incoming) -> None:
        """Grant the peer this revision of the asset; every pending request for it is answered.

        Raises:
            RequestAnswered: it has an answer, or was withdrawn.
            AssetNotFound, AssetChanged: what was asked for is no longer shared.
            AuditUnavailable: it could not be put down; nothing has left, and the request is pending.
            LinkClosed: the peer is gone.
        """
        self.check_pending(request)
        self.check_shared(request.asset)
        if request.job is None and request.asset.is_unmade:
            raise AssetNotFound(
                "an earlier kernel was asked to run this function; it is there when it is sent again"
            )
        self._granted[request.whose] = _Grant(request, PERSON)
        self.persistence.granted(request)
        failed: DuetError | None = None
        for same in self.pending:
            if same.whose == request.whose:
                try:
                    await self._grant(same, PERSON, contextlib.nullcontext())
                except DuetError as error:  # the others are answered all the same
                    failed = failed or error
        if failed is not None:
            raise failed

    async def deny(self, request: Incoming, reason: str) -> None:
        """Say no; the peer gets `reason`. Raises RequestAnswered, LinkClosed."""
        self.check_pending(request)
        try:
            await self._refuse(request, reason, PERSON)
        finally:
            await self.persistence.written()

    async def fail(self, request: Incoming, by: str) -> None:
        """Tell the peer that its function has failed. Raises RequestAnswered, LinkClosed."""
        job = request.job
        assert job is not None
        assert job.failure is not None
        await self.persistence.written()  # what it costs a policy
        self.check_pending(request)
        words = job.failure.words(job.name, self.settings.failure_detail)
        self._settle(request, FAILED, by, words)
        self.recorder.note(request.answered_entry())
        for asker in request.askers:
            await self._tell(pb.Answer(request_id=asker.request_id, state=pb.Answer.FAILED, reason=words))
        request.release()

    async def _grant(self, request: Incoming, by: str, charged: AbstractAsyncContextManager[None]) -> None:
        self._settle(request, APPROVED, by)
        askers = list(request.askers)
        try:
            async with charged:
                await self.persistence.written()
                answers = [await self._approval(request, asker, by) for asker in askers]
                if not askers:  # its peer was another kernel's: it gets it when it asks again
                    await self.recorder.record(request.answered_entry())
        except (AssetChanged, AssetNotFound) as error:  # found by reading it once more: nothing may leave
            self._take_back_grant(request)
            await self._refuse(request, str(error), by)
            raise
        except DuetError as error:  # it can be approved again
            if isinstance(error, AuditUnavailable):  # nobody would find that it was granted
                self._take_back_grant(request)
            self._settle(request, PENDING)
            raise
        for answer in answers:
            await self._tell(answer)
        request.release()

    def _take_back_grant(self, request: Incoming) -> None:
        self._granted.pop(request.whose, None)
        self.persistence.taken_back(request)

    async def _refuse(self, request: Incoming, reason: str, by: str) -> None:
        self._settle(request, DENIED, by, reason)
        self.recorder.note(request.answered_entry())
        for asker in request.askers:
            await self._tell(_denial(asker.request_id, reason))
        request.release()

    async def _tell(self, answer: pb.Answer) -> None:
        assert self._link is not None
        try:
            await self._link.rpc.call(answer, pb.Done)
        except (DuetError, asyncio.CancelledError):
            if answer.HasField("offer"):
                self._link.exports.withdraw(answer.offer)
            raise

    # -- the peer asks ---------------------------------------------------------------------------------------

    async def _asked(self, ask: pb.Ask) -> pb.Answer:
        try:
            return await self._answer(ask)
        except AuditUnavailable:
            return _denial(ask.request_id, _NO_LOG)

    async def _answer(self, ask: pb.Ask) -> pb.Answer:
        """By a grant that stands, by a policy, or that it is pending."""
        if self._link is None or len(ask.request_id) != REQUEST_ID_BYTES:
            raise RemoteProtocolError(f"a request's number has {REQUEST_ID_BYTES} bytes")
        if any(asker.request_id == ask.request_id for request in self.pending for asker in request.askers):
            raise RemoteProtocolError("a request of this number is pending")
        asker = Asker(ask.request_id, ask.path)
        if ask.statistic:  # a budget that is charged is the owner's yes
            mine = await self.workplace.release(ask.result, ask.statistic)
            mine.content.decode = self.decoding.for_threads()
            request = self._enter(ask, mine.info, mine.content, asker)
            return await self._approve_at_once(request, BUDGET, contextlib.nullcontext())
        job = await self._intake.take(ask.job) if ask.HasField("job") else None
        content: Content | None = None
        if job is not None:
            info = job.info
        else:
            mine = await self.workplace.freeze(ask.result) if ask.result else self._find(ask)
            info, content = mine.info, mine.content
            if ask.result:
                content.decode = self.decoding.for_threads()
        whose = (self._link.peer_name, *info.identity)
        granted = self._granted.get(whose)
        if granted is not None and granted.by == PERSON:
            return await self._again(granted.request, content, ask, PERSON, contextlib.nullcontext())
        facts = Facts.of(info, self._link.peer_name)
        decision = self.policies.decide(facts)
        if decision.action == APPROVE and granted is not None:
            answer = await self._again(
                granted.request, content, ask, decision.by, self.policies.charged(decision, facts)
            )
            self._announce(decision, granted.request, content)
            return answer
        if (same := self._same(ask, whose)) is not None and decision.action not in (APPROVE, DENY):
            same.askers.append(asker)
            same.times += 1
            same.job = same.job or job
            self.persistence.request(same)
            self.on_change()
            try:
                await self.recorder.record(same.asked_entry(ask.reason))
            except AuditUnavailable:
                if asker in same.askers:
                    same.askers.remove(asker)
                raise
            return pb.Answer(request_id=ask.request_id, state=pb.Answer.PENDING)
        request = self._taken_up(same, asker) or self._enter(ask, info, content, asker)
        request.job = request.job or job
        if decision.action == APPROVE and job is None:
            answer = await self._approve_at_once(request, decision.by, self.policies.charged(decision, facts))
            if request.state == APPROVED:
                self._announce(decision, request, content)
            return answer
        if decision.action == DENY and decision.policy is not None:
            self._settle(request, DENIED, decision.by, decision.policy.reason)
            await self.recorder.record(request.asked_entry(request.reason), request.answered_entry())
            self._announce(decision, request, content)
            request.release()
            return _denial(ask.request_id, request.answer_reason)
        if decision.action == APPROVE:
            self._start(request, decision, facts)
        self._arrived.set()
        self.on_change()
        if request.expires is not None:
            asyncio.get_running_loop().call_later(ask.expires_s, self._expire, request)
        try:
            await self.recorder.record(request.asked_entry(request.reason))
        except AuditUnavailable:
            if request.state == PENDING:
                self._settle(request, DENIED, "", _NO_LOG)
            raise
        return pb.Answer(request_id=ask.request_id, state=pb.Answer.PENDING)

    def _same(self, ask: pb.Ask, whose: tuple[str, ...]) -> Incoming | None:
        """The request that waits already, for the same thing and the same reason."""
        reason = ask.reason[:MAX_REASON]
        for request in self.pending:
            if request.whose == whose and request.reason == reason and not ask.expires_s:
                return request if request.expires is None and len(request.askers) < MAX_ASKERS else None
        return None

    def _taken_up(self, same: Incoming | None, asker: Asker) -> Incoming | None:
        """The request of an earlier kernel that is asked again, and answered now."""
        if same is None or same.askers:
            return None
        same.askers.append(asker)
        same.times += 1
        return same

    def _find(self, ask: pb.Ask) -> Mine:
        return self.catalogue.find_mine(ask.name, ask.revision)

    def _enter(self, ask: pb.Ask, info: AssetInfo, content: Content | None, asker: Asker) -> Incoming:
        """A new request, in the queue. Raises LimitExceeded."""
        assert self._link is not None
        limit = self.settings.max_pending_requests
        if len(self.pending) >= limit:
            raise LimitExceeded(f"{limit} requests wait for an answer; wait, or withdraw some")
        if len(self.requests) >= HISTORY:
            raise LimitExceeded(f"this session has had {HISTORY} requests; launch a new one")
        now = utc_now()
        request = Incoming(
            self.requests[-1].number + 1 if self.requests else 0,
            info,
            content,
            self._link.peer_name,
            ask.reason[:MAX_REASON],
            now,
            _after(now, ask.expires_s),
            [asker],
        )
        self.requests.append(request)
        self.persistence.request(request)
        return request

    async def _again(
        self,
        granted: Incoming,
        content: Content | None,
        ask: pb.Ask,
        by: str,
        charged: AbstractAsyncContextManager[None],
    ) -> pb.Answer:
        asker = Asker(ask.request_id, ask.path)
        granted.askers.append(asker)  # so that it can be withdrawn
        granted.content = content
        try:
            async with charged:
                asked = granted.asked_entry(ask.reason)
                answer = await self._approval(granted, asker, by, asked)
        finally:
            granted.release()
        granted.times += 1
        self.persistence.request(granted)
        return answer

    async def _approval(self, request: Incoming, asker: Asker, by: str, *before: Entry) -> pb.Answer:
        """The answer that lets the asset out. It is put down, after `before`, when this returns."""
        assert self._link is not None
        assert request.content is not None
        info = request.asset
        self.check_shared(info)
        # the ticket of a large body may take longer to make than a call may last: it is asked for by itself
        path = asker.path if info.size_bytes <= _TICKET_ALONG_BYTES else ""
        outgoing = await request.content.outgoing()
        begun: list[Transfer] = []
        offer = await self._link.exports.offer(info.name, outgoing, path, begun.append)
        transfer = begun[0] if begun else None
        reason = before[-1].reason if before else request.reason  # of this time
        release = dataclasses.replace(
            leaving(entry.RELEASE, info, outgoing, offer, transfer, request.number), reason=reason, by=by
        )
        try:
            await self.recorder.let_out(*before, request.answered_entry(by), release, transfer=transfer)
            self.check_shared(info)  # it may have been taken back meanwhile
        except BaseException as error:
            if transfer is None and not isinstance(error, AuditUnavailable):
                self.recorder.taken_back(release)
            self._link.exports.withdraw(offer, error)
            raise
        self._link.exports.keep_back(offer)
        asker.offer = pb.TransferOffer(transfer_id=offer.transfer_id)
        self._granted.setdefault(request.whose, _Grant(request, by))
        return pb.Answer(request_id=asker.request_id, state=pb.Answer.APPROVED, offer=offer)

    def check_shared(self, info: AssetInfo) -> None:
        """Raise AssetNotFound, AssetChanged where it, or what it was made from, is no longer shared."""
        if info.lineage is None:
            self.catalogue.check_mine(info.name, info.revision)
            return
        for name, revision in info.lineage.assets:
            self.catalogue.find_mine(name, revision)

    # -- a policy answers ------------------------------------------------------------------------------------

    async def _approve_at_once(
        self, request: Incoming, by: str, charged: AbstractAsyncContextManager[None]
    ) -> pb.Answer:
        """In the reply to the question. Where that fails, the request is denied: nobody would look at it."""
        asked = request.asked_entry(request.reason)
        self._settle(request, APPROVED, by)
        try:
            async with charged:
                return await self._approval(request, request.askers[0], by, asked)
        except asyncio.CancelledError:  # the peer has given up
            self._settle(request, WITHDRAWN)
            self.recorder.note(asked)
            self.recorder.note(request.withdrawn_entry())
            raise
        except AuditUnavailable:
            self._settle(request, DENIED, "", _NO_LOG)
            raise
        except DuetError as error:
            self._settle(request, DENIED, by, str(error))
            await self.recorder.record(asked, request.answered_entry())
            return _denial(request.askers[0].request_id, str(error))
        finally:
            request.release()

    def _start(self, request: Incoming, decision: Decision, facts: Facts) -> None:
        """Run it since a policy says so, and let the policies decide about what came of it. From here on it
        does not wait for a person.
        """
        charge_back = self.policies.charge(decision, facts)  # before anything is awaited
        task = asyncio.ensure_future(self._by_policy(request, decision.by, charge_back))
        self._policy_runs.add(task)
        task.add_done_callback(self._policy_runs.discard)
        self.jobs.start(request, decision.by)

    async def _by_policy(self, request: Incoming, by: str, charge_back: Callable[[], None]) -> None:
        try:
            try:
                await self.jobs.make(request, by)
            except OperationFailed:  # that it fails tells the peer something, too: it stays charged
                await self.fail(request, by)
                return
            except DuetError:
                charge_back()
                raise
            charge_back()  # charged anew, with its size
            await self.examine([request])
        except RequestAnswered:
            pass
        except DuetError as error:
            _log.warning("request %d was not answered by %s: %s", request.number, by, error)
        if request.state == PENDING:
            self._arrived.set()  # it was about to be answered otherwise, and is now for a person to answer
            self.on_change()

    async def examine(self, requests: Sequence[Incoming] | None = None) -> None:
        """Let the policies answer what waits, or what of these does. What they cannot answer still waits."""
        for request in self.pending if requests is None else requests:
            if request.state != PENDING or not request.askers:  # answered meanwhile, or nobody waits for it
                continue
            facts = Facts.of(request.asset, request.peer_name)
            decision, content = self.policies.decide(facts), request.content
            try:
                if decision.action == APPROVE and request.job is not None and not request.job.made:
                    if not request.job.busy:
                        self._start(request, decision, facts)
                    continue
                if decision.action == APPROVE:
                    await self._grant(request, decision.by, self.policies.charged(decision, facts))
                elif decision.action == DENY and decision.policy is not None:
                    await self._refuse(request, decision.policy.reason, decision.by)
                else:
                    continue
            except DuetError as error:
                _log.warning("request %d was not answered by %s: %s", request.number, decision.by, error)
                continue
            self._announce(decision, request, content)

    def _announce(self, decision: Decision, request: Incoming, content: Content | None) -> None:
        policy = decision.policy
        if policy is None or not (policy.announce or policy.log) or content is None:
            return
        task = asyncio.ensure_future(announce(decision, request, content))
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)

    # -- what ends a request otherwise -----------------------------------------------------------------------

    def _withdrawn(self, withdraw: pb.Withdraw) -> None:
        for request in self.requests:
            for asker in request.askers:
                if asker.request_id == withdraw.request_id:
                    self._take_back(request, asker)
                    return

    def _take_back(self, request: Incoming, asker: Asker) -> None:
        if request.state == PENDING:
            request.askers.remove(asker)
            if not request.askers:
                self._end(request, WITHDRAWN)
        elif asker.offer is not None and self._link is not None:
            self._link.exports.withdraw(asker.offer)

    def _expire(self, request: Incoming) -> None:
        """Nobody has answered in the time that the peer gave."""
        if request.state == PENDING:
            self._end(request, EXPIRED)
            for asker in request.askers:
                why = f"nobody answered before it expired, at {request.expires:%H:%M:%S} UTC"
                if self._link is not None:
                    self._link.rpc.tell_nowait(_denial(asker.request_id, why))

    def _end(self, request: Incoming, state: str) -> None:
        self._settle(request, state)
        self.recorder.note(request.withdrawn_entry())
        request.release()

    def _retired(self, info: AssetInfo, why: str) -> None:
        for whose in [whose for whose in self._granted if whose[1:] == info.identity]:
            del self._granted[whose]
        self.persistence.retired(info)
        for request in self.pending:
            made_from = request.asset.lineage.assets if request.asset.lineage is not None else ()
            if request.asset.identity == info.identity or (info.name, info.revision) in made_from:
                self._settle(request, DENIED, PERSON, why)
                self.recorder.note(request.answered_entry())
                for asker in request.askers:
                    if self._link is not None:
                        self._link.rpc.tell_nowait(_denial(asker.request_id, why))
                request.release()

    def _continued(self, info: AssetInfo, content: Content) -> None:
        """A revision that was asked for in an earlier kernel is there again."""
        for request in self.pending:
            if request.asset.identity == info.identity:
                request.asset, request.content = info, content
                self.persistence.request(request)
        self.on_change()

    def check_pending(self, request: Incoming) -> None:
        if request.state != PENDING:
            raise RequestAnswered(
                f"request {request.number} for {request.asset.name!r} is {request.state}; only a pending one "
                "can be answered"
            )

    def _settle(self, request: Incoming, state: str, by: str = "", reason: str = "") -> None:
        request.settle(state, by, reason)
        self.persistence.request(request)
        self.on_change()


def _after(now: datetime.datetime, seconds: float) -> datetime.datetime | None:
    """When a request expires; raises RemoteProtocolError for no time at all."""
    if not seconds:
        return None
    if not 0 < seconds <= MAX_EXPIRES_S:
        raise RemoteProtocolError(f"a request expires after at most {MAX_EXPIRES_S:,} seconds")
    return now + datetime.timedelta(seconds=seconds)


def _denial(request_id: bytes, reason: str) -> pb.Answer:
    return pb.Answer(request_id=request_id, state=pb.Answer.DENIED, reason=reason)
