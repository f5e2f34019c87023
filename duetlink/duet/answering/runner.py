"""Performs the actions of the state machine. Answering a request has side effects in this module and nowhere
else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from duetlink.base.events import RequestStepped, Sink, Word
from duetlink.duet.answering import actions as do
from duetlink.duet.answering import events
from duetlink.duet.answering.actions import Charged, Entries, Reply
from duetlink.duet.answering.events import Event, FailureKind
from duetlink.duet.answering.grants import Grants
from duetlink.duet.answering.handling import Handling
from duetlink.duet.answering.incoming import utc_now
from duetlink.duet.answering.job import ProgramJob
from duetlink.duet.answering.jobs import Jobs
from duetlink.duet.answering.machine import step
from duetlink.duet.answering.pace import Pace
from duetlink.duet.answering.persistence import Persistence
from duetlink.duet.answering.policies.announcement import announce
from duetlink.duet.answering.policies.book import PolicyBook
from duetlink.duet.answering.policies.decision import Decision
from duetlink.duet.answering.policies.facts import Facts
from duetlink.duet.answering.policies.policy import APPROVE, DENY
from duetlink.duet.answering.releases import Releases
from duetlink.duet.answering.states import BUDGET, PERSON
from duetlink.duet.objects.recorder import Recorder
from duetlink.errors import (
    AssetChanged,
    AssetNotFound,
    AuditUnavailable,
    DuetError,
    OperationFailed,
    RequestAnswered,
)

_log = logging.getLogger(__name__)


class Runner:
    """Feeds events to the machine and performs its actions. Used on the loop thread only."""

    def __init__(
        self,
        releases: Releases,
        recorder: Recorder,
        policies: PolicyBook,
        jobs: Jobs,
        grants: Grants,
        persistence: Persistence,
        pace: Pace,
        sink: Sink,
        call_person: Callable[[], None],
        ended: Callable[[Handling], None],
    ) -> None:
        """`call_person` is called when a request starts to wait for a person, `ended` when a case
        has ended.
        """
        self._releases = releases
        self._recorder = recorder
        self._policies = policies
        self._jobs = jobs
        self._grants = grants
        self._persistence = persistence
        self._pace = pace
        self._sink = sink
        self._call_person = call_person
        self._ended = ended
        self.stepped = asyncio.Event()  # set after each step of the machine
        self._background: set[asyncio.Task[None]] = set()
        self._timers: dict[Handling, asyncio.TimerHandle] = {}

    async def close(self) -> None:
        """Cancel the timers and background tasks; the loop may go on for other duets. Safe to call twice."""
        for timer in self._timers.values():
            timer.cancel()
        running = list(self._background)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    # -- events ----------------------------------------------------------------------------------------------

    async def run(self, handling: Handling, event: Event) -> Reply | None:
        """Process `event` and all events that follow from it. Return the reply to the question, if one is
        due.

        Raises DuetError where the machine says so; an error that is no DuetError passes through.
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
                    case do.Awaited():
                        following = await self._attempt(handling, action)
                    case _:
                        self._perform(handling, action)
        return reply

    def handle(
        self,
        handling: Handling,
        event: events.Withdrawn | events.PeerGone | events.Expired | events.Retired,
    ) -> None:
        """Process an event that no caller waits for. None of its actions needs to be awaited."""
        for action in self._step(handling, event):
            self._perform(handling, action)

    def decide(self, handling: Handling) -> events.Answered:
        """Return what the policies (or a budget, or a person's grant) say about the request now."""
        request = handling.request
        job = request.job
        if isinstance(job, ProgramJob):
            if job.is_paid:  # a charged budget is the owner's approval
                return events.Answered(events.Yes(BUDGET), handling.is_unmade)
            granted = self._grants.find(request.grant_key) if job.made else None
            if granted is not None and granted.by == PERSON:
                return events.Answered(events.Yes(PERSON))
        handling.facts = Facts.of(request.asset, request.peer_name)
        run = handling.charges.get(Charged.RUN)
        if run is not None:  # the charge of its run must not use up the quota for its own release
            run.undo()
        handling.decision = self._policies.decide(handling.facts)
        if run is not None:
            run.charge()
        return events.Answered(answer_of(handling.decision), handling.is_unmade)

    def _step(self, handling: Handling, event: Event) -> tuple[do.Action, ...]:
        self.stepped.set()
        was_open = handling.is_open
        handling.case, to_do = step(handling.case, event)
        what, phase = Word(type(event).__name__), Word(handling.case.phase.value)
        self._sink.emit(RequestStepped(handling.request.number, what, phase))
        if not handling.is_again:
            handling.request.waiting = handling.case.askers
        if was_open and not handling.is_open:
            if (timer := self._timers.pop(handling, None)) is not None:
                timer.cancel()
            self._ended(handling)
        return to_do

    # -- awaited actions -------------------------------------------------------------------------------------

    async def _attempt(self, handling: Handling, action: do.Awaited) -> events.Done | events.Failed:
        try:
            await self._await(handling, action)
        except AuditUnavailable as error:
            return events.Failed(action, FailureKind.AUDIT, error)
        except (AssetChanged, AssetNotFound) as error:
            return events.Failed(action, FailureKind.GONE, error)
        except DuetError as error:
            return events.Failed(action, FailureKind.OTHER, error)
        except BaseException as error:
            return events.Failed(action, FailureKind.INTERRUPTED, error)
        return events.Done(action)

    async def _await(self, handling: Handling, action: do.Awaited) -> None:
        match action:
            case do.Save() | do.SaveFailure():
                await self._persistence.written()
            case do.MakeOffer(asker):
                await self._releases.make_offer(handling, handling.askers[asker])
            case do.Release(asker, with_question):
                await self._releases.record(handling, handling.askers[asker], with_question)
            case do.WriteAuditEntry(what, asker):
                await self._recorder.record(*handling.entries(what, asker))
                if what is Entries.ASKED and handling.request.job is not None:
                    await self._wait_job_saved(handling)
            case do.SendAnswer(asker, state, reason):
                await self._releases.tell(handling, Reply(asker, state, reason))

    async def _wait_job_saved(self, handling: Handling) -> None:
        """Wait until what the request needs after a restart is saved.

        If it cannot be saved, the request is pending all the same, and is lost with this kernel;
        `duet.status()` shows that nothing is written.
        """
        try:
            await self._persistence.written()
        except DuetError as error:
            _log.warning("request %d would not come back: %s", handling.request.number, error)

    # -- immediate actions -----------------------------------------------------------------------------------

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
                handling.charges.pop(what).undo()
            case do.Grant(by):
                self._grants.put(request, by)
            case do.RevokeGrant():
                self._grants.undo(request)
            case do.WithdrawOffer(asker, error):
                self._releases.withdraw(handling.askers[asker], error)
            case do.EndTransfer(asker):
                self._releases.end(handling.askers[asker])
            case do.Note(what):
                for line in handling.entries(what):
                    self._recorder.note(line)
            case do.Notify(asker, state, reason):
                self._releases.notify(handling, Reply(asker, state, reason))
            case do.Announce():
                self._announce(handling)
            case do.CallPerson():
                self._call_person()
            case do.StartTimer():
                self.start_timer(handling)
            case do.StartFunction(by):
                handling.run_by = handling.decision.policy if handling.decision is not None else None
                if request.job is None or not request.job.busy:  # otherwise a person has started it already
                    self._jobs.start(request, by)
                self._in_background(self._run_job(handling, by))
            case do.FreeContent():
                handling.release()
                if not handling.is_again:
                    self._persistence.drop_work(handling.request)
            case _:
                raise AssertionError(f"{action} cannot be done at once")

    def _keep(self, handling: Handling) -> None:
        self._persistence.request(handling.request)
        self._sink.changed()

    def start_timer(self, handling: Handling) -> None:
        """Expire the request after the time that the peer set, if it set one."""
        expires = handling.request.expires
        if expires is not None:
            left_s = max((expires - utc_now()).total_seconds(), 0)
            expired = events.Expired(f"it was not answered before it expired, at {expires:%H:%M:%S} UTC")
            self._timers[handling] = asyncio.get_running_loop().call_later(
                left_s, self.handle, handling, expired
            )

    def _announce(self, handling: Handling) -> None:
        decision, content = handling.decision, handling.content
        policy = decision.policy if decision is not None else None
        if decision is None or policy is None or content is None or handling.case.by != decision.by:
            return
        if policy.announce or policy.log:
            self._in_background(announce(decision, handling.request, content))

    async def _run_job(self, handling: Handling, by: str) -> None:
        """Run the job of a request for a policy, and process the result."""
        request, turn = handling.request, self._pace.begin()
        following: Event = events.FunctionLost()
        try:
            try:
                await self._jobs.make(request, by)
                following = events.FunctionMade()
            except OperationFailed:
                following = events.FunctionFailed(self._failure_answer(handling, by))
                handling.charges.pop(Charged.RUN, None)  # the charge stays
            except RequestAnswered:
                pass
            except DuetError as error:
                _log.warning("request %d was not answered by %s: %s", request.number, by, error)
            except Exception:  # a defect of ours: leave the request to a person
                _log.exception("request %d was not answered by %s", request.number, by)
            if following not in (events.FunctionLost(), events.FunctionFailed()):
                await self._pace.wait(turn)
            handling.run_by = None
            await self.run(handling, following)
        except DuetError as error:
            _log.warning("request %d was not answered by %s: %s", request.number, by, error)
        finally:
            handling.run_by = None
            self._pace.end(turn)

    def _failure_answer(self, handling: Handling, by: str) -> events.Fail | None:
        """Return what the peer is told of a failed run: as much as `failures` of the policy that started it
        allows.
        """
        policy, job = handling.run_by, handling.request.job
        if policy is None or not policy.failures or policy not in self._policies.policies:
            return None
        assert job is not None
        assert job.failure is not None
        return events.Fail(by, job.failure.words(job.name, policy.failures))

    def _in_background(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def answer_of(decision: Decision) -> events.Yes | events.No | None:
    """Return the decision as an event's answer; None if the policies leave it to a person."""
    if decision.action == APPROVE:
        return events.Yes(decision.by, is_charged=True)
    if decision.action == DENY and decision.policy is not None:
        return events.No(decision.by, decision.policy.reason)
    return None
