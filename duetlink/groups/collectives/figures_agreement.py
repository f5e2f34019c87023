"""Exchanges figures of links among the members of an epoch, and sets up shared memory on one host."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping

from duetlink.errors import OperationMismatch
from duetlink.groups.collectives.execution.engine import Engine
from duetlink.groups.collectives.planning.costs import Costs, LinkFigures, row_from_wire, row_to_wire
from duetlink.groups.collectives.same_host import host_memory
from duetlink.groups.collectives.same_host.host_memory import Memory, OwnMemory
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

        If `is_first`, and all members are on one host and may share memory, use that instead.

        Raises:
            OperationMismatch: the members sent figures for groups of different sizes.
        """
        engine = self._flat.engine
        rows = await self._forms.all_gather(row_to_wire(figures or {}, engine.size), "agree", "")
        links = tuple(row_from_wire(row) for row in rows)
        if any(len(row) != engine.size for row in links):
            raise OperationMismatch("the members sent figures of links for groups of different sizes")
        from_each = tuple(zip(*links, strict=True))
        shared = None
        if is_first and engine.size > 1:
            shared = await share_memory(engine, self._forms, may_share=self._may_share)
        self._flat.agree(Costs(from_each), shared)


async def share_memory(engine: Engine, forms: Forms, *, may_share: bool) -> SharedOperations | None:
    """Map memory that all members share; None unless all of them may, and can map it."""
    own: OwnMemory | None = None
    with contextlib.suppress(OSError):
        own = OwnMemory() if may_share and host_memory.supported() else None
    others: list[Memory | None] | None = None
    shared = None
    try:
        addresses = await forms.all_gather(own.address if own is not None else b"", "agree", "")
        if own is not None:
            others = host_memory.open_others(addresses, engine.rank)
        answers = await forms.all_gather(b"yes" if others is not None else b"no", "agree", "")
        if own is not None and others is not None and set(answers) == {b"yes"}:
            shared = SharedOperations(engine, own.memory, others)
        return shared
    finally:
        if own is not None:
            own.hide()
        if shared is None:
            for memory in [own.memory if own is not None else None, *(others or [])]:
                if memory is not None:
                    memory.close()
