"""Runs of the peer's programs: each in a room that has the assets that it names, and nothing else."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Sequence

from duetlink.base.audit import entry
from duetlink.base.audit.entry import Entry
from duetlink.compute.operations.canonical import DIGEST_VERSION, Program
from duetlink.compute.operations.lineage import Lineage
from duetlink.compute.privacy.account import Amount
from duetlink.compute.privacy.claim import Claim
from duetlink.compute.privacy.ledger import Ledger
from duetlink.compute.privacy.table import Rows
from duetlink.compute.worker import answers, libraries, rooms
from duetlink.compute.worker.faults import Fault
from duetlink.compute.worker.limits import Limits
from duetlink.compute.worker.memory import place
from duetlink.compute.worker.process import OnEvent, Worker
from duetlink.data.values.base import Encoded
from duetlink.duet.answering.charge import Charge, planned_charges, refusal
from duetlink.duet.answering.private import Private, planned, rows_found
from duetlink.duet.objects.budget import Open
from duetlink.duet.objects.catalogue import Catalogue, Mine
from duetlink.duet.objects.recorder import Recorder
from duetlink.errors import BudgetExceeded, NoMock
from duetlink.net.flight.body import Outgoing
from duetlink.settings import Settings

Made = tuple[Encoded, int | None]  # a value, and of how many rows each number of it is made at least

_LIBRARIES = tuple(library for library in libraries.LIBRARIES if library not in libraries.OF_FUNCTIONS)


class Programs:
    """Belongs to the loop thread."""

    def __init__(self, catalogue: Catalogue, settings: Settings, recorder: Recorder, ledger: Ledger) -> None:
        self._catalogue = catalogue
        self._settings = settings
        self._recorder = recorder
        self._ledger = ledger
        self._salt = secrets.token_hex(16)  # for draws of programs that set no seed

    def expect(self) -> None:
        """Something with a mock is shared with a peer who is there: a room may be wanted soon."""
        rooms.warm()

    # -- before a run ----------------------------------------------------------------------------------------

    def check_offered(self, assets: Sequence[tuple[str, int]]) -> None:
        """Raises AssetNotFound, AssetChanged, NoMock: one of these is not there to be worked on."""
        for name, revision in assets:
            self._worked_on(name, revision)

    def _worked_on(self, name: str, revision: int) -> Mine:
        mine = self._catalogue.find_mine(name, revision)
        if mine.mock is None:
            raise NoMock(f"{name!r} has no mock, and is not there to be worked on")
        return mine

    async def planned(self, program: Program, asked: bytes) -> Private:
        """The private statistic that is asked for in place of what a program makes.

        Raises:
            OperationRefused: none can be made of it.
            RemoteProtocolError, LimitExceeded: what is asked is malformed.
        """
        opened = self._opened()
        return await asyncio.to_thread(lambda: planned(program.steps, program.target, asked, opened))

    async def rows(self, program: Program) -> Rows | str:
        """Which rows of which asset a result has; else why that is not known."""
        opened = self._opened()
        return await asyncio.to_thread(lambda: rows_found(program.steps, program.target, opened))

    def _opened(self) -> dict[tuple[str, int], Open]:
        """The assets with a budget, by name and revision."""
        return {
            (name, mine.info.revision): mine.open
            for name, mine in self._catalogue.mine.items()
            if mine.open is not None
        }

    # -- budgets ---------------------------------------------------------------------------------------------

    async def charge_statistic(self, private: Private) -> None:
        """Pay for a private statistic, before it is made.

        Raises:
            BudgetExceeded: there is not enough left; nothing was charged.
            AuditUnavailable: the ledger cannot be written.
        """
        route, statistic = private.route, private.statistic
        await self._charge(route.asset, route.revision, statistic.cost, statistic.words())

    def planned_charges(self, assets: Sequence[tuple[str, int]], claim: Claim) -> tuple[Charge, ...]:
        """What `charge` would take, as of now; from any thread, see `charge.planned_charges`."""
        rows_by_asset = {name: self._catalogue.open_rows(name) for name, _ in assets}
        return planned_charges(self._ledger, rows_by_asset, claim)

    async def charge(self, assets: Sequence[tuple[str, int]], claim: Claim, key: str) -> None:
        """Pay for what a function is about to do, from the budget of each asset that it gets, by
        `planned_charges`. What was paid under this key, by an earlier kernel perhaps, is not paid again.

        Raises:
            BudgetExceeded: there is not enough left of one; nothing was charged.
            AuditUnavailable: the ledger cannot be written.
        """
        unpaid = await asyncio.to_thread(self.unpaid, assets, key)
        charges = await asyncio.to_thread(self.planned_charges, unpaid, claim)
        if why := refusal(charges, claim):
            raise BudgetExceeded(why)
        revisions = dict(unpaid)
        for charge in charges:
            what = f"a function that trains privately, {claim}; charge {key}"
            await self._charge(charge.asset, revisions[charge.asset], charge.epsilon, what)

    def unpaid(self, assets: Sequence[tuple[str, int]], key: str) -> list[tuple[str, int]]:
        """Those whose budget has no charge under this key. Blocks.

        Raises:
            AuditUnavailable, AuditBroken: the ledger cannot be read.
        """
        return [
            (name, revision)
            for name, revision in assets
            if not any(posting.what.endswith(f"; charge {key}") for posting in self._ledger.history(name))
        ]

    async def _charge(self, asset: str, revision: int, cost: Amount, what: str) -> None:
        await asyncio.to_thread(self._ledger.charge, asset, cost, what)
        words = await asyncio.to_thread(budget_words, self._ledger, asset)
        self._catalogue.tell_budget(asset, revision, words)

    # -- a run -----------------------------------------------------------------------------------------------

    async def run(
        self,
        program: Program,
        limits: Limits,
        on_event: OnEvent = lambda name, content: None,
        private: Private | None = None,
        on_room: Callable[[Worker], None] = lambda room: None,
    ) -> Made | Fault:
        """What a program makes, or why it cannot be made; with `private`, that statistic of it. The room is
        gone when this returns, or was cancelled.

        Raises:
            WorkerUnavailable: the room has ended, or there is none; WorkLimit: over a limit.
            AssetNotFound, AssetChanged, NoMock: an object is no longer there to be worked on.
        """
        room = await Worker.start(limits, desk="program", libraries=_LIBRARIES, on_event=on_event)
        on_room(room)
        try:
            for name, revision in program.assets:
                await self._map(room, name, revision)
            segments = program.segments
            size_bytes = sum(map(len, segments))
            fd = await asyncio.to_thread(place, segments, size_bytes)
            asked = {"size_bytes": size_bytes, "max_bytes": limits.result_bytes, "salt": self._salt}
            command = "run"
            if private is not None:
                command, asked = "release", asked | json.loads(private.to_json())
            try:
                reply = await room.call(command, json.dumps(asked).encode(), [fd], memory=True)
            finally:
                os.close(fd)
            return answers.read_result(reply.content, reply.fds)
        finally:
            await room.close()

    async def placed(self, name: str, revision: int) -> tuple[int, int]:
        """A descriptor of memory that holds an asset, the caller's to close, and its size. Raises
        AssetNotFound, AssetChanged, NoMock: it is not there to be worked on.
        """
        outgoing = await self._worked_on(name, revision).content.outgoing()
        fd = await asyncio.to_thread(place, list(outgoing.pieces()), outgoing.size_bytes)
        try:
            await asyncio.to_thread(_verify, outgoing)
        except BaseException:
            os.close(fd)
            raise
        return fd, outgoing.size_bytes

    async def _map(self, room: Worker, name: str, revision: int) -> None:
        """Let a room have an asset."""
        fd, size_bytes = await self.placed(name, revision)
        try:
            header = {"name": name, "revision": revision, "size_bytes": size_bytes}
            await room.call("asset", json.dumps(header).encode(), [fd], lasting=True)
        finally:
            os.close(fd)
        opened = Entry(
            kind=entry.RUN, name=name, revision=revision, reason="opened for the peer's operations"
        )
        await self._recorder.record(opened, sync=False)


def _verify(outgoing: Outgoing) -> None:
    """Raises AssetChanged: its memory was written to since it was shared."""
    for leaf in range(outgoing.leaves):
        outgoing.verify_leaf(leaf)


def budget_words(ledger: Ledger, asset: str) -> str:
    """What may be spent of an asset's privacy, and what is left of it, for a person."""
    return f"epsilon {ledger.total(asset) or 0:f}, {ledger.left(asset).normalize():f} left"


def statistic_lineage(private: Private) -> Lineage:
    """How a private statistic is shown. Whoever allows it has not allowed the exact result of its steps."""
    made = private.shown.lineage
    statistic = private.statistic
    call = f".dp(epsilon={statistic.cost:f})"
    digest = hashlib.sha256(f"{made.digest} dp ".encode() + statistic.to_json()).hexdigest()
    return dataclasses.replace(
        made,
        expression=f"{made.expression}{call}",
        code=f"{made.code}{call}  # private {statistic.words()}",
        operations=("dp",),
        digest=DIGEST_VERSION + digest,
    )


def check_lineage(program: Program) -> Lineage:
    """How it is shown that only whether a program can be done is asked for."""
    made = program.lineage
    digest = hashlib.sha256(f"{made.digest} check".encode()).hexdigest()
    return dataclasses.replace(
        made,
        expression=f"check({made.expression})",
        code=f"{made.code}\n# only whether this can be done is asked for",
        operations=("check",),
        digest=DIGEST_VERSION + digest,
    )
