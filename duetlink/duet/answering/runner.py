"""Performs what the machine says: the only place where answering a request touches anything."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from duetlink.base.audit import entry
from duetlink.base.audit.entry import Entry
from duetlink.base.wire import schema_pb2 as pb
from duetlink.duet.answering import actions as do
from duetlink.duet.answering import events
from duetlink.duet.answering.actions import Entries, Reply
from duetlink.duet.answering.events import Event, Why
from duetlink.duet.answering.grants import Grants
from duetlink.duet.answering.handling import Asker, Handling
from duetlink.duet.answering.incoming import utc_now
from duetlink.duet.answering.jobs import Jobs
from duetlink.duet.answering.machine import step
from duetlink.duet.answering.persistence import Persistence
from duetlink.duet.answering.policies.announcement import announce
from duetlink.duet.answering.policies.book import PolicyBook
from duetlink.duet.answering.policies.decision import Decision
from duetlink.duet.answering.policies.facts import Facts
from duetlink.duet.answering.policies.policy import APPROVE, DENY
from duetlink.duet.answering.states import APPROVED, DENIED, FAILED, PENDING
from duetlink.duet.objects.catalogue import Catalogue
from duetlink.duet.objects.recorder import Recorder, leaving
from duetlink.errors import (
    AssetChanged,
    AssetNotFound,
    AuditUnavailable,
    DuetError,
    OperationFailed,
    RequestAnswered,
)
from duetlink.net.link.link import Link
from duetlink.net.link.transfer import Transfer

_TICKET_ALONG_BYTES = 1024 * 1024 * 1024
_STATES = {
    PENDING: pb.Answer.PENDING,
    APPROVED: pb.Answer.APPROVED,
    DENIED: pb.Answer.DENIED,
    FAILED: pb.Answer.FAILED,
}

_log = logging.getLogger(__name__)


class Runner:
    """Belongs to the loop thread."""

    def __init__(
        self,
        catalogue: Catalogue,
        recorder: Recorder,
        policies: PolicyBook,
        jobs: Jobs,
        grants: Grants,
        persistence: Persistence,
        changed: Callable[[], None],
        call_person: Callable[[], None],
    ) -> None:
        """`changed` hears of what a person would want to see, `call_person` of what waits for one."""
        self._catalogue = catalogue
        self._recorder = recorder
        self._policies = policies
        self._jobs = jobs
        self._grants = grants
        self._persistence = persistence
        self._changed = changed
        self._call_person = call_person
        self._link: Link | None = None
        self._background: set[asyncio.Task[None]] = set()

    def attach(self, link: Link) -> None:
        self._link = link

    async def close(self) -> None:
        """Give up what runs in the background."""
        running = list(self._background)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    # -- one event after the other ---------------------------------------------------------------------------

    async def run(self, handling: Handling, event: Event) -> Reply | None:
        """Do all that follows from `event`; returns the reply to a question, if it was one.

        Raises DuetError where the machine says so, and whatever is no DuetError.
        """
        reply: Reply | None = None
        following: Event | None = event
        while following is not None:
            to_do, following = self._step(handling, following), None
            for action in to_do:
                match action:
                    case do.Reply():
                        reply = action
                    case do.Raise(error):
                        raise error
                    case do.Decide():
                        following = self.decide(handling)
                    case (
                        do.Keep() | do.KeepFailure() | do.MakeOffer() | do.Release() | do.Record() | do.Tell()
                    ):
                        following = await self._attempt(handling, action)
                    case _:
                        self._perform(handling, action)
        return reply

    def hear(self, handling: Handling, event: events.Withdrawn | events.Expired | events.Retired) -> None:
        """Do what follows from an event that nobody waits for. None of it has to be awaited."""
        for action in self._step(handling, event):
            self._perform(handling, action)

    def decide(self, handling: Handling) -> events.Answered:
        """What the policies say of it now."""
        request = handling.request
        handling.facts = Facts.of(request.asset, request.peer_name)
        handling.decision = self._policies.decide(handling.facts)
        return events.Answered(answer_of(handling.decision), handling.is_unmade)

    def _step(self, handling: Handling, event: Event) -> tuple[do.Action, ...]:
        handling.case, to_do = step(handling.case, event)
        if not handling.is_again:
            handling.request.waiting = handling.case.askers
        return to_do

    # -- what takes time -------------------------------------------------------------------------------------

    async def _attempt(self, handling: Handling, action: do.Awaited) -> events.Done | events.Failed:
        try:
            await self._await(handling, action)
        except AuditUnavailable as error:
            return events.Failed(action, Why.AUDIT, error)
        except (AssetChanged, AssetNotFound) as error:
            return events.Failed(action, Why.GONE, error)
        except DuetError as error:
            return events.Failed(action, Why.OTHER, error)
        except BaseException as error:
            return events.Failed(action, Why.INTERRUPTED, error)
        return events.Done(action)

    async def _await(self, handling: Handling, action: do.Awaited) -> None:
        match action:
            case do.Keep() | do.KeepFailure():
                await self._persistence.written()
            case do.MakeOffer(asker):
                await self._make_offer(handling, handling.askers[asker])
            case do.Release(asker, with_question):
                await self._release(handling, handling.askers[asker], with_question)
            case do.Record(what, asker):
                await self._recorder.record(*_entries(handling, what, asker))
            case do.Tell(asker, state, reason):
                assert self._link is not None
                await self._link.rpc.call(self.answer(handling, Reply(asker, state, reason)), pb.Done)

    async def _make_offer(self, handling: Handling, asker: Asker) -> None:
        assert self._link is not None
        assert handling.content is not None
        info = handling.request.asset
        self._catalogue.check_offered(info)
        # the ticket of a large body may take longer to make than a call may last: it is asked for by itself
        path = asker.path if info.size_bytes <= _TICKET_ALONG_BYTES else ""
        asker.outgoing = await handling.content.outgoing()
        begun: list[Transfer] = []
        asker.offer = await self._link.exports.offer(info.name, asker.outgoing, path, begun.append)
        asker.transfer = begun[0] if begun else None

    async def _release(self, handling: Handling, asker: Asker, with_question: bool) -> None:
        assert asker.offer is not None
        assert asker.outgoing is not None
        request, by, transfer = handling.request, handling.case.by, asker.transfer
        outgoing, asker.outgoing = asker.outgoing, None
        release = dataclasses.replace(
            leaving(entry.RELEASE, request.asset, outgoing, asker.offer, transfer, request.number),
            reason=asker.reason,
            by=by,
        )
        asker.release = release if transfer is None else None
        before = (request.asked_entry(asker.reason),) if with_question else ()
        await self._recorder.let_out(*before, request.answered_entry(by), release, transfer=transfer)
        self._catalogue.check_offered(request.asset)  # it may have been taken back meanwhile

    def answer(self, handling: Handling, reply: Reply) -> pb.Answer:
        """As it goes to the peer, which has the offer from here on."""
        answer = pb.Answer(request_id=reply.asker, state=_STATES[reply.state], reason=reply.reason)
        asker = handling.askers.get(reply.asker)
        if reply.state == APPROVED and asker is not None and asker.offer is not None:
            assert self._link is not None
            self._link.exports.keep_back(asker.offer)
            answer.offer.CopyFrom(asker.offer)
            asker.offer = pb.TransferOffer(transfer_id=asker.offer.transfer_id)
        return answer

    # -- what is done at once --------------------------------------------------------------------------------

    def _perform(self, handling: Handling, action: do.Action) -> None:
        request = handling.request
        match action:
            case do.Settle(state, by, reason):
                request.settle(state, by, reason)
                self._keep(handling)
            case do.Count():
                request.times += 1
                self._keep(handling)
            case do.Charge(what):
                assert handling.decision is not None
                assert handling.facts is not None
                handling.charges[what] = self._policies.charge(handling.decision, handling.facts)
            case do.ChargeBack(what):
                handling.charges.pop(what)()
            case do.Grant(by):
                self._grants.put(request, by)
            case do.TakeBackGrant():
                self._grants.take_back(request)
            case do.TakeBackOffer(asker, error):
                self._take_back(handling.askers[asker], error)
            case do.EndTransfer(asker):
                offer = handling.askers[asker].offer
                if offer is not None and self._link is not None:
                    self._link.exports.withdraw(offer)
            case do.Note(what):
                for line in _entries(handling, what):
                    self._recorder.note(line)
            case do.Notify(asker, state, reason):
                if self._link is not None:
                    self._link.rpc.tell_nowait(self.answer(handling, Reply(asker, state, reason)))
            case do.Announce():
                self._announce(handling)
            case do.CallPerson():
                self._call_person()
            case do.StartTimer():
                self.start_timer(handling)
            case do.StartFunction(by):
                self._jobs.start(request, by)
                self._in_background(self._function(handling, by))
            case do.LetGo():
                handling.release()

    def _keep(self, handling: Handling) -> None:
        self._persistence.request(handling.request)
        self._changed()

    def _take_back(self, asker: Asker, error: BaseException | None) -> None:
        if asker.release is not None and not isinstance(error, AuditUnavailable):
            self._recorder.taken_back(asker.release)
        if asker.offer is not None and self._link is not None:
            self._link.exports.withdraw(asker.offer, error)
        asker.offer = asker.outgoing = asker.release = None

    def start_timer(self, handling: Handling) -> None:
        """End it when the time that the peer gave is over."""
        expires = handling.request.expires
        if expires is not None:
            left_s = max((expires - utc_now()).total_seconds(), 0)
            expired = events.Expired(f"nobody answered before it expired, at {expires:%H:%M:%S} UTC")
            asyncio.get_running_loop().call_later(left_s, self.hear, handling, expired)

    def _announce(self, handling: Handling) -> None:
        decision, content = handling.decision, handling.content
        policy = decision.policy if decision is not None else None
        if decision is None or policy is None or content is None or handling.case.by != decision.by:
            return
        if policy.announce or policy.log:
            self._in_background(announce(decision, handling.request, content))

    async def _function(self, handling: Handling, by: str) -> None:
        """Wait for a function that a policy has had started."""
        request = handling.request
        following: Event = events.FunctionLost()
        try:
            await self._jobs.make(request, by)
            following = events.FunctionMade()
        except OperationFailed:
            following = events.FunctionFailed(by, self._jobs.words(request))
        except RequestAnswered:
            pass
        except DuetError as error:
            _log.warning("request %d was not answered by %s: %s", request.number, by, error)
        try:
            await self.run(handling, following)
        except DuetError as error:
            _log.warning("request %d was not answered by %s: %s", request.number, by, error)

    def _in_background(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def answer_of(decision: Decision) -> events.Yes | events.No | None:
    """What the policies have decided; None: they leave it to a person."""
    if decision.action == APPROVE:
        return events.Yes(decision.by, is_charged=True)
    if decision.action == DENY and decision.policy is not None:
        return events.No(decision.by, decision.policy.reason)
    return None


def _entries(handling: Handling, what: Entries, asker: bytes = b"") -> tuple[Entry, ...]:
    request = handling.request
    waits = handling.askers.get(asker)
    asked = request.asked_entry(waits.reason if waits is not None else request.reason)
    match what:
        case Entries.ASKED:
            return (asked,)
        case Entries.ANSWERED:
            return (request.answered_entry(),)
        case Entries.WITHDRAWN:
            return (request.withdrawn_entry(),)
        case Entries.ASKED_AND_ANSWERED:
            return asked, request.answered_entry()
