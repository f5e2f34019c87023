"""Reads and checks the peer's questions: for an asset, for the result of a program, or for that of a
function.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from duetlink.base.wire import schema_pb2 as pb
from duetlink.compute.operations import function
from duetlink.compute.operations.canonical import Program
from duetlink.compute.privacy.claim import Claim
from duetlink.compute.privacy.table import Rows
from duetlink.duet.answering import job as jobs
from duetlink.duet.answering.job import FunctionJob, Input, Job, ProgramJob
from duetlink.duet.answering.programs import Programs, check_lineage, statistic_lineage
from duetlink.duet.objects import program_body
from duetlink.duet.objects.asset import AssetInfo, Content
from duetlink.duet.objects.catalogue import Catalogue
from duetlink.errors import LimitExceeded, OperationRefused, RemoteProtocolError, SettingError, ValueRefused
from duetlink.net.link.link import Link

MAX_INLINE_BYTES = 1024 * 1024  # of one value that comes with a function
_MAX_WORDS = 100  # characters


@dataclass(frozen=True, slots=True)
class Arrival:
    """A question that has been read: the description of what it asks for, and its content or the job that
    makes it.
    """

    info: AssetInfo
    content: Content | None  # None: the job has to be run first
    job: Job | None = None


class JobIntake:
    """Reads the questions of one peer, and bounds the memory that they hold. Methods run on the
    loop thread.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        programs: Programs,
        limit_bytes: int,
        held_bytes: Callable[[], int],
        is_paid: Callable[[AssetInfo], bool],
    ) -> None:
        """`limit_bytes` is how much memory waiting programs and functions may hold, `held_bytes` returns how
        much they hold. `is_paid` returns True for a private statistic that was charged and never answered.
        """
        self._catalogue = catalogue
        self._programs = programs
        self._limit_bytes = limit_bytes
        self._held_bytes = held_bytes
        self._is_paid = is_paid
        self._link: Link | None = None
        self._arriving_bytes = 0
        self._reading = asyncio.Lock()  # one program at a time: reading a long one occupies a CPU

    def attach(self, link: Link) -> None:
        self._link = link

    async def take(self, ask: pb.Ask) -> Arrival:
        """Read a question and all that it needs, before anything is decided. A statistic's budget has been
        charged when this returns; nothing has been run.

        Raises RemoteProtocolError for a question that asks for several things, else as `program`, `function`,
        `Catalogue.find_mine`.
        """
        kinds = (ask.HasField("program"), ask.HasField("job"), bool(ask.name))
        if sum(kinds) > 1 or ((ask.statistic or ask.check) and not kinds[0]):
            raise RemoteProtocolError("a question must ask for exactly one asset, program or function")
        if ask.HasField("program"):
            job: Job = await self.program(ask.program, ask.statistic, ask.check)
        elif ask.HasField("job"):
            job = await self.function(ask.job)
        else:
            asset = self._catalogue.find_mine(ask.name, ask.revision)
            return Arrival(asset.info, asset.content)
        return Arrival(job.info, None, job)

    async def program(self, sent: pb.ProgramBody, asked: bytes, is_check: bool) -> ProgramJob:
        """Read a program that the peer sent. With `asked`, plan the private statistic of its result and
        charge it.

        A statistic is charged once, also if an earlier kernel charged it and never answered.

        Raises:
            RemoteProtocolError, LimitExceeded: the program is malformed.
            ValueRefused: waiting requests hold too much memory already.
            AssetNotFound, AssetChanged, NoMock: an asset cannot be worked on.
            OperationRefused: no private statistic can be made of it; nothing was charged.
            BudgetExceeded: there is not enough left for it; nothing was charged.
            AuditUnavailable: the ledger cannot be written.
            TransferFailed: the program has not arrived.
        """
        program = await self._program(sent)
        private = None
        lineage = check_lineage(program) if is_check else program.lineage
        if asked:
            private = await self._programs.planned(program, asked)
            lineage, program = await asyncio.to_thread(statistic_lineage, private), private.program
        self._programs.check_offered(lineage.assets)
        info = jobs.unmade(lineage, self._tags)
        if private is None:
            return ProgramJob(info, program, is_check=is_check)
        if not self._is_paid(info):
            await self._programs.charge_statistic(private)
        return ProgramJob(info, program, private.statistic.to_json(), private)

    async def _program(self, sent: pb.ProgramBody) -> Program:
        assert self._link is not None
        arriving_bytes = int(sent.offer.size_bytes) if sent.HasField("offer") else len(sent.compressed)
        self._arriving_bytes += arriving_bytes
        try:
            self._check_room(0)
            body = await program_body.received(self._link, sent, self._limit_bytes)
            async with self._reading:
                program = await asyncio.to_thread(_read, body)
            self._check_room(program.held_bytes - arriving_bytes)
            return program
        finally:
            self._arriving_bytes -= arriving_bytes

    def _tags(self, name: str, revision: int) -> tuple[str, ...]:
        return self._catalogue.find_mine(name, revision).info.tags

    async def function(self, sent: pb.Job) -> FunctionJob:
        """Read a function that the peer sent, with its inputs.

        Raises:
            RemoteProtocolError, LimitExceeded: the function or its call is malformed.
            OperationRefused: its text cannot be read as it stands, or an asset may not be worked on.
            ValueRefused: waiting requests hold too much memory already.
            AssetNotFound, AssetChanged, NoMock: an input is not shared.
            TransferFailed: a value has not arrived.
        """
        function.check_source(sent.name, sent.source)
        if len(sent.inputs) > function.MAX_INPUTS:
            raise LimitExceeded(f"a function has {len(sent.inputs)} inputs, over {function.MAX_INPUTS}")
        call = function.parse_call(sent.call, len(sent.inputs))
        claim = _claim(sent)
        arriving_bytes = sum(map(_value_bytes, sent.inputs))
        self._arriving_bytes += arriving_bytes
        try:
            self._check_room(0)
            inputs = tuple(await _all(*map(self._input, sent.inputs)))
            self._check_room(sum(input_.size_bytes for input_ in inputs) - arriving_bytes)
        finally:
            self._arriving_bytes -= arriving_bytes
        for input_ in inputs:
            self._programs.check_offered(input_.assets)
        await asyncio.to_thread(function.check_letters, sent.name, sent.source)
        info = await asyncio.to_thread(jobs.describe, sent.name, sent.source, call, inputs, self._tags, claim)
        if claim is not None:
            assert info.lineage is not None
            self._check_budgets(info.lineage.assets)
            await self._check_rows(inputs)
        mock = jobs.mock_words(sent.mock_kind, sent.mock_detail, sent.mock_text)
        return FunctionJob(info, sent.name, sent.source, call, inputs, mock=mock, claim=claim)

    def _check_budgets(self, assets: Sequence[tuple[str, int]]) -> None:
        """Raise OperationRefused unless each asset has a budget whose unit is one row per person."""
        if not assets:
            raise OperationRefused("a function that trains privately needs at least one asset of its owner's")
        for name, revision in assets:
            budgeted = self._catalogue.find_mine(name, revision).budgeted
            if budgeted is None:
                raise OperationRefused(f"{name!r} has no privacy budget: its owner has to set one")
            if budgeted.budget.rows_per_person != 1:
                raise OperationRefused(
                    f"a person may have {budgeted.budget.rows_per_person} rows in {name!r}; the account of a "
                    "private training is of one"
                )

    async def _input(self, sent: pb.JobInput) -> Input:
        which = sent.WhichOneof("input")
        if which == "asset":
            return Input(self._catalogue.find_mine(sent.asset.name, sent.asset.revision).info)
        if which == "program":
            return Input(program=await self._program(sent.program))
        words = f"{sent.value.kind[:_MAX_WORDS]} {sent.value.detail[:_MAX_WORDS]}".strip()
        if not sent.value.HasField("offer"):
            return Input(body=memoryview(sent.value.body), words=words)
        assert self._link is not None
        body = await self._link.imports.pull("argument", sent.value.offer, self._limit_bytes)
        return Input(body=body.toreadonly(), words=words)

    async def _check_rows(self, inputs: Sequence[Input]) -> None:
        """Check that adding or removing one row of an asset changes at most one row of the inputs made of it.

        The account of a private training assumes this. Values of the peer's own do not matter.

        Raises:
            OperationRefused: a result is not made row by row, or has other rows than another input.
        """
        rows_by_asset: dict[str, Rows] = {}
        for input_ in inputs:
            if not input_.assets:
                continue
            rows: Rows | str
            if input_.asset is not None:
                name = input_.asset.name
                rows = Rows(name, input_.asset.revision)
            else:
                assert input_.program is not None
                name = input_.program.lineage.expression
                rows = await self._programs.rows(input_.program)
            if isinstance(rows, str):
                raise OperationRefused(
                    f"an input of a private training is an asset, or made of one row by row, which {name} is "
                    f"not: {rows}"
                )
            if rows_by_asset.setdefault(rows.asset, rows) != rows:
                raise OperationRefused(
                    f"all inputs of a private training have the same rows of {rows.asset!r}, and {name} "
                    "has others: select rows first, and then columns of these rows"
                )

    def _check_room(self, more_bytes: int) -> None:
        if self._held_bytes() + self._arriving_bytes + more_bytes > self._limit_bytes:
            raise ValueRefused(
                f"waiting requests may hold {self._limit_bytes:,} bytes of programs and values; wait "
                "for an answer, or withdraw some"
            )


def _claim(sent: pb.Job) -> Claim | None:
    if not sent.HasField("epsilon") and not sent.HasField("delta"):
        return None
    try:
        return Claim(sent.epsilon, sent.delta)
    except SettingError as error:
        raise RemoteProtocolError(f"the privacy claim of a function cannot be used: {error}") from None


def _value_bytes(sent: pb.JobInput) -> int:
    """Return the size of an input's value; 0 for an asset or a program. Raises RemoteProtocolError,
    LimitExceeded: the input is malformed.
    """
    which = sent.WhichOneof("input")
    if which is None:
        raise RemoteProtocolError("an input of a function is empty")
    if which != "value":
        return 0
    if sent.value.HasField("offer"):
        return int(sent.value.offer.size_bytes)
    if len(sent.value.body) > MAX_INLINE_BYTES:
        raise LimitExceeded(f"an input of {len(sent.value.body):,} bytes came without being offered")
    return len(sent.value.body)


def _read(body: memoryview) -> Program:
    program = Program.read(body)
    program.lineage  # noqa: B018 - takes as long: here and not on the loop
    return program


async def _all(*coroutines: Awaitable[Input]) -> list[Input]:
    """Run all coroutines and return their results. If one fails, cancel the others and wait for them."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
