"""The life of a request as a pure state machine: a case and an event in, the next case and actions out.

Theory. A case is one request with the questions that wait for its answer (its askers). A question that an
earlier approval answers is a case of its own. `step` has no side effects: no input or output, no clock, no
task. The runner performs the actions in order. Only the last action of a step may take time (`Awaited`). Its
outcome is the next event of the same chain, `Done` or `Failed`. Other events can arrive in between; they are
steps of their own, so after each wait the machine decides again whether to go on.

An example: a policy approves, and the peer withdraws before the offer is made.

    RequestArrived(7, Yes)  -> granting  Settle approved, Charge, Save
    Done(Save)              -> granting  MakeOffer 7
    Withdrawn(7)            -> granting  (noted; the chain is waiting for MakeOffer)
    Done(MakeOffer 7)       -> ended     WithdrawOffer 7, ChargeBack, Settle withdrawn, Note, FreeContent,
                                         Reply

In the table, Arrived is short for RequestArrived and Write for WriteAuditEntry; "mode" is the `ReplyMode`.

| phase    | event                              | phase    | actions, in order                               |
|----------|------------------------------------|----------|-------------------------------------------------|
| new      | Arrived, no policy decides         | pending  | CallPerson, StartTimer, Write asked             |
| new      | Arrived, yes, result not made      | pending  | Charge run, StartFunction, and as above         |
| new      | Arrived, no policy decides, it     | pending  | StartFunction, and as above                     |
|          |   runs                             |          |                                                 |
| new      | Arrived, yes                       | granting | Settle approved, Charge, Save                   |
| new      | Arrived, no                        | refusing | Settle denied, Write asked and answered         |
| new      | AskedAgain, granted before         | granting | Charge, Save (for a policy) or MakeOffer        |
| pending  | Arrived, after a restart           |          | Count, and as for a new request                 |
| pending  | Joined                             | pending  | Count, Write asked                              |
| pending  | Answered yes, result not made      | pending  | Charge run, StartFunction                       |
| pending  | Answered yes                       | granting | Settle approved, Grant or Charge, Save          |
| pending  | Answered yes, its run is charged   | granting | ChargeBack run, Settle approved, Charge, Save   |
| pending  | Answered no                        | telling  | Settle denied, Note answered, SendAnswer        |
| pending  | Answered fail                      | telling  | Settle failed, Note answered, SendAnswer        |
| pending  | FunctionMade                       | pending  | Decide; the run stays charged until a yes       |
| pending  | FunctionMade, no askers            | pending  | CallPerson; the run stays charged               |
| pending  | FunctionFailed, its policy         | pending  | SaveFailure; the run stays charged              |
|          |   reports it                       |          |                                                 |
| pending  | FunctionFailed, nothing is         | pending  | CallPerson; the run stays charged               |
|          |   reported                         |          |                                                 |
| pending  | Done SaveFailure                   | telling  | Settle failed, Note answered, SendAnswer        |
| pending  | FunctionLost                       | pending  | ChargeBack run, CallPerson                      |
| pending  | Withdrawn by the last asker        | ended    | Settle withdrawn, Note withdrawn, FreeContent   |
| pending  | PeerGone                           | pending  | no askers are left, as after a restart          |
| pending  | Expired                            | ended    | Settle expired, Note withdrawn, Notify,         |
|          |                                    |          |   FreeContent                                   |
| pending  | Retired                            | ended    | Settle denied, Note answered, Notify,           |
|          |                                    |          |   FreeContent                                   |
| any      | FunctionMade or FunctionLost       | same     | ChargeBack run                                  |
|          |   after a person has answered      |          |                                                 |
| ended    | Function…, withdrawn or expired    | ended    | the run stays charged                           |
| any      | Done Write asked                   | same     | Reply pending                                   |
| pending  | Failed Write asked, the first      | ended    | Settle denied, FreeContent, Reply denied        |
| pending  | Failed Write asked, a later one    | pending  | Reply denied; this asker is removed             |
| granting | Failed Write asked                 | granting | Reply denied; this asker is removed             |
| granting | Done Save                          | granting | MakeOffer for the first asker                   |
| granting | Done MakeOffer                     | granting | Release: the audit line goes to the disk        |
| granting | Done Release, more askers          | granting | MakeOffer for the next                          |
| granting | Done Release, mode REPLY           | ended    | Grant, Announce, FreeContent, Reply approved    |
| granting | Done Release, mode MESSAGE         | telling  | Grant, SendAnswer                               |
| granting | Done Save, mode NONE               | granting | Write answered, then ended: FreeContent         |
| granting | Withdrawn                          | granting | WithdrawOffer, now or when it has been made     |
| granting | the last asker has withdrawn       | ended    | ChargeBack, Settle withdrawn, Note, FreeContent |
| granting | Expired, Retired                   | granting | noted: it counts if the case is pending again   |
| granting | Failed, mode REPLY                 |          | WithdrawOffer, ChargeBack, and then             |
|          |   AUDIT                            | ended    | Settle denied, FreeContent, Reply denied        |
|          |   INTERRUPTED                      | ended    | Settle withdrawn, Note, Note, FreeContent,      |
|          |                                    |          |   Raise                                         |
|          |   GONE, OTHER                      | refusing | Settle denied, Write asked and answered         |
| granting | Failed, mode AGAIN                 | ended    | WithdrawOffer, ChargeBack, FreeContent, Reply   |
|          |                                    |          |   or Raise                                      |
| granting | Failed, mode MESSAGE or NONE       |          | WithdrawOffer, ChargeBack, and then             |
|          |   GONE                             | telling  | RevokeGrant, Settle denied, Note, SendAnswer,   |
|          |                                    |          |   Raise                                         |
|          |   AUDIT, INTERRUPTED               | pending  | RevokeGrant, Settle pending, Raise              |
|          |   OTHER, such as a closed link     | pending  | Settle pending, Raise                           |
| refusing | Done or Failed Write               | ended    | (Announce), FreeContent, Reply denied           |
| telling  | Done SendAnswer                    | telling  | SendAnswer to the next; after the last:         |
|          |                                    |          |   Announce, FreeContent                         |
| telling  | Failed SendAnswer                  | telling  | EndTransfer, SendAnswer to the next; at last:   |
|          |                                    |          |   Raise                                         |
| ended    | Withdrawn                          | ended    | EndTransfer, if it was approved                 |

An event that is not in the table changes nothing.
"""

