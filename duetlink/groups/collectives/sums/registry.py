"""The coded sums by name, and the one function that runs them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from duetlink.data.codecs.element import Element
from duetlink.errors import UnknownCodec
from duetlink.groups.collectives.execution.elements import Array
from duetlink.groups.collectives.planning.choice import TWO_LEVELS
from duetlink.groups.collectives.schedules.algorithms import ALGORITHMS
from duetlink.groups.collectives.sums import agreed, automatic, blocks, integers, sketch, union
from duetlink.groups.collectives.sums.base import SumJob, SumReport, check_floats, check_sum
from duetlink.groups.collectives.values.flat import CollectiveOptions, FlatOperations
from duetlink.groups.collectives.values.operands import check_codec


class CodedSum(NamedTuple):
    """The two functions of a coded sum: `run` performs it; `check(codec, element, op)` raises
    UnsupportedValue.
    """

    run: Callable[[SumJob], Awaitable[SumReport]]
    check: Callable[[str, Element, str], None]


SUMS: Mapping[str, CodedSum] = {
    "auto": CodedSum(automatic.run, check_sum),
    "union": CodedSum(union.run, check_sum),
    "blocks": CodedSum(blocks.run, check_sum),
    "integers": CodedSum(integers.run, check_floats),
    "sketch": CodedSum(sketch.run, check_floats),
    agreed.NAME: CodedSum(agreed.run, agreed.check),
    **dict.fromkeys(integers.WIDTHS, CodedSum(integers.run, check_floats)),
}


def named(codec: str | None) -> CodedSum | None:
    """Return the coded sum of that name; None for a codec of the values that are sent, such as zstd."""
    return SUMS.get(agreed.NAME if codec and codec.startswith(f"{agreed.NAME}:") else codec or "")


def check(codec: str, elements: Sequence[Element], op: str, algorithm: str | None = None) -> None:
    """Reject what a codec cannot do, before anything is sent.

    Raises:
        UnknownCodec: there is no codec of that name.
        UnsupportedValue: the codec is not for this operation, or not for such items.
        ValueError: there is no such algorithm that sends messages.
    """
    if (way := named(codec)) is None:
        try:
            check_codec(codec, elements, op)
        except UnknownCodec as error:
            raise UnknownCodec(f"{error}; for sums and means there are also {', '.join(SUMS)}") from None
        return
    for element in elements:
        way.check(codec, element, op)
    known = (*ALGORITHMS["all_reduce"], TWO_LEVELS)
    if algorithm is not None and algorithm not in known:
        raise ValueError(
            f"codec {codec} sends messages, and {algorithm!r} is no algorithm that does; all_reduce has "
            f"{', '.join(known)}"
        )


async def run(
    way: CodedSum,
    flat: FlatOperations,
    array: Array,
    element: Element,
    op: str,
    options: CollectiveOptions,
    memory: Array | None = None,
) -> SumReport:
    """Sum `array` in place by the coded sum `way`, which belongs to `options.codec`; `check` has accepted it.

    The array has its old content if the operation fails. A sum is several operations of the engine: a caller
    that meets an error has to abandon the engine, as `Collectives` does.

    `memory`, of the array's form, is for codecs that leave items out: it is added to the array first, and
    afterwards holds what was left out. Other codecs do not use it.
    """
    assert options.codec is not None
    began_s, sent_before_bytes = time.monotonic(), flat.engine.sent_bytes
    job = SumJob(flat, array, element, op, options.codec, options)
    report = await (way.run(job) if way.run is not agreed.run else agreed.run(job, memory))
    return replace(
        report,
        elapsed_s=time.monotonic() - began_s,
        sent_bytes=flat.engine.sent_bytes - sent_before_bytes,
        dense_bytes=flat.sent_of(array.size, element, options.algorithm),
    )
