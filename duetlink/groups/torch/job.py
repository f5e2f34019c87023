"""The ranks of one torch job in this process: from `init_process_group` to `destroy_process_group`."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from duetlink.base.runtime.at_exit import ExitPlan, open_here
from duetlink.base.runtime.loop import LoopThread
from duetlink.errors import DuetError, GroupError, PeerLost, SettingError
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.planning.costs import LinkFigures
from duetlink.groups.lifecycle.figures import measured
from duetlink.groups.links.mesh import Mesh
from duetlink.groups.torch.group_links import GroupLinks
from duetlink.groups.torch.group_store import GroupStore
from duetlink.groups.torch.links import Links
from duetlink.groups.torch.store_links import StoreLinks
from duetlink.net.link.shared_endpoint import shared_endpoint
from duetlink.settings import Settings

# Ranks end a job at about the same time. A rank that ends much later is not waited for; its data has arrived.
_LEAVING_S = 5.0


def _nothing() -> None:
    """Do nothing at the end of a job that does not own its group."""


class TorchJob:
    """The ranks of one job at this process.

    Coroutines run on the loop thread; the other methods block, and are called on any other thread.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        thread: LoopThread,
        links: Links,
        settings: Settings,
        generation: int,
        at_end: Callable[[], object] = _nothing,
    ) -> None:
        """`generation` numbers the jobs of the same ranks; `at_end` is called when everything is closed."""
        self.rank, self.size = rank, size
        self.thread = thread
        self.settings = settings
        self._links = links
        self.generation = generation
        self._at_end = at_end
        self._entered: dict[str, tuple[Mesh, Collectives]] = {}
        self._leaving: list[concurrent.futures.Future[None]] = []
        self._closing: asyncio.Task[None] | None = None
        self._exit_plan = ExitPlan(thread, lambda limit_s: self.end(), links.cut)
        open_here.add(self._exit_plan)

    async def enter(self, name: str, ranks: Sequence[int], timeout_s: float) -> Collectives:
        """Connect the ranks of one process group. All of them call it.

        Raises:
            GroupError: some have not called it within `timeout_s`.
            PeerLost: one of them is gone.
        """
        me = ranks.index(self.rank)
        # the group's ranks count from 0; "torch rank" is the rank in the whole job
        names = [f"rank {rank}" if rank == at else f"torch rank {rank}" for at, rank in enumerate(ranks)]

        async def gone(at: int, error: DuetError) -> DuetError:
            return PeerLost(f"{names[at]} is gone: {error}", rank=at, name=names[at])

        mesh: Mesh | None = None
        collectives: Collectives | None = None
        try:
            async with asyncio.timeout(timeout_s):
                others = [at for at in range(len(ranks)) if at != me]
                made = await asyncio.gather(*(self._links.to(ranks[at]) for at in others))
                links = dict(zip(others, made, strict=True))
                streams = [links[at].streams if at != me else None for at in range(len(ranks))]
                purpose = f"torch/{self.generation}/{name}"
                # the engine itself reports a violation to all, and ends the group's operations
                mesh = Mesh(0, me, streams, lambda rank, error: None, purpose=purpose, why=gone, patient=True)
                await mesh.wait_open()

                async def figures() -> dict[int, LinkFigures]:
                    return await measured(links)

                may_share = all(link.allows_local for link in made)
                collectives = Collectives(
                    mesh, names=names, figures=figures, may_share=may_share, sums=self._links.sums, alone=True
                )
                await collectives.agree(await figures())
        except TimeoutError:
            await _closed(mesh, collectives)
            raise GroupError(
                f"Timed out: not all of ranks {list(ranks)} came to group {name!r} within {timeout_s:g} s"
            ) from None
        except BaseException:
            await _closed(mesh, collectives)
            raise
        self._entered[name] = mesh, collectives
        return collectives

    def leave(self, name: str, *, at_once: bool, last: bool) -> None:
        """Leave a process group whose engine is closed; with `last`, end the job after its last group.

        Other ranks may still need messages of this rank, and the link to it. Unless `at_once`, they are
        waited for in the background, for at most 5 s.
        """
        entered = self._entered.pop(name, None)
        if entered is not None and not self.thread.stopped:
            self._leaving.append(self.thread.submit(_leave(*entered, at_once=at_once)))
        if last and not self._entered:
            self.close()

    def close(self) -> None:
        """Free everything, when all groups have been left. Safe to call twice."""
        if self.thread.stopped:
            return
        try:
            self.thread.run(self.end())
            self._at_end()
        finally:
            self.thread.stop()
            open_here.discard(self._exit_plan)

    async def end(self) -> None:
        """Leave every group that has not been left, and free the links. Safe to call twice."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        leaving = [asyncio.wrap_future(each) for each in self._leaving]
        for mesh, collectives in self._entered.values():
            at_once = collectives.broken is not None
            leaving.append(asyncio.ensure_future(_leave(mesh, collectives, at_once=at_once)))
        await asyncio.gather(*leaving, return_exceptions=True)
        await self._links.close()


async def _leave(mesh: Mesh, collectives: Collectives, *, at_once: bool) -> None:
    await collectives.close()
    if not at_once:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVING_S):
                await mesh.leave()
    await mesh.close()


async def _closed(mesh: Mesh | None, collectives: Collectives | None) -> None:
    if collectives is not None:
        await collectives.close()
    if mesh is not None:
        await mesh.close()


class Jobs:
    """The job of this process: torch has one at a time."""

    def __init__(self) -> None:
        self._current: TorchJob | None = None

    @property
    def begun(self) -> bool:
        return self._current is not None and not self._current.thread.stopped

    @property
    def current(self) -> TorchJob:
        """The job that runs. Raises GroupError before `init_process_group`."""
        if self._current is None or self._current.thread.stopped:
            raise GroupError("there is no job: call torch.distributed.init_process_group first")
        return self._current

    def begin(self, store: Any, rank: int, size: int) -> None:
        if self._current is not None:
            self._current.close()
        # the same ranks may have had a job in this store before, so each rank counts its jobs
        generation = store.add(f"duetlink/rank-{rank}", 1)
        settings = Settings.from_environment()
        whole = getattr(store, "_underlying_non_prefix_store", store)
        at_end: Callable[[], object] = _nothing
        if isinstance(whole, GroupStore):
            if (rank, size) != (whole.rank, whole.size):
                raise SettingError(
                    f"in its group this is rank {whole.rank} of {whole.size}, not {rank} of {size}: give "
                    "rank=store.rank, world_size=store.size"
                )
            if whole.owned:
                at_end = whole.group.close
        use = shared_endpoint.use()
        links: Links
        if isinstance(whole, GroupStore):
            links = GroupLinks(whole)
        else:
            links = StoreLinks(store, f"duetlink/{generation}", rank, settings, use.endpoint)
        self._current = TorchJob(rank, size, use.thread, links, settings, generation, at_end)
        if isinstance(whole, GroupStore):
            whole.before_close(self._current.end)


jobs = Jobs()
