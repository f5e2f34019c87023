"""Sums by a sketch of each member's sparse array, which any member can add without knowing its content.

Theory. Members' items become integers under one exponent (`sketch_terms.py`) and go into a sketch
(`data/codecs/sketch`), which is summed in one round, without any index. The decoded items are the exact sum.
Where the order of additions matters, values are added as floats in the dense order, at places that all
members know by then. A sketch that was too full shows that itself; its items go into a larger sketch once,
and then by union compaction.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from duetlink.base.runtime.off_loop import off_loop
from duetlink.data.codecs.element import BY_NAME, UINT8
from duetlink.data.codecs.sketch.peel import Peeled, peel
from duetlink.data.codecs.sketch.plan import SketchPlan
from duetlink.data.codecs.support import Bitmap, Places, bitmap_of, places_of
from duetlink.groups.collectives.execution.elements import Array, divide
from duetlink.groups.collectives.sums import union
from duetlink.groups.collectives.sums.base import SumJob, SumReport
from duetlink.groups.collectives.sums.chosen_places import sum_at
from duetlink.groups.collectives.sums.sketch_terms import HEAD_BYTES, SketchTerms, head_of

ROUNDS = 2


async def run(job: SumJob) -> SumReport:
    """Sum with the bits of the dense sum."""

    def mine() -> tuple[Places, Array]:
        places = places_of(bitmap_of(job.array, job.element), job.array.size)
        return places, job.array[places]

    places, values = await off_loop(job.array.nbytes, mine)
    head = head_of(job.array, job.element, places, values)
    out = np.empty(job.members * HEAD_BYTES, np.uint8)
    await job.flat.all_gather(head, out, UINT8, [HEAD_BYTES] * job.members, job.step("heads"))
    heads = [part.tobytes() for part in out.reshape(job.members, -1)]
    terms = SketchTerms.of(heads, job.element, job.array.size)
    if not terms.most_places:
        return job.report("sketch", "there is nothing to add", dense_items=0, union_items=0)
    if terms.refusal:
        return replace(await union.run(job), why=terms.refusal)
    return await _by_sketch(job, terms, places, values)


async def _by_sketch(job: SumJob, terms: SketchTerms, places: Places, values: Array) -> SumReport:
    integers = terms.integers(values)
    read: list[Peeled] = []
    load = terms.load
    sizes = []
    for index in range(ROUNDS):
        plan = SketchPlan.for_load(job.array.size, load, seed=index * 64)
        sketch = await off_loop(16 * job.array.nbytes, plan.sketch, places, integers)
        sizes.append(plan.cells)
        what = f"sketch {index} of {plan.cells} cells"
        await job.flat.all_reduce(sketch, BY_NAME["uint64"], "sum", job.step(what), restore=False)
        peeled: Peeled = await off_loop(16 * job.array.nbytes, peel, plan, sketch)
        read.append(peeled)
        left = ~peeled.complete[plan.segments_of(places.astype(np.uint64))]
        places, integers = places[left], integers[left]
        if peeled.complete.all():
            break
        load = max(1, min(peeled.left, terms.most_places))
        if terms.is_large(load):
            break
    rest = None
    if not read[-1].complete.all():
        rest = places_of(await _union_of(job, places), job.array.size)
    return await _put(job, terms, read, rest, sizes)


async def _union_of(job: SumJob, places: Places) -> Bitmap:
    mask = np.zeros(job.array.size, np.bool_)
    mask[places] = True
    bitmap: Bitmap = np.packbits(mask)
    await job.flat.all_reduce(bitmap, UINT8, "or", job.step("support of the rest", "zstd"), restore=False)
    return bitmap


async def _put(
    job: SumJob, terms: SketchTerms, read: list[Peeled], rest: Places | None, sizes: list[int]
) -> SumReport:
    places, results, by_floats = terms.sums(read)
    if rest is not None:
        by_floats = np.concatenate([by_floats, rest])
    by_floats.sort()
    read_items = sum(each.places.size for each in read)
    ordered, values = by_floats, job.array[:0]
    if by_floats.size:
        ordered, values = await sum_at(job, by_floats, "values whose order matters")
    if job.op == "mean":
        divide(results, job.members, job.element)
    job.array[places] = results
    job.array[ordered] = values
    unread = 0 if rest is None else rest.size
    why = f"sketches of {' and '.join(f'{size:,}' for size in sizes)} cells; " + (
        f"{unread:,} places did not fit and went by union compaction" if unread else "all were read whole"
    )
    return job.report("sketch", why, dense_items=by_floats.size, union_items=read_items + unread)
