"""The life of a request under random interleavings; and that each property finds the bug that breaks it.

`World` stands for the runner and all around it. It performs what the machine says, checks the promises of
SECURITY.md at each action, and lets waits end, fail and overlap in any order.
"""

from __future__ import annotations

import inspect
import random
import types
from collections.abc import Callable
from typing import Any

import pytest

from duetlink.duet.answering import actions as do
from duetlink.duet.answering import events, machine
from duetlink.duet.answering.actions import Charged, Entries
from duetlink.duet.answering.events import FailureKind
from duetlink.duet.answering.machine import Case, Phase, step
from duetlink.duet.answering.states import (
    APPROVED,
    DENIED,
    EXPIRED,
    FAILED,
    NO_LOG,
    PENDING,
    PERSON,
    WITHDRAWN,
)

RUNS = 10_000  # about two seconds; 100,000 found nothing more
STEPS = 30
FAILURES: dict[type, tuple[FailureKind, ...]] = {
    do.Save: (FailureKind.OTHER, FailureKind.INTERRUPTED),
    do.SaveFailure: (FailureKind.OTHER, FailureKind.INTERRUPTED),
    do.MakeOffer: (FailureKind.GONE, FailureKind.OTHER, FailureKind.INTERRUPTED),
    do.Release: (FailureKind.AUDIT, FailureKind.GONE, FailureKind.OTHER, FailureKind.INTERRUPTED),
    do.WriteAuditEntry: (FailureKind.AUDIT, FailureKind.INTERRUPTED),
    do.SendAnswer: (FailureKind.OTHER, FailureKind.INTERRUPTED),
}

NO_YES = "nothing is released without a standing yes"
QUOTA = "a quota is charged before a release, and given back where nothing left"
ONCE = "each request ends once"
AUDITED = "an audit line is on the disk before what it tells"
TAKEN_BACK = "after a withdrawal nothing leaves"
NO_WORD = "a failure is told where a person or a policy says so"
WAITS = "what takes time comes last, and never after an interrupt"


class Broken(AssertionError):
    """A property does not hold."""


def check(holds: object, which: str) -> None:
    if not holds:
        raise Broken(which)


