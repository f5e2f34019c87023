"""The coded sums by name, and the one entry to them: for values (`Collectives`) and for torch's buffers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from duetlink.data.codecs.element import Element
from duetlink.errors import UnknownCodec
from duetlink.groups.collectives.elements import Array, combination
from duetlink.groups.collectives.flat import FlatOperations, Manner
from duetlink.groups.collectives.sums import agreed, automatic, integers, lhc, sketch, union
from duetlink.groups.collectives.sums.base import Job, SumReport

SUMS: Mapping[str, Callable[[Job], Awaitable[SumReport]]] = {
    "auto": automatic.run,
    "union": union.run,
    "integers": integers.run,
    "sketch": sketch.run,
    "lhc": lhc.run,
    agreed.NAME: agreed.run,
    **dict.fromkeys(integers.WIDTHS, integers.run),
}


async def all_reduce(
    flat: FlatOperations,
    array: Array,
    element: Element,
    op: str,
    manner: Manner,
    *,
    restore: bool = True,
    memory: Array | None = None,
) -> SumReport | None:
    """As `FlatOperations.all_reduce`, in place, by the coded sum that `manner.codec` names.

    Any other codec, or none, is what it is there, and has no report. With a coded sum, the array is as it was
    if the operation fails, whatever `restore` says. A sum is several operations of the engine: who calls this
    and meets an error in the middle abandons the engine, as `Collectives` does.

    `memory`, of the array's form, is for codecs that leave items out: it is added to the array before, and
    holds what was left out afterwards. Other codecs do not touch it.

    Raises, beside what `FlatOperations.all_reduce` raises:
        UnsupportedValue: the sum is not for this operation, or not for such items.
    """
    codec = manner.codec
    way = (
        None if codec is None else SUMS.get(codec.partition(":")[0] if codec.startswith("agreed") else codec)
    )
    if codec is None or way is None:
        try:
            await flat.all_reduce(array, element, op, manner, restore=restore)
        except UnknownCodec as error:
            raise UnknownCodec(f"{error}; for sums and means there are also {', '.join(SUMS)}") from None
        return None
    combination(op, element)
    began_s, sent_before_bytes = time.monotonic(), flat.engine.sent_bytes
    job = Job(flat, array, element, op, codec, manner)
    report = await (way(job) if way is not agreed.run else agreed.run(job, memory))
    return replace(
        report,
        elapsed_s=time.monotonic() - began_s,
        sent_bytes=flat.engine.sent_bytes - sent_before_bytes,
        dense_bytes=flat.sent_of(array.size, element, manner.algorithm),
    )
