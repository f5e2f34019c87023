"""Sums of integers under shared exponents: lossless where that is proven, or of a requested width.

First the members' highest and lowest bits of each block are combined by "max". From these all members choose
the same integers (`data/codecs/integers`), which are summed modulo 2^width. Blocks with NaN, infinities, -0.0
or subnormal numbers are added as floats, at their places. If the result is to have the dense sum's bits, so
are the blocks whose integer sum is not proven to have them.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from duetlink.base.runtime.off_loop import off_loop
from duetlink.data.codecs.element import BY_NAME
from duetlink.data.codecs.integers.lane import FixedPointFormat
from duetlink.data.codecs.integers.spans import Spans
from duetlink.groups.collectives.execution.elements import Array, divide
from duetlink.groups.collectives.sums.base import SumJob, SumReport
from duetlink.groups.collectives.sums.chosen_places import sum_at

WIDTHS = {"int8": 1, "int16": 2, "int32": 4}


async def run(job: SumJob) -> SumReport:
    """Sum with the dense sum's bits (`integers`), or with a bound that the report states (`int8`, `int16`,
    `int32`).
    """
    width_bytes = WIDTHS.get(job.codec)
    look = functools.partial(Spans.of, lows=width_bytes is None)
    spans: Spans = await off_loop(job.array.nbytes, look, job.array, job.element)
    exponents = spans.flat if width_bytes is None else spans.top.copy()
    await job.flat.all_reduce(exponents, BY_NAME["int16"], "max", job.step("exponents"), restore=False)
    spans = Spans.from_flat(exponents) if width_bytes is None else Spans(exponents, exponents)
    if width_bytes is None:
        found = FixedPointFormat.lossless(spans, job.element, job.array.size, job.members)
    else:
        found = FixedPointFormat.lossy(spans, job.element, job.members, width_bytes)
    if found is None:
        return await job.dense(f"integers would be no smaller; {_special(spans)}")
    return await _by_fixed_point(job, found, spans)


async def _by_fixed_point(job: SumJob, fixed_point: FixedPointFormat, spans: Spans) -> SumReport:
    places = fixed_point.dense_places(job.array.size)
    ordered, values = (
        await sum_at(job, places, "values that are no integers") if places.size else (places, None)
    )
    integers: Array = await off_loop(job.array.nbytes, fixed_point.to_integers, job.array)
    kind = BY_NAME[f"int{8 * fixed_point.width_bytes}"]
    await job.flat.all_reduce(integers, kind, "sum", job.step("integers"), restore=False)

    def put_back() -> None:
        fixed_point.from_integers(integers, job.array)
        if job.op == "mean":
            divide(job.array, job.members, job.element)
        if values is not None:  # a mean is divided already
            job.array[ordered] = values

    await off_loop(job.array.nbytes, put_back)
    blocks = int(np.count_nonzero(fixed_point.chosen))
    why = f"{blocks:,} of {fixed_point.chosen.size:,} blocks as {kind.name}; {_special(spans)}"
    report = job.report("integers", why, dense_items=places.size)
    return replace(report, bound=fixed_point.bound / (job.members if job.op == "mean" else 1))


def _special(spans: Spans) -> str:
    special = int(np.count_nonzero(spans.special()))
    return f"{special:,} blocks with NaN, infinity, -0.0 or subnormal numbers go as floats"