class World:
    """What is around one case: quotas, the disk, the peer, and whatever takes time."""

    def __init__(self, rng: random.Random, step: Callable[..., Any]) -> None:
        self.rng = rng
        self.step = step
        self.case: Any = Case()
        self.state = PENDING  # as a person sees it
        self.yes: events.Yes | None = None
        self.charged: set[Charged] = set()
        self.waits: list[Any] = []
        self.function_runs = self.function_ended = self.made = False
        self.may_tell_failure = False
        self.asked: list[bytes] = []
        self.withdrawn: set[bytes] = set()
        self.recorded: set[bytes] = set()  # the release to this asker is on the disk
        self.asked_recorded: set[bytes] = set()
        self.answer_recorded = self.raised = False
        self.offers: dict[bytes, str] = {}  # "made", "told" or "ended"
        self.final: dict[bytes, str] = {}  # the answer that ends a question
        self.left = self.ended = False
        self.trace: list[object] = []  # shown where a property does not hold

    # -- what happens ----------------------------------------------------------------------------------------

    def run(self) -> None:
        self.ask()
        for _ in range(self.rng.randrange(STEPS)):
            self.anything()
        for _ in range(200):
            if not self.waits:
                break
            self.end_wait(self.rng.random() < 0.1)
        self.check_quiet()

    def ask(self) -> None:
        chosen = self.rng.randrange(7)
        if chosen == 6:  # an earlier kernel was asked, and a person or another question comes
            self.case = Case(Phase.PENDING)
            return
        asker = self.new_asker()
        yes = events.Yes("policy p", is_charged=True)
        if chosen == 0:
            by = self.rng.choice([yes, events.Yes(PERSON)])
            self.happen(events.AskedAgain(asker, by), by)
        elif chosen == 1:
            self.happen(events.RequestArrived(asker, events.Yes("budget")), events.Yes("budget"))
        elif chosen == 2:
            self.happen(events.RequestArrived(asker, events.No("policy p", "no")))
        elif chosen == 3:
            self.happen(events.RequestArrived(asker, yes, is_unmade=True), yes)
        elif chosen == 4:
            self.happen(events.RequestArrived(asker, yes), yes)
        else:
            self.happen(events.RequestArrived(asker))
            for _ in range(self.rng.randrange(4)):
                self.happen(events.Joined(self.new_asker()))

    def new_asker(self) -> bytes:
        self.asked.append(bytes([len(self.asked)]))
        return self.asked[-1]

    def anything(self) -> None:
        chosen = self.rng.randrange(9)
        if chosen <= 3 and self.waits:
            self.end_wait(self.rng.random() < 0.3)
        elif chosen == 4 and self.state == PENDING and self.case.phase is Phase.PENDING:
            self.happen(events.Joined(self.new_asker()))
        elif chosen == 5 and self.state == PENDING and self.case.phase is Phase.PENDING:
            self.decided(self.rng.choice([PERSON, "policy p"]) if self.case.askers else PERSON)
        elif chosen == 6 and self.asked:
            asker = self.rng.choice(self.asked)
            self.withdrawn.add(asker)
            self.happen(events.Withdrawn(asker))
        elif chosen == 7 and self.rng.random() < 0.3:
            if self.case.phase is Phase.PENDING:
                self.withdrawn.update(self.case.askers)
            self.happen(events.PeerGone())
        elif chosen == 7:
            self.happen(self.rng.choice([events.Expired("late"), events.Retired("gone")]))
        elif chosen == 8 and self.function_runs:
            self.function_runs = False
            told = self.rng.choice([None, events.Fail("policy p", "it failed")])
            ended = self.rng.choice(
                [events.FunctionMade(), events.FunctionFailed(told), events.FunctionLost()]
            )
            self.function_ended = True
            if isinstance(ended, events.FunctionFailed):
                self.charged.discard(Charged.RUN)  # for good
                self.may_tell_failure |= told is not None
            self.made |= isinstance(ended, events.FunctionMade)
            self.happen(ended)

    def decided(self, by: str) -> None:
        """A person, or the policies, answer what is pending; or the policies leave it to a person."""
        if by != PERSON and self.rng.random() < 0.2:
            self.happen(events.Answered(None))
            return
        if self.rng.random() < 0.6:
            yes = events.Yes(by, is_charged=by != PERSON)
            runs = by != PERSON and not self.made and not self.function_runs and self.rng.random() < 0.5
            if by == PERSON or not self.function_runs:  # a policy's run is answered when it has ended
                self.happen(events.Answered(yes, is_unmade=runs), yes)
        elif by == PERSON and self.rng.random() < 0.5:
            self.may_tell_failure = True
            self.happen(events.Answered(events.Fail(by, "it failed")))
        else:
            self.happen(events.Answered(events.No(by, "no")))

    def end_wait(self, fails: bool) -> None:
        action = self.waits.pop(self.rng.randrange(len(self.waits)))
        if fails:
            why = self.rng.choice(FAILURES[type(action)])
            self.happen(events.Failed(action, why, ValueError(why.value)))
            return
        if isinstance(action, do.MakeOffer):
            self.offers[action.asker] = "made"
        if isinstance(action, do.Release):
            self.recorded.add(action.asker)
        if isinstance(action, do.WriteAuditEntry):
            self.asked_recorded |= {action.asker} if action.what is not Entries.ANSWERED else set()
            self.answer_recorded |= action.what is not Entries.ASKED
        self.happen(events.Done(action))

    def happen(self, event: Any, yes: events.Yes | None = None) -> None:
        self.yes = yes or self.yes
        self.case, actions = self.step(self.case, event)
        self.trace.append((event, self.case.phase, actions))
        awaited = [action for action in actions if isinstance(action, do.Awaited)]
        check(awaited in ([], list(actions[-1:])), WAITS)
        if isinstance(event, (events.Withdrawn, events.Expired, events.Retired)):
            check(not awaited, WAITS)
        if isinstance(event, events.Failed) and event.why is FailureKind.INTERRUPTED:
            check(not awaited, WAITS)
        for action in actions:
            self.perform(action)
        self.waits += awaited

    # -- what is done ----------------------------------------------------------------------------------------

    def perform(self, action: Any) -> None:
        if self.ended:
            late = do.Reply, do.Raise, do.ChargeBack, do.EndTransfer
            check(isinstance(action, late), ONCE)
        match action:
            case do.Settle(state):
                self.state = state
                if state != APPROVED:
                    self.yes = None
            case do.Charge(what):
                check(what not in self.charged, QUOTA)
                self.charged.add(what)
            case do.ChargeBack(what):
                check(what in self.charged, QUOTA)
                check(what is Charged.RUN or not self.left, QUOTA)
                # how long it has waited may have told the peer something
                check(what is not Charged.RUN or self.state not in (WITHDRAWN, EXPIRED), QUOTA)
                self.charged.remove(what)
            case do.StartFunction():
                self.check_yes(Charged.RUN)
                self.function_runs = True
            case do.MakeOffer(asker) | do.Release(asker):
                self.check_yes(Charged.RELEASE)
                check(asker not in self.withdrawn, TAKEN_BACK)
            case do.WithdrawOffer(asker):
                check(self.offers.get(asker) == "made", TAKEN_BACK)
                self.offers[asker] = "ended"
                self.recorded.discard(asker)
            case do.EndTransfer(asker):
                self.offers[asker] = "ended"
            case (
                do.Reply(asker, state, reason)
                | do.SendAnswer(asker, state, reason)
                | do.Notify(asker, state, reason)
            ):
                self.answer(asker, state, reason)
            case do.Note(what):
                self.answer_recorded |= what is Entries.ANSWERED
            case do.Raise():
                self.raised = True
            case do.Decide():
                self.decided("policy p")
            case do.FreeContent():
                self.ended = True

    def answer(self, asker: bytes, state: str, reason: str) -> None:
        if state == PENDING:
            by_message = self.case.phase in (Phase.TELLING, Phase.ENDED)
            check(asker in self.asked_recorded or by_message, AUDITED)
            return
        if not asker:  # it has withdrawn, and nobody listens
            check(self.withdrawn, ONCE)
            return
        check(asker not in self.final, ONCE)
        self.final[asker] = state
        if state == FAILED:
            check(self.may_tell_failure, NO_WORD)
        if state == APPROVED:
            self.check_yes(Charged.RELEASE)
            check(asker in self.recorded, AUDITED)
            check(asker not in self.withdrawn, TAKEN_BACK)
            self.offers[asker] = "told"
            self.left = True
        elif reason not in (NO_LOG, "late"):  # that nobody has answered in time is no answer
            check(self.answer_recorded, AUDITED)

    def check_yes(self, what: Charged) -> None:
        check(self.yes is not None, NO_YES)
        assert self.yes is not None
        check(not self.yes.is_charged or what in self.charged, QUOTA)

    def check_quiet(self) -> None:
        """When nothing takes time any more."""
        assert not self.waits
        check("made" not in self.offers.values(), TAKEN_BACK)
        check(Charged.RELEASE not in self.charged or self.left, QUOTA)
        check(Charged.RUN not in self.charged or self.function_runs or self.function_ended, QUOTA)
        # a run counts where it was not answered by a person, and a release in place of its run
        check(not {Charged.RUN, Charged.RELEASE} <= self.charged, QUOTA)
        if self.ended:
            check(self.case.phase is Phase.ENDED, ONCE)
            waiting = set(self.asked) - self.withdrawn - set(self.final)
            check(self.raised or not waiting, ONCE)


