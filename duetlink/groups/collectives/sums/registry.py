"""The coded sums by name, and the one entry to them: for values (`Collectives`) and for torch's buffers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from duetlink.data.codecs.element import Element
from duetlink.groups.collectives.elements import Array, combination
from duetlink.groups.collectives.flat import FlatOperations, Manner
from duetlink.groups.collectives.sums import automatic, integers, sketch, union
from duetlink.groups.collectives.sums.base import Job, SumReport

SUMS: Mapping[str, Callable[[Job], Awaitable[SumReport]]] = {
    "auto": automatic.run,
    "union": union.run,
    "integers": integers.run,
    "sketch": sketch.run,
    **dict.fromkeys(integers.WIDTHS, integers.run),
}


async def all_reduce(
    flat: FlatOperations, array: Array, element: Element, op: str, manner: Manner, *, restore: bool = True
) -> SumReport | None:
    """As `FlatOperations.all_reduce`, in place, by the coded sum that `manner.codec` names.

    Any other codec, or none, is what it is there, and has no report. With a coded sum, the array is as it was
    if the operation fails, whatever `restore` says. A sum is several operations of the engine: who calls this
    and meets an error in the middle abandons the engine, as `Collectives` does.

    Raises, beside what `FlatOperations.all_reduce` raises:
        UnsupportedValue: the sum is not for this operation, or not for such items.
    """
    if manner.codec is None or manner.codec not in SUMS:
        await flat.all_reduce(array, element, op, manner, restore=restore)
        return None
    combination(op, element)
    began_s = time.monotonic()
    report = await SUMS[manner.codec](Job(flat, array, element, op, manner.codec, manner))
    return replace(report, elapsed_s=time.monotonic() - began_s)