from __future__ import annotations

import enum

import msgspec
from msgspec.structs import replace

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
    NONE = "not at all: an earlier kernel was asked, and the peer gets it when it asks again"


class Case(msgspec.Struct, frozen=True):
    """The state of one request, as an immutable value."""

    phase: Phase = Phase.NEW
    reply_mode: ReplyMode = ReplyMode.REPLY
    askers: tuple[bytes, ...] = ()  # oldest first
    offered: tuple[bytes, ...] = ()  # askers whose offer is recorded and not yet sent
    outcome: str = PENDING  # the answer that askers get or got
    by: str = ""
    reason: str = ""
    is_charged: bool = False  # the release is charged to a policy
    run_is_charged: bool = False
    # an end that came while granting; takes effect if the case is pending again
    pending_end: events.Expired | events.Retired | None = None
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
            return _run_ended(now, event)
        case events.Withdrawn(asker):
            return _withdrawn(now, asker)
        case events.Expired() | events.Retired():
            return _expire_or_retire(now, event)
        case events.PeerGone():
            return (replace(now, askers=()) if now.phase is Phase.PENDING else now), ()
    if now.phase is Phase.PENDING:
        return _while_pending(now, event)
    if now.phase is Phase.NEW and isinstance(event, events.RequestArrived):
        return _asked(now, event)
    if now.phase is Phase.NEW and isinstance(event, events.AskedAgain):
        return _grant(replace(now, reply_mode=ReplyMode.AGAIN, askers=(event.asker,)), event.yes)
    return now, ()


