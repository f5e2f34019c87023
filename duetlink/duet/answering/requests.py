"""The owner's queue: requests of the peer with their numbers, answered or not."""

from __future__ import annotations

import datetime
import html
from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from duetlink.attributes import KnownAttributes
from duetlink.base.quantities import size_text
from duetlink.base.runtime.loop import LoopThread
from duetlink.base.wire.text import harmless, harmless_lines
from duetlink.compute.operations.lineage import Lineage
from duetlink.duet.answering import review
from duetlink.duet.answering.charge import BudgetCharge, refusal
from duetlink.duet.answering.events import No
from duetlink.duet.answering.failure import THAT
from duetlink.duet.answering.inbox import Inbox
from duetlink.duet.answering.incoming import Incoming
from duetlink.duet.answering.policies.facts import Facts
from duetlink.duet.answering.policies.policy import Policy, literal
from duetlink.duet.answering.states import PENDING, PERSON
from duetlink.duet.code import Code
from duetlink.duet.display import Listing, Table, by_words, imported_pandas, visible
from duetlink.duet.objects.asset import AssetInfo
from duetlink.duet.objects.job_log import LogLines
from duetlink.duet.objects.preview import preview_of
from duetlink.errors import SettingError

if TYPE_CHECKING:
    import pandas as pd


