"""Functions as they come from the peer: checked, and with their inputs as they are at that moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from duetlink.base.wire import schema_pb2 as pb
from duetlink.compute.operations import function
from duetlink.compute.privacy.claim import Claim
from duetlink.compute.privacy.table import Rows
from duetlink.duet.answering import job as jobs
from duetlink.duet.answering.job import Input, Job
from duetlink.duet.objects.catalogue import Catalogue, Mine
from duetlink.errors import LimitExceeded, OperationRefused, RemoteProtocolError, SettingError, ValueRefused
from duetlink.net.link.link import Link

MAX_INLINE_BYTES = 1024 * 1024  # of one value that comes with a function
_MAX_WORDS = 100  # characters


class JobIntake:
    """Takes in functions of one peer. Methods belong to the loop thread."""

    def __init__(
        self,
        catalogue: Catalogue,
        freeze: Callable[[int, bool], Awaitable[Mine]],
        limit_bytes: int,
        held_bytes: Callable[[], int],
    ) -> None:
        """`freeze` gives a result of the peer's steps as it is now; if asked, with the rows that it has.
        Functions that wait for an answer may hold `limit_bytes` of memory; `held_bytes` is what they hold.
        """
        self._catalogue = catalogue
        self._freeze = freeze
        self._limit_bytes = limit_bytes
        self._held_bytes = held_bytes
        self._link: Link | None = None
        self._arriving_bytes = 0

    def attach(self, link: Link) -> None:
        self._link = link

    async def take(self, sent: pb.Job) -> Job:
        """What the peer sent, with its inputs as they are now.

        Raises:
            RemoteProtocolError, LimitExceeded: it is no function with a call.
            OperationRefused: its text cannot be read as it stands, or an asset may not be worked on.
            ValueRefused: the functions that wait hold too much already.
            AssetNotFound, AssetChanged, OperationFailed, WorkerUnavailable: an input is not there.
            TransferFailed: a value has not come.
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
            # all at once: what the peer does to its results after this is no part of them
            inputs = tuple(await _all(*(self._input(input_, claim) for input_ in sent.inputs)))
            self._check_room(sum(input_.size_bytes for input_ in inputs) - arriving_bytes)
        finally:
            self._arriving_bytes -= arriving_bytes
        await asyncio.to_thread(function.check_letters, sent.name, sent.source)
        info = await asyncio.to_thread(jobs.describe, sent.name, sent.source, call, inputs, claim)
        if claim is not None:
            assert info.lineage is not None
            self._check_budgets(info.lineage.assets)
            _check_rows(inputs)
        mock = jobs.mock_words(sent.mock_kind, sent.mock_detail, sent.mock_text)
        return Job(sent.name, sent.source, call, inputs, mock, info, claim)

    def _check_budgets(self, assets: Sequence[tuple[str, int]]) -> None:
        """Raises OperationRefused unless each can pay for a training whose account is of single rows."""
        if not assets:
            raise OperationRefused("a function that trains privately gets at least one asset of this side's")
        for name, revision in assets:
            opened = self._catalogue.find_mine(name, revision).open
            if opened is None:
                raise OperationRefused(f"{name!r} has no privacy budget: its owner has to set one")
            if opened.budget.rows_per_person != 1:
                raise OperationRefused(
                    f"a person may have {opened.budget.rows_per_person} rows in {name!r}; the account of a "
                    "private training is of one"
                )

    async def _input(self, sent: pb.JobInput, claim: Claim | None) -> Input:
        which = sent.WhichOneof("input")
        if which == "asset":
            mine = self._catalogue.find_mine(sent.asset.name, sent.asset.revision)
            if mine.mock is None:
                raise OperationRefused(f"{mine.info.name!r} has no mock, and is not there to be worked on")
            return Input(mine)
        if which == "result":
            return Input(await self._freeze(sent.result, claim is not None))
        words = f"{sent.value.kind[:_MAX_WORDS]} {sent.value.detail[:_MAX_WORDS]}".strip()
        if not sent.value.HasField("offer"):
            return Input(body=memoryview(sent.value.body), words=words)
        assert self._link is not None
        body = await self._link.imports.pull("argument", sent.value.offer, self._limit_bytes)
        return Input(body=body.toreadonly(), words=words)

    def _check_room(self, more_bytes: int) -> None:
        if self._held_bytes() + self._arriving_bytes + more_bytes > self._limit_bytes:
            raise ValueRefused(
                f"functions that wait for the owner may hold {self._limit_bytes:,} bytes of values and "
                "results; wait for an answer, or withdraw some"
            )


def _claim(sent: pb.Job) -> Claim | None:
    if not sent.HasField("epsilon") and not sent.HasField("delta"):
        return None
    try:
        return Claim(sent.epsilon, sent.delta)
    except SettingError as error:
        raise RemoteProtocolError(f"a function claims what there is not: {error}") from None


def _check_rows(inputs: Sequence[Input]) -> None:
    """The account of a private training is of one row more or less in an asset, so that is what it has to
    be in all that the function gets of it. Values of the peer's own are no part of that.

    Raises:
        OperationRefused: a result is not made row by row, or has other rows than another input.
    """
    rows_by_asset: dict[str, Rows] = {}
    for input_ in inputs:
        mine = input_.mine
        if mine is None or (mine.info.lineage is not None and not mine.info.lineage.assets):
            continue
        rows = mine.rows if mine.info.lineage is not None else Rows(mine.info.name, mine.info.revision)
        if isinstance(rows, str):
            raise OperationRefused(
                f"a private training gets assets, and what is made of them row by row, which "
                f"{mine.info.name} is not: {rows}"
            )
        if rows_by_asset.setdefault(rows.asset, rows) != rows:
            raise OperationRefused(
                f"a private training gets the same rows of {rows.asset!r} in all its inputs, and "
                f"{mine.info.name} has others: choose rows first, and then columns of those"
            )


def _value_bytes(sent: pb.JobInput) -> int:
    """What a value takes up. Raises RemoteProtocolError, LimitExceeded: it is no input."""
    which = sent.WhichOneof("input")
    if which is None:
        raise RemoteProtocolError("an input of a function is nothing")
    if which != "value":
        return 0
    if sent.value.HasField("offer"):
        return int(sent.value.offer.size_bytes)
    if len(sent.value.body) > MAX_INLINE_BYTES:
        raise LimitExceeded(f"an input of {len(sent.value.body):,} bytes came without being offered")
    return len(sent.value.body)


async def _all(*coroutines: Awaitable[Input]) -> list[Input]:
    """What they return; where one fails, the others are given up."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