# -- questions and answers -----------------------------------------------------------------------------------


def _asked(now: Case, asked: events.RequestArrived, *before: Action) -> Step:
    now = replace(now, askers=(asked.asker,), reply_mode=ReplyMode.REPLY)
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
            return _grant(
                replace(now, reply_mode=ReplyMode.MESSAGE if now.askers else ReplyMode.NONE), yes, *back
            )
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
    return _send_answer(now, *before, do.Settle(outcome, by, reason), do.Note(Entries.ANSWERED))


def _run_ended(now: Case, event: events.FunctionMade | events.FunctionFailed | events.FunctionLost) -> Step:
    """Handle the end of a run that a policy has started.

    Whether and when a request is answered tells the peer something about the result, also if it withdraws. So
    a run stays charged to the policy's quota, unless it did not happen or a person has answered meanwhile.
    """
    is_pending = now.phase is Phase.PENDING
    if isinstance(event, events.FunctionFailed):
        # it stays charged in the quota; another run is charged again
        now = replace(now, run_is_charged=False)
        waits = do.CallPerson() if event.told is None else do.SaveFailure(event.told.by, event.told.reason)
        return now, (waits,) if is_pending else ()
    if isinstance(event, events.FunctionMade) and is_pending:
        return now, (do.Decide() if now.askers else do.CallPerson(),)
    if not now.run_is_charged or now.outcome in (WITHDRAWN, EXPIRED):
        return now, (do.CallPerson(),) if is_pending else ()
    now = replace(now, run_is_charged=False)
    return now, (do.ChargeBack(Charged.RUN), *((do.CallPerson(),) if is_pending else ()))


# -- approvals -----------------------------------------------------------------------------------------------


def _grant(now: Case, yes: Yes, *before: Action) -> Step:
    """Charge the policy and start to grant. Nothing is awaited between a policy's decision and its charge, so
    that two requests cannot spend the same quota.
    """
    now = replace(now, phase=Phase.GRANTING, outcome=APPROVED, by=yes.by, is_charged=yes.is_charged)
    actions = before if now.reply_mode is ReplyMode.AGAIN else (*before, do.Settle(APPROVED, yes.by))
    if yes.is_charged:
        return now, (*actions, do.Charge(Charged.RELEASE), do.Save())
    if now.reply_mode in (ReplyMode.REPLY, ReplyMode.AGAIN):
        return _next_offer(now, *actions)
    return now, (*actions, do.Grant(yes.by), do.Save())


def _next_offer(now: Case, *before: Action) -> Step:
    for asker in now.askers:
        if asker not in now.offered:
            return now, (*before, do.MakeOffer(asker))
    if now.reply_mode is ReplyMode.NONE:
        return now, (*before, do.WriteAuditEntry(Entries.ANSWERED))
    if not now.askers:
        return _all_withdrawn(now, *before)
    granted = () if now.by == PERSON else (do.Grant(now.by),)  # a person's grant was recorded before
    if now.reply_mode is ReplyMode.MESSAGE:
        return _send_answer(replace(now, phase=Phase.TELLING), *before, *granted)
    count = (do.Count(),) if now.reply_mode is ReplyMode.AGAIN else ()
    reply = do.Reply(now.askers[0], APPROVED)
    return _ended(now, *before, *granted, *count, do.Announce(), do.FreeContent(), reply)


def _all_withdrawn(now: Case, *before: Action) -> Step:
    back = (do.ChargeBack(Charged.RELEASE),) if now.is_charged else ()
    if now.reply_mode is ReplyMode.AGAIN:
        return _ended(now, *before, *back, do.FreeContent(), do.Reply(b"", DENIED, _GIVEN_UP))
    reply = (do.Reply(b"", DENIED, _GIVEN_UP),) if now.reply_mode is ReplyMode.REPLY else ()
    settled = do.Settle(WITHDRAWN), do.Note(Entries.WITHDRAWN), do.FreeContent()
    return _ended(replace(now, outcome=WITHDRAWN), *before, *back, *settled, *reply)


