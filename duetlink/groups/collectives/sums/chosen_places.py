"""Sums an array at some places that all members know: only the values there are sent.

Theory. The result of floating point additions depends on their order, so each item must be added in the order
in which the dense sum would add it. In an algorithm that cuts an array into blocks, that order depends on the
block of the item. So the chosen values are sorted by the dense array's blocks: those of the first block of
every part, then those of the second one, and so on. The sorted array then runs through the dense array's
schedule.
"""

from __future__ import annotations

import numpy as np

from duetlink.base.runtime.off_loop import off_loop
from duetlink.data.codecs.support import Places
from duetlink.groups.collectives.execution.elements import Array
from duetlink.groups.collectives.execution.layout import Whole
from duetlink.groups.collectives.sums.base import SumJob


def by_blocks(places: Places, layout: Whole) -> tuple[Places, list[int]]:
    """Sort the places by the dense array's blocks; return them and the number in each block."""
    if layout.blocks == 1:
        return places, [places.size]
    bounds = np.searchsorted(places, layout.cuts())
    sizes = (bounds[:, 1:] - bounds[:, :-1]).sum(axis=0).tolist()
    if layout.parts == 1:
        return places, sizes
    runs = [places[part[block] : part[block + 1]] for block in range(layout.blocks) for part in bounds]
    return np.concatenate(runs), sizes


async def sum_at(job: SumJob, places: Places, what: str) -> tuple[Places, Array]:
    """Return the places in another order, and the sum at each. The array is not written.

    The bits are those of the dense sum by messages, with the requested algorithm or the one that would be
    chosen.
    """
    chosen, layout = job.flat.order_of(job.array.size, job.element, job.options.algorithm)

    def gather() -> tuple[Places, list[int], Array]:
        ordered, sizes = by_blocks(places, layout)
        return ordered, sizes, job.array[ordered]

    ordered, sizes, values = await off_loop(job.array.nbytes, gather)
    options = job.step(f"{places.size} {what}")
    await job.flat.all_reduce_blocks(values, sizes, job.element, job.op, chosen, options)
    return ordered, values
