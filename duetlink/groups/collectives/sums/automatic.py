"""Chooses among the dense sum, union compaction and integers, by what the arrays and the links are like.

Theory. What decides is the density of the union of all supports, not that of one member's, so all members
look at the same places: 4096 of them, spread by multiples of the golden ratio. Which of them are not zero,
and which bits the items there use, is gathered from all, in half a KiB each. From that and the figures of the
links, all predict the same times and choose the same. After the union is known exactly, the choice is made
once more. The choice costs time and cannot cost bits: every way has those of the dense sum.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from duetlink.data.codecs.element import UINT8, Element
from duetlink.data.codecs.integers.spans import Spans
from duetlink.groups.collectives.choice import Choice
from duetlink.groups.collectives.elements import Array
from duetlink.groups.collectives.sums import integers
from duetlink.groups.collectives.sums.base import Job, SumReport, check_sum
from duetlink.groups.collectives.sums.sampling import SAMPLE_BYTES, density_of, sample_of, support_of
from duetlink.groups.collectives.sums.union import DENSE_FROM, sum_of_union, union_of_supports

_HEAD_BYTES = SAMPLE_BYTES + 4
# To find, gather, and put back items, and to sum bitmaps: measured on one core of an ordinary machine.
LOOK_S_PER_ITEM = 1.0e-9
MOVE_S_PER_ITEM = 8.0e-9
CONVERT_S_PER_ITEM = 7e-9
# Another way is taken if it is predicted to save that share: predictions are off by about as much.
_SAVES = 0.8
# What asking costs must be lost in what the dense sum takes.
_ASKING_SHARE = 0.03


def predictions(choice: Choice, items: int, element: Element, density: float) -> dict[str, float]:
    """Seconds that a sum is predicted to take, by each way, at that density of the union."""
    size_bytes = items * element.size_bytes
    values_bytes = int(density * size_bytes)
    bitmap_bytes = int(items / 8 * min(1.0, 1.3 * _entropy(density)))
    return {
        "dense": choice.best("all_reduce", size_bytes).predicted_s,
        "union": choice.best("all_reduce", bitmap_bytes).predicted_s
        + choice.best_by_messages("all_reduce", values_bytes).predicted_s
        + items * (LOOK_S_PER_ITEM + density * MOVE_S_PER_ITEM),
    }


def _entropy(density: float) -> float:
    """Bits for one item of a bitmap."""
    if not 0 < density < 1:
        return 0.0
    return -density * math.log2(density) - (1 - density) * math.log2(1 - density)


async def run(job: Job) -> SumReport:
    """The dense sum's bits, by the way that is predicted to be the quickest."""
    check_sum(job)
    choice = job.flat.choice
    size_bytes = job.array.nbytes
    dense_s = choice.best("all_reduce", size_bytes).predicted_s
    asking_s = choice.best("all_gather", job.members * _HEAD_BYTES).predicted_s
    if asking_s > _ASKING_SHARE * dense_s:
        return await job.dense(f"{size_bytes:,} bytes are too few to ask the others what theirs are like")
    density, width_bytes = await _ask(job)
    predicted = predictions(choice, job.array.size, job.element, density)
    if width_bytes < job.element.size_bytes:
        share = width_bytes / job.element.size_bytes
        predicted["integers"] = (
            choice.best("all_reduce", int(share * size_bytes)).predicted_s
            + job.array.size * CONVERT_S_PER_ITEM
        )
    way = min(predicted, key=lambda name: predicted[name])
    if predicted[way] > _SAVES * predicted["dense"]:
        way = "dense"
    seen = f"about {density:.1%} of the items are not zero at some member"
    if way == "integers":
        report = await integers.run(job)
        report = replace(report, why=f"{seen}, and they are integers; {report.why}")
    elif way == "union":
        report = await _by_union(job, predicted, seen)
    else:
        report = await job.dense(f"{seen}; nothing else is predicted to be much quicker")
    return replace(report, predicted_s=predicted)


async def _by_union(job: Job, predicted: dict[str, float], seen: str) -> SumReport:
    bitmap, union_items = await union_of_supports(job)
    density = union_items / job.array.size
    now = predictions(job.flat.choice, job.array.size, job.element, density)
    if density > DENSE_FROM or now["union"] > now["dense"]:
        return await job.dense(f"{seen}, but it was {density:.1%}", union_items)
    return await sum_of_union(job, bitmap, union_items, f"{seen}: quicker than dense")


async def _ask(job: Job) -> tuple[float, int]:
    """The density of the union, and of how many bytes integers would be, as far as a sample tells."""
    head = _head(job.array, job.element)
    out = np.empty(job.members * _HEAD_BYTES, np.uint8)
    sizes = [_HEAD_BYTES] * job.members
    await job.flat.all_gather(head, out, UINT8, sizes, job.step("a sample"))
    heads = out.reshape(job.members, _HEAD_BYTES)
    density = density_of(heads[:, :SAMPLE_BYTES], job.array.size)
    if not job.element.is_float:
        return density, job.element.size_bytes
    spans = Spans.from_flat(np.ascontiguousarray(heads[:, SAMPLE_BYTES:]).view(np.int16).max(axis=0))
    if not spans.proven(job.element, job.members)[0]:
        return density, job.element.size_bytes
    width = int(spans.width_bits(job.members)[0])
    return density, next(each for each in (1, 2, 4, 8) if width <= 8 * each)


def _head(array: Array, element: Element) -> Array:
    """Which items of the sample are not zero, and the highest and the lowest bit of all of them."""
    sample = np.ascontiguousarray(sample_of(array))
    head = np.zeros(_HEAD_BYTES, np.uint8)
    head[:SAMPLE_BYTES] = support_of(sample, element)
    if element.is_float:
        spans = Spans.of(sample, element)
        both = np.array([spans.top.max(initial=-32768), spans.neg_low.max(initial=-32768)], np.int16)
        head[SAMPLE_BYTES:] = both.view(np.uint8)
    return head
