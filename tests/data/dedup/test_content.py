from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from duetlink.data.dedup.content import content_sizes, largest, smallest
from duetlink.data.dedup.gear import SIEVE_BITS, TABLE, WINDOW_BYTES, Gear
from duetlink.data.dedup.pieces import Pieces

TARGET = 8192
rng = np.random.default_rng(11)
RANDOM = rng.bytes(600_000)
TEXT = b"".join(b'{"id": %d, "value": %d}\n' % (i, v) for i, v in enumerate(rng.integers(0, 999, 12_000)))


def sizes_of(data: bytes, target: int = TARGET, gear: Gear | None = None) -> list[int]:
    return content_sizes(Pieces(data), 0, len(data), target, gear or Gear())


def ends_of(data: bytes) -> set[int]:
    return set(accumulate(sizes_of(data)))


def literal_fingerprints(data: bytes) -> list[int]:
    """The recurrence of the paper, byte by byte."""
    fingerprint, found = 0, []
    for byte in data:
        fingerprint = ((fingerprint << 1) + int(TABLE[byte])) % (1 << 16)
        found.append(fingerprint)
    return found


def literal_sizes(data: bytes, target: int) -> list[int]:
    """Algorithm 1 of FastCDC with this library's rank of a position."""
    prints = literal_fingerprints(data)
    bits = target.bit_length() - 1

    def rank(position: int) -> int:
        zeros = 16 - prints[position].bit_length()
        if zeros < SIEVE_BITS:
            return zeros
        return SIEVE_BITS + 16 - prints[position - 16].bit_length()

    sizes, start = [], 0
    while start < len(data):
        end = start + min(target // 4, len(data) - start)
        while end < min(start + target * 8, len(data)):
            if rank(end - 1) >= (bits + 2 if end - start < target else bits - 2):
                break
            end += 1
        sizes.append(end - start)
        start = end
    return sizes


@given(st.binary(max_size=300))
def test_vectorised_fingerprints_are_those_of_the_recurrence(data: bytes) -> None:
    assert Gear(512).fingerprints(memoryview(data)).tolist() == literal_fingerprints(data)


def test_a_fingerprint_depends_on_the_last_16_bytes_alone() -> None:
    even, odd = (next(i for i in range(256) if TABLE[i] % 2 == parity) for parity in (0, 1))
    rest = RANDOM[:15]  # the byte before them has only its lowest bit left in the fingerprint
    one, other = bytes([even]) + rest, bytes([odd]) + rest
    assert literal_fingerprints(b"anything" + one)[-1] == literal_fingerprints(one)[-1]
    assert literal_fingerprints(other)[-1] == literal_fingerprints(one)[-1] ^ 0x8000


@pytest.mark.parametrize("target", [8192, 16384])
@pytest.mark.parametrize("data", [RANDOM[:200_000], TEXT[:200_000]], ids=["random", "text"])
def test_cut_points_are_those_of_the_literal_algorithm(data: bytes, target: int) -> None:
    assert sizes_of(data, target) == literal_sizes(data, target)


@settings(max_examples=25, deadline=None)
@given(st.integers(64, 5000), st.sampled_from([RANDOM, TEXT]), st.integers(0, 100_000))
@example(32, RANDOM, 100_000)
def test_cut_points_do_not_depend_on_the_block_size(block_bytes: int, data: bytes, start: int) -> None:
    data = data[start : start + 100_000]
    assert sizes_of(data, gear=Gear(block_bytes)) == sizes_of(data)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 200_000), max_size=30))
def test_cut_points_do_not_depend_on_the_pieces(places: list[int]) -> None:
    data = TEXT[:200_000]
    views = [memoryview(data)[a:b] for a, b in pairwise([0, *sorted(places), len(data)])]
    pieces = Pieces(views)
    assert pieces.view(0, len(data)) == data
    assert content_sizes(pieces, 0, len(data), TARGET, Gear()) == sizes_of(data)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 200_000), st.sampled_from([RANDOM, TEXT]), st.sampled_from([8192, 32768]))
@example(0, RANDOM, 8192)
@example(WINDOW_BYTES, RANDOM, 8192)
def test_chunks_tile_the_stream_within_their_limits(size: int, data: bytes, target: int) -> None:
    sizes = sizes_of(data[:size], target)
    assert sum(sizes) == size
    assert all(smallest(target) <= chunk <= largest(target) for chunk in sizes[:-1])
    assert all(0 < chunk <= largest(target) for chunk in sizes[-1:])


def test_the_mean_is_near_the_target() -> None:
    assert 0.9 * TARGET < np.mean(sizes_of(RANDOM)) < 1.4 * TARGET


@pytest.mark.parametrize("target", [64 << 10, 1 << 20])
def test_chunks_can_be_large(target: int) -> None:
    data = np.random.default_rng(2).bytes(24 * target)
    assert 0.6 * target < np.mean(sizes_of(data, target)) < 1.8 * target


def test_repeated_bytes_are_cut_at_the_maximum() -> None:
    for value in range(256):
        assert sizes_of(bytes([value]) * 150_000) == [65536, 65536, 150_000 - 131_072]


def test_a_stream_full_of_candidates_is_cut_at_the_minimum() -> None:
    dense = next(
        pattern * 100_000
        for pattern in (bytes(pair) for pair in np.ndindex(256, 256))
        if min(literal_fingerprints(pattern * 40)[-2:]) < 2
    )
    assert set(sizes_of(dense)[:-1]) <= {2048, 2049}


@pytest.mark.parametrize("data", [RANDOM, TEXT], ids=["random", "text"])
@settings(max_examples=20, deadline=None)
@given(place=st.integers(0, 200_000), inserted=st.binary(max_size=50), deleted=st.integers(0, 50))
def test_an_edit_moves_only_cuts_near_it(data: bytes, place: int, inserted: bytes, deleted: int) -> None:
    edited = data[:place] + inserted + data[place + deleted :]
    shift = len(inserted) - deleted
    before, after = ends_of(data), ends_of(edited)
    assert {end for end in before if end < place} == {end for end in after if end < place}
    far = place + 100_000  # some ten chunks on, both have met again
    assert {end + shift for end in before if end > far} == {end for end in after if end > far + shift}
