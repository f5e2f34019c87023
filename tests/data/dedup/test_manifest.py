from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.data.dedup import Held, Manifest, Run, find
from duetlink.errors import LimitExceeded, RemoteProtocolError
from tests.data.dedup.bodies import KEY, check, manifest_of, pack, stream

rng = np.random.default_rng(3)
MIXED = pack(rng.random(9000), np.arange(70), rng.random((40, 3000)), rng.random(9000), rng.random(9000))
STREAM = stream(rng.bytes(300_000))


def encoded(
    entries: list[tuple[int, int, int]],
    sizes: list[int],
    names: int,
    log2_target: int = 13,
    version: int = 1,
    counts: tuple[int, int] | None = None,
) -> bytes:
    """A manifest by hand: entries are (repeat, run size, row size)."""
    entry_count, size_count = counts or (len(entries), len(sizes))
    columns = list(zip(*entries, strict=True)) or [(), (), ()]
    return b"".join(
        (
            struct.pack("<BBII", version, log2_target, entry_count, size_count),
            struct.pack(f"<{len(entries)}I", *columns[0]),
            struct.pack(f"<{2 * len(entries)}Q", *columns[1], *columns[2]),
            struct.pack(f"<{len(sizes)}I", *sizes),
            bytes(16 * names),
        )
    )


@pytest.mark.parametrize("held", [MIXED, STREAM, stream(b""), stream(b"x")], ids=["mixed", "bytes", "0", "1"])
def test_what_is_written_is_read(held: Held) -> None:
    manifest = manifest_of(held)
    read = Manifest.from_bytes(manifest.to_bytes(), held.body.nbytes)
    assert read.cuts.runs == manifest.cuts.runs
    assert read.cuts.ends == manifest.cuts.ends
    assert read.names == manifest.names
    assert read.to_bytes() == manifest.to_bytes()


def test_the_layout_of_a_manifest() -> None:
    manifest = Manifest.from_bytes(encoded([(1, 3000, 0), (2, 20_000, 24)], [3000], 7), 43_000)
    assert manifest.cuts.runs == (Run(3000, 0), Run(20_000, 24), Run(20_000, 24))
    assert manifest.cuts.sizes_bytes.tolist() == [3000, 8184, 8184, 3632, 8184, 8184, 3632]
    assert manifest.names == [bytes(16)] * 7


@pytest.mark.parametrize(("held", "share"), [(MIXED, 0.005), (STREAM, 0.003)], ids=["mixed", "bytes"])
def test_it_is_small(held: Held, share: float) -> None:
    assert len(manifest_of(held).to_bytes()) < share * held.body.nbytes


def test_equal_columns_cost_no_more_than_one() -> None:
    columns = pack(*[rng.random(2500)] * 50)
    manifest = manifest_of(columns)
    assert len(manifest.cuts.runs) == 51
    assert len(manifest.to_bytes()) - 16 * len(manifest.names) == 10 + 3 * 20 + 4  # the last has no padding


@pytest.mark.parametrize(
    ("data", "body_bytes", "error"),
    [
        (b"", 0, "too few"),
        (encoded([(1, 10, 0)], [10], 1, version=2), 10, "version 2"),
        (encoded([(1, 10, 0)], [10], 1)[:-1], 10, "do not fit a manifest"),
        (encoded([(1, 10, 0)], [10], 1) + b"x", 10, "do not fit a manifest"),
        (encoded([(1, 10, 0)], [10], 1), 11, "for a body of 11"),
        (encoded([(1, 10, 0)], [10], 2), 10, "with 1 names"),
        (encoded([(0, 10, 0)], [], 0), 0, "empty run"),
        (encoded([(1, 0, 0)], [], 0), 0, "empty run"),
        (encoded([(1, 10, 11)], [], 1), 10, "row"),
        (encoded([(1, 10, 0)], [9], 1), 10, "tile"),
        (encoded([(1, 10, 0)], [11], 1), 10, "tile"),
        (encoded([(1, 10, 0)], [10, 0], 2), 10, "tile"),
        (encoded([(1, 10, 0)], [0, 10], 2), 10, "rule"),
        (encoded([(1, 5000, 0)], [2047, 2953], 2), 5000, "rule"),
        (encoded([(1, 65_537, 0)], [65_537], 1), 65_537, "rule"),
        (encoded([], [10], 1), 0, "tile"),
        (encoded([(2, 3000, 0)], [2500, 3500], 2), 6000, "tile"),
        (encoded([(1, 20_000, 8)], [], 2), 20_000, "3 fixed chunks with 2"),
    ],
)
def test_what_does_not_tile_the_body_is_refused(data: bytes, body_bytes: int, error: str) -> None:
    with pytest.raises(RemoteProtocolError, match=error):
        Manifest.from_bytes(data, body_bytes)


@pytest.mark.parametrize(
    ("data", "body_bytes"),
    [
        (encoded([(1, 10, 0)], [10], 1, log2_target=12), 10),
        (encoded([(1, 10, 0)], [10], 1, log2_target=25), 10),
        (encoded([(1, 10, 0)], [10], 1, log2_target=255), 10),
        (encoded([], [], 0, counts=(2**32 - 1, 0)), 10),
        (encoded([], [], 0, counts=(0, 2**32 - 1)), 10),
        (encoded([(2**32 - 1, 2, 1)], [], 0), 2**33 - 2),
        (encoded([(1, 2**40, 1)], [], 0), 2**40),
        (encoded([(65536, 2**24, 1)], [], 0), 2**40),
        (encoded([(1, 2**41, 1)], [], 0), 2**41),
    ],
)
def test_limits_hold_before_anything_is_made(data: bytes, body_bytes: int) -> None:
    with pytest.raises(LimitExceeded):
        Manifest.from_bytes(data, body_bytes)


@pytest.mark.parametrize("size", [2**63, 2**64 - 1])
def test_sizes_do_not_wrap_around(size: int) -> None:
    with pytest.raises(RemoteProtocolError):
        Manifest.from_bytes(encoded([(2, size, 1)], [], 0), (2 * size) % 2**64)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_altered_manifests_raise_typed_errors_or_find_what_is_there(data: st.DataObject) -> None:
    held = data.draw(st.sampled_from([MIXED, STREAM]))
    octets = bytearray(manifest_of(held).to_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, min(len(octets) - 1, 200)))
        octets[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del octets[data.draw(st.integers(0, len(octets))) :]
    try:
        manifest = Manifest.from_bytes(bytes(octets), held.body.nbytes)
    except RemoteProtocolError:
        return
    for match in find(manifest, [held], KEY):
        assert match.target_start + match.size_bytes <= held.body.nbytes
        assert match.source_start + match.size_bytes <= held.body.nbytes


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 300))
def test_no_other_error_escapes(data: bytes, body_bytes: int) -> None:
    for octets in (data, b"\x01\x0d" + data):
        try:
            Manifest.from_bytes(octets, body_bytes)
        except RemoteProtocolError:
            continue


def test_one_name_for_two_sizes_finds_no_more_than_there_is() -> None:
    held = stream(STREAM.body[:3000].tobytes())
    (name,) = manifest_of(held).names
    data = encoded([(1, 13_000, 0)], [5000, 3000, 5000], 0) + name * 3
    matches = find(Manifest.from_bytes(data, 13_000), [held], KEY)
    check(matches, stream(bytes(5000) + held.body.tobytes() + bytes(5000)), [held])
    assert [match.size_bytes for match in matches] == [3000]
