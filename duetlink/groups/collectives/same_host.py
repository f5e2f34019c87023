"""Memory that all members map, where all of them are on one host."""

from __future__ import annotations

import contextlib

from duetlink.groups.collectives import host_memory
from duetlink.groups.collectives.engine import Engine
from duetlink.groups.collectives.forms import Forms
from duetlink.groups.collectives.host_memory import Memory, OwnMemory
from duetlink.groups.collectives.shared import SharedOperations


async def share_memory(engine: Engine, forms: Forms) -> SharedOperations | None:
    """Memory that all members map; None unless all of them can."""
    own: OwnMemory | None = None
    with contextlib.suppress(OSError):
        own = OwnMemory() if host_memory.supported() else None
    others: list[Memory | None] | None = None
    shared = None
    try:
        addresses = await forms.tell_each(own.address if own is not None else b"", "agree", "")
        if own is not None:
            others = host_memory.open_others(addresses, engine.rank)
        told = await forms.tell_each(b"yes" if others is not None else b"no", "agree", "")
        if own is not None and others is not None and set(told) == {b"yes"}:
            shared = SharedOperations(engine, own.memory, others)
        return shared
    finally:
        if own is not None:
            own.hide()
        if shared is None:
            for memory in [own.memory if own is not None else None, *(others or [])]:
                if memory is not None:
                    memory.close()
