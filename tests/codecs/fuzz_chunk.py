"""A fuzz target for every decoder: python -m tests.codecs.fuzz_chunk [chunks]

A genuine payload is altered, and framed again with a right header and checksum. It must be refused with a
typed error, or make an array of the announced form. `one` is also what an external fuzzer may call:
`fuzz.hypothesis.fuzz_one_input`.
"""

from __future__ import annotations

import sys

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duetlink.codecs import chunk
from duetlink.codecs.base import VERSION, Codec
from duetlink.codecs.element import Element
from duetlink.codecs.registry import codecs
from duetlink.errors import LimitExceeded, MalformedChunk, UnknownCodec
from duetlink.testing.codecs import samples

CODECS = [codec for codec in codecs() if codec.kind != VERSION]
REFUSALS = (MalformedChunk, LimitExceeded, UnknownCodec)


@st.composite
def altered(draw: st.DrawFn) -> tuple[Codec, Element, int, bytes]:
    """A codec, an element, how many items are announced, and a payload."""
    codec = draw(st.sampled_from(CODECS))
    element = draw(st.sampled_from([element for element in _elements() if codec.accepts(element)]))
    array = draw(st.sampled_from(sorted(samples(element).items())))[1][: draw(st.integers(0, 300))]
    payload = bytearray(codec.encode(array, element, codec.level))
    for position, value in draw(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=6)):
        if payload:
            payload[position % len(payload)] = value
    cut = draw(st.integers(0, len(payload)) | st.just(len(payload)))
    items = draw(st.just(array.size) | st.integers(0, 2000))
    return codec, element, items, bytes(payload[:cut])


def _elements() -> tuple[Element, ...]:
    return chunk.BY_NUMBER.values()


def one(case: tuple[Codec, Element, int, bytes]) -> None:
    codec, element, items, payload = case
    data = chunk.frame(codec, element, (items,), codec.bound(element, codec.level), payload)
    try:
        array, _ = chunk.decode(data)
    except REFUSALS:
        return
    assert (array.dtype, array.shape) == (element.storage, (items,))


@settings(deadline=None, database=None, max_examples=300, suppress_health_check=list(HealthCheck))
@given(altered())
def fuzz(case: tuple[Codec, Element, int, bytes]) -> None:
    one(case)


def main() -> None:
    chunks = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    settings(fuzz, max_examples=chunks)(fuzz)()


if __name__ == "__main__":
    main()
