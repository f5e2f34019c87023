"""The life of a request as a pure state machine: a case and an event in, the case after it and actions out.

Theory. A case is one request with the questions that wait for its answer; a question that an earlier yes
answers is a case of its own. `step` does nothing: no input or output, no clock, no task. The runner performs
the actions in order. At most the last one takes time (`Awaited`), and what becomes of it is the next event of
the same chain: `Done` or `Failed`. Whatever else happens meanwhile is a step between the two, so that the
machine decides after each wait anew whether to go on. An example, a policy approves while the peer gives up:

    Asked(7, Yes)           -> granting  Settle approved, Charge, Keep
    Done(Keep)              -> granting  MakeOffer 7
    Withdrawn(7)            -> granting  (noted; the chain is waiting)
    Done(MakeOffer 7)       -> ended     TakeBackOffer 7, ChargeBack, Settle withdrawn, Note, LetGo, Reply

| phase    | event                              | phase    | actions, in order                               |
|----------|------------------------------------|----------|-------------------------------------------------|
| new      | Asked, nobody has decided          | pending  | CallPerson, StartTimer, Record asked            |
| new      | Asked, yes, function not run       | pending  | Charge run, StartFunction, and as above         |
| new      | Asked, nobody has decided, it runs | pending  | StartFunction, and as above                     |
| new      | Asked, yes                         | granting | Settle approved, Charge, Keep                   |
| new      | Asked, no                          | refusing | Settle denied, Record asked and answered        |
| new      | AskedAgain, a yes stands           | granting | Charge, Keep (a policy's) or MakeOffer          |
| pending  | Asked, after a restart             |          | Count, and as for a new one                     |
| pending  | Joined                             | pending  | Count, Record asked                             |
| pending  | Answered yes, function not run     | pending  | Charge run, StartFunction                       |
| pending  | Answered yes                       | granting | Settle approved, Grant or Charge, Keep          |
| pending  | Answered yes, and its run charged  | granting | ChargeBack run, Settle approved, Charge, Keep   |
| pending  | Answered no                        | telling  | Settle denied, Note answered, Tell              |
| pending  | Answered fail                      | telling  | Settle failed, Note answered, Tell              |
| pending  | FunctionMade                       | pending  | Decide; its run stays charged until a yes       |
| pending  | FunctionMade, nobody waits         | pending  | CallPerson; its run stays charged               |
| pending  | FunctionFailed, the policy tells   | pending  | KeepFailure; its run stays charged              |
| pending  | FunctionFailed, nothing is told    | pending  | CallPerson; its run stays charged               |
| pending  | Done KeepFailure                   | telling  | Settle failed, Note answered, Tell              |
| pending  | FunctionLost                       | pending  | ChargeBack run, CallPerson                      |
| pending  | Withdrawn by the last asker        | ended    | Settle withdrawn, Note withdrawn, LetGo         |
| pending  | PeerGone                           | pending  | nobody waits, as after a restart                |
| pending  | Expired                            | ended    | Settle expired, Note withdrawn, Notify, LetGo   |
| pending  | Retired                            | ended    | Settle denied, Note answered, Notify, LetGo     |
| any      | FunctionMade, FunctionLost, and a  | same     | ChargeBack run                                  |
|          |   person has answered meanwhile    |          |                                                 |
| ended    | Function…, withdrawn or expired    | ended    | its run stays charged                           |
| any      | Done Record asked                  | same     | Reply pending                                   |
| pending  | Failed Record asked, the first     | ended    | Settle denied, LetGo, Reply denied              |
| pending  | Failed Record asked, one more      | pending  | Reply denied; it no longer waits                |
| granting | Failed Record asked                | granting | Reply denied; it no longer waits                |
| granting | Done Keep                          | granting | MakeOffer for the first asker                   |
| granting | Done MakeOffer                     | granting | Release: the audit line goes to the disk        |
| granting | Done Release, others wait          | granting | MakeOffer for the next                          |
| granting | Done Release, asked just now       | ended    | Grant, Announce, LetGo, Reply approved          |
| granting | Done Release, asked before         | telling  | Grant, Tell                                     |
| granting | Done Keep, nobody waits            | granting | Record answered, then ended: LetGo              |
| granting | Withdrawn                          | granting | TakeBackOffer, now or when it has been made     |
| granting | the last asker has withdrawn       | ended    | ChargeBack, Settle withdrawn, Note, LetGo       |
| granting | Expired, Retired                   | granting | kept: it counts if the request is pending again |
| granting | Failed, asked just now             |          | TakeBackOffer, ChargeBack, and then             |
|          |   the audit log                    | ended    | Settle denied, LetGo, Reply denied              |
|          |   interrupted                      | ended    | Settle withdrawn, Note, Note, LetGo, Raise      |
|          |   anything else                    | refusing | Settle denied, Record asked and answered        |
| granting | Failed, a yes stood                | ended    | TakeBackOffer, ChargeBack, LetGo, Reply or Raise|
| granting | Failed, asked before               |          | TakeBackOffer, ChargeBack, and then             |
|          |   it is gone                       | telling  | TakeBackGrant, Settle denied, Note, Tell, Raise |
|          |   the audit log, or interrupted    | pending  | TakeBackGrant, Settle pending, Raise            |
|          |   a link that has closed, …        | pending  | Settle pending, Raise                           |
| refusing | Done, Failed Record                | ended    | (Announce), LetGo, Reply denied                 |
| telling  | Done Tell                          | telling  | Tell the next; after the last: Announce, LetGo  |
| telling  | Failed Tell                        | telling  | EndTransfer, Tell the next; at last: Raise      |
| ended    | Withdrawn                          | ended    | EndTransfer where it was approved               |

An event that is not in the table changes nothing.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from duetlink.duet.answering import actions as do
from duetlink.duet.answering import events
from duetlink.duet.answering.actions import Action, Charged, Entries
from duetlink.duet.answering.events import Event, Fail, FailureKind, No, Yes
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

_GIVEN_UP = "it was withdrawn"


class Phase(enum.Enum):
    """The phases of a case, see the table above."""

    NEW = "new"
    PENDING = "pending"
    GRANTING = "granting"  # approved; no offer has been sent yet
    REFUSING = "refusing"  # denied; being recorded, then sent as the reply to the question
    TELLING = "telling"  # the answer is being sent, to one asker after the other
    ENDED = "ended"


class ReplyMode(enum.Enum):
    """The means by which an answer reaches its askers."""

    REPLY = "in the reply to the question"
    AGAIN = "in the reply to a question for what was granted before"
    MESSAGE = "by a message, since the question was answered with `pending`"
    NOBODY = "not at all: an earlier kernel was asked, and the peer gets it when it asks again"


@dataclass(frozen=True, slots=True)
class Case:
    """The state of one request, as an immutable value."""

    phase: Phase = Phase.NEW
    way: ReplyMode = ReplyMode.REPLY
    askers: tuple[bytes, ...] = ()  # oldest first
    offered: tuple[bytes, ...] = ()  # askers whose offer is recorded and not yet sent
    outcome: str = PENDING  # the answer that askers get or got
    by: str = ""
    reason: str = ""
    is_charged: bool = False  # the release is charged to a policy
    run_is_charged: bool = False
    # an end that came while granting; takes effect if the case is pending again
    ends: events.Expired | events.Retired | None = None
    error: BaseException | None = None  # to raise in the caller after the answer was sent


Step = tuple[Case, tuple[Action, ...]]


def step(now: Case, event: Event) -> Step:
    """Return the case after `event`, and the actions to perform, in order."""
    match event:
        case events.Done():
            return _done(now, event)
        case events.Failed():
            return _failed(now, event)
        case events.FunctionMade() | events.FunctionFailed() | events.FunctionLost():
            return _function(now, event)
        case events.Withdrawn(asker):
            return _withdrawn(now, asker)
        case events.Expired() | events.Retired():
            return _ends(now, event)
        case events.PeerGone():
            return (replace(now, askers=()) if now.phase is Phase.PENDING else now), ()
    if now.phase is Phase.PENDING:
        return _while_pending(now, event)
    if now.phase is Phase.NEW and isinstance(event, events.RequestArrived):
        return _asked(now, event)
    if now.phase is Phase.NEW and isinstance(event, events.AskedAgain):
        return _grant(replace(now, way=ReplyMode.AGAIN, askers=(event.asker,)), event.yes)
    return now, ()


# -- a question, and the answer to it ------------------------------------------------------------------------


def _asked(now: Case, asked: events.RequestArrived, *before: Action) -> Step:
    now = replace(now, askers=(asked.asker,), way=ReplyMode.REPLY)
    answer = asked.answer
    if isinstance(answer, No):
        now = replace(now, phase=Phase.REFUSING, outcome=DENIED, by=answer.by, reason=answer.reason)
        settle = do.Settle(DENIED, answer.by, answer.reason)
        return now, (*before, settle, do.WriteAuditEntry(Entries.ASKED_AND_ANSWERED, asked.asker))
    if isinstance(answer, Yes) and not asked.is_unmade:
        return _grant(now, answer, *before)
    now = replace(now, phase=Phase.PENDING)
    if isinstance(answer, Yes):
        now, run = _run(now, answer)
        before = (*before, *run)
    elif asked.runs:
        before = (*before, do.StartFunction(""))
    record = do.WriteAuditEntry(Entries.ASKED, asked.asker, is_first=True)
    return now, (*before, do.CallPerson(), do.StartTimer(), record)


def _while_pending(now: Case, event: Event) -> Step:
    match event:
        case events.RequestArrived() if not now.askers:
            return _asked(now, event, do.Count())
        case events.Joined(asker):
            now = replace(now, askers=(*now.askers, asker))
            return now, (do.Count(), do.WriteAuditEntry(Entries.ASKED, asker))
        case events.Answered(No(by, reason)):
            return _refuse(now, DENIED, by, reason)
        case events.Answered(Fail(by, reason)):
            return _refuse(now, FAILED, by, reason)
        case events.Answered(Yes() as yes, is_unmade):
            if is_unmade:
                return _run(now, yes)
            back: tuple[Action, ...] = ()
            if yes.is_charged and now.run_is_charged:  # the release is charged instead of the run
                now, back = replace(now, run_is_charged=False), (do.ChargeBack(Charged.RUN),)
            return _grant(replace(now, way=ReplyMode.MESSAGE if now.askers else ReplyMode.NOBODY), yes, *back)
        case events.Answered(None):
            return now, (do.CallPerson(),)
    return now, ()


def _run(now: Case, yes: Yes) -> Step:
    charge = (do.Charge(Charged.RUN),) if yes.is_charged else ()
    return replace(now, run_is_charged=yes.is_charged), (*charge, do.StartFunction(yes.by))


def _refuse(
    now: Case, outcome: str, by: str, reason: str, *before: Action, error: BaseException | None = None
) -> Step:
    """Tell all askers that the answer is no, or that the run has failed."""
    now = replace(now, phase=Phase.TELLING, outcome=outcome, by=by, reason=reason, error=error)
    return _tell(now, *before, do.Settle(outcome, by, reason), do.Note(Entries.ANSWERED))


def _function(now: Case, event: events.FunctionMade | events.FunctionFailed | events.FunctionLost) -> Step:
    """Handle the end of a run that a policy has started.

    Whether and when a request is answered tells the peer something about the result, also if it withdraws. So
    a run stays charged to the policy's quota, unless it did not happen or a person has answered meanwhile.
    """
    is_pending = now.phase is Phase.PENDING
    if isinstance(event, events.FunctionFailed):
        # it stays charged in the quota; another run is charged again
        now = replace(now, run_is_charged=False)
        waits = do.CallPerson() if event.told is None else do.KeepFailure(event.told.by, event.told.reason)
        return now, (waits,) if is_pending else ()
    if isinstance(event, events.FunctionMade) and is_pending:
        return now, (do.Decide() if now.askers else do.CallPerson(),)
    if not now.run_is_charged or now.outcome in (WITHDRAWN, EXPIRED):
        return now, (do.CallPerson(),) if is_pending else ()
    now = replace(now, run_is_charged=False)
    return now, (do.ChargeBack(Charged.RUN), *((do.CallPerson(),) if is_pending else ()))


# -- a yes ---------------------------------------------------------------------------------------------------


def _grant(now: Case, yes: Yes, *before: Action) -> Step:
    """Charge the policy and start to grant. Nothing is awaited between a policy's decision and its charge, so
    that two requests cannot spend the same quota.
    """
    now = replace(now, phase=Phase.GRANTING, outcome=APPROVED, by=yes.by, is_charged=yes.is_charged)
    actions = before if now.way is ReplyMode.AGAIN else (*before, do.Settle(APPROVED, yes.by))
    if yes.is_charged:
        return now, (*actions, do.Charge(Charged.RELEASE), do.Keep())
    if now.way in (ReplyMode.REPLY, ReplyMode.AGAIN):
        return _next_offer(now, *actions)
    return now, (*actions, do.Grant(yes.by), do.Keep())


def _next_offer(now: Case, *before: Action) -> Step:
    for asker in now.askers:
        if asker not in now.offered:
            return now, (*before, do.MakeOffer(asker))
    if now.way is ReplyMode.NOBODY:
        return now, (*before, do.WriteAuditEntry(Entries.ANSWERED))
    if not now.askers:
        return _all_withdrawn(now, *before)
    granted = () if now.by == PERSON else (do.Grant(now.by),)  # a person's grant was recorded before
    if now.way is ReplyMode.MESSAGE:
        return _tell(replace(now, phase=Phase.TELLING), *before, *granted)
    count = (do.Count(),) if now.way is ReplyMode.AGAIN else ()
    reply = do.Reply(now.askers[0], APPROVED)
    return _ended(now, *before, *granted, *count, do.Announce(), do.LetGo(), reply)


def _all_withdrawn(now: Case, *before: Action) -> Step:
    back = (do.ChargeBack(Charged.RELEASE),) if now.is_charged else ()
    if now.way is ReplyMode.AGAIN:
        return _ended(now, *before, *back, do.LetGo(), do.Reply(b"", DENIED, _GIVEN_UP))
    reply = (do.Reply(b"", DENIED, _GIVEN_UP),) if now.way is ReplyMode.REPLY else ()
    settled = do.Settle(WITHDRAWN), do.Note(Entries.WITHDRAWN), do.LetGo()
    return _ended(replace(now, outcome=WITHDRAWN), *before, *back, *settled, *reply)


def _not_granted(now: Case, failed: events.Failed) -> Step:
    """Undo the charge and the offers after an offer could not be made or recorded. No asker has been sent an
    offer.
    """
    undo: tuple[Action, ...] = tuple(do.TakeBackOffer(asker, failed.error) for asker in now.offered)
    if isinstance(failed.action, do.Release):
        undo += (do.TakeBackOffer(failed.action.asker, failed.error),)
    if now.is_charged:
        undo += (do.ChargeBack(Charged.RELEASE),)
    now = replace(now, offered=(), is_charged=False)
    if now.way is ReplyMode.REPLY:
        return _not_replied(now, failed, undo)
    if now.way is ReplyMode.AGAIN:
        return _ended(now, *undo, do.LetGo(), _denied_or_raised(now, failed))
    if failed.why is FailureKind.GONE:
        words = str(failed.error)
        return _refuse(now, DENIED, now.by, words, *undo, do.TakeBackGrant(), error=failed.error)
    if failed.why is not FailureKind.OTHER:
        undo += (do.TakeBackGrant(),)
    now = replace(now, phase=Phase.PENDING, outcome=PENDING, by="")
    return _pending_again(now, failed.error, *undo, do.Settle(PENDING))


def _not_replied(now: Case, failed: events.Failed, undo: tuple[Action, ...]) -> Step:
    """Deny a request that is answered in the reply to its own call. It does not become pending, since no
    person expects it.
    """
    if failed.why is FailureKind.INTERRUPTED:
        notes = do.Note(Entries.ASKED), do.Note(Entries.WITHDRAWN)
        now = replace(now, outcome=WITHDRAWN)
        return _ended(now, *undo, do.Settle(WITHDRAWN), *notes, do.LetGo(), do.Raise(failed.error))
    if failed.why is FailureKind.AUDIT:
        denied = do.Settle(DENIED, "", NO_LOG), do.LetGo(), do.Reply(_asker(now), DENIED, NO_LOG)
        return _ended(replace(now, outcome=DENIED), *undo, *denied)
    words = str(failed.error)
    now = replace(now, phase=Phase.REFUSING, outcome=DENIED, reason=words, error=failed.error)
    return now, (
        *undo,
        do.Settle(DENIED, now.by, words),
        do.WriteAuditEntry(Entries.ASKED_AND_ANSWERED, _asker(now)),
    )


def _pending_again(now: Case, error: BaseException, *before: Action) -> Step:
    raised = do.Raise(error)
    if now.ends is not None:
        now, actions = _ends(now, now.ends)
    elif now.way is ReplyMode.MESSAGE and not now.askers:
        settled = do.Settle(WITHDRAWN), do.Note(Entries.WITHDRAWN), do.LetGo()
        now, actions = _ended(replace(now, outcome=WITHDRAWN), *settled)
    else:
        actions = ()
    return now, (*before, *actions, raised)


# -- what became of an action --------------------------------------------------------------------------------


def _done(now: Case, done: events.Done) -> Step:
    match done.action:
        case do.Keep():
            return _next_offer(now)
        case do.MakeOffer(asker):
            if asker not in now.askers:
                return _next_offer(now, do.TakeBackOffer(asker))
            return now, (do.Release(asker, with_question=now.way is not ReplyMode.MESSAGE),)
        case do.Release(asker):
            if asker not in now.askers:
                return _next_offer(now, do.TakeBackOffer(asker))
            return _next_offer(replace(now, offered=(*now.offered, asker)))
        case do.Tell(asker):
            return _told(now, asker)
        case do.KeepFailure(by, reason):
            return _refuse(now, FAILED, by, reason) if now.phase is Phase.PENDING else (now, ())
        case do.WriteAuditEntry(Entries.ASKED, asker):
            return now, (do.Reply(asker, PENDING),)
        case do.WriteAuditEntry(_, asker) if now.phase is Phase.REFUSING:
            announce = () if now.error is not None else (do.Announce(),)
            return _ended(now, *announce, do.LetGo(), do.Reply(asker, DENIED, now.reason))
        case do.WriteAuditEntry():
            return _ended(now, do.Announce(), do.LetGo())
    return now, ()


def _failed(now: Case, failed: events.Failed) -> Step:
    match failed.action:
        case do.WriteAuditEntry(Entries.ASKED, asker, is_first):
            return _not_recorded(now, failed, asker, is_first)
        case do.WriteAuditEntry() if now.phase is Phase.REFUSING:
            return _ended(now, do.LetGo(), _denied_or_raised(now, failed))
        case do.Tell(asker):
            now = replace(now, error=now.error or failed.error)
            ended = (do.EndTransfer(asker),) if now.outcome == APPROVED else ()
            # the task is being cancelled, so nothing may be awaited
            if failed.why is FailureKind.INTERRUPTED:
                others = tuple(do.Notify(other, now.outcome, now.reason) for other in now.askers[1:])
                return _ended(now, *ended, *others, do.LetGo(), do.Raise(failed.error))
            return _told(now, asker, *ended)
        case do.KeepFailure():
            waits = (do.CallPerson(),) if now.phase is Phase.PENDING else ()
            return now, (*waits, do.Raise(failed.error))
    return _not_granted(now, failed)


def _not_recorded(now: Case, failed: events.Failed, asker: bytes, is_first: bool) -> Step:
    if failed.why is not FailureKind.AUDIT:
        return now, (do.Raise(failed.error),)
    if now.phase in (Phase.TELLING, Phase.ENDED):  # it is answered by a message
        return now, (do.Reply(asker, PENDING),)
    reply = do.Reply(asker, DENIED, NO_LOG)
    if now.phase is Phase.GRANTING:
        now, back = _withdrawn(now, asker)
        return now, (*back, reply)
    now = replace(now, askers=tuple(other for other in now.askers if other != asker))
    if not is_first:
        return now, (reply,)
    others = tuple(do.Notify(other, DENIED, NO_LOG) for other in now.askers)
    now = replace(now, outcome=DENIED)
    return _ended(now, do.Settle(DENIED, "", NO_LOG), *others, do.LetGo(), reply)


def _denied_or_raised(now: Case, failed: events.Failed) -> Action:
    if failed.why is FailureKind.AUDIT:
        return do.Reply(_asker(now), DENIED, NO_LOG)
    return do.Raise(failed.error)


def _asker(now: Case) -> bytes:
    """Return the asker that the reply goes to; empty if it has withdrawn meanwhile."""
    return now.askers[0] if now.askers else b""


def _tell(now: Case, *before: Action) -> Step:
    """Send the answer to the next asker, or end the case after the last one."""
    if now.askers:
        return now, (*before, do.Tell(now.askers[0], now.outcome, now.reason))
    if now.error is not None:
        return _ended(now, *before, do.LetGo(), do.Raise(now.error))
    announce = () if now.outcome == FAILED else (do.Announce(),)
    return _ended(now, *before, *announce, do.LetGo())


def _told(now: Case, asker: bytes, *before: Action) -> Step:
    now = replace(now, askers=now.askers[1:], offered=tuple(o for o in now.offered if o != asker))
    return _tell(now, *before)


def _ended(now: Case, *actions: Action) -> Step:
    return replace(now, phase=Phase.ENDED, askers=(), offered=(), error=None), actions


# -- what ends a request otherwise ---------------------------------------------------------------------------


def _withdrawn(now: Case, asker: bytes) -> Step:
    if now.phase is Phase.ENDED:
        return now, (do.EndTransfer(asker),) if now.outcome == APPROVED else ()
    if asker not in now.askers:
        return now, ()
    if now.phase is Phase.TELLING and asker == now.askers[0]:  # its message is being sent
        return now, (do.EndTransfer(asker),) if now.outcome == APPROVED else ()
    back = (do.TakeBackOffer(asker),) if asker in now.offered else ()
    now = replace(
        now,
        askers=tuple(other for other in now.askers if other != asker),
        offered=tuple(other for other in now.offered if other != asker),
    )
    if now.phase is Phase.PENDING and not now.askers:
        settled = do.Settle(WITHDRAWN), do.Note(Entries.WITHDRAWN), do.LetGo()
        return _ended(replace(now, outcome=WITHDRAWN), *settled)
    return now, back


def _ends(now: Case, event: events.Expired | events.Retired) -> Step:
    if now.phase is Phase.GRANTING:
        return replace(now, ends=event), ()
    if now.phase is not Phase.PENDING:
        return now, ()
    if isinstance(event, events.Expired):
        settled = do.Settle(EXPIRED), do.Note(Entries.WITHDRAWN)
        now = replace(now, outcome=EXPIRED)
    else:
        settled = do.Settle(DENIED, PERSON, event.reason), do.Note(Entries.ANSWERED)
        now = replace(now, outcome=DENIED)
    told = tuple(do.Notify(asker, DENIED, event.reason) for asker in now.askers)
    return _ended(now, *settled, *told, do.LetGo())
