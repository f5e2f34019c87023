from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetlink.base.wire.fragments import FRAGMENT_BYTES, LAST, MAX_FRAGMENTS, MORE, Reassembler, split
from duetlink.errors import LimitExceeded, RemoteProtocolError


def test_a_short_message_is_one_fragment() -> None:
    assert list(split(b"hello")) == [b"\x00hello"]


def test_an_empty_message_is_one_fragment() -> None:
    assert list(split(b"")) == [b"\x00"]
    assert Reassembler().feed(b"\x00") == b""


def test_a_long_message_is_cut_at_64_kib_including_the_mark() -> None:
    fragments = list(split(bytes(FRAGMENT_BYTES)))
    assert [len(fragment) for fragment in fragments] == [65536, 2]
    assert [fragment[:1] for fragment in fragments] == [MORE, LAST]


@given(st.lists(st.integers(0, 200_000), max_size=4))
def test_messages_come_out_as_they_went_in(sizes: list[int]) -> None:
    messages = [bytes([index % 256]) * size for index, size in enumerate(sizes)]
    reassembler = Reassembler()
    out = [reassembler.feed(fragment) for message in messages for fragment in split(message)]
    assert [message for message in out if message is not None] == messages


@pytest.mark.parametrize("fragment", [b"", b"\x02x", bytes(FRAGMENT_BYTES + 1)])
def test_malformed_fragments_are_refused(fragment: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        Reassembler().feed(fragment)


def test_a_message_may_not_grow_beyond_the_limit() -> None:
    reassembler = Reassembler(limit_bytes=100)
    assert reassembler.feed(MORE + bytes(60)) is None
    with pytest.raises(LimitExceeded, match="100 bytes"):
        reassembler.feed(MORE + bytes(60))


def test_a_fragment_that_announces_more_must_bring_something() -> None:
    reassembler = Reassembler()
    assert reassembler.feed(MORE + b"a") is None
    with pytest.raises(RemoteProtocolError, match="brings nothing"):
        reassembler.feed(MORE)
    assert reassembler.feed(LAST + b"b") == b"b"


def test_a_message_comes_in_so_many_fragments_at_most() -> None:
    reassembler = Reassembler()
    for _ in range(1024):
        assert reassembler.feed(MORE + b"x") is None
    with pytest.raises(LimitExceeded, match="over 1024 fragments"):
        reassembler.feed(MORE + b"x")
    assert reassembler.feed(LAST + b"next") == b"next"
    assert 2 * len(list(split(bytes(16 * 1024 * 1024)))) < MAX_FRAGMENTS


def test_a_larger_limit_of_bytes_allows_as_many_more_fragments() -> None:
    reassembler = Reassembler(limit_bytes=32 * 1024 * 1024)
    for _ in range(2048):
        assert reassembler.feed(MORE + b"x") is None
    with pytest.raises(LimitExceeded, match="over 2048 fragments"):
        reassembler.feed(MORE + b"x")


def test_what_is_collected_takes_little_more_memory_than_it_has_bytes() -> None:
    tracemalloc.start()
    try:
        reassembler = Reassembler()
        for _ in range(1000):
            reassembler.feed(MORE + bytes(15_000))
        assert tracemalloc.get_traced_memory()[0] < 20_000_000
    finally:
        tracemalloc.stop()


@given(st.lists(st.binary(max_size=300)))
def test_no_other_error_escapes(fragments: list[bytes]) -> None:
    reassembler = Reassembler(limit_bytes=500)
    for fragment in fragments:
        try:
            reassembler.feed(fragment)
        except RemoteProtocolError:
            return
