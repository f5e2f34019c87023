"""A change against a version that the peer has: exact, small, and refused where the version is not that."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.data.codecs import chunk, delta, element_of, named
from duetlink.data.codecs.base import LOSSLESS, References, UnknownVersion
from duetlink.data.codecs.element import BY_NAME, ELEMENTS, FLOAT32, Element
from duetlink.errors import CodecFailed, LimitExceeded, LocalProtocolError, MalformedChunk, UnknownCodec
from duetlink.testing.codecs import from_bits, samples

NAME = b"version number 1"
REFUSALS = (MalformedChunk, LimitExceeded, UnknownCodec, UnknownVersion)
_random = np.random.default_rng(4)
WEIGHTS = _random.normal(0, 0.02, 20_000).astype(np.float32)
TUNED = (WEIGHTS + 1e-4 * _random.normal(size=WEIGHTS.size)).astype(np.float32)


def known(reference: np.ndarray) -> References:
    return {NAME: reference}.__getitem__


@pytest.mark.parametrize("element", ELEMENTS, ids=lambda element: element.name)
def test_every_element_comes_back(element: Element) -> None:
    for name, array in samples(element).items():
        reference = np.roll(samples(element)["noise"], 1)
        for shape in ((array.size,), (array.size, 1)):
            data = delta.encode(array.reshape(shape), element, reference, NAME)
            back, header = chunk.decode(data, references=known(reference))
            assert (back.dtype, back.shape) == (element.storage, shape)
            assert back.tobytes() == array.tobytes(), name
            assert (header.codec, header.element, header.bound) == (21, element, LOSSLESS)


@settings(deadline=None, max_examples=60)
@given(element=st.sampled_from(ELEMENTS), old=st.binary(max_size=100), new=st.binary(max_size=100))
def test_any_bits_come_back(element: Element, old: bytes, new: bytes) -> None:
    size = min(len(old), len(new))
    reference, array = from_bits(old[:size], element), from_bits(new[:size], element)
    data = delta.encode(array, element, reference, NAME)
    back, _ = chunk.decode(data, references=known(reference))
    assert back.tobytes() == array.tobytes()


def test_fine_tuned_weights_are_smaller_than_by_any_codec_alone() -> None:
    alone = min(len(chunk.encode(TUNED, named(name))) for name in ("pcodec", "planes", "zstd", "lzma"))
    assert len(delta.encode(TUNED, FLOAT32, WEIGHTS, NAME)) < 0.8 * alone


def test_an_array_that_did_not_change_is_next_to_nothing() -> None:
    assert len(delta.encode(WEIGHTS, FLOAT32, WEIGHTS.copy(), NAME)) < 250


def test_counters_are_sent_as_differences() -> None:
    """The exclusive or of neighbours looks random, their difference does not; 2^64 is passed on the way."""
    old = _random.integers(2**64 - 10**6, 2**64, 30_000, dtype=np.uint64)
    new = old + np.uint64(10**6)
    data = delta.encode(new, BY_NAME["uint64"], old, NAME)
    assert len(data) < 400
    np.testing.assert_array_equal(chunk.decode(data, references=known(old))[0], new)


def test_the_payload_begins_with_the_name() -> None:
    data = delta.encode(TUNED, FLOAT32, WEIGHTS, NAME)
    header = chunk.read_header(memoryview(data))
    assert data[header.header_bytes :][:16] == NAME
    inner = chunk.read_header(memoryview(data)[header.header_bytes + 16 :])
    assert inner.shape == (WEIGHTS.size,)
    assert inner.element.name in ("uint32", "int32")


def test_without_the_version_it_says_so() -> None:
    data = delta.encode(TUNED, FLOAT32, WEIGHTS, NAME)
    with pytest.raises(UnknownVersion, match=NAME.hex()):
        chunk.decode(data)
    with pytest.raises(UnknownVersion):
        chunk.decode(data, references={b"another version!": WEIGHTS}.__getitem__)


@pytest.mark.parametrize(
    "other", [WEIGHTS[:-1], WEIGHTS.view(np.int32), WEIGHTS.astype(np.float64), WEIGHTS[:0]]
)
def test_another_version_under_that_name_is_refused(other: np.ndarray) -> None:
    data = delta.encode(TUNED, FLOAT32, WEIGHTS, NAME)
    with pytest.raises(MalformedChunk, match="version"):
        chunk.decode(data, references=known(other))


def test_what_cannot_be_a_delta_is_refused_by_the_encoder() -> None:
    for reference in (WEIGHTS[1:], WEIGHTS.astype(np.float64)):
        with pytest.raises(LocalProtocolError, match="no delta"):
            delta.encode(TUNED, FLOAT32, reference, NAME)
    with pytest.raises(LocalProtocolError, match="16 bytes"):
        delta.encode(TUNED, FLOAT32, WEIGHTS, b"short")
    with pytest.raises(LocalProtocolError, match="not 13"):
        delta.encode(TUNED, FLOAT32, WEIGHTS, NAME, level=13)
    with pytest.raises(CodecFailed, match=r"delta\.encode"):
        chunk.encode(TUNED, named("delta"))


def test_the_inputs_are_left_as_they_are() -> None:
    old, new = WEIGHTS.copy(), TUNED.copy()
    data = delta.encode(new, FLOAT32, old, NAME)
    chunk.decode(data, references=known(old))
    assert (old.tobytes(), new.tobytes()) == (WEIGHTS.tobytes(), TUNED.tobytes())


def hostile(payload: bytes, items: int = 100) -> np.ndarray:
    data = chunk.frame(named("delta"), FLOAT32, (items,), LOSSLESS, payload)
    return chunk.decode(data, references=known(np.ones(items, np.float32)))[0]


@pytest.mark.parametrize("name", ["raw", "zlib", "lzma", "lz4", "planes", "sparse"])
def test_the_change_may_be_by_any_lossless_codec(name: str) -> None:
    change, element = delta.change(TUNED, FLOAT32, WEIGHTS)
    data = delta.wrap(chunk.encode(change, named(name), element=element), FLOAT32, TUNED.shape, NAME)
    back, _ = chunk.decode(data, references=known(WEIGHTS))
    assert back.tobytes() == TUNED.tobytes()


def test_a_delta_within_a_delta_is_refused() -> None:
    array = np.ones(100, np.uint32)
    inner = delta.encode(array, element_of(array), array, NAME)
    with pytest.raises(UnknownCodec):
        hostile(NAME + inner)


@pytest.mark.parametrize(
    "change",
    [
        np.ones(99, np.uint32),
        np.ones(200, np.uint16),
        np.ones((10, 10), np.uint32),
        np.ones(100, np.float32),
        np.zeros(1 << 20, np.uint32),
    ],
)
def test_a_change_of_another_form_is_refused(change: np.ndarray) -> None:
    with pytest.raises((MalformedChunk, LimitExceeded)):
        hostile(NAME + chunk.encode(change, named("zstd")))


@settings(deadline=None, max_examples=100)
@given(start=st.integers(0, 90), rest=st.binary(max_size=60))
def test_any_payload_is_bounded(start: int, rest: bytes) -> None:
    genuine = NAME + chunk.encode(np.arange(100, dtype=np.uint32), named("pcodec"))
    try:
        array = hostile(genuine[:start] + rest)
    except REFUSALS:
        return
    assert (array.dtype, array.shape) == (np.dtype(np.float32), (100,))
