"""A sketch of each member's sparse array; whoever adds the sketches need not know what they hold.

Theory. Members' items become integers under one exponent and go into a sketch (`data/codecs/sketch`), which
is summed in one round, without any index. What was read is the exact sum. It is the dense sum's bits where
the order of additions cannot matter: at places of one or two members, and where no sum has more bits than a
mantissa. Values at the other places, which all know by then, are added as floats in the dense order. What
was too full is known to be; its items go into a larger sketch once, and then by union compaction.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs.element import BY_NAME, UINT8
from duetlink.data.codecs.integers.floats import floats, unfloats
from duetlink.data.codecs.integers.spans import NONE, SPECIAL, Spans
from duetlink.data.codecs.sketch.peel import Peeled, peel
from duetlink.data.codecs.sketch.plan import SketchPlan
from duetlink.data.codecs.support import Bitmap, Places, bitmap_of, places_of
from duetlink.groups.collectives.elements import Array, divide
from duetlink.groups.collectives.engine import off_loop
from duetlink.groups.collectives.sums import union
from duetlink.groups.collectives.sums.base import Job, SumReport, check_floats
from duetlink.groups.collectives.sums.chosen_places import sum_at
from duetlink.groups.collectives.sums.sampling import SAMPLE_BYTES, density_of, sample_of, support_of

ROUNDS = 2
_SLACK = 1.25  # a sample of a sparse array tells its density within about a quarter
_HEAD = struct.Struct(f"<Qhh{SAMPLE_BYTES}s")
_VALUE_BITS = 62


@dataclass(frozen=True, slots=True)
class _Agreed:
    """What all members' heads tell."""

    most_places: int  # of all members together
    load: int  # about how many the union has
    spans: Spans  # of one block: everything


async def run(job: Job) -> SumReport:
    """The dense sum's bits."""
    check_floats(job)

    def mine() -> tuple[Places, Array]:
        places = places_of(bitmap_of(job.array, job.element), job.array.size)
        return places, job.array[places]

    places, values = await off_loop(job.array.nbytes, mine)
    agreed = await _agree(job, places, values)
    if agreed.spans.special()[0]:
        return await _by_union(job, "NaN, infinity, -0.0 or subnormal numbers cannot go into a sketch")
    if agreed.spans.width_bits(job.members)[0] > _VALUE_BITS:
        return await _by_union(job, "the items' exponents are too far apart for one sketch")
    if not agreed.most_places:
        return job.report("sketch", "there is nothing to add", dense_items=0, union_items=0)
    if _is_large(job, agreed.load):
        return await _by_union(job, "so many items make a sketch that is larger than the array")
    return await _by_sketch(job, agreed, places, values)


async def _by_union(job: Job, why: str) -> SumReport:
    return replace(await union.run(job), why=why)


async def _agree(job: Job, places: Places, values: Array) -> _Agreed:
    spans = Spans.of(values, job.element)
    top, neg_low = (int(each.max(initial=NONE)) for each in (spans.top, spans.neg_low))
    support = support_of(sample_of(job.array), job.element).tobytes()
    head = np.frombuffer(_HEAD.pack(places.size, top, neg_low, support), np.uint8)
    out = np.empty(job.members * _HEAD.size, np.uint8)
    await job.flat.all_gather(head, out, UINT8, [_HEAD.size] * job.members, job.step("heads"))
    heads = [_HEAD.unpack(part.tobytes()) for part in out.reshape(job.members, -1)]
    items = job.array.size
    counts = [min(each[0], items) for each in heads]  # a member may say anything
    supports = np.array([np.frombuffer(each[3], np.uint8) for each in heads])
    expected = int(_SLACK * density_of(supports, items) * items)
    both = [np.array([max(each[index] for each in heads)], np.int16) for index in (1, 2)]
    most = sum(counts)
    return _Agreed(most, min(most, items, max(expected, *counts)), Spans(*both))


async def _by_sketch(job: Job, agreed: _Agreed, places: Places, values: Array) -> SumReport:
    step = 0 if agreed.spans.top[0] in (NONE, SPECIAL) else -int(agreed.spans.neg_low[0])
    scaled = np.ldexp(floats(values, job.element).astype(np.float64), -step)
    with np.errstate(invalid="ignore"):  # only where a member has lied about its exponents
        integers = scaled.astype(np.int64)
    read: list[Peeled] = []
    load = agreed.load
    sizes = []
    for index in range(ROUNDS):
        plan = SketchPlan.for_load(job.array.size, load, seed=index * 64)
        sketch = await off_loop(16 * job.array.nbytes, plan.sketch, places, integers)
        sizes.append(plan.cells)
        what = f"sketch {index} of {plan.cells} cells"
        await job.flat.all_reduce(sketch, BY_NAME["uint64"], "sum", job.values_step(what), restore=False)
        peeled: Peeled = await off_loop(16 * job.array.nbytes, peel, plan, sketch)
        read.append(peeled)
        left = ~peeled.complete[plan.segments_of(places.astype(np.uint64))]
        places, integers = places[left], integers[left]
        if peeled.complete.all():
            break
        load = max(1, min(peeled.left, agreed.most_places))
        if _is_large(job, load):
            break
    rest = None
    if not read[-1].complete.all():
        rest = places_of(await _union_of(job, places), job.array.size)
    return await _put(job, read, rest, agreed.spans, step, sizes)


def _is_large(job: Job, load: int) -> bool:
    return load > job.array.size or 8 * SketchPlan.for_load(job.array.size, load).words > job.array.nbytes


async def _union_of(job: Job, places: Places) -> Bitmap:
    mask = np.zeros(job.array.size, np.bool_)
    mask[places] = True
    bitmap: Bitmap = np.packbits(mask)
    await job.flat.all_reduce(bitmap, UINT8, "or", job.step("support of the rest", "zstd"), restore=False)
    return bitmap


async def _put(
    job: Job, read: list[Peeled], rest: Places | None, spans: Spans, step: int, sizes: list[int]
) -> SumReport:
    places = np.concatenate([each.places for each in read])
    sums = np.concatenate([each.values for each in read])
    counts = np.concatenate([each.counts for each in read])
    whole = sums.astype(np.float64)
    proven = counts <= 2
    if spans.proven(job.element, job.members)[0]:
        proven[:] = True
    proven &= _round_trips(whole, sums)  # else it would be rounded twice
    by_floats = places[~proven] if rest is None else np.concatenate([places[~proven], rest])
    by_floats.sort()
    ordered, values = by_floats, job.array[:0]
    if by_floats.size:
        ordered, values = await sum_at(job, by_floats, "values whose order matters")
    exact = np.ldexp(whole[proven], step)
    if job.element.size_bytes == 2:  # which are added in float32, and rounded once more
        with np.errstate(over="ignore"):
            exact = exact.astype(np.float32)
    results = unfloats(exact, job.element)
    if job.op == "mean":
        divide(results, job.members, job.element)
    job.array[places[proven]] = results
    job.array[ordered] = values
    unread = 0 if rest is None else rest.size
    why = f"sketches of {' and '.join(f'{size:,}' for size in sizes)} cells; " + (
        f"{unread:,} places did not fit and went by union compaction" if unread else "all were read whole"
    )
    return job.report("sketch", why, dense_items=by_floats.size, union_items=places.size + unread)


def _round_trips(whole: NDArray[np.float64], sums: NDArray[np.int64]) -> Any:
    """Which integers are floats. (2^63 is no int64; no sum comes near it.)"""
    return (np.abs(whole) < 2.0**62) & (whole.astype(np.int64) == sums)
