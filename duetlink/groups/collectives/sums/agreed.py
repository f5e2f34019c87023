"""Sums the largest rows of an array: members agree on the rows, then only their values are sent. For
gradients.

Theory. After ARC-Top-K (arXiv 2510.26709). The array is rows of 128 items. All members multiply each row by
the same two random vectors. The product is linear, so the sum of the members' products is the product of the
summed row: a 64th of the array's bytes. Its squares estimate the row's length in the sum. All members see the
same products, choose the same rows, and add these in the dense order, without sending indices. The support is
shared: unlike the sum of every member's own largest items, it does not grow with the number of members.

The other rows are lost, unless the caller keeps a memory of them, which is added to the next array (error
feedback: Seide and others 2014; Karimireddy and others, arXiv 1901.09847). Then everything is sent in time.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from duetlink.base.runtime.off_loop import off_loop
from duetlink.data.codecs.element import FLOAT32, Element
from duetlink.data.codecs.integers.floats import floats, unfloats
from duetlink.data.codecs.support import Places, nonzero
from duetlink.errors import UnsupportedValue
from duetlink.groups.collectives.execution.elements import Array
from duetlink.groups.collectives.sums.base import SumJob, SumReport, check_floats
from duetlink.groups.collectives.sums.chosen_places import sum_at

NAME = "agreed"
DENSITY = 0.01
ROW_ITEMS = 128
VECTORS = 2


def density_in(codec: str) -> float:
    """Return the density in `agreed:0.05`; 1 % for `agreed`. Raises UnsupportedValue if it is not
    in (0, 1].
    """
    _, _, text = codec.partition(":")
    try:
        density = float(text or DENSITY)
    except ValueError:
        density = 0.0
    if not 0 < density <= 1:
        raise UnsupportedValue(f"codec {codec}: give a density over 0 and up to 1, as in {NAME}:0.05")
    return density


def check(codec: str, element: Element, op: str) -> None:
    """Raises UnsupportedValue unless this is a sum or mean of floats with a density in (0, 1]."""
    check_floats(codec, element, op)
    density_in(codec)


async def run(job: SumJob, memory: Array | None = None) -> SumReport:
    """Sum the chosen rows; all other items become 0.

    `memory`, of the array's form, is added to the array first, and afterwards holds what was left out.
    """
    density = density_in(job.codec)
    target = job.array
    if memory is not None:
        job = job._replace(array=await off_loop(job.array.nbytes, _added, job.array, memory, job.element))
    # the seed: the operation's number is equal at all members, and different for each operation
    products: Array = await off_loop(job.array.nbytes, _products, job, job.flat.engine.completed)
    await job.flat.all_reduce(products, FLOAT32, "sum", job.step("products of rows"), restore=False)
    places = chosen_places(products, job.array.size, density)
    ordered, values = await sum_at(job, places, "values of the chosen rows")

    def put_back() -> int:
        left = job.array.copy()
        left[places] = 0
        if memory is not None:
            memory[...] = left
        target[...] = 0
        target[ordered] = values
        return int(np.count_nonzero(nonzero(left, job.element)))

    left_out = await off_loop(job.array.nbytes, put_back)
    why = f"{places.size:,} items in the rows that are the longest in the sum"
    return replace(job.report(NAME, why, dense_items=places.size), left_out_items=left_out)


def chosen_places(products: Array, items: int, density: float) -> Places:
    """Return the places of the longest rows, ascending. A row with a length that is not finite counts as
    longest.
    """
    rows = products.size // VECTORS
    with np.errstate(all="ignore"):
        length = np.square(products.reshape(rows, VECTORS)).sum(axis=1)
    length[np.isnan(length)] = np.inf
    most = min(rows, int(np.ceil(density * rows)))
    chosen = np.sort(np.argsort(-length, kind="stable")[:most])
    places: Places = (chosen[:, None] * ROW_ITEMS + np.arange(ROW_ITEMS)).reshape(-1)
    return places[places < items]


def _products(job: SumJob, seed: int) -> Array:
    """Multiply each row of the array, the last one padded with zeros, by the random vectors of that seed."""
    vectors = np.random.default_rng(seed).standard_normal((ROW_ITEMS, VECTORS)).astype(np.float32)
    values = floats(job.array, job.element)
    short = -values.size % ROW_ITEMS
    with np.errstate(all="ignore"):
        rows = np.concatenate([values, np.zeros(short, values.dtype)]) if short else values
        found: Array = rows.reshape(-1, ROW_ITEMS).astype(np.float32, copy=False) @ vectors
    return found.reshape(-1)


def _added(array: Array, memory: Array, element: Element) -> Array:
    with np.errstate(all="ignore"):
        return unfloats(floats(array, element) + floats(memory, element), element)