def _not_granted(now: Case, failed: events.Failed) -> Step:
    """Undo the charge and the offers after an offer could not be made or recorded. No asker has been sent an
    offer.
    """
    undo: tuple[Action, ...] = tuple(do.WithdrawOffer(asker, failed.error) for asker in now.offered)
    if isinstance(failed.action, do.Release):
        undo += (do.WithdrawOffer(failed.action.asker, failed.error),)
    if now.is_charged:
        undo += (do.ChargeBack(Charged.RELEASE),)
    now = replace(now, offered=(), is_charged=False)
    if now.reply_mode is ReplyMode.REPLY:
        return _not_replied(now, failed, undo)
    if now.reply_mode is ReplyMode.AGAIN:
        return _ended(now, *undo, do.FreeContent(), _denied_or_raised(now, failed))
    if failed.why is FailureKind.GONE:
        words = str(failed.error)
        return _refuse(now, DENIED, now.by, words, *undo, do.RevokeGrant(), error=failed.error)
    if failed.why is not FailureKind.OTHER:
        undo += (do.RevokeGrant(),)
    now = replace(now, phase=Phase.PENDING, outcome=PENDING, by="")
    return _pending_again(now, failed.error, *undo, do.Settle(PENDING))


def _not_replied(now: Case, failed: events.Failed, undo: tuple[Action, ...]) -> Step:
    """Deny a request that is answered in the reply to its own call. It does not become pending, since no
    person expects it.
    """
    if failed.why is FailureKind.INTERRUPTED:
        notes = do.Note(Entries.ASKED), do.Note(Entries.WITHDRAWN)
        now = replace(now, outcome=WITHDRAWN)
        return _ended(now, *undo, do.Settle(WITHDRAWN), *notes, do.FreeContent(), do.Raise(failed.error))
    if failed.why is FailureKind.AUDIT:
        denied = do.Settle(DENIED, "", NO_LOG), do.FreeContent(), do.Reply(_asker(now), DENIED, NO_LOG)
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
    if now.pending_end is not None:
        now, actions = _expire_or_retire(now, now.pending_end)
    elif now.reply_mode is ReplyMode.MESSAGE and not now.askers:
        settled = do.Settle(WITHDRAWN), do.Note(Entries.WITHDRAWN), do.FreeContent()
        now, actions = _ended(replace(now, outcome=WITHDRAWN), *settled)
    else:
        actions = ()
    return now, (*before, *actions, raised)


# -- outcomes of awaited actions -----------------------------------------------------------------------------


def _done(now: Case, done: events.Done) -> Step:
    match done.action:
        case do.Save():
            return _next_offer(now)
        case do.MakeOffer(asker):
            if asker not in now.askers:
                return _next_offer(now, do.WithdrawOffer(asker))
            return now, (do.Release(asker, with_question=now.reply_mode is not ReplyMode.MESSAGE),)
        case do.Release(asker):
            if asker not in now.askers:
                return _next_offer(now, do.WithdrawOffer(asker))
            return _next_offer(replace(now, offered=(*now.offered, asker)))
        case do.SendAnswer(asker):
            return _answer_sent(now, asker)
        case do.SaveFailure(by, reason):
            return _refuse(now, FAILED, by, reason) if now.phase is Phase.PENDING else (now, ())
        case do.WriteAuditEntry(Entries.ASKED, asker):
            return now, (do.Reply(asker, PENDING),)
        case do.WriteAuditEntry(_, asker) if now.phase is Phase.REFUSING:
            announce = () if now.error is not None else (do.Announce(),)
            return _ended(now, *announce, do.FreeContent(), do.Reply(asker, DENIED, now.reason))
        case do.WriteAuditEntry():
            return _ended(now, do.Announce(), do.FreeContent())
    return now, ()