def explore(step: Callable[..., Any], runs: int) -> None:
    for seed in range(runs):
        world = World(random.Random(seed), step)
        try:
            world.run()
        except Exception as error:
            error.add_note(f"seed {seed}: " + "\n".join(map(str, world.trace)))
            raise


def test_every_property_holds_whatever_happens_in_whatever_order() -> None:
    explore(step, RUNS)


def test_the_worlds_reach_every_end_and_every_way() -> None:
    reached = set()
    for seed in range(RUNS):
        world = World(random.Random(seed), step)
        world.run()
        reached.add((world.case.phase, world.case.reply_mode, world.case.outcome))
    assert {outcome for phase, _, outcome in reached if phase is Phase.ENDED} == {
        APPROVED,
        DENIED,
        WITHDRAWN,
        EXPIRED,
        FAILED,
    }
    assert {way for _, way, _ in reached} == {*machine.ReplyMode}


# What is replaced in a copy of the machine, and the property that finds it.
PLANTED = {
    "an offer goes out before it is recorded": (
        "return now, (do.Release(asker, with_question=now.reply_mode is not ReplyMode.MESSAGE),)",
        "return _next_offer(replace(now, offered=(*now.offered, asker)))",
        AUDITED,
    ),
    "a policy's no is told before it is recorded": (
        "return now, (*before, settle, do.WriteAuditEntry(Entries.ASKED_AND_ANSWERED, asked.asker))",
        "return _ended(now, *before, settle, do.FreeContent(), do.Reply(asked.asker, DENIED, answer.reason))",
        AUDITED,
    ),
    "one of two who wait hears nothing": (
        "now = replace(now, askers=now.askers[1:], offered",
        "now = replace(now, askers=now.askers[2:], offered",
        ONCE,
    ),
    "a quota is charged after the offer was made": (
        "(*actions, do.Charge(Charged.RELEASE), do.Save())",
        "(*actions, do.Save())",
        QUOTA,
    ),
    "a quota is not given back": (
        "    if now.is_charged:\n        undo += (do.ChargeBack(Charged.RELEASE),)",
        "",
        QUOTA,
    ),
    "a quota is kept where all have withdrawn": (
        "back = (do.ChargeBack(Charged.RELEASE),) if now.is_charged else ()",
        "back = ()",
        QUOTA,
    ),
    "what has ended expires": (
        "    if now.phase is not Phase.PENDING:\n        return now, ()\n"
        "    if isinstance(event, events.Expired)",
        "    if isinstance(event, events.Expired)",
        ONCE,
    ),
    "a request is settled twice": (
        "count = (do.Count(),) if now.reply_mode is ReplyMode.AGAIN else ()",
        "count = (do.FreeContent(), do.Settle(APPROVED, now.by))",
        ONCE,
    ),
    "a policy that leaves it to a person grants": (
        "            return now, (do.CallPerson(),)\n    return now, ()\n\n\ndef _run",
        "            return _grant(now, Yes('nobody'))\n    return now, ()\n\n\ndef _run",
        NO_YES,
    ),
    "a failed grant is told all the same": (
        "    return _pending_again(now, failed.error, *undo, do.Settle(PENDING))",
        "    now = replace(now, phase=Phase.TELLING, outcome=APPROVED)\n"
        "    return _send_answer(now, *undo, do.Settle(PENDING))",
        NO_YES,
    ),
    "a withdrawal while the release is recorded is overlooked": (
        "        case do.Release(asker):\n            if asker not in now.askers:",
        "        case do.Release(asker):\n"
        "            now = replace(now, askers=tuple({*now.askers, asker}))\n            if False:",
        TAKEN_BACK,
    ),
    "a release is charged beside its run": (
        "now, back = replace(now, run_is_charged=False), (do.ChargeBack(Charged.RUN),)",
        "back = ()",
        QUOTA,
    ),
    "who withdraws a run has its quota back": (
        "if not now.run_is_charged or now.outcome in (WITHDRAWN, EXPIRED):",
        "if not now.run_is_charged:",
        QUOTA,
    ),
    "a failed run is told without a word of its policy": (
        "waits = do.CallPerson() if event.told is None else do.SaveFailure(event.told.by, event.told.reason)",
        "waits = do.SaveFailure('policy p', 'it failed')",
        NO_WORD,
    ),
    "an offer that nobody was told of stays": (
        "back = (do.WithdrawOffer(asker),) if asker in now.offered else ()",
        "back = ()",
        TAKEN_BACK,
    ),
    "a denial is awaited after an interrupt": (
        "    if now.reply_mode is ReplyMode.REPLY:\n        return _not_replied(now, failed, undo)",
        "    if now.reply_mode is ReplyMode.REPLY:\n"
        "        return now, (*undo, do.WriteAuditEntry(Entries.ASKED_AND_ANSWERED))",
        WAITS,
    ),
}


