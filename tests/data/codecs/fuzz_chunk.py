"""A fuzz target for every decoder: python -m tests.data.codecs.fuzz_chunk [chunks]

A genuine payload is altered, and framed again with a right header and checksum. It must be refused with a
typed error, or make an array of the announced form.
"""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.data.codecs import chunk
from duetlink.data.codecs.base import VERSION, Codec
from duetlink.data.codecs.element import ELEMENTS, Element
from duetlink.data.codecs.registry import codecs
from duetlink.errors import LimitExceeded, MalformedChunk, UnknownCodec
from duetlink.testing.codecs import samples

CODECS = [codec for codec in codecs() if codec.kind != VERSION]
REFUSALS = (MalformedChunk, LimitExceeded, UnknownCodec)


Case: TypeAlias = tuple[Codec, Element, int, bytes]  # how many items are announced, and a payload


@st.composite
def cases(draw: st.DrawFn) -> tuple[Codec, Element, str, int, int, list[tuple[int, int]], int]:
    codec = draw(st.sampled_from(CODECS))
    element = draw(st.sampled_from([element for element in ELEMENTS if codec.accepts(element)]))
    name = draw(st.sampled_from(sorted(samples(element))))
    kept_items = draw(st.integers(0, 300))
    announced_items = draw(st.just(kept_items) | st.integers(0, 2000))
    changes = draw(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=6))
    return codec, element, name, kept_items, announced_items, changes, draw(st.just(0) | st.integers(0, 400))


def altered(
    codec: Codec,
    element: Element,
    name: str,
    kept: int,
    announced: int,
    changes: list[tuple[int, int]],
    cut: int,
) -> Case:
    payload = bytearray(codec.encode(samples(element)[name][:kept], element, codec.level))
    for position, value in changes:
        if payload:
            payload[position % len(payload)] = value
    return codec, element, announced, bytes(payload[: max(len(payload) - cut, 0)])


def one(case: Case) -> None:
    """Refused, or of the announced form."""
    codec, element, items, payload = case
    data = chunk.frame(codec, element, (items,), codec.bound(element, codec.level), payload)
    try:
        array, _ = chunk.decode(data)
    except REFUSALS:
        return
    assert (array.dtype, array.shape) == (element.storage, (items,))


def fuzz(chunks: int) -> None:
    """Runs `one` that often."""

    @settings(deadline=None, database=None, max_examples=chunks)
    @given(cases())
    def run(case: tuple[Any, ...]) -> None:
        one(altered(*case))

    run()


if __name__ == "__main__":
    fuzz(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
