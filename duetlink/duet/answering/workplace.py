"""The owner's desk for the work of the peer: takes its steps, hands them to the worker, keeps them for the
lineage.

All that the peer sends goes through one queue, so that a request sees the results of all the steps before it,
and of none behind it. The worker is started with the first step, and ends with the duet.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import json
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from duetlink.base.audit import entry
from duetlink.base.audit.entry import Entry
from duetlink.base.wire import schema_pb2 as pb
from duetlink.compute.operations import program as wire
from duetlink.compute.operations.effects import worst_effect
from duetlink.compute.operations.lineage import Lineage
from duetlink.compute.operations.log import ProgramLog
from duetlink.compute.operations.trace import LoggedValue
from duetlink.compute.privacy.account import Amount
from duetlink.compute.privacy.claim import Claim
from duetlink.compute.privacy.ledger import Ledger
from duetlink.compute.privacy.release import FAILED as NOT_RELEASED
from duetlink.compute.privacy.table import Rows
from duetlink.compute.worker import answers, endings
from duetlink.compute.worker.answers import MAX_WORDS
from duetlink.compute.worker.faults import MESSAGE, Fault
from duetlink.compute.worker.libraries import LIBRARIES, OF_FUNCTIONS
from duetlink.compute.worker.limits import Limits
from duetlink.compute.worker.memory import close_all, place
from duetlink.compute.worker.process import Worker
from duetlink.data.values.base import Encoded
from duetlink.duet.answering.charge import Charge, planned_charges, refusal
from duetlink.duet.answering.private import Private, planned, rows_found
from duetlink.duet.objects.asset import AssetInfo, Content, inherited_tags
from duetlink.duet.objects.budget import Open
from duetlink.duet.objects.catalogue import Catalogue, Mine
from duetlink.duet.objects.recorder import Recorder
from duetlink.errors import (
    AssetChanged,
    AssetNotFound,
    AuditUnavailable,
    BudgetExceeded,
    DuetError,
    LimitExceeded,
    NoMock,
    OperationFailed,
    RemoteProtocolError,
    WorkerUnavailable,
)
from duetlink.net.flight.body import Outgoing
from duetlink.net.link.link import Link
from duetlink.settings import Settings

MOST_WAITING = 128  # batches and requests that the worker has not come to
_REPORT_BATCHES = 8
_LIBRARIES = tuple(library for library in LIBRARIES if library not in OF_FUNCTIONS)
_REPORT_S = 0.05

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Shift:
    """One worker, from its start to its end, and what it was given."""

    worker: Worker
    log: ProgramLog
    given: set[tuple[str, int]]


class Workplace:
    """What the peer's program does here. Methods belong to the loop thread."""

    def __init__(self, catalogue: Catalogue, settings: Settings, recorder: Recorder, ledger: Ledger) -> None:
        self._catalogue = catalogue
        self._settings = settings
        self._recorder = recorder
        self._ledger = ledger
        self._link: Link | None = None
        self._queue: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._shift: _Shift | None = None
        self._epoch = 0
        self._ended: pb.WorkEnd | None = None
        self._warming = False
        self._expected = 1  # number of the next batch
        self._done = self._reported = 0
        self._faults: answers.Faults = []  # since the last report, as far as the peer may know of them
        self._report_later: asyncio.TimerHandle | None = None
        self._retired: list[tuple[str, int]] = []  # revisions that the worker is still to let go of
        self._frozen = 0  # results given to be looked at; each is a revision of its own
        self.on_change: Callable[[], None] = lambda: None

    def attach(self, link: Link) -> None:
        self._link = link
        link.rpc.notice(pb.Work, self._take)
        link.rpc.notice(pb.WorkQuery, self._asked)

    async def run(self) -> None:
        """Do what comes, one thing after the other, for as long as the link lives."""
        try:
            while True:
                job = await self._queue.get()
                try:
                    await job()
                except Exception:  # a defect of ours: whoever waits behind it must not wait for ever
                    _log.exception("the peer's work has met a defect")
                    await self._stop(pb.WorkEnd(why=pb.WorkEnd.DEFECT))
        finally:
            await self._stop(pb.WorkEnd(why=pb.WorkEnd.CLOSED))

    async def _stop(self, why: pb.WorkEnd) -> None:
        """End the worker; its results are gone, and the peer hears why."""
        shift, self._shift = self._shift, None
        if shift is not None:
            shift.worker.kill(endings.words(why))
            await shift.worker.close()
        if self._epoch and self._ended is None:
            self._ended = why
            self._report()

    def warm(self) -> None:
        """The peer looks at a mock: it will want the worker, whose libraries take seconds to load."""
        if self._shift is None and not self._warming:
            self._warming = True
            self._put(self._warm)

    def expect(self) -> None:
        """Something with a mock is shared with a peer who is there: the peer may want the worker soon."""
        if self._link is not None:
            with contextlib.suppress(LimitExceeded):  # there is work for it already
                self.warm()

    async def _warm(self) -> None:
        try:
            await self._working()
        except DuetError as error:
            _log.warning("no worker can be started: %s", error)
        finally:
            self._warming = False

    @property
    def worker(self) -> Worker | None:
        """The process that works for the peer, once it has been started."""
        return self._shift.worker if self._shift is not None else None

    # -- what the peer sends ---------------------------------------------------------------------------------

    def _take(self, work: pb.Work) -> None:
        if work.epoch < self._epoch:  # it has not heard yet that the worker has ended
            return
        if work.epoch > self._epoch:
            self._begin(work.epoch)
        if work.number != self._expected:
            raise RemoteProtocolError(f"the peer sent batch {work.number} of its work, not {self._expected}")
        self._expected += 1
        self._put(partial(self._do, work))

    def _begin(self, epoch: int) -> None:
        if epoch != self._epoch + 1 or (self._epoch and self._ended is None):
            raise RemoteProtocolError("the peer begins new work before the old has ended")
        self._epoch, self._ended = epoch, None
        self._expected = 1
        self._done = self._reported = 0
        self._faults.clear()

    def _put(self, job: Callable[[], Awaitable[None]]) -> None:
        if self._queue.qsize() >= MOST_WAITING:
            raise LimitExceeded(f"the peer has sent {MOST_WAITING} batches of work ahead of the worker")
        self._queue.put_nowait(job)

    def retire(self, info: AssetInfo) -> None:
        """A revision is no longer shared: what is done with it from here on fails, its memory is freed."""
        if self._shift is not None:
            self._retired.append((info.name, info.revision))
            if len(self._retired) == 1:
                self._queue.put_nowait(self._tell_retired)

    async def _tell_retired(self) -> None:
        retired, self._retired = self._retired, []
        shift = self._shift
        if shift is None:
            return
        given = [which for which in retired if which in shift.given]
        shift.given.difference_update(given)
        try:
            if given:
                await shift.worker.call("retire", json.dumps(given).encode())
        except DuetError as error:
            await self._broken(shift, error)

    async def freeze(self, result: int, follow_rows: bool = False) -> Mine:
        """A result as it is when all that came before is done: described, and never to change again. With
        `follow_rows` it says which rows of an asset it has.

        Raises:
            OperationFailed: it could not be made.
            WorkerUnavailable: the worker has ended, or ends over it.
            AssetNotFound, AssetChanged: what it was made from is no longer shared.
        """
        return await self._in_turn(partial(self._freeze, result, follow_rows))

    async def release(self, result: int, asked: bytes) -> Mine:
        """A private statistic in place of a result. Its budget has been charged when it is made.

        Raises:
            OperationRefused: no private statistic can be made of it; nothing was charged.
            BudgetExceeded: there is not enough left; nothing was charged.
            AuditUnavailable: the ledger cannot be written.
            OperationFailed: it could not be made. It is paid for.
            WorkerUnavailable: the worker has ended, or ends over it.
        """
        return await self._in_turn(partial(self._release, result, asked))

    async def _in_turn(self, work: Callable[[], Awaitable[Mine]]) -> Mine:
        """Do `work` when all that came before is done."""
        made: asyncio.Future[Mine] = asyncio.get_running_loop().create_future()

        async def job() -> None:
            if made.cancelled():
                return
            try:
                mine = await work()
            except DuetError as error:
                if not made.cancelled():
                    made.set_exception(error)
            except Exception:
                if not made.cancelled():
                    made.set_exception(WorkerUnavailable("a defect on the owner's side, whose log has it"))
                raise
            else:
                if not made.cancelled():
                    made.set_result(mine)

        self._put(job)
        return await made

    # -- with the worker -------------------------------------------------------------------------------------

    async def _do(self, work: pb.Work) -> None:
        if work.epoch != self._epoch or self._ended is not None:  # it has ended meanwhile
            return
        fds: list[int] = []
        shift: _Shift | None = None
        try:
            steps = wire.inflate(work.steps)
            shift = await self._working()
            large = [value for value in work.values if value.HasField("offer")]
            size_bytes = sum(value.offer.size_bytes for value in large)
            if len(large) > wire.MAX_LARGE_VALUES or size_bytes > self._settings.worker_memory_bytes:
                raise LimitExceeded(f"{len(large)} values of {size_bytes:,} bytes are too many at once")
            for value in large:
                fds.append(await self._pulled(value))
            await self._open_assets(shift, steps)
            position = shift.log.append(steps, [_value_of(value) for value in work.values])
            reply = await shift.worker.call(
                "run", work.SerializeToString(), fds, timeout_s=self._limits.wall_s
            )
            faults, failed = answers.read_batch(reply.content)
            self._note(faults)
            for number in failed:  # a step may have done a part of its work
                shift.log.fail(position, number)
        except DuetError as error:
            await self._broken(shift, error)
            return
        finally:
            close_all(fds)
        self._done = work.number
        self._plan_report()

    async def _freeze(self, result: int, follow_rows: bool) -> Mine:
        shift = self._open_shift()
        asked = {"id": result, "max_bytes": self._limits.result_bytes}
        made = await self._made(shift, "take", json.dumps(asked).encode())
        if isinstance(made, Fault):
            self._note([(result, made)])
            self._report()  # ahead of the answer, whose text says nothing of what happened
            raise OperationFailed(f"result {result} cannot be had from the owner's worker")
        encoded, group = made
        mine = await self._mine(encoded, group, await self._lineage(shift, result))
        if not follow_rows:
            return mine
        rows = await asyncio.to_thread(_rows_found, shift.log, result, self._opened())
        return dataclasses.replace(mine, rows=rows)

    async def _made(self, shift: _Shift, command: str, content: bytes) -> tuple[Encoded, int | None] | Fault:
        """What the worker gives for a command. None of its words go further than this side's log.

        Raises:
            WorkerUnavailable: it has ended, with a reason from the closed list.
        """
        try:
            reply = await shift.worker.call(command, content, timeout_s=self._limits.wall_s, memory=True)
            return answers.read_result(reply.content, reply.fds)
        except WorkerUnavailable as error:
            told = await self._broken(shift, error)
            raise type(error)(endings.words(told)) from None
        except DuetError as error:
            _log.warning("the worker could not give a result: %s", error)
            return Fault(0, 0, pb.WorkFailure.CANNOT_TRAVEL)

    async def _release(self, result: int, asked: bytes) -> Mine:
        shift = self._open_shift()
        private = await asyncio.to_thread(_planned, shift.log, result, asked, self._opened())
        asset, statistic = private.route.asset, private.statistic
        await self._charge(asset, private.route.revision, statistic.cost, statistic.words())
        made = await self._made(shift, "release", private.to_json())
        if isinstance(made, Fault):
            raise OperationFailed(NOT_RELEASED)
        encoded, group = made
        lineage = await self._lineage(shift, result)
        call = f".dp(epsilon={statistic.cost:f})"
        lineage = dataclasses.replace(
            lineage,
            expression=f"{lineage.expression}{call}",
            code=f"{lineage.code}{call}  # private {statistic.words()}",
            operations=("dp",),
            # who allows the statistic has not allowed the exact result of the same steps
            digest=hashlib.sha256(f"{lineage.digest} dp ".encode() + statistic.to_json()).hexdigest(),
        )
        return await self._mine(encoded, group, lineage)

    def _opened(self) -> dict[tuple[str, int], Open]:
        """The assets with a budget, by name and revision."""
        return {
            (name, mine.info.revision): mine.open
            for name, mine in self._catalogue.mine.items()
            if mine.open is not None
        }

    async def _charge(self, asset: str, revision: int, cost: Amount, what: str) -> None:
        await asyncio.to_thread(self._ledger.charge, asset, cost, what)
        words = await asyncio.to_thread(budget_words, self._ledger, asset)
        self._catalogue.tell_budget(asset, revision, words)

    def planned_charges(self, assets: Sequence[tuple[str, int]], claim: Claim) -> tuple[Charge, ...]:
        """What `charge` would take, as of now; from any thread, see `charge.planned_charges`."""
        rows_by_asset = {name: self._catalogue.open_rows(name) for name, _ in assets}
        return planned_charges(self._ledger, rows_by_asset, claim)

    async def charge(self, assets: Sequence[tuple[str, int]], claim: Claim) -> None:
        """Pay for what a function is about to do, from the budget of each asset that it gets, by
        `planned_charges`.

        Raises:
            BudgetExceeded: there is not enough left of one; nothing was charged.
            AuditUnavailable: the ledger cannot be written.
        """
        charges = await asyncio.to_thread(self.planned_charges, assets, claim)
        if why := refusal(charges, claim):
            raise BudgetExceeded(why)
        revisions = dict(assets)
        for charge in charges:
            what = f"a function that trains privately, {claim}"
            await self._charge(charge.asset, revisions[charge.asset], charge.epsilon, what)

    def _open_shift(self) -> _Shift:
        if self._shift is None:
            why = endings.words(self._ended) if self._ended is not None else "nothing has been recorded"
            raise WorkerUnavailable(f"{why}; begin anew with duet.store[…]")
        return self._shift

    async def _lineage(self, shift: _Shift, result: int) -> Lineage:
        try:
            return await asyncio.to_thread(shift.log.lineage, result, worst_effect)
        except LookupError:
            raise OperationFailed(f"no step makes result {result}") from None

    async def _mine(self, encoded: Encoded, group: int | None, lineage: Lineage) -> Mine:
        """What is given to be looked at, as if it were shared."""
        tags, common_tags = inherited_tags(
            [self._catalogue.find_mine(name, revision).info.tags for name, revision in lineage.assets]
        )
        self._frozen += 1
        content = Content(encoded)
        assert self._link is not None
        content.prepare(self._link.reading.submit)
        outgoing = await content.outgoing()
        info = AssetInfo(
            lineage.expression,
            self._frozen,
            encoded.summary.kind,
            encoded.summary.detail,
            encoded.size_bytes,
            tags=tags,
            elements=encoded.summary.elements,
            lineage=lineage,
            group=group,
            fingerprint=outgoing.fingerprint.hex(),
            common_tags=common_tags,
        )
        return Mine(info, content)

    async def _working(self) -> _Shift:
        if self._shift is None:
            worker = await Worker.start(self._limits, desk="program", libraries=_LIBRARIES)
            await worker.call("detail", self._settings.failure_detail.encode())
            self._shift = _Shift(worker, ProgramLog(may_learn=False), set())
            self.on_change()
        return self._shift

    @property
    def _limits(self) -> Limits:
        settings = self._settings
        return Limits(
            memory_bytes=settings.worker_memory_bytes,
            wall_s=settings.worker_timeout_s,
            result_bytes=settings.worker_result_bytes,
        )

    async def _open_assets(self, shift: _Shift, steps: bytes) -> None:
        """Let the worker have what these steps open."""
        for name, revision in wire.assets(steps):
            if (name, revision) in shift.given:
                continue
            try:
                mine = self._catalogue.find_mine(name, revision)
                if mine.mock is None:
                    raise NoMock(f"{name!r} has no mock, and is not there to be worked on")
            except (AssetNotFound, NoMock, DuetError):
                continue  # the step fails, and says which
            outgoing = await mine.content.outgoing()
            fd = await asyncio.to_thread(place, list(outgoing.pieces()), outgoing.size_bytes)
            try:
                await asyncio.to_thread(_verify, outgoing)
            except AssetChanged as error:
                os.close(fd)
                _log.warning("%r is not worked on: %s", name, error)
                continue  # the step fails
            try:
                header = {"name": name, "revision": revision, "size_bytes": outgoing.size_bytes}
                await shift.worker.call("asset", json.dumps(header).encode(), [fd], lasting=True)
            finally:
                os.close(fd)
            shift.given.add((name, revision))
            await self._recorder.record(
                Entry(
                    kind=entry.RUN, name=name, revision=revision, reason="opened for the peer's operations"
                ),
                sync=False,
            )

    async def _pulled(self, value: pb.WorkValue) -> int:
        assert self._link is not None
        limit_bytes = self._settings.worker_memory_bytes
        body = await self._link.imports.pull("argument", value.offer, limit_bytes)
        # in place of the peer's word, which finds mix-ups and not attackers: lineages tell values apart by it
        value.offer.fingerprint = await asyncio.to_thread(lambda: hashlib.sha256(body).digest())
        return await asyncio.to_thread(place, [body], len(body))

    async def _broken(self, shift: _Shift | None, error: DuetError) -> pb.WorkEnd:
        """The worker has ended, or what came cannot be done at all: all that it had made is gone.

        Returns what the peer is told of it.
        """
        _log.warning("the peer's work has ended: %s", error)
        told = shift.worker.told_ending if shift is not None else None
        if told is None:
            why = pb.WorkEnd.REFUSED
            if isinstance(error, WorkerUnavailable):
                why = pb.WorkEnd.UNAVAILABLE
            elif isinstance(error, AuditUnavailable):
                why = pb.WorkEnd.UNRECORDED
            told = pb.WorkEnd(why=why)
        await self._stop(told)
        return told

    # -- reports ---------------------------------------------------------------------------------------------

    def _asked(self, query: pb.WorkQuery) -> None:
        if query.epoch == self._epoch:
            self._put(self._report_now)

    async def _report_now(self) -> None:
        self._report()

    def _plan_report(self) -> None:
        if self._faults or self._done - self._reported >= _REPORT_BATCHES:
            self._report()
        elif self._report_later is None:
            self._report_later = asyncio.get_running_loop().call_later(_REPORT_S, self._report)

    def _note(self, faults: answers.Faults) -> None:
        detail = self._settings.failure_detail
        self._faults += [(result, fault.told(detail)) for result, fault in faults]

    def _report(self) -> None:
        if self._report_later is not None:
            self._report_later.cancel()
            self._report_later = None
        if self._link is None:
            return
        faults, self._faults = self._faults, []
        self._reported = self._done
        if self._settings.failure_detail == MESSAGE and faults:
            self._link.rpc.tell_nowait(_in_words(self._epoch, faults))
        failures = [fault.to_wire(result) for result, fault in faults]
        report = pb.WorkReport(epoch=self._epoch, done=self._done, failures=failures, ended=self._ended)
        self._link.rpc.tell_nowait(report)