class Request(KnownAttributes):
    """One request of the peer: who asks for what, and why."""

    def __init__(self, incoming: Incoming, inbox: Inbox, thread: LoopThread) -> None:
        self._incoming = incoming
        self._inbox = inbox
        self._thread = thread

    @property
    def number(self) -> int:
        """Its index in `duet.requests`; it never changes."""
        return self._incoming.number

    @property
    def asset(self) -> AssetInfo:
        """What would leave: name, revision, type, size."""
        return self._incoming.asset

    @property
    def lineage(self) -> Lineage | None:
        """How the peer made it: from which assets, by which operations; None where it is an asset itself."""
        return self.asset.lineage

    @property
    def operations(self) -> tuple[str, ...]:
        """The operations by which the peer made it, by name; none where it is an asset itself."""
        return self.lineage.operations if self.lineage is not None else ()

    @property
    def code(self) -> Code:
        """The same as Python, coloured in a notebook; empty for an asset."""
        return Code(self.lineage.code if self.lineage is not None else "")

    @property
    def steps(self) -> Code:
        """Every step of a result's program on a line of its own, with nothing left out; of a function, those
        that make its inputs. `code` makes one of the rounds of a loop, and cuts long lists, texts and
        programs. Empty where there are none, and once it has been answered.
        """
        job = self._incoming.job
        return Code("" if job is None or self._incoming.state != PENDING else job.all_steps())

    @property
    def group(self) -> int | None:
        """Of how many rows it is made, at the least; None where no row of an asset is in it."""
        return self.asset.group if self.lineage is not None else 1

    @property
    def expires(self) -> datetime.datetime | None:
        """Until when it may be answered; None for as long as the link lives."""
        return self._incoming.expires

    @property
    def peer(self) -> str:
        """The name that the peer gave itself."""
        return harmless(self._incoming.peer_name)

    @property
    def reason(self) -> str:
        """The peer's words, with escapes for what would be a command to a terminal."""
        return harmless_lines(self._incoming.reason)

    @property
    def state(self) -> str:
        """`pending`, `approved`, `denied`, `withdrawn` or `expired`; of a function also `running`, or
        `failed`.
        """
        job = self._incoming.job
        if job is not None and job.running and self._incoming.state == PENDING:
            return "running"
        return self._incoming.state

    @property
    def function(self) -> str:
        """The name of the function that the peer wants to be run; empty where it asks for an object, or for a
        result of listed steps.
        """
        job = self._incoming.job
        return job.name if job is not None and job.is_function else ""

    @property
    def privacy(self) -> str:
        """What the function claims to cost of the budgets of the assets that it gets, such as "epsilon 2 at
        delta 1e-05"; empty if it claims nothing. It is charged when the function is run.
        """
        job = self._incoming.job
        return "" if job is None or job.claim is None else str(job.claim)

    @property
    def charges(self) -> tuple[BudgetCharge, ...]:
        """What would be charged to the budgets of the assets that the function gets, if it were run now, with
        what is left of each; none where it claims nothing, was charged already, or has been answered.

        Raises:
            AuditUnavailable, AuditBroken: the ledger of budgets cannot be read.
        """
        job = self._incoming.job
        if job is None or job.claim is None or job.is_charged or self._incoming.state != PENDING:
            return ()
        assert job.info.lineage is not None
        return self._inbox.planned_charges(job.info.lineage.assets, job.claim)

    @property
    def refusal(self) -> str:
        """Why the function cannot be run, and so not approved, with what is left of the budgets now; empty
        where it can. Raises as `charges`.
        """
        job = self._incoming.job
        return "" if job is None or job.claim is None else refusal(self.charges, job.claim)

    @property
    def mock_result(self) -> str:
        """What the function has made of mocks, as the peer says; with escapes as `reason`."""
        return harmless_lines(self._incoming.job.mock) if self._incoming.job is not None else ""

    @property
    def log(self) -> LogLines:
        """What the function has printed here, and where it failed. Both may quote the data."""
        job = self._incoming.job
        if job is None:
            return LogLines()
        failure = job.failure.traceback.rstrip("\n").split("\n") if job.failure is not None else []
        return LogLines((*job.log.lines, *failure))

    @property
    def failure(self) -> str:
        """Where and by which class of errors the last run here has failed, while nobody has answered; empty
        where it has not. `log` has the message and the traceback. The peer knows nothing of it.
        """
        job = self._incoming.job
        if job is None or job.failure is None or job.made or job.running or self._incoming.state != PENDING:
            return ""
        return job.failure.summary

    @property
    def running(self) -> str:
        """How far its run here is: the step of a program, the time, the memory that it takes; empty where
        nothing runs. See `stop`.
        """
        return self._incoming.job.course if self._incoming.job is not None else ""

    @property
    def progress(self) -> float | None:
        """How far the function has told that it is, from 0 to 1; None where it has told nothing."""
        return self._incoming.job.log.fraction if self._incoming.job is not None else None

    @property
    def times(self) -> int:
        """How often the peer has asked for it; once approved, the next times are answered at once."""
        return self._incoming.times

    @property
    def answer_reason(self) -> str:
        """The words that the answer was given with."""
        return self._incoming.answer_reason

    @property
    def by(self) -> str:
        """Who answered: `person`, or `policy NAME`; empty while it is pending, or where it was withdrawn."""
        return self._incoming.by

    @property
    def answered(self) -> datetime.datetime | None:
        """When it was answered or withdrawn; None while it is pending."""
        return self._incoming.answered

    @property
    def arrived(self) -> datetime.datetime:
        return self._incoming.arrived

    def preview(self) -> str:
        """The beginning of what would leave, as text; of an object over 16 MiB, of what it was made from.
        What a cell prints of it is saved with the notebook; what the panel shows of it is not.

        Raises AssetNotFound, AssetChanged: what was asked for is no longer shared.
        """
        content = self._incoming.content
        if self.asset.lineage is None:
            content = self._inbox.catalogue.check_mine(self.asset.name, self.asset.revision).content
        if content is None and self.asset.is_unmade:
            does = "runs the function" if self.function else "makes it"
            return f"not known: run() {does} here, and only here"
        return preview_of(content) if content is not None else "not kept: the request has been answered"

    def run(self, *, timeout_s: float | None = None) -> None:
        """Run what was asked for, here, in a process of its own that is shut in. Nothing of it leaves: the
        request stays pending, `preview()` shows what it makes, `log` what it prints. Does nothing
        where that has been done. If interrupted, it is ended. `timeout_s` is how long it may take, instead of
        the settings' time.

        Raises:
            OperationFailed: it has failed; `log` has the traceback. It can be run again.
            RequestAnswered: answered or withdrawn, before or meanwhile.
            AssetNotFound, AssetChanged: what it works on is no longer shared.
            WorkerUnavailable: there can be no such process here.
            AuditUnavailable: the audit log cannot be written; it is not run.
            SettingError: there is nothing to run.
        """
        self._thread.run(review.run(self._inbox, self._incoming, timeout_s))

    def approve(
        self,
        *,
        times: int | None = None,
        until: datetime.datetime | None = None,
        logs: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Let this revision of the object leave to the peer, now and when it asks again.

        What has to be run is run first, if it has not been, as `run` does; where it fails, the request stays
        pending and the peer is told nothing: see `fail`. It is approved this once, for what it has made. With
        `times` or `until` a policy is added that answers the same code with the same arguments again: so many
        times, with this one, and until then; each time it is run anew, on what is shared then. With `logs`
        the peer gets what it prints and how far it is.

        Raises:
            OperationFailed: the function has failed; `log` has the traceback.
            SettingError: `times`, `until`, `logs` or `timeout_s` cannot be used, or not for this request.
            RequestAnswered: answered or withdrawn before.
            AssetNotFound, AssetChanged: what was asked for is no longer shared.
            AuditUnavailable: the audit log cannot be written; nothing has left.
            LinkClosed: the peer is gone.
        """
        self._thread.run(
            review.approve(
                self._inbox, self._incoming, times=times, until=until, logs=logs, timeout_s=timeout_s
            )
        )

    def deny(self, reason: str = "") -> None:
        """Say no, for a reason that the peer gets to read. Raises RequestAnswered, LinkClosed."""
        if not isinstance(reason, str):
            raise SettingError(f"a reason is a text, got {type(reason).__name__}")
        self._thread.run(self._inbox.refuse(self._incoming, No(PERSON, reason)))

    def fail(self, tell: str = THAT) -> None:
        """Answer that what was asked for has failed here, as the last run has. The peer hears `"that"` it
        did; or also the `"type"`: in which step or line, and by which class of errors; or also the
        `"message"`, which may quote the data. A limit of time, of memory or of the size of the result is
        one outcome, whichever it was.

        Raises:
            SettingError: it has not failed, or `tell` is none of these.
            RequestAnswered: answered or withdrawn before.
            LinkClosed: the peer is gone.
        """
        self._thread.run(review.fail(self._inbox, self._incoming, tell))

    def stop(self) -> None:
        """End its run here, whoever has begun it: the request stays pending, and the peer hears nothing. Does
        nothing where it does not run. Raises RequestAnswered.
        """
        self._thread.run(self._inbox.jobs.stop(self._incoming))

    def like_this(self, **changes: Any) -> Policy:
        """A policy that would approve this request, and as little else as a policy can: this object in any
        revision with these very tags and this type, as large at most, for a peer of this name, ten times,
        until the end of the day. `changes` are fields of `Policy`; `duet.policies.add` puts it in force.

        Raises SettingError: a change cannot be used.
        """
        asset, made = self.asset, self.lineage
        names = [asset.name] if made is None else [name for name, _ in made.assets]
        fields: dict[str, Any] = {
            "name": f"like request {self.number}",
            "assets": tuple(literal(name) for name in names),
            # how a result was made, its digest says
            "tags": tuple(map(literal, asset.tags if made is None else asset.common_tags or ())),
            "no_other_tags": made is None,
            "kinds": () if asset.is_unmade else (literal(asset.kind),),
            "code": () if made is None else (made.digest,),
            "peers": (literal(self._incoming.peer_name),),
            "max_bytes": None if asset.is_unmade else asset.size_bytes,
            "max_elements": asset.elements,
            "count": 10,
            "until": _end_of_day(self._inbox.policies.now()),
        }
        try:
            return Policy("approve", **fields | changes)
        except TypeError:
            unknown = ", ".join(changes)
            raise SettingError(f"a policy has no such field: one of {unknown}") from None

    @property
    def _state_words(self) -> str:
        course = self.running
        return f"running: {course}" if course else self.state

    def __repr__(self) -> str:
        asset = self._incoming.asset
        what = f"asks for {visible(asset.name)!r}, "
        what += asset.detail if asset.is_unmade else size_text(asset.size_bytes)
        if self.function:
            what = f"asks to run {visible(asset.name)}, said to make of mocks: {visible(self.mock_result)}"
        failed = f" and failed here: {visible(self.failure)}" if self.failure else ""
        return (
            f"<Request {self.number} ({self._state_words}): {visible(self.peer)} {what}{failed}; "
            f"reason: {visible(self.reason) or 'none given'}>"
        )

    def _repr_html_(self) -> str:
        shown = RequestTable([self])._repr_html_()
        if self.lineage is not None:
            is_known = Facts.of(self.asset, self.peer).is_group_known
            rows = f", {_rows(self.group)}" if is_known else ""
            shown += f"<div>how it is made{rows}:</div>{self.code._repr_html_()}"
        if self.failure:
            shown += (
                f"<div>it failed here: {html.escape(visible(self.failure))}. The peer knows nothing of it: "
                "<code>.log</code> has the traceback, <code>.run()</code> tries it again, "
                "<code>.fail()</code> tells the peer, <code>.deny()</code> refuses</div>"
            )
        elif self._incoming.state == PENDING:  # an output is saved with the notebook: the value is not in it
            shown += "<div>what would leave: see <code>.preview()</code>, or the panel</div>"
        return shown


def _rows(group: int | None) -> str:
    if group is None:
        return "of no row of an asset"
    return "of single rows" if group <= 1 else f"each number of at least {group:,} rows"


def _words(asset: AssetInfo) -> str:
    if asset.is_unmade:
        return asset.detail
    if asset.is_number:
        return f"one number, {asset.kind}"
    return f"{asset.kind} {asset.detail}".rstrip() + f", {size_text(asset.size_bytes)}"


def _end_of_day(now: datetime.datetime) -> datetime.datetime:
    # by the calendar: a day may have 23 or 25 hours
    tomorrow = datetime.datetime.combine(now.date() + datetime.timedelta(days=1), datetime.time())
    return tomorrow.astimezone()


def _when(moment: datetime.datetime) -> str:
    # of an earlier kernel, perhaps
    is_today = moment.date() == datetime.datetime.now().date()
    return moment.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M")


class RequestTable(Listing[Request]):
    """The queue as of now; index by the number that the table shows."""

    @property
    def pending(self) -> list[Request]:
        """Those without an answer, oldest first."""
        return [request for request in self if request.state == "pending"]

    @overload
    def __getitem__(self, index: int) -> Request: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Request]: ...
    def __getitem__(self, index: int | slice) -> Request | Sequence[Request]:
        if isinstance(index, slice) or -len(self) <= index < 0:
            return self._items[index]
        # those that were answered long ago are missing
        place = bisect_left(self._items, index, key=lambda request: request.number)
        if place < len(self) and self._items[place].number == index:
            return self._items[place]
        arrived = self._items[-1].number + 1 if self else 0
        if index < arrived:
            raise IndexError(f"there is no request {index} any more: it was answered long ago")
        raise IndexError(f"there is no request {index}; {arrived} have arrived so far")

    def to_pandas(self) -> pd.DataFrame:
        """A frame with a row for each, by number. Raises MissingLibrary: pandas is not installed."""
        pd = imported_pandas()
        rows = [
            {
                "state": request.state,
                "peer": request.peer,
                "object": request.asset.name,
                "kind": request.asset.kind,
                "detail": request.asset.detail,
                "size_bytes": request.asset.size_bytes,
                "tags": request.asset.tags,
                "reason": request.reason,
                "code": str(request.code),
                "by": request.by,
                "answer": request.answer_reason,
                "arrived": request.arrived,
            }
            for request in self
        ]
        return pd.DataFrame(rows, index=pd.Index([request.number for request in self], name="number"))

    def table(self) -> Table:
        rows = [
            (
                str(request.number),
                request._state_words,
                request.peer,
                request.asset.name,
                f"it failed here: {request.failure}" if request.failure else _words(request.asset),
                request.reason,
                by_words(request.by),
                request.answer_reason,
                _when(request.arrived.astimezone()),
            )
            for request in self
        ]
        headers = ("#", "state", "who", "object", "what would leave", "reason", "by", "answer", "when")
        return Table("Requests", headers, rows, "no request has arrived")
