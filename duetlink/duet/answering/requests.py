"""`duet.requests`: the peer's requests as a person reads and answers them."""

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
    """One request of the peer: who asks, for what, and why."""

    def __init__(self, incoming: Incoming, inbox: Inbox, thread: LoopThread) -> None:
        self._incoming = incoming
        self._inbox = inbox
        self._thread = thread

    @property
    def number(self) -> int:
        """The index in `duet.requests`; it never changes."""
        return self._incoming.number

    @property
    def asset(self) -> AssetInfo:
        """The object that would leave: its name, revision, type and size."""
        return self._incoming.asset

    @property
    def lineage(self) -> Lineage | None:
        """The assets and operations that the result was made from; None if an asset itself is requested."""
        return self.asset.lineage

    @property
    def operations(self) -> tuple[str, ...]:
        """The names of the operations that made the result; empty if an asset itself is requested."""
        return self.lineage.operations if self.lineage is not None else ()

    @property
    def code(self) -> Code:
        """The program of the result as Python, coloured in a notebook; empty for an asset."""
        return Code(self.lineage.code if self.lineage is not None else "")

    @property
    def steps(self) -> Code:
        """Every step of a result's program on a line of its own, with nothing left out; for a function, the
        steps that make its inputs.

        `code` shows one round of a loop, and cuts long lists, texts and programs. Empty if there are no
        steps, and after the request has been answered.
        """
        job = self._incoming.job
        return Code("" if job is None or self._incoming.state != PENDING else job.all_steps())

    @property
    def group(self) -> int | None:
        """The least number of rows that each number of the result is made of; None if no row of an asset is
        in it.
        """
        return self.asset.group if self.lineage is not None else 1

    @property
    def expires(self) -> datetime.datetime | None:
        """The time until which it can be answered; None: as long as the link lives."""
        return self._incoming.expires

    @property
    def peer(self) -> str:
        """The name that the peer gave itself."""
        return harmless(self._incoming.peer_name)

    @property
    def reason(self) -> str:
        """The peer's reason, in which terminal control characters are escaped."""
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
        """The name of the function that the peer wants to run; empty if it asks for an object or for the
        result of a program.
        """
        job = self._incoming.job
        return job.name if job is not None and job.is_function else ""

    @property
    def privacy(self) -> str:
        """The cost that the function claims from the budget of each asset it gets, such as "epsilon 2 at
        delta 1e-05"; empty if it claims none. It is charged when the function runs.
        """
        job = self._incoming.job
        return "" if job is None or job.claim is None else str(job.claim)

    @property
    def charges(self) -> tuple[BudgetCharge, ...]:
        """The amounts that a run of the function would charge now, one for each budget, with what is left
        before it. Empty if the function claims no cost, has been charged already, or has been answered.

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
        """The reason why the function cannot be run or approved with what is left of the budgets now; empty
        if it can. Raises as `charges`.
        """
        job = self._incoming.job
        return "" if job is None or job.claim is None else refusal(self.charges, job.claim)

    @property
    def mock_result(self) -> str:
        """The result that the function gave on the mocks, as the peer reports it; escaped as `reason` is."""
        return harmless_lines(self._incoming.job.mock) if self._incoming.job is not None else ""

    @property
    def log(self) -> LogLines:
        """The lines that the function has printed here, and the traceback if it failed. Both may quote the
        data.
        """
        job = self._incoming.job
        if job is None:
            return LogLines()
        failure = job.failure.traceback.rstrip("\n").split("\n") if job.failure is not None else []
        return LogLines((*job.log.lines, *failure))

    @property
    def failure(self) -> str:
        """The place and error class of the last run here, if it failed and the request is still pending; else
        empty. `log` has the message and the traceback. The peer has not been told.
        """
        job = self._incoming.job
        if job is None or job.failure is None or job.made or job.running or self._incoming.state != PENDING:
            return ""
        return job.failure.summary

    @property
    def running(self) -> str:
        """The progress of its run here: the step of a program, the time, the memory; empty if nothing runs.
        See `stop`.
        """
        return self._incoming.job.progress_words if self._incoming.job is not None else ""

    @property
    def progress(self) -> float | None:
        """The progress that the function has reported, from 0 to 1; None if it has reported none."""
        return self._incoming.job.log.fraction if self._incoming.job is not None else None

    @property
    def times(self) -> int:
        """The number of times the peer has asked for it. After an approval, later questions are answered at
        once.
        """
        return self._incoming.times

    @property
    def answer_reason(self) -> str:
        """The reason that was given with the answer."""
        return self._incoming.answer_reason

    @property
    def by(self) -> str:
        """The name of who answered, `person` or `policy NAME`; empty while it is pending, or if it was
        withdrawn.
        """
        return self._incoming.by

    @property
    def answered(self) -> datetime.datetime | None:
        """The time of the answer or withdrawal; None while it is pending."""
        return self._incoming.answered

    @property
    def arrived(self) -> datetime.datetime:
        return self._incoming.arrived

    def preview(self) -> str:
        """Return the beginning of what would leave, as text; for an object over 16 MiB, of what it was made
        from. A cell's output is saved with the notebook; the panel's display is not.

        Raises AssetNotFound, AssetChanged: the object is no longer shared.
        """
        content = self._incoming.content
        if self.asset.lineage is None:
            content = self._inbox.catalogue.check_mine(self.asset.name, self.asset.revision).content
        if content is None and self.asset.is_unmade:
            does = "runs the function" if self.function else "makes it"
            return f"not known: run() {does} here, and only here"
        return preview_of(content) if content is not None else "not kept: the request has been answered"

    def run(self, *, timeout_s: float | None = None) -> None:
        """Run the program or function here, in a locked-down process of its own.

        Nothing leaves: the request stays pending, `preview()` shows the result, `log` what was printed. Does
        nothing if it has been run already. An interrupt (Ctrl-C) ends the run. `timeout_s` limits the time in
        place of the setting.

        Raises:
            OperationFailed: the run failed; `log` has the traceback. It can be run again.
            RequestAnswered: answered or withdrawn, before or meanwhile.
            AssetNotFound, AssetChanged: an object that it works on is no longer shared.
            WorkerUnavailable: no such process can be started here.
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
        """Let this revision of the object leave to the peer, now and whenever it asks again.

        A program or function is run first, as `run` does, if it has not been. If the run fails, the request
        stays pending and the peer is not told: see `fail`. This approval is for this one result. `times` or
        `until` also add a policy that approves the same code with the same arguments again: that many times
        in all, including this one, or until that time; each time it is run again on what is shared then. With
        `logs`, the peer receives what the function prints, and its progress.

        Raises:
            OperationFailed: the function failed; `log` has the traceback.
            SettingError: `times`, `until`, `logs` or `timeout_s` cannot be used, or not for this request.
            RequestAnswered: answered or withdrawn before.
            AssetNotFound, AssetChanged: the object is no longer shared.
            AuditUnavailable: the audit log cannot be written; nothing has left.
            LinkClosed: the peer is gone.
        """
        self._thread.run(
            review.approve(
                self._inbox, self._incoming, times=times, until=until, logs=logs, timeout_s=timeout_s
            )
        )

    def deny(self, reason: str = "") -> None:
        """Refuse the request with a reason that the peer can read. Raises RequestAnswered, LinkClosed."""
        if not isinstance(reason, str):
            raise SettingError(f"a reason is a text, got {type(reason).__name__}")
        self._thread.run(self._inbox.refuse(self._incoming, No(PERSON, reason)))

    def fail(self, tell: str = THAT) -> None:
        """Answer that the last run here has failed.

        `tell` says how much the peer learns: `"that"` it failed; `"type"`: also the step or line and the
        class of the error; `"message"`: also the message, which may quote the data. Limits of time, memory
        and result size are reported as one outcome.

        Raises:
            SettingError: the request has not failed, or `tell` is none of these.
            RequestAnswered: answered or withdrawn before.
            LinkClosed: the peer is gone.
        """
        self._thread.run(review.fail(self._inbox, self._incoming, tell))

    def stop(self) -> None:
        """End its run here, whether a person or a policy started it. The request stays pending, and the peer
        is not told. Does nothing if nothing runs. Raises RequestAnswered.
        """
        self._thread.run(self._inbox.jobs.stop(self._incoming))

    def like_this(self, **changes: Any) -> Policy:
        """Return a policy that would approve this request and little else.

        It approves this object in any revision, with exactly these tags, this type and at most this size, for
        a peer of this name, ten times, until the end of the day. `changes` are fields of `Policy`;
        `duet.policies.add` puts the policy in force.

        Raises SettingError: a change cannot be used.
        """
        asset, made = self.asset, self.lineage
        names = [asset.name] if made is None else [name for name, _ in made.assets]
        fields: dict[str, Any] = {
            "name": f"like request {self.number}",
            "assets": tuple(literal(name) for name in names),
            # for a result, `code` has the digest, and operations are no tags
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
        progress = self.running
        return f"running: {progress}" if progress else self.state

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
        # cell outputs are saved with the notebook, so the value is not in them
        elif self._incoming.state == PENDING:
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
    # by calendar day: a day may have 23 or 25 hours
    tomorrow = datetime.datetime.combine(now.date() + datetime.timedelta(days=1), datetime.time())
    return tomorrow.astimezone()


def _when(moment: datetime.datetime) -> str:
    # a request from an earlier kernel may be days old
    is_today = moment.date() == datetime.datetime.now().date()
    return moment.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M")


class RequestTable(Listing[Request]):
    """A snapshot of the queue; its index is the number in the table."""

    @property
    def pending(self) -> list[Request]:
        """The unanswered requests, oldest first."""
        return [request for request in self if request.state == "pending"]

    @overload
    def __getitem__(self, index: int) -> Request: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Request]: ...
    def __getitem__(self, index: int | slice) -> Request | Sequence[Request]:
        if isinstance(index, slice) or -len(self) <= index < 0:
            return self._items[index]
        # numbers have gaps: old answered requests are forgotten
        at = bisect_left(self._items, index, key=lambda request: request.number)
        if at < len(self) and self._items[at].number == index:
            return self._items[at]
        arrived = self._items[-1].number + 1 if self else 0
        if index < arrived:
            raise IndexError(f"there is no request {index} any more: it was answered long ago")
        raise IndexError(f"there is no request {index}; {arrived} have arrived so far")

    def to_pandas(self) -> pd.DataFrame:
        """Return a frame with one row for each request, by number. Raises MissingLibrary: pandas is not
        installed.
        """
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