def copy_with(original: str, planted: str) -> types.ModuleType:
    source = inspect.getsource(machine)
    assert source.count(original) == 1
    copy = types.ModuleType(machine.__name__)  # its enums are those of the copy, its structs too
    source = source.replace(original, planted)
    exec(compile(source, "planted", "exec"), copy.__dict__)
    return copy


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found_by_its_property(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original, planted, found_by = PLANTED[bug]
    copy = copy_with(original, planted)
    monkeypatch.setitem(globals(), "Case", copy.Case)
    monkeypatch.setitem(globals(), "Phase", copy.Phase)
    found = set()
    for seed in range(RUNS):
        try:
            World(random.Random(seed), copy.step).run()
        except Broken as broken:
            found.add(str(broken))
        if found_by in found:
            break
    assert found_by in found


# -- a few lives, event by event -----------------------------------------------------------------------------


def lived(*happened: Any) -> tuple[Case, list[tuple[Any, ...]]]:
    """The case after these events, and the actions of each step."""
    case, done = Case(), []
    for event in happened:
        case, actions = step(case, event)
        done.append(actions)
    return case, done


A, B = b"a", b"b"
BY_POLICY = events.Yes("policy p", is_charged=True)
BY_PERSON = events.Yes(PERSON)
GONE = KeyError("gone")
NO_DISK = OSError("no disk")


def test_a_policy_answers_in_the_reply_once_its_line_is_on_the_disk() -> None:
    case, done = lived(
        events.RequestArrived(A, BY_POLICY),
        events.Done(do.Save()),
        events.Done(do.MakeOffer(A)),
        events.Done(do.Release(A, with_question=True)),
    )
    assert done == [
        (do.Settle(APPROVED, "policy p"), do.Charge(Charged.RELEASE), do.Save()),
        (do.MakeOffer(A),),
        (do.Release(A, with_question=True),),
        (do.Grant("policy p"), do.Announce(), do.FreeContent(), do.Reply(A, APPROVED)),
    ]
    assert (case.phase, case.outcome) == (Phase.ENDED, APPROVED)


def test_where_the_log_cannot_be_written_nothing_leaves_and_the_request_is_denied() -> None:
    release = do.Release(A, with_question=True)
    case, done = lived(
        events.RequestArrived(A, BY_POLICY),
        events.Done(do.Save()),
        events.Done(do.MakeOffer(A)),
        events.Failed(release, FailureKind.AUDIT, NO_DISK),
    )
    assert done[-1] == (
        do.WithdrawOffer(A, NO_DISK),
        do.ChargeBack(Charged.RELEASE),
        do.Settle(DENIED, "", NO_LOG),
        do.FreeContent(),
        do.Reply(A, DENIED, NO_LOG),
    )
    assert case.phase is Phase.ENDED


def test_where_the_log_cannot_be_written_a_request_that_a_person_approves_is_pending_again() -> None:
    release = do.Release(A, with_question=False)
    case, done = lived(
        events.RequestArrived(A),
        events.Answered(BY_PERSON),
        events.Done(do.Save()),
        events.Done(do.MakeOffer(A)),
        events.Failed(release, FailureKind.AUDIT, NO_DISK),
    )
    assert done[1] == (do.Settle(APPROVED, PERSON), do.Grant(PERSON), do.Save())
    assert done[-1] == (
        do.WithdrawOffer(A, NO_DISK),
        do.RevokeGrant(),
        do.Settle(PENDING),
        do.Raise(NO_DISK),
    )
    assert (case.phase, case.askers) == (Phase.PENDING, (A,))


def test_where_one_of_two_offers_fails_the_other_is_taken_back_and_both_hear_why() -> None:
    case, done = lived(
        events.RequestArrived(A),
        events.Joined(B),
        events.Answered(BY_PERSON),
        events.Done(do.Save()),
        events.Done(do.MakeOffer(A)),
        events.Done(do.Release(A, with_question=False)),
        events.Failed(do.MakeOffer(B), FailureKind.GONE, GONE),
        events.Done(do.SendAnswer(A, DENIED, "'gone'")),
        events.Done(do.SendAnswer(B, DENIED, "'gone'")),
    )
    assert done[-3:] == [
        (
            do.WithdrawOffer(A, GONE),
            do.RevokeGrant(),
            do.Settle(DENIED, PERSON, "'gone'"),
            do.Note(Entries.ANSWERED),
            do.SendAnswer(A, DENIED, "'gone'"),
        ),
        (do.SendAnswer(B, DENIED, "'gone'"),),
        (do.FreeContent(), do.Raise(GONE)),
    ]
    assert (case.phase, case.outcome) == (Phase.ENDED, DENIED)


def test_a_withdrawal_while_the_offer_is_made_ends_the_request_and_gives_the_quota_back() -> None:
    case, done = lived(
        events.RequestArrived(A),
        events.Answered(BY_POLICY),
        events.Done(do.Save()),
        events.Withdrawn(A),
        events.Done(do.MakeOffer(A)),
    )
    assert done[-2:] == [
        (),
        (
            do.WithdrawOffer(A),
            do.ChargeBack(Charged.RELEASE),
            do.Settle(WITHDRAWN),
            do.Note(Entries.WITHDRAWN),
            do.FreeContent(),
        ),
    ]
    assert (case.phase, case.outcome) == (Phase.ENDED, WITHDRAWN)


def test_what_expires_while_its_release_fails_has_expired() -> None:
    closed = ConnectionError("closed")
    case, done = lived(
        events.RequestArrived(A),
        events.Answered(BY_PERSON),
        events.Expired("late"),
        events.Failed(do.Save(), FailureKind.OTHER, closed),
    )
    assert done[-1] == (
        do.Settle(PENDING),
        do.Settle(EXPIRED),
        do.Note(Entries.WITHDRAWN),
        do.Notify(A, DENIED, "late"),
        do.FreeContent(),
        do.Raise(closed),
    )
    assert (case.phase, case.outcome) == (Phase.ENDED, EXPIRED)


def test_what_is_pending_stays_so_when_its_peer_is_gone_and_another_one_may_ask_again() -> None:
    case, done = lived(
        events.RequestArrived(A),
        events.Joined(B),
        events.PeerGone(),
        events.Withdrawn(A),
        events.RequestArrived(A),
    )
    assert done[2:4] == [(), ()]
    assert done[4][0] == do.Count()
    assert (case.phase, case.askers) == (Phase.PENDING, (A,))


def test_an_answer_on_its_way_to_a_peer_that_is_gone_fails_as_its_link_does() -> None:
    case, done = lived(events.RequestArrived(A), events.Answered(events.No(PERSON, "no")), events.PeerGone())
    assert done[2] == ()
    assert (case.phase, case.askers) == (Phase.TELLING, (A,))


def test_what_a_policy_had_run_for_a_peer_that_is_gone_waits_for_a_person() -> None:
    case, done = run_by_policy(events.PeerGone(), events.FunctionMade())
    assert done == [(), (do.CallPerson(),)]
    assert (case.phase, case.askers, case.run_is_charged) == (Phase.PENDING, (), True)


def test_a_policy_has_a_function_run_and_decides_anew_about_what_it_made() -> None:
    case, done = lived(
        events.RequestArrived(A, BY_POLICY, is_unmade=True),
        events.Done(do.WriteAuditEntry(Entries.ASKED, A, is_first=True)),
        events.FunctionMade(),
        events.Answered(None),
    )
    assert done == [
        (
            do.Charge(Charged.RUN),
            do.StartFunction("policy p"),
            do.CallPerson(),
            do.StartTimer(),
            do.WriteAuditEntry(Entries.ASKED, A, is_first=True),
        ),
        (do.Reply(A, PENDING),),
        (do.Decide(),),
        (do.CallPerson(),),
    ]
    assert (case.phase, case.askers, case.run_is_charged) == (Phase.PENDING, (A,), True)


def run_by_policy(*happened: Any) -> tuple[Case, list[tuple[Any, ...]]]:
    """The case after a policy has had a function run and these events, and the actions of these."""
    asked = events.RequestArrived(A, BY_POLICY, is_unmade=True)
    recorded = events.Done(do.WriteAuditEntry(Entries.ASKED, A, is_first=True))
    case, done = lived(asked, recorded, *happened)
    return case, done[2:]


def test_what_a_policy_approves_is_charged_once_for_its_run_and_its_release() -> None:
    _, done = run_by_policy(events.FunctionMade(), events.Answered(BY_POLICY))
    assert done[1] == (
        do.ChargeBack(Charged.RUN),
        do.Settle(APPROVED, "policy p"),
        do.Charge(Charged.RELEASE),
        do.Save(),
    )


def test_a_failure_that_its_policy_tells_is_kept_before_it_is_told() -> None:
    case, done = run_by_policy(
        events.FunctionFailed(events.Fail("policy p", "it failed")),
        events.Done(do.SaveFailure("policy p", "it failed")),
    )
    assert done == [
        (do.SaveFailure("policy p", "it failed"),),
        (
            do.Settle(FAILED, "policy p", "it failed"),
            do.Note(Entries.ANSWERED),
            do.SendAnswer(A, FAILED, "it failed"),
        ),
    ]
    assert case.phase is Phase.TELLING


def test_a_failure_that_no_policy_tells_waits_for_a_person_who_says_how_much() -> None:
    case, done = run_by_policy(
        events.FunctionFailed(),
        events.Answered(events.Fail(PERSON, "in line 4")),
        events.Done(do.SendAnswer(A, FAILED, "in line 4")),
    )
    assert done == [
        (do.CallPerson(),),
        (
            do.Settle(FAILED, PERSON, "in line 4"),
            do.Note(Entries.ANSWERED),
            do.SendAnswer(A, FAILED, "in line 4"),
        ),
        (do.FreeContent(),),
    ]
    assert (case.phase, case.outcome) == (Phase.ENDED, FAILED)


def test_a_failed_run_is_tried_again_and_charged_again() -> None:
    case, done = run_by_policy(events.FunctionFailed(), events.Answered(BY_POLICY, is_unmade=True))
    assert done == [(do.CallPerson(),), (do.Charge(Charged.RUN), do.StartFunction("policy p"))]
    assert case.phase is Phase.PENDING


@pytest.mark.parametrize("ended", [events.FunctionMade(), events.FunctionFailed(), events.FunctionLost()])
def test_who_withdraws_while_it_runs_has_paid_for_the_run(ended: Any) -> None:
    _, done = run_by_policy(events.Withdrawn(A), ended)
    assert done[1] == ()


def test_what_a_person_stops_or_cannot_be_run_is_given_back() -> None:
    case, done = run_by_policy(events.FunctionLost())
    assert done == [(do.ChargeBack(Charged.RUN), do.CallPerson())]
    assert case.phase is Phase.PENDING
    _, done = run_by_policy(events.Answered(events.No(PERSON, "no")), events.FunctionLost())
    assert done[1] == (do.ChargeBack(Charged.RUN),)
