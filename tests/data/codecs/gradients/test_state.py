"""State dicts as bytes: without pickle, and safe against what is not one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from duetlink.data.codecs import chunk
from duetlink.data.codecs.gradients import state
from duetlink.data.codecs.raw import Raw
from duetlink.data.codecs.zstd import Zstd
from duetlink.errors import LimitExceeded, LocalProtocolError, MalformedChunk, RemoteProtocolError

SAMPLE: state.State = {
    "epoch": 3,
    "step/layers/0": 17,
    "rate": 0.5,
    "residual/layers/0": np.arange(6, dtype=np.float32).reshape(2, 3),
    "residual/é": np.array(2.5, np.float32),
}


def entry(key: bytes, data: bytes) -> bytes:
    return len(key).to_bytes(2, "little") + key + data


def same(left: state.State, right: state.State) -> bool:
    return list(left) == list(right) and all(
        type(left[key]) is type(right[key]) and np.array_equal(left[key], right[key]) for key in left
    )


def test_a_state_comes_back_with_its_types() -> None:
    assert same(state.from_bytes(state.to_bytes(SAMPLE)), SAMPLE)


def test_arrays_come_back_as_writable_copies() -> None:
    found = state.from_bytes(state.to_bytes(SAMPLE))["residual/layers/0"]
    assert isinstance(found, np.ndarray)
    found[0, 0] = 9
    assert found[0, 0] == 9


def test_no_state_is_a_state() -> None:
    assert state.to_bytes({}) == b"DLG1"
    assert state.from_bytes(b"DLG1") == {}


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), max_size=20),
        st.one_of(
            st.integers(-(1 << 63), (1 << 63) - 1),
            st.floats(allow_nan=False),
            arrays.arrays(np.float32, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)),
        ),
        max_size=4,
    )
)
def test_any_state_comes_back(given_state: state.State) -> None:
    found = state.from_bytes(state.to_bytes(given_state))
    assert list(found) == list(given_state)
    for key, value in given_state.items():
        assert np.asarray(found[key]).tobytes() == np.asarray(value).tobytes()


@given(st.integers(0, len(state.to_bytes(SAMPLE)) - 1), st.integers(0, 7))
def test_a_flipped_bit_is_found_or_changes_a_key_only(at: int, bit: int) -> None:
    data = bytearray(state.to_bytes(SAMPLE))
    data[at] ^= 1 << bit
    try:
        found = state.from_bytes(bytes(data))
    except RemoteProtocolError:
        return
    assert list(found) != list(SAMPLE)
    assert all(
        np.array_equal(left, right) for left, right in zip(found.values(), SAMPLE.values(), strict=True)
    )


@given(st.integers(0, len(state.to_bytes(SAMPLE)) - 1))
def test_a_cut_state_is_refused_or_ends_between_entries(size: int) -> None:
    data = state.to_bytes(SAMPLE)[:size]
    try:
        found = state.from_bytes(data)
    except RemoteProtocolError:
        return
    assert state.to_bytes(found) == data


@given(st.binary(max_size=200))
def test_any_bytes_are_a_state_or_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        state.from_bytes(b"DLG1" + b"\xff" + data)


def test_a_pickle_is_refused() -> None:
    with pytest.raises(MalformedChunk, match="do not start as a compressor's state"):
        state.from_bytes(b"\x80\x04K\x01.")


def test_a_codec_that_could_expand_is_refused() -> None:
    bomb = chunk.encode(np.zeros(1000, np.float32), Zstd())
    padding = entry(b"padding", chunk.encode(np.zeros(1000, np.float32), Raw()))
    with pytest.raises(MalformedChunk, match="a state in codec 3; only raw may be"):
        state.from_bytes(b"DLG1" + padding + entry(b"residual/x", bomb))


def test_an_array_declared_larger_than_the_bytes_is_refused() -> None:
    bomb = chunk.encode(np.zeros(100_000, np.float32), Zstd())
    with pytest.raises(LimitExceeded):
        state.from_bytes(b"DLG1" + entry(b"residual/x", bomb))


def test_a_key_twice_is_refused() -> None:
    one = entry(b"epoch", chunk.encode(np.array(1), Raw()))
    with pytest.raises(MalformedChunk, match="names 'epoch' twice"):
        state.from_bytes(b"DLG1" + one + one)


def test_a_key_that_is_no_text_is_refused() -> None:
    with pytest.raises(MalformedChunk, match="not text"):
        state.from_bytes(b"DLG1" + entry(b"\xff\xfe", chunk.encode(np.array(1), Raw())))


def test_what_is_no_number_and_no_array_is_not_written() -> None:
    with pytest.raises(LocalProtocolError, match="not list"):
        state.to_bytes({"residual/x": [1.0]})  # type: ignore[dict-item]


def test_a_key_that_is_too_long_is_not_written() -> None:
    with pytest.raises(LocalProtocolError, match="key of 4097 bytes"):
        state.to_bytes({"k" * 4097: 1})
