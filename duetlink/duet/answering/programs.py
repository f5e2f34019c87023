"""Runs the peer's programs. Each runs in a room that has the assets named in it, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import json
import os
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence

from duetlink.base.audit import entry
from duetlink.base.audit.entry import Entry
from duetlink.base.runtime import descriptors
from duetlink.compute.operations.canonical import DIGEST_VERSION, Program
from duetlink.compute.operations.lineage import Lineage
from duetlink.compute.operations.prefixes import Prefix
from duetlink.compute.privacy.account import Amount
from duetlink.compute.privacy.claim import Claim
from duetlink.compute.privacy.ledger import Ledger
from duetlink.compute.privacy.table import Rows
from duetlink.compute.worker.kernel import rooms, runs
from duetlink.compute.worker.kernel.process import OnEvent, Room
from duetlink.compute.worker.kernel.runs import Made
from duetlink.compute.worker.protocol import faults
from duetlink.compute.worker.protocol.faults import Fault
from duetlink.compute.worker.protocol.limits import Limits
from duetlink.compute.worker.protocol.memory import place
from duetlink.duet.answering.charge import BudgetCharge, planned_charges, refusal
from duetlink.duet.answering.private import Private, planned, rows_found
from duetlink.duet.answering.reuse import Frozen, Plan, Reuse
from duetlink.duet.objects.budget import BudgetedAsset
from duetlink.duet.objects.catalogue import Catalogue, OwnAsset
from duetlink.duet.objects.recorder import Recorder
from duetlink.errors import BudgetExceeded, DuetError, NoMock, WorkerUnavailable
from duetlink.net.flight.body import Outgoing
from duetlink.settings import Settings

_LEAST_S = 1.0  # a room has at least this long for the rest of a program


class Programs:
    """Plans, pays for and runs programs. Used on the loop thread only."""

    def __init__(self, catalogue: Catalogue, settings: Settings, recorder: Recorder, ledger: Ledger) -> None:
        self._catalogue = catalogue
        self._settings = settings
        self._recorder = recorder
        self._ledger = ledger
        self._salt = secrets.token_hex(16)  # seeds the draws of programs that set no seed
        self._reuse = Reuse(settings.reuse_bytes)

    def expect(self) -> None:
        """Prepare a room: an asset with a mock is shared with a connected peer, so a program may
        arrive soon.
        """
        rooms.warm()

    def retired(self, name: str, revision: int) -> None:
        """Drop what was kept of an asset whose revision is no longer shared."""
        self._reuse.retire((name, revision))

    async def close(self) -> None:
        """Drop what is kept between programs; the warm room is gone when this returns."""
        await self._reuse.close()

    # -- before a run ----------------------------------------------------------------------------------------

    def check_offered(self, assets: Sequence[tuple[str, int]]) -> None:
        """Raise AssetNotFound, AssetChanged or NoMock if one of these assets cannot be worked on."""
        for name, revision in assets:
            self._worked_on(name, revision)

    def _worked_on(self, name: str, revision: int) -> OwnAsset:
        mine = self._catalogue.find_mine(name, revision)
        if mine.mock is None:
            raise NoMock(f"{name!r} has no mock, so it cannot be worked on; its owner can share it with one")
        return mine

    async def planned(self, program: Program, asked: bytes) -> Private:
        """Plan the private statistic that is asked for in place of a program's result.

        Raises:
            OperationRefused: no private statistic can be made of it.
            RemoteProtocolError, LimitExceeded: the question is malformed.
        """
        budgeted = self._budgeted_assets()
        return await asyncio.to_thread(lambda: planned(program.steps, program.target, asked, budgeted))

    async def rows(self, program: Program) -> Rows | str:
        """Return which rows of which asset a result has, or the reason why that is not known."""
        budgeted = self._budgeted_assets()
        return await asyncio.to_thread(lambda: rows_found(program, budgeted))

    def _budgeted_assets(self) -> dict[tuple[str, int], BudgetedAsset]:
        """Return the assets that have a budget, by name and revision."""
        return {
            (name, mine.info.revision): mine.budgeted
            for name, mine in self._catalogue.mine.items()
            if mine.budgeted is not None
        }

    # -- budgets ---------------------------------------------------------------------------------------------

    async def charge_statistic(self, private: Private) -> None:
        """Charge a private statistic to its budget, before it is made.

        Raises:
            BudgetExceeded: there is not enough left; nothing was charged.
            AuditUnavailable: the ledger cannot be written.
        """
        route, statistic = private.route, private.statistic
        await self._charge(route.asset, route.revision, statistic.cost, statistic.words())

    def planned_charges(self, assets: Sequence[tuple[str, int]], claim: Claim) -> tuple[BudgetCharge, ...]:
        """Return what `charge` would charge now. Any thread may call it; see `charge.planned_charges`."""
        rows_by_asset = {name: self._catalogue.budgeted_rows(name) for name, _ in assets}
        return planned_charges(self._ledger, rows_by_asset, claim)

    async def charge(self, assets: Sequence[tuple[str, int]], claim: Claim, key: str) -> None:
        """Charge a function's claim to the budget of each asset that it gets, before it runs. What was
        charged under this key before, also by an earlier kernel, is not charged again.

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
        """Return the assets whose budget has no charge under this key. Blocks.

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
        self._catalogue.update_budget(asset, revision, words)

    # -- runs ------------------------------------------------------------------------------------------------

    async def run(
        self,
        program: Program,
        limits: Limits,
        on_event: OnEvent = lambda name, content: None,
        private: Private | None = None,
        on_room: Callable[[Room], None] = lambda room: None,
    ) -> Made | Fault:
        """Run a program; return its encoded result, or the fault that stopped it. With `private`, return that
        statistic of it. The room has ended when this returns, and is gone when this is cancelled.

        Raises:
            WorkerUnavailable: the room has ended, or none can be started; WorkLimit: over a limit.
            AssetNotFound, AssetChanged, NoMock: an asset can no longer be worked on.
        """
        began_s = time.monotonic()
        plan = await self._reuse.plan(program) if private is None else Plan()
        try:
            if plan.continues:
                made = await self._run_warm(program, limits, on_event, on_room)
                if made is not None:
                    return made
            async with runs.room_for(limits, on_event) as room:
                on_room(room)
                for name, revision in program.assets:
                    needed = plan.needed is None or (name, revision) in plan.needed
                    again = (name, revision) in plan.again
                    await self._open(room, name, revision, needed, again=again)
                if private is not None:
                    return await runs.run(room, program, self._salt, "release", json.loads(private.to_json()))
                if plan.frozen is not None:
                    kept = plan.frozen
                    await runs.begin_with(room, plan.frozen_steps, plan.fd, kept.size_bytes, kept.state)
                if plan.freeze is None:
                    return await runs.run(room, program, self._salt)
                freezing_s = time.monotonic()
                await self._freeze(room, program, plan, plan.freeze)
                left_s = limits.wall_s - (time.monotonic() - freezing_s)
                return await runs.end(room, max(_LEAST_S, left_s))
        finally:
            plan.close()
            self._reuse.ran(program, plan, time.monotonic() - began_s)

    async def _run_warm(
        self,
        program: Program,
        limits: Limits,
        on_event: OnEvent,
        on_room: Callable[[Room], None],
    ) -> Made | Fault | None:
        """Run a program in the warm room of an earlier one, or in a new room that stays warm. None: run it
        from its start, in a room of its own.
        """
        taken = self._reuse.take_room(program, limits)
        room, opened = taken or (await runs.opened(limits, on_event), frozenset())
        room.listen(on_event)
        on_room(room)
        stays = False
        try:
            for name, revision in program.assets:
                await self._open(room, name, revision, (name, revision) not in opened)
            made = await runs.run(room, program, self._salt, more={"goes_on": True})
            if isinstance(made, Fault):
                # a warm room keeps more in memory, so a limit may be reached that a fresh room does not reach
                return None if made.code == faults.NOT_MADE else made
            stays = self._are_offered(program.assets)
            if stays:
                self._reuse.keep_room(room, program)
            return made
        except WorkerUnavailable:  # the room has ended, also by a limit
            return None
        finally:
            if not stays:
                await room.close()

    async def _freeze(self, room: Room, program: Program, plan: Plan, prefix: Prefix) -> None:
        """Run only the first steps of a program in its room, and keep their results."""
        most_bytes = min(self._reuse.most_bytes, room.limits.result_bytes)
        made = await runs.begin(room, program, self._salt, prefix.steps, most_bytes, plan.least_s)
        if made is None:
            return
        if self._are_offered(sorted(plan.inside)):
            self._reuse.keep(prefix, Frozen(*made, plan.inside))
        else:
            os.close(made[0])

    def _are_offered(self, assets: Sequence[tuple[str, int]]) -> bool:
        """Return False if one of the assets was unshared meanwhile; then nothing made of it may be kept."""
        try:
            self.check_offered(assets)
        except DuetError:
            return False
        return True

    async def _open(self, room: Room, name: str, revision: int, needed: bool, *, again: bool = False) -> None:
        """Record in the audit log that an asset is opened, and map it into the room if the room needs it."""
        self._worked_on(name, revision)
        if needed:
            await self._map(room, name, revision, again)
        opened = Entry(
            kind=entry.RUN, name=name, revision=revision, reason="opened for the peer's operations"
        )
        await self._recorder.record(opened, sync=False)

    @contextlib.asynccontextmanager
    async def placed(self, name: str, revision: int) -> AsyncIterator[tuple[int, int]]:
        """Have an asset in shared memory within the block: its descriptor and its size in bytes.

        Raises AssetNotFound, AssetChanged, NoMock: it cannot be worked on.
        """
        outgoing = await self._worked_on(name, revision).content.outgoing()
        pieces, size_bytes = list(outgoing.pieces()), outgoing.size_bytes
        async with descriptors.opened_by(lambda: place(pieces, size_bytes)) as fd:
            await asyncio.to_thread(_verify, outgoing)
            yield fd, size_bytes

    async def _map(self, room: Room, name: str, revision: int, again: bool) -> None:
        async with self.placed(name, revision) as (fd, size_bytes):
            await runs.map_asset(room, name, revision, fd, size_bytes, again=again)


def _verify(outgoing: Outgoing) -> None:
    """Raise AssetChanged if the asset's memory was written to since it was shared."""
    for leaf in range(outgoing.leaves):
        outgoing.verify_leaf(leaf)


def budget_words(ledger: Ledger, asset: str) -> str:
    """Return the total and the remaining budget of an asset as text, for a person."""
    return f"epsilon {ledger.total(asset) or 0:f}, {ledger.left(asset).normalize():f} left"


def statistic_lineage(private: Private) -> Lineage:
    """Return the lineage under which a private statistic is shown. Its digest differs from that of the exact
    result, so that approving one does not approve the other.
    """
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
    """Return the lineage of a request that only asks whether a program can be run."""
    made = program.lineage
    digest = hashlib.sha256(f"{made.digest} check".encode()).hexdigest()
    return dataclasses.replace(
        made,
        expression=f"check({made.expression})",
        code=f"{made.code}\n# only whether this can be done is asked for",
        operations=tuple(sorted({*made.operations, "check"})),
        digest=DIGEST_VERSION + digest,
    )
