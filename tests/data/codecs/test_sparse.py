"""Places are exact at any size, zero is a matter of bits, and the smaller form is chosen."""

from __future__ import annotations

import lzma
import struct

import numpy as np
import pytest

from duetlink.data.codecs import chunk, element_of, named, smallest
from duetlink.data.codecs.base import LOSSLESS
from duetlink.data.codecs.element import BY_NAME, UINT8
from duetlink.data.codecs.sparse import Sparse
from duetlink.errors import MalformedChunk

SPARSE = Sparse()
GAPS, BITMAP = 0, 1
HEAD = struct.Struct("<BBQ")  # form, element of the gaps, count
N = 1 << 19


def sparse_normal(density: float) -> np.ndarray:
    random = np.random.default_rng(1)
    return np.where(random.random(N) < density, random.normal(size=N), 0).astype(np.float32)


def payload_of(gaps: np.ndarray, values: np.ndarray, count: int | None = None) -> bytes:
    """What an encoder makes of these, whatever it may be."""
    count = gaps.size if count is None else count
    return b"".join(
        (
            HEAD.pack(GAPS, element_of(gaps).number, count),
            smallest.encode(gaps, element_of(gaps), 8),
            smallest.encode(values, element_of(values), 8),
        )
    )


def decode(payload: bytes, values: np.ndarray, items: int) -> np.ndarray:
    return chunk.decode(chunk.frame(SPARSE, element_of(values), (items,), LOSSLESS, payload))[0]


def test_one_percent_of_normal_numbers_is_90_times_smaller_and_less_than_pcodec_makes_of_it() -> None:
    array = sparse_normal(0.01)
    size = len(chunk.encode(array, SPARSE))
    assert array.nbytes / size >= 90
    assert size < len(chunk.encode(array, named("pcodec")))
    assert size < len(lzma.compress(array.tobytes(), preset=6))


def test_places_beyond_two_to_the_24_are_exact() -> None:
    array = np.zeros((1 << 24) + 12, np.uint8)
    places = [0, (1 << 24) - 1, (1 << 24) + 1, (1 << 24) + 3, (1 << 24) + 11]
    array[places] = 5, 6, 7, 8, 9
    data = chunk.encode(array, SPARSE)
    assert len(data) < 200
    back, _ = chunk.decode(data)
    assert np.flatnonzero(back).tolist() == places
    assert back[places].tolist() == [5, 6, 7, 8, 9]


def test_places_beyond_two_to_the_32_are_exact() -> None:
    """The array is not touched but at its places, and takes no memory elsewhere."""
    places = np.array([3, (1 << 32) - 1, (1 << 32) + 1, (1 << 32) + 10])
    gaps = np.diff(places, prepend=-1) - 1
    values = np.array([1, 2, 3, 4], np.uint8)
    back = decode(payload_of(gaps.astype(np.uint64), values), values, (1 << 32) + 12)
    assert back[places].tolist() == [1, 2, 3, 4]
    assert back[places - 1].tolist() == [0, 0, 0, 0]
    assert back[(1 << 24) + 1] == 0


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "complex64", "complex128"])
def test_only_items_of_no_bits_are_zero(name: str) -> None:
    array = np.zeros(40, name)
    array[3] = -0.0
    array[7] = np.nan
    if array.dtype.kind == "c":
        array[9] = complex(0, -0.0)
        array[11] = complex(-0.0, 0)
    payload = SPARSE.encode(array, BY_NAME[name], 8)
    assert HEAD.unpack_from(payload)[2] == (4 if array.dtype.kind == "c" else 2)
    back, _ = chunk.decode(chunk.encode(array, SPARSE))
    assert back.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("density", "form"), [(0.0, GAPS), (0.001, GAPS), (0.01, GAPS), (0.1, GAPS), (0.5, BITMAP), (0.9, GAPS)]
)
def test_the_smaller_form_is_chosen(density: float, form: int) -> None:
    assert HEAD.unpack_from(SPARSE.encode(sparse_normal(density), BY_NAME["float32"], 8))[0] == form


@pytest.mark.parametrize(
    ("density", "suits"), [(0.0, True), (0.1, True), (0.35, True), (0.45, False), (1.0, False)]
)
def test_it_suits_what_is_mostly_zero(density: float, suits: bool) -> None:
    assert SPARSE.suits(sparse_normal(density), BY_NAME["float32"]) == suits


def test_gaps_describe_runs() -> None:
    array = np.zeros((512, 64), np.float32)
    array[::2] = np.random.default_rng(2).normal(size=(256, 64))
    form, _, count = HEAD.unpack_from(SPARSE.encode(array, BY_NAME["float32"], 8))
    assert count == 256 * 64
    assert len(chunk.encode(array, SPARSE)) < array.nbytes / 2  # nothing for the places to speak of
    assert form in (GAPS, BITMAP)


@pytest.mark.parametrize(
    ("gaps", "items"),
    [
        (np.array([3, 3, 3], np.uint8), 11),  # one too far
        (np.array([1 << 63, 1 << 63, 0], np.uint64), 100),  # a sum that wraps round
        (np.array([2**64 - 1, 0, 0], np.uint64), 100),
        (np.zeros(12, np.uint8), 11),  # more than there are items
        (np.zeros(5, np.uint64), 11),  # gaps larger than the array
    ],
)
def test_gaps_that_lead_out_of_the_array_are_refused(gaps: np.ndarray, items: int) -> None:
    values = np.ones(gaps.size, np.uint8)
    with pytest.raises(MalformedChunk):
        decode(payload_of(gaps, values), values, items)


def test_counts_that_do_not_fit_are_refused() -> None:
    gaps, values = np.zeros(3, np.uint8), np.ones(3, np.uint8)
    for count in (0, 2, 4, 2**64 - 1):
        with pytest.raises(MalformedChunk):
            decode(payload_of(gaps, values, count), values, 10)
    with pytest.raises(MalformedChunk, match="after"):
        decode(payload_of(gaps, values) + b"\0", values, 10)


def test_a_bitmap_of_another_count_is_refused() -> None:
    bitmap = smallest.encode(np.array([0b1010_0000, 0], np.uint8), UINT8, 8)
    values = np.ones(3, np.uint8)
    payload = HEAD.pack(BITMAP, UINT8.number, 3) + bitmap + smallest.encode(values, UINT8, 8)
    with pytest.raises(MalformedChunk, match="bits set"):
        decode(payload, values, 10)
