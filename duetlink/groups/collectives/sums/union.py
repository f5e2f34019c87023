"""Union compaction: the members' supports are combined by "or", then only the values there are added.

Theory. An item that is zero at every member is zero in the sum. The bitmap of all others costs one bit an
item, or, encoded at each hop, little more than its entropy. After that all members know the same places, and
values need no indices: a dense array of the union's size is summed, with the dense array's order of
additions.
"""

from __future__ import annotations

from dataclasses import replace

from duetlink.base.runtime.off_loop import off_loop
from duetlink.data.codecs.element import UINT8
from duetlink.data.codecs.support import Bitmap, bitmap_of, count, places_of
from duetlink.groups.collectives.sums.base import SumJob, SumReport
from duetlink.groups.collectives.sums.chosen_places import sum_at

# From this density on, bitmap and values are hardly smaller than the array (float32 breaks
# even at 31/32).
DENSE_FROM = 0.9


async def union_of_supports(job: SumJob) -> tuple[Bitmap, int]:
    """Return a bitmap of the items that are not zero at some member, and their number."""
    bitmap: Bitmap = await off_loop(job.array.nbytes, bitmap_of, job.array, job.element)
    await job.flat.all_reduce(bitmap, UINT8, "or", job.step("support", "zstd"), restore=False)
    if job.array.size % 8:
        bitmap[-1] &= 0xFF << (-job.array.size % 8) & 0xFF  # a member may have set bits beyond the end
    return bitmap, count(bitmap)


async def sum_at_bits(job: SumJob, bitmap: Bitmap) -> None:
    """Sum the items whose bits are set; the array's other items stay."""
    places = await off_loop(job.array.nbytes, places_of, bitmap, job.array.size)
    ordered, values = await sum_at(job, places, "values")
    job.array[ordered] = values


async def sum_of_union(job: SumJob, bitmap: Bitmap, union_items: int, why: str) -> SumReport:
    """Sum the values at the union, which is known by now."""
    await sum_at_bits(job, bitmap)
    return job.report("union", why, dense_items=union_items, union_items=union_items)


def is_nearly_all(items: int, of_items: int) -> bool:
    """Return True if sending these items and their places saves nearly nothing."""
    return items > DENSE_FROM * of_items


async def dense_instead(job: SumJob, why: str, union_items: int | None = None) -> SumReport:
    """Sum whole arrays, but not through shared memory, which adds in another order."""
    if job.options.algorithm is None:
        chosen, _ = job.flat.order_of(job.array.size, job.element, None)
        job = job._replace(options=replace(job.options, algorithm=chosen.algorithm))
    return await job.dense(why, union_items)


async def run(job: SumJob) -> SumReport:
    """Sum items of any kind, with the bits of the dense sum by messages."""
    bitmap, union_items = await union_of_supports(job)
    if is_nearly_all(union_items, job.array.size):
        return await dense_instead(job, "most items are not zero at some member", union_items)
    return await sum_of_union(job, bitmap, union_items, "asked for")
