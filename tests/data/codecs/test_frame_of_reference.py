"""Integers near each other are small, whatever their type could hold; and any integers come back."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from duetlink.data.codecs import chunk, frame_of_reference
from duetlink.data.codecs.base import LOSSLESS
from duetlink.data.codecs.element import BY_NAME
from duetlink.data.codecs.frame_of_reference import FrameOfReference, vectors_of
from duetlink.errors import MalformedChunk

CODEC = FrameOfReference()
INT64 = BY_NAME["int64"]


def random() -> np.random.Generator:
    """Made anew: what a test draws must not depend on those before it."""
    return np.random.default_rng(4)


WIDTH_AT = 1  # of the payload: the element of the offsets


def size_of(array: np.ndarray) -> int:
    data = chunk.encode(array, CODEC)
    assert chunk.decode(data)[0].tobytes() == array.tobytes()
    return len(data)


def test_two_digits_in_eight_bytes_take_less_than_seven_bits() -> None:
    array = random().integers(0, 100, 1 << 17)
    assert size_of(array) * 8 < 6.8 * array.size  # log2(100) = 6.64


def test_what_counts_is_the_distance_to_the_least_one_near() -> None:
    array = random().integers(0, 100, 1 << 17) + np.repeat(random().integers(-(2**62), 2**62, 256), 512)
    assert CODEC.encode(array, INT64, 0)[WIDTH_AT] == BY_NAME["uint8"].number
    assert size_of(array) * 8 < 7.2 * array.size


@pytest.mark.parametrize(
    ("spread", "width"), [(255, "uint8"), (256, "uint16"), (2**16, "uint32"), (2**32, "uint64")]
)
def test_offsets_are_as_wide_as_the_widest(spread: int, width: str) -> None:
    array = np.array([-5] * 70 + [-5 + spread] + [-5] * 60)
    assert CODEC.encode(array, INT64, 0)[WIDTH_AT] == BY_NAME[width].number
    size_of(array)


@pytest.mark.parametrize("name", ["int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_the_ends_of_a_type_are_no_matter(name: str) -> None:
    ends = np.iinfo(name)
    size_of(np.array([ends.min, ends.max, 0, 1, ends.max, ends.min] * 33, name))


@pytest.mark.parametrize(
    ("items", "shape"),
    [(1, (1, 64)), (64, (1, 64)), (65, (2, 64)), (40_000, (313, 128)), (1 << 20, (2048, 512))],
)
def test_vectors_are_longer_where_there_are_many_and_the_last_is_filled_up(
    items: int, shape: tuple[int, int]
) -> None:
    flat = np.arange(items)
    vectors = vectors_of(flat)
    assert vectors.shape == shape
    assert vectors.reshape(-1)[:items].tolist() == flat.tolist()
    assert set(vectors.reshape(-1)[items:].tolist()) <= {items - 1}
    assert (vectors.base is not None) or items % shape[1]  # whole ones are no copy


def test_narrow_numbers_that_look_like_integers_are_not_taken() -> None:
    assert not CODEC.accepts(BY_NAME["bfloat16"])
    assert not CODEC.accepts(BY_NAME["uint8"])


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, 5),  # vectors too short
        (0, 10),  # too long
        (1, BY_NAME["int8"].number),  # offsets that have a sign
        (1, 77),
        (10, BY_NAME["float64"].number),  # least items of no integers
    ],
)
def test_a_head_that_no_encoder_writes_is_refused(at: int, value: int) -> None:
    payload = bytearray(CODEC.encode(np.arange(100), INT64, 0))
    payload[at] = value
    with pytest.raises(MalformedChunk):
        chunk.decode(chunk.frame(CODEC, INT64, (100,), LOSSLESS, payload))


def test_offsets_wider_than_the_items_are_refused() -> None:
    payload = frame_of_reference.encode(vectors_of(np.array([0, 1 << 40] * 32)), 64)
    with pytest.raises(MalformedChunk, match="offsets of element 6 for int16"):
        chunk.decode(chunk.frame(CODEC, BY_NAME["int16"], (64,), LOSSLESS, payload))


def test_least_items_beyond_the_payload_are_refused() -> None:
    payload = bytearray(CODEC.encode(np.arange(100), INT64, 0))
    struct.pack_into("<I", payload, 11, 2**32 - 1)
    with pytest.raises(MalformedChunk, match="4294967295"):
        chunk.decode(chunk.frame(CODEC, INT64, (100,), LOSSLESS, payload))
