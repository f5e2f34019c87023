"""A person's decisions about a function: run it, release its result, allow it again, or report
its failure.
"""

from __future__ import annotations

import datetime

from duetlink.base.audit import entry
from duetlink.base.audit.entry import Entry
from duetlink.duet.answering.events import Fail
from duetlink.duet.answering.failure import FAILURES
from duetlink.duet.answering.inbox import Inbox
from duetlink.duet.answering.incoming import Incoming
from duetlink.duet.answering.policies.decision import Decision
from duetlink.duet.answering.policies.facts import Facts
from duetlink.duet.answering.policies.policy import Policy, literal
from duetlink.duet.answering.states import PERSON
from duetlink.errors import SettingError


async def run(inbox: Inbox, request: Incoming, timeout_s: float | None) -> None:
    """Run the job of a request here, without telling the peer. Raises as `Jobs.make`, and SettingError: there
    is nothing to run.
    """
    request.check_pending()
    if request.job is None:
        raise SettingError(
            f"request {request.number} asks for an asset, so there is nothing to run; see preview()"
        )
    await inbox.jobs.make(request, PERSON, timeout_s)


async def approve(
    inbox: Inbox,
    request: Incoming,
    *,
    times: int | None = None,
    until: datetime.datetime | None = None,
    logs: bool = False,
    timeout_s: float | None = None,
) -> None:
    """Release what was asked for; run it first, if it has to be. Raises as `Request.approve`."""
    request.check_pending()
    repeat = _repeat_policy(inbox, request, times, until)
    if request.job is not None:
        if logs:
            await inbox.jobs.share_log(request)
        await inbox.jobs.make(request, PERSON, timeout_s)
    elif logs or timeout_s is not None:
        raise SettingError(
            "logs and timeout_s only apply to requests with something to run, and this one has none"
        )
    facts = Facts.of(request.asset, request.peer_name)
    await inbox.approve(request)
    if repeat is not None:
        await _put_in_force(inbox, repeat, facts)


async def fail(inbox: Inbox, request: Incoming, tell: str) -> None:
    """Tell the peer that the run failed here. Raises as `Request.fail`."""
    request.check_pending()
    if tell not in FAILURES:
        raise SettingError(f"tell is one of {', '.join(FAILURES)}, got {tell!r}")
    job = request.job
    if job is None or job.failure is None or job.made:  # for a check, a failed run is a result, False
        raise SettingError(f"request {request.number} has not failed here; run() tries it, deny() refuses it")
    await inbox.refuse(request, Fail(PERSON, job.failure.words(job.name, tell)))


def _repeat_policy(
    inbox: Inbox, request: Incoming, times: int | None, until: datetime.datetime | None
) -> Policy | None:
    """Return the policy that approves the same code the next times; None if none was asked for. Raises
    SettingError.
    """
    if times is None and until is None:
        return None
    made = request.asset.lineage
    if made is None:
        raise SettingError(
            "times and until only apply to results and functions; an approved asset stays approved"
        )
    if times is not None and times == 0:
        raise SettingError("times must be at least 1, since this approval counts")
    policy = Policy(
        "approve",
        name=f"code of request {request.number}",
        code=(made.digest,),
        peers=(literal(request.peer_name),),
        count=times,
        until=until,
    )
    if until is not None and until <= inbox.policies.now():
        raise SettingError(f"until must be in the future, got {until}")
    return inbox.policies.name(policy)


async def _put_in_force(inbox: Inbox, policy: Policy, facts: Facts) -> None:
    """Add the policy, charge it with the release that has just happened, and let it answer pending requests.
    Raises AuditUnavailable, StateUnavailable.
    """
    book = inbox.policies
    async with book.changing:
        policy = book.name(policy)
        added = Entry(
            kind=entry.POLICY, name=policy.name, state="added", reason=f"{policy.action}: {policy.words()}"
        )
        await inbox.recorder.record(added)
        await book.keep_added(policy)
        book.charge(Decision(policy, ()), facts)
    inbox.changed()
    await inbox.examine()
