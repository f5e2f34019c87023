"""The sum at some places of an array, which all members know: their values alone travel.

Theory. Floating point addition depends on the order, so the sum must add each item in the order in which the
dense one would. In an algorithm that cuts an array into blocks, that order is a matter of the block in which
the item lies. So the chosen values are laid out by the dense array's blocks: those of the first block of
every part, then those of the second one, and so on; and this array walks the dense array's schedule.
"""

from __future__ import annotations

import numpy as np

from duetlink.base.runtime.off_loop import off_loop
from duetlink.data.codecs.support import Places
from duetlink.groups.collectives.execution.elements import Array
from duetlink.groups.collectives.execution.layout import Whole
from duetlink.groups.collectives.sums.base import SumJob


def by_blocks(places: Places, layout: Whole) -> tuple[Places, list[int]]:
    """The same places by the dense array's blocks, and how many each block has."""
    if layout.blocks == 1:
        return places, [places.size]
    bounds = np.searchsorted(places, layout.cuts())
    sizes = (bounds[:, 1:] - bounds[:, :-1]).sum(axis=0).tolist()
    if layout.parts == 1:
        return places, sizes
    runs = [places[part[block] : part[block + 1]] for block in range(layout.blocks) for part in bounds]
    return np.concatenate(runs), sizes


async def sum_at(job: SumJob, places: Places, what: str) -> tuple[Places, Array]:
    """The sum at these places, in an order of its own, with that order. The array stays as it is.

    The bits are those of the dense sum by messages, by the algorithm that was named or would be chosen.
    """
    chosen, layout = job.flat.order_of(job.array.size, job.element, job.manner.algorithm)

    def gather() -> tuple[Places, list[int], Array]:
        ordered, sizes = by_blocks(places, layout)
        return ordered, sizes, job.array[ordered]

    ordered, sizes, values = await off_loop(job.array.nbytes, gather)
    manner = job.step(f"{places.size} {what}")
    await job.flat.all_reduce_blocks(values, sizes, job.element, job.op, chosen, manner)
    return ordered, values
