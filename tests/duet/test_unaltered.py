"""Mocks as they came, beside the copies that sessions write into."""

from __future__ import annotations

import os

import pytest

from duetlink import errors
from duetlink.compute.worker.protocol.memory import map_sealed
from duetlink.duet.asking.mocks.unaltered import Unaltered, unaltered

SIZES = [0, 10, 2_000_000]  # copied, and mapped


@pytest.mark.parametrize("size_bytes", SIZES)
def test_what_is_written_into_a_copy_is_seen_by_nobody_else(size_bytes: int) -> None:
    body = memoryview(bytearray(b"a" * size_bytes))
    kept = Unaltered(body)
    one, other = kept.copy(), kept.copy()
    one[:] = body[:] = b"b" * size_bytes
    fd = kept.placed()
    kept.close()
    kept.close()
    assert bytes(other) == bytes(map_sealed(fd, size_bytes)) == b"a" * size_bytes
    os.close(fd)
    assert bytes(one) == b"b" * size_bytes


def test_only_a_large_one_takes_a_descriptor() -> None:
    for size_bytes, count in zip(SIZES, (0, 0, 1), strict=True):
        kept = Unaltered(memoryview(bytes(size_bytes)))
        assert kept.descriptors == count
        kept.close()
        assert kept.descriptors == 0


def test_where_descriptors_are_short_only_small_ones_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(what: str) -> None:
        raise errors.DescriptorsShort(what)

    monkeypatch.setattr("duetlink.base.runtime.descriptors.check_room", refuse)
    assert unaltered(memoryview(bytes(2_000_000))) is None
    small = unaltered(memoryview(bytes(10)))
    assert small is not None
    assert bytes(small.copy()) == bytes(10)
