"""Exchanges figures of links among the members of an epoch, and sets up the memory that hosts share."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping

from duetlink.errors import OperationMismatch
from duetlink.groups.collectives.execution.engine import Engine
from duetlink.groups.collectives.planning.costs import Costs, LinkFigures, row_from_wire, row_to_wire
from duetlink.groups.collectives.same_host import host_memory
from duetlink.groups.collectives.same_host.host_memory import Memory, OwnMemory
from duetlink.groups.collectives.same_host.hosts import Hosts, hosts_of, report_of
from duetlink.groups.collectives.same_host.shared import SharedOperations
from duetlink.groups.collectives.values.flat import FlatOperations
from duetlink.groups.collectives.values.forms import Forms

Figures = Callable[[], Awaitable[Mapping[int, LinkFigures]]]


class FiguresAgreement:
    """The exchange of figures in one epoch. Belongs to the loop thread."""

    def __init__(
        self, flat: FlatOperations, forms: Forms, figures: Figures | None, *, may_share: bool
    ) -> None:
        self._flat = flat
        self._forms = forms
        self._figures = figures
        self._may_share = may_share

    async def in_time(self, completed: int) -> None:
        """Exchange figures, if the members do that at all and share no memory; `completed` counts
        the calls.
        """
        if self._figures is not None and not self._flat.is_shared:
            await self.agree(await self._figures(), is_first=completed == 0)

    async def agree(self, figures: Mapping[int, LinkFigures] | None, *, is_first: bool = True) -> None:
        """Exchange figures by rank, and choose algorithms by the figures of all from then on.

        If `is_first`, find out which members share a host; it remains so for the epoch. If all members are on
        one host, use shared memory instead.

        Raises:
            OperationMismatch: the members sent figures for groups of different sizes.
        """
        engine = self._flat.engine
        rows = await self._forms.all_gather(row_to_wire(figures or {}, engine.size), "agree", "")
        links = tuple(row_from_wire(row) for row in rows)
        if any(len(row) != engine.size for row in links):
            raise OperationMismatch("the members sent figures of links for groups of different sizes")
        from_each = tuple(zip(*links, strict=True))
        hosts = None
        if is_first and engine.size > 1:
            hosts = await share_memory(engine, self._forms, may_share=self._may_share)
        self._flat.agree(Costs(from_each), hosts)


async def share_memory(engine: Engine, forms: Forms, *, may_share: bool) -> Hosts | None:
    """Map the memory of the members on this host; None unless some members may share, and share a host."""
    own: OwnMemory | None = None
    with contextlib.suppress(OSError):
        own = OwnMemory() if may_share and host_memory.supported() else None
    mapped: dict[int, Memory] = {}
    hosts = None
    try:
        addresses = await forms.all_gather(own.address if own is not None else b"", "agree", "")
        if own is not None:
            opened = enumerate(host_memory.open_others(addresses, engine.rank))
            mapped = {rank: memory for rank, memory in opened if memory is not None}
            mapped[engine.rank] = own.memory
        reports = await forms.all_gather(report_of(mapped, engine.size), "agree", "")
        ranks = hosts_of(reports)
        (mine,) = (host for host in ranks if engine.rank in host)
        kept = {rank: mapped.pop(rank) for rank in mine} if len(mine) > 1 else {}
        if len(ranks) < engine.size:
            hosts = Hosts(ranks, SharedOperations(engine, kept) if kept else None)
        return hosts
    finally:
        if own is not None:
            own.hide()
        for memory in mapped.values():
            memory.close()
