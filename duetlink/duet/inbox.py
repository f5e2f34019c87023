"""Loop side of the owner's queue: requests that came in, the answers given, the grants that stand."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from duetlink.audit import entry
from duetlink.audit.entry import Entry
from duetlink.duet.asset import AssetInfo
from duetlink.duet.catalogue import Catalogue
from duetlink.duet.incoming import APPROVED, DENIED, PENDING, PERSON, WITHDRAWN, Incoming, utc_now
from duetlink.duet.policies.announcement import announce
from duetlink.duet.policies.book import PolicyBook
from duetlink.duet.policies.decision import Decision
from duetlink.duet.policies.facts import Facts
from duetlink.duet.policies.policy import APPROVE, DENY
from duetlink.duet.recorder import Recorder, leaving
from duetlink.errors import (
    AssetChanged,
    AssetNotFound,
    AuditUnavailable,
    DuetError,
    LimitExceeded,
    RemoteProtocolError,
    RequestAnswered,
)
from duetlink.link.link import Link
from duetlink.link.transfer import Transfer
from duetlink.settings import Settings
from duetlink.wire import schema_pb2 as pb

REQUEST_ID_BYTES = 16
MAX_REASON = 2000  # characters
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
    requests: list[Incoming] = field(default_factory=list)
    on_change: Callable[[], None] = lambda: None
    _granted: dict[tuple[str, int], _Grant] = field(default_factory=dict)  # by name and revision
    _link: Link | None = None
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _announcing: set[asyncio.Task[None]] = field(default_factory=set)

    def attach(self, link: Link) -> None:
        """Answer this peer."""
        self._link = link
        self.catalogue.on_retired = self._retired
        link.rpc.handle(pb.Ask, self._asked)
        link.rpc.notice(pb.Withdraw, self._withdrawn)

    @property
    def pending(self) -> list[Incoming]:
        return [request for request in self.requests if request.state == PENDING]

    async def wait_pending(self) -> Incoming:
        """The oldest request without an answer, waiting for one."""
        while True:
            if pending := self.pending:
                return pending[0]
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
        self._check_pending(request)
        self.catalogue.find_mine(request.asset.name, request.asset.revision)
        self._granted[_key(request.asset)] = _Grant(request, PERSON)
        failed: DuetError | None = None
        for same in self.pending:
            if same.asset == request.asset:
                try:
                    await self._grant(same, PERSON, contextlib.nullcontext())
                except DuetError as error:  # the others are answered all the same
                    failed = failed or error
        if failed is not None:
            raise failed

    async def deny(self, request: Incoming, reason: str) -> None:
        """Say no; the peer gets `reason`. Raises RequestAnswered, LinkClosed."""
        self._check_pending(request)
        await self._refuse(request, reason, PERSON)

    async def _grant(self, request: Incoming, by: str, charged: AbstractContextManager[None]) -> None:
        self._settle(request, APPROVED, by)
        try:
            with charged:
                answer = await self._approval(request, request.request_id, request.path, by)
        except (AssetChanged, AssetNotFound) as error:  # found by reading it once more: nothing may leave
            self._granted.pop(_key(request.asset), None)
            await self._refuse(request, str(error), by)
            raise
        except DuetError as error:  # it can be approved again
            if isinstance(error, AuditUnavailable):  # nobody would find that it was granted
                self._granted.pop(_key(request.asset), None)
            self._settle(request, PENDING)
            raise
        await self._tell(answer)

    async def _refuse(self, request: Incoming, reason: str, by: str) -> None:
        self._settle(request, DENIED, by, reason)
        self.recorder.note(request.answered_entry())
        await self._tell(_denial(request.request_id, reason))

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
        if any(request.request_id == ask.request_id for request in self.pending):
            raise RemoteProtocolError("a request of this number is pending")
        info = self.catalogue.find_mine(ask.name, ask.revision).info
        granted = self._granted.get(_key(info))
        if granted is not None and granted.by == PERSON:
            return await self._again(granted.request, ask, PERSON, contextlib.nullcontext())
        facts = Facts.of(info, self._link.peer_name)
        decision = self.policies.decide(facts)
        if decision.action == APPROVE and granted is not None:
            answer = await self._again(
                granted.request, ask, decision.by, self.policies.charged(decision, facts)
            )
            self._announce(decision, granted.request)
            return answer
        request = self._enter(ask, info)
        if decision.action == APPROVE:
            return await self._approve_at_once(request, decision, facts)
        if decision.action == DENY and decision.policy is not None:
            self._settle(request, DENIED, decision.by, decision.policy.reason)
            await self.recorder.record(request.asked_entry(request.reason), request.answered_entry())
            self._announce(decision, request)
            return _denial(ask.request_id, request.answer_reason)
        self._arrived.set()
        self.on_change()
        try:
            await self.recorder.record(request.asked_entry(request.reason))
        except AuditUnavailable:
            if request.state == PENDING:
                self._settle(request, DENIED, "", _NO_LOG)
            raise
        return pb.Answer(request_id=ask.request_id, state=pb.Answer.PENDING)

    def _enter(self, ask: pb.Ask, info: AssetInfo) -> Incoming:
        """A new request, in the queue. Raises LimitExceeded."""
        assert self._link is not None
        limit = self.settings.max_pending_requests
        if len(self.pending) >= limit:
            raise LimitExceeded(f"{limit} requests wait for an answer; wait, or withdraw some")
        if len(self.requests) >= HISTORY:
            raise LimitExceeded(f"this session has had {HISTORY} requests; launch a new one")
        request = Incoming(
            len(self.requests),
            ask.request_id,
            info,
            self._link.peer_name,
            ask.reason[:MAX_REASON],
            ask.path,
            utc_now(),
        )
        self.requests.append(request)
        return request

    async def _again(
        self, granted: Incoming, ask: pb.Ask, by: str, charged: AbstractContextManager[None]
    ) -> pb.Answer:
        with charged:
            asked = granted.asked_entry(ask.reason)
            answer = await self._approval(granted, ask.request_id, ask.path, by, asked)
        granted.times += 1
        return answer

    async def _approval(
        self, request: Incoming, request_id: bytes, path: str, by: str, *before: Entry
    ) -> pb.Answer:
        """The answer that lets the asset out. It is put down, after `before`, when this returns."""
        assert self._link is not None
        info = request.asset
        content = self.catalogue.find_mine(info.name, info.revision).content
        # the ticket of a large body may take longer to make than a call may last: it is asked for by itself
        path = path if info.size_bytes <= _TICKET_ALONG_BYTES else ""
        outgoing = await content.outgoing()
        begun: list[Transfer] = []
        offer = await self._link.exports.offer(info.name, outgoing, path, begun.append)
        transfer = begun[0] if begun else None
        release = leaving(entry.RELEASE, info, outgoing, offer, transfer, request.number)
        try:
            await self.recorder.let_out(*before, request.answered_entry(by), release, transfer=transfer)
            self.catalogue.find_mine(info.name, info.revision)  # it may have been taken back meanwhile
        except BaseException as error:
            if transfer is None and not isinstance(error, AuditUnavailable):
                self.recorder.taken_back(release)
            self._link.exports.withdraw(offer, error)
            raise
        self._link.exports.keep_back(offer)
        request.offer = pb.TransferOffer(transfer_id=offer.transfer_id)
        self._granted.setdefault(_key(info), _Grant(request, by))
        return pb.Answer(request_id=request_id, state=pb.Answer.APPROVED, offer=offer)

    # -- a policy answers ------------------------------------------------------------------------------------

    async def _approve_at_once(self, request: Incoming, decision: Decision, facts: Facts) -> pb.Answer:
        """In the reply to the question. Where that fails, the request is denied: nobody would look at it."""
        asked = request.asked_entry(request.reason)
        self._settle(request, APPROVED, decision.by)
        try:
            with self.policies.charged(decision, facts):
                answer = await self._approval(request, request.request_id, request.path, decision.by, asked)
        except asyncio.CancelledError:  # the peer has given up
            self._settle(request, WITHDRAWN)
            self.recorder.note(asked)
            self.recorder.note(request.withdrawn_entry())
            raise
        except AuditUnavailable:
            self._settle(request, DENIED, "", _NO_LOG)
            raise
        except DuetError as error:
            self._settle(request, DENIED, decision.by, str(error))
            await self.recorder.record(asked, request.answered_entry())
            return _denial(request.request_id, str(error))
        self._announce(decision, request)
        return answer

    async def examine(self) -> None:
        """Let the policies answer what waits. What cannot be answered goes on waiting."""
        for request in self.pending:
            if request.state != PENDING:  # answered meanwhile
                continue
            facts = Facts.of(request.asset, request.peer_name)
            decision = self.policies.decide(facts)
            try:
                if decision.action == APPROVE:
                    await self._grant(request, decision.by, self.policies.charged(decision, facts))
                elif decision.action == DENY and decision.policy is not None:
                    await self._refuse(request, decision.policy.reason, decision.by)
                else:
                    continue
            except DuetError as error:
                _log.warning("request %d was not answered by %s: %s", request.number, decision.by, error)
                continue
            self._announce(decision, request)

    def _announce(self, decision: Decision, request: Incoming) -> None:
        policy, mine = decision.policy, self.catalogue.mine.get(request.asset.name)
        if policy is None or not policy.announce or mine is None:
            return
        task = asyncio.ensure_future(announce(decision, request, mine.content))
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)

    # -- what ends a request otherwise -----------------------------------------------------------------------

    def _withdrawn(self, withdraw: pb.Withdraw) -> None:
        for request in self.requests:
            if request.request_id != withdraw.request_id:
                continue
            if request.state == PENDING:
                self._settle(request, WITHDRAWN)
                self.recorder.note(request.withdrawn_entry())
            elif request.offer is not None and self._link is not None:
                self._link.exports.withdraw(request.offer)

    def _retired(self, info: AssetInfo, why: str) -> None:
        self._granted.pop(_key(info), None)
        for request in self.pending:
            if request.asset == info and self._link is not None:
                self._settle(request, DENIED, PERSON, why)
                self.recorder.note(request.answered_entry())
                self._link.rpc.tell_nowait(_denial(request.request_id, why))

    def _check_pending(self, request: Incoming) -> None:
        if request.state != PENDING:
            raise RequestAnswered(
                f"request {request.number} for {request.asset.name!r} is {request.state}; only a pending one "
                "can be answered"
            )

    def _settle(self, request: Incoming, state: str, by: str = "", reason: str = "") -> None:
        request.settle(state, by, reason)
        self.on_change()


def _key(info: AssetInfo) -> tuple[str, int]:
    return info.name, info.revision


def _denial(request_id: bytes, reason: str) -> pb.Answer:
    return pb.Answer(request_id=request_id, state=pb.Answer.DENIED, reason=reason)
