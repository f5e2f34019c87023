"""Chunks that are added without being decoded."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from duetlink.data.codecs.aggregate import INTEGERS, SUPPORT, VALUES, Adding, Aggregate, context_of
from duetlink.data.codecs.element import BY_NAME
from duetlink.data.codecs.integers.lane import FixedPointFormat
from duetlink.data.codecs.integers.spans import Spans
from duetlink.data.codecs.support import bitmap_of, places_of
from duetlink.errors import LimitExceeded, MalformedChunk

CONTEXT = context_of(b"the union of all supports", b"epoch 3")


def chunk(items: list[float], name: str = "int16", *, members: int = 1, room_for: int = 3) -> bytes:
    element = BY_NAME[name]
    return Aggregate(
        INTEGERS, element, np.array(items, element.storage), CONTEXT, members, room_for
    ).to_wire()


def test_integers_add_up_and_wrap_around() -> None:
    total = Aggregate.from_wire(Adding().add(chunk([1, -2, 32767]), chunk([5, 2, 1], members=2)), 100)
    assert total.items.tolist() == [6, 0, -32768]
    assert (total.members, total.room_for, total.context) == (3, 3, CONTEXT)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "complex64", "uint64"])
def test_values_of_every_kind(name: str) -> None:
    one = chunk([16256], name) if name == "bfloat16" else chunk([1], name)  # the bits of 1.0
    total = Aggregate.from_wire(Adding().add(one, one), 100)
    assert total.items.tolist() == [16384 if name == "bfloat16" else 2]


def test_a_relay_adds_values_at_the_union_and_integers_that_it_cannot_decode() -> None:
    arrays = [np.zeros(1000, np.float32) for _ in range(3)]
    for rank, array in enumerate(arrays):
        array[rank * 3 : 300 : 7] = 0.25 * (rank + 1)
    float32, relay, expected = BY_NAME["float32"], Adding(), arrays[0] + arrays[1] + arrays[2]

    union = np.bitwise_or.reduce([bitmap_of(array, float32) for array in arrays])
    places = places_of(union, 1000)
    context = context_of(union.tobytes())
    chunks = [Aggregate(VALUES, float32, a[places], context, room_for=3).to_wire() for a in arrays]
    total = Aggregate.from_wire(relay.add(chunks[0], relay.add(chunks[1], chunks[2])), 10_000)
    found = np.zeros(1000, np.float32)
    found[places] = total.items
    assert found.tolist() == expected.tolist()

    every = [Spans.of(array, float32).flat for array in arrays]
    spans = Spans.from_flat(np.max(every, axis=0))
    lane = FixedPointFormat.lossless(spans, float32, 1000, 3)
    assert lane is not None
    int8, context = BY_NAME["int8"], context_of(spans.flat.tobytes())
    chunks = [Aggregate(INTEGERS, int8, lane.to_integers(a), context, room_for=3).to_wire() for a in arrays]
    total = Aggregate.from_wire(relay.add(relay.add(chunks[2], chunks[0]), chunks[1]), 10_000)
    lane.from_integers(total.items, found)
    assert found.tolist() == expected.tolist()


def test_supports_are_brought_together_by_or_and_are_bytes() -> None:
    chunks = [
        Aggregate(SUPPORT, BY_NAME["uint8"], np.array([bits, 128], "uint8"), CONTEXT).to_wire()
        for bits in (3, 6)
    ]
    total = Aggregate.from_wire(Adding().add(*chunks), 100)
    assert (total.items.tolist(), total.members) == ([7, 128], 2)
    with pytest.raises(MalformedChunk):
        Aggregate.from_wire(
            Aggregate(SUPPORT, BY_NAME["int16"], np.zeros(2, "int16"), CONTEXT).to_wire(), 100
        )


def test_chunks_of_different_sums_are_not_added() -> None:
    mine = chunk([1, 2, 3])
    element = BY_NAME["int16"]
    items = np.zeros(3, "int16")
    for other in (
        chunk([1, 2]),
        chunk([1, 2, 3], "int32"),
        chunk([1, 2, 3], members=3),  # a fourth, where there is room for three
        chunk([1, 2, 3], room_for=4),
        Aggregate(VALUES, element, items, CONTEXT, room_for=3).to_wire(),
        Aggregate(INTEGERS, element, items, context_of(b"another"), room_for=3).to_wire(),
    ):
        with pytest.raises(MalformedChunk):
            Adding().add(mine, other)


def test_a_chunk_that_was_changed_or_lies_about_its_size_is_refused() -> None:
    good = chunk([1, 2, 3])
    for at in range(len(good)):
        with pytest.raises((MalformedChunk, LimitExceeded)):
            Aggregate.from_wire(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :], 1000)
    for wrong in (b"", good[:-1], good + b"x", good[:30]):
        with pytest.raises(MalformedChunk):
            Aggregate.from_wire(wrong, 1000)
    huge = bytearray(good)
    struct.pack_into("<Q", huge, 24, 2**62)
    with pytest.raises(LimitExceeded):
        Aggregate.from_wire(huge, 1000)


def test_what_is_no_chunk_is_not_made() -> None:
    element = BY_NAME["int16"]
    for items, context, members in (
        (np.zeros((2, 2), "int16"), CONTEXT, 1),
        (np.zeros(2, "int32"), CONTEXT, 1),
        (np.zeros(2, "int16"), b"short", 1),
        (np.zeros(2, "int16"), CONTEXT, 4),
    ):
        with pytest.raises(ValueError):
            Aggregate(INTEGERS, element, items, context, members, 3)
