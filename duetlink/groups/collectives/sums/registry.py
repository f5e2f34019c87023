"""The coded sums by name, and the one entry to them: for values (`Collectives`) and for torch's buffers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from duetlink.data.codecs.element import Element
from duetlink.errors import UnknownCodec
from duetlink.groups.collectives.algorithms import ALGORITHMS
from duetlink.groups.collectives.elements import Array, combination
from duetlink.groups.collectives.flat import FlatOperations, Manner
from duetlink.groups.collectives.sums import agreed, automatic, blocks, integers, lhc, sketch, union
from duetlink.groups.collectives.sums.base import Job, SumReport, check_floats, check_sum


class CodedSum(NamedTuple):
    """How it runs, and what raises UnsupportedValue for what it is not for: by codec, items, operation."""

    run: Callable[[Job], Awaitable[SumReport]]
    check: Callable[[str, Element, str], None]


SUMS: Mapping[str, CodedSum] = {
    "auto": CodedSum(automatic.run, check_sum),
    "union": CodedSum(union.run, check_sum),
    "blocks": CodedSum(blocks.run, check_sum),
    "integers": CodedSum(integers.run, check_floats),
    "sketch": CodedSum(sketch.run, check_floats),
    "lhc": CodedSum(lhc.run, lhc.check),
    agreed.NAME: CodedSum(agreed.run, agreed.check),
    **dict.fromkeys(integers.WIDTHS, CodedSum(integers.run, check_floats)),
}


def check(codec: str, elements: Sequence[Element], op: str, algorithm: str | None = None) -> None:
    """Refuse, before anything is sent, what a coded sum cannot do with some items; ignore other codecs.

    Raises:
        UnsupportedValue: the codec is not for this operation, or not for such items.
        ValueError: there is no such algorithm that sends messages.
    """
    if (way := _named(codec)) is None:
        return
    for element in elements:
        way.check(codec, element, op)
    known = ALGORITHMS["all_reduce"]
    if algorithm is not None and algorithm not in known:
        raise ValueError(
            f"codec {codec} sends messages, and {algorithm!r} is no algorithm that does; all_reduce has "
            f"{', '.join(known)}"
        )


def _named(codec: str) -> CodedSum | None:
    return SUMS.get(agreed.NAME if codec.startswith(f"{agreed.NAME}:") else codec)


async def all_reduce(
    flat: FlatOperations,
    array: Array,
    element: Element,
    op: str,
    manner: Manner,
    *,
    restore: bool = True,
    memory: Array | None = None,
) -> SumReport | None:
    """As `FlatOperations.all_reduce`, in place, by the coded sum that `manner.codec` names.

    Any other codec, or none, is what it is there, and has no report. With a coded sum, the array is as it was
    if the operation fails, whatever `restore` says. A sum is several operations of the engine: who calls this
    and meets an error in the middle abandons the engine, as `Collectives` does.

    `memory`, of the array's form, is for codecs that leave items out: it is added to the array before, and
    holds what was left out afterwards. Other codecs do not touch it.

    Raises, beside what `FlatOperations.all_reduce` raises:
        UnsupportedValue, ValueError: as `check`.
    """
    codec = manner.codec
    way = None if codec is None else _named(codec)
    if codec is None or way is None:
        try:
            await flat.all_reduce(array, element, op, manner, restore=restore)
        except UnknownCodec as error:
            raise UnknownCodec(f"{error}; for sums and means there are also {', '.join(SUMS)}") from None
        return None
    combination(op, element)
    check(codec, [element], op, manner.algorithm)
    began_s, sent_before_bytes = time.monotonic(), flat.engine.sent_bytes
    job = Job(flat, array, element, op, codec, manner)
    report = await (way.run(job) if way.run is not agreed.run else agreed.run(job, memory))
    return replace(
        report,
        elapsed_s=time.monotonic() - began_s,
        sent_bytes=flat.engine.sent_bytes - sent_before_bytes,
        dense_bytes=flat.sent_of(array.size, element, manner.algorithm),
    )