def _failed(now: Case, failed: events.Failed) -> Step:
    match failed.action:
        case do.WriteAuditEntry(Entries.ASKED, asker, is_first):
            return _not_recorded(now, failed, asker, is_first)
        case do.WriteAuditEntry() if now.phase is Phase.REFUSING:
            return _ended(now, do.FreeContent(), _denied_or_raised(now, failed))
        case do.SendAnswer(asker):
            now = replace(now, error=now.error or failed.error)
            ended = (do.EndTransfer(asker),) if now.outcome == APPROVED else ()
            # the task is being cancelled, so nothing may be awaited
            if failed.why is FailureKind.INTERRUPTED:
                others = tuple(do.Notify(other, now.outcome, now.reason) for other in now.askers[1:])
                return _ended(now, *ended, *others, do.FreeContent(), do.Raise(failed.error))
            return _answer_sent(now, asker, *ended)
        case do.SaveFailure():
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
    return _ended(now, do.Settle(DENIED, "", NO_LOG), *others, do.FreeContent(), reply)


def _denied_or_raised(now: Case, failed: events.Failed) -> Action:
    if failed.why is FailureKind.AUDIT:
        return do.Reply(_asker(now), DENIED, NO_LOG)
    return do.Raise(failed.error)


def _asker(now: Case) -> bytes:
    """Return the asker that the reply goes to; empty if it has withdrawn meanwhile."""
    return now.askers[0] if now.askers else b""


def _send_answer(now: Case, *before: Action) -> Step:
    """Send the answer to the next asker, or end the case after the last one."""
    if now.askers:
        return now, (*before, do.SendAnswer(now.askers[0], now.outcome, now.reason))
    if now.error is not None:
        return _ended(now, *before, do.FreeContent(), do.Raise(now.error))
    announce = () if now.outcome == FAILED else (do.Announce(),)
    return _ended(now, *before, *announce, do.FreeContent())


def _answer_sent(now: Case, asker: bytes, *before: Action) -> Step:
    now = replace(now, askers=now.askers[1:], offered=tuple(o for o in now.offered if o != asker))
    return _send_answer(now, *before)


def _ended(now: Case, *actions: Action) -> Step:
    return replace(now, phase=Phase.ENDED, askers=(), offered=(), error=None), actions


# -- withdrawal, expiry, retirement --------------------------------------------------------------------------


def _withdrawn(now: Case, asker: bytes) -> Step:
    if now.phase is Phase.ENDED:
        return now, (do.EndTransfer(asker),) if now.outcome == APPROVED else ()
    if asker not in now.askers:
        return now, ()
    if now.phase is Phase.TELLING and asker == now.askers[0]:  # its message is being sent
        return now, (do.EndTransfer(asker),) if now.outcome == APPROVED else ()
    back = (do.WithdrawOffer(asker),) if asker in now.offered else ()
    now = replace(
        now,
        askers=tuple(other for other in now.askers if other != asker),
        offered=tuple(other for other in now.offered if other != asker),
    )
    if now.phase is Phase.PENDING and not now.askers:
        settled = do.Settle(WITHDRAWN), do.Note(Entries.WITHDRAWN), do.FreeContent()
        return _ended(replace(now, outcome=WITHDRAWN), *settled)
    return now, back


def _expire_or_retire(now: Case, event: events.Expired | events.Retired) -> Step:
    if now.phase is Phase.GRANTING:
        return replace(now, pending_end=event), ()
    if now.phase is not Phase.PENDING:
        return now, ()
    if isinstance(event, events.Expired):
        settled = do.Settle(EXPIRED), do.Note(Entries.WITHDRAWN)
        now = replace(now, outcome=EXPIRED)
    else:
        settled = do.Settle(DENIED, PERSON, event.reason), do.Note(Entries.ANSWERED)
        now = replace(now, outcome=DENIED)
    told = tuple(do.Notify(asker, DENIED, event.reason) for asker in now.askers)
    return _ended(now, *settled, *told, do.FreeContent())