def _verify(outgoing: Outgoing) -> None:
    """Raises AssetChanged: its memory was written to since it was shared."""
    for leaf in range(outgoing.leaves):
        outgoing.verify_leaf(leaf)


def _in_words(epoch: int, faults: answers.Faults) -> pb.WorkWords:
    """What failed in the words of the libraries, which quote the data: the owner has chosen so."""
    steps = [
        pb.StepWords(result=result, batch=fault.batch, position=fault.position, text=fault.words)
        for result, fault in faults
    ]
    return pb.WorkWords(epoch=epoch, steps=steps)


def budget_words(ledger: Ledger, asset: str) -> str:
    """What may be spent of an asset's privacy, and what is left of it, for a person."""
    return f"epsilon {ledger.total(asset) or 0:f}, {ledger.left(asset).normalize():f} left"


def _planned(log: ProgramLog, result: int, asked: bytes, opened: dict[tuple[str, int], Open]) -> Private:
    return planned(_steps(log), result, asked, opened)


def _rows_found(log: ProgramLog, result: int, opened: dict[tuple[str, int], Open]) -> Rows | str:
    return rows_found(_steps(log), result, opened)


def _steps(log: ProgramLog) -> list[wire.Step]:
    return [step for batch in log.batches() for step in wire.read(batch.content)]


def _value_of(value: pb.WorkValue) -> LoggedValue:
    """What the log keeps of a value: its kind in the peer's words, and which bytes they were."""
    words = f"{value.kind[:MAX_WORDS]} {value.detail[:MAX_WORDS]}".strip()
    is_large = value.HasField("offer")
    return LoggedValue(
        words, (value.offer.fingerprint if is_large else hashlib.sha256(value.body).digest()).hex()
    )
