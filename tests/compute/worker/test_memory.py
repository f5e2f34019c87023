"""Shared memory: what is placed is mapped as it was, and only what is sealed and of the announced size."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from duetlink.compute.worker.kernel.result_memory import ResultMemory
from duetlink.compute.worker.protocol import memory
from duetlink.compute.worker.protocol.memory import map_sealed, place
from duetlink.errors import RemoteProtocolError, WorkLimit

sealed_only = pytest.mark.skipif(sys.platform != "linux", reason="nothing is sealed here")


@pytest.fixture
def placed() -> Iterator[int]:
    fd = place([b"ab", memoryview(b"cdef").cast("H"), b""], 6)
    yield fd
    os.close(fd)


def test_what_is_placed_is_mapped(placed: int) -> None:
    view = map_sealed(placed, 6)
    assert bytes(view) == b"abcdef"
    assert view.readonly


def test_a_writable_copy_changes_for_nobody_else(placed: int) -> None:
    copy = map_sealed(placed, 6, writable_copy=True)
    copy[0] = ord("X")
    assert bytes(copy) == b"Xbcdef"
    assert bytes(map_sealed(placed, 6)) == b"abcdef"


def test_a_mapping_outlives_its_descriptor() -> None:
    fd = place([b"abc"], 3)
    view = map_sealed(fd, 3)
    os.close(fd)
    assert bytes(view) == b"abc"


@pytest.mark.parametrize("writable", [False, True])
def test_nothing_at_all_is_placed_and_mapped(writable: bool) -> None:
    fd = place([], 0)
    assert bytes(map_sealed(fd, 0, writable)) == b""
    os.close(fd)


@sealed_only
def test_what_is_placed_can_be_changed_by_nobody(placed: int) -> None:
    with pytest.raises(PermissionError):
        os.pwrite(placed, b"x", 0)
    with pytest.raises(PermissionError):
        os.truncate(placed, 3)


@pytest.mark.parametrize(("pieces", "size_bytes"), [([b"abc"], 2), ([b"abc"], 4), ([b"ab", b"cd"], 3)])
def test_pieces_of_another_size_are_refused_and_nothing_is_left(pieces: list[bytes], size_bytes: int) -> None:
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(ValueError, match=str(size_bytes)):
        place(pieces, size_bytes)
    assert len(os.listdir("/dev/fd")) == before


def test_memory_of_another_size_is_refused(placed: int) -> None:
    with pytest.raises(RemoteProtocolError, match="no sealed memory of 7 bytes"):
        map_sealed(placed, 7)


@sealed_only
def test_unsealed_memory_is_refused() -> None:
    fd = memory.create(3)
    with pytest.raises(RemoteProtocolError, match="no sealed memory"):
        map_sealed(fd, 3)
    os.close(fd)


@sealed_only
def test_what_is_no_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    with path.open("rb") as file, pytest.raises(RemoteProtocolError, match="no sealed memory"):
        map_sealed(file.fileno(), 3)
    reading, writing = os.pipe()
    with pytest.raises(RemoteProtocolError, match="no sealed memory"):
        map_sealed(reading, 0)
    os.close(reading)
    os.close(writing)
    with pytest.raises(RemoteProtocolError, match="no sealed memory"):
        map_sealed(reading, 0)


def test_without_memfds_it_is_a_file_without_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    fd = place([b"abc"], 3)
    assert bytes(map_sealed(fd, 3)) == b"abc"
    assert os.listdir(tmp_path) == []
    os.close(fd)


# -- what a kernel makes for a room's results --------------------------------------------------------------


def test_what_is_taken_is_sealed_and_the_rest_is_closed() -> None:
    rooms = ResultMemory(max_bytes=100)
    fds = [rooms.make(number, 10) for number in (1, 2)]
    os.pwrite(fds[1], b"0123456789", 0)
    (taken,) = rooms.take([2])
    assert bytes(map_sealed(taken, 10)) == b"0123456789"
    os.close(taken)
    for fd in fds:
        with pytest.raises(OSError):
            os.fstat(fd)


def test_all_of_one_command_is_limited_together() -> None:
    rooms = ResultMemory(max_bytes=100)
    rooms.make(1, 60)
    with pytest.raises(WorkLimit, match="result of 120 bytes is over the 100"):
        rooms.make(2, 60)
    rooms.clear()
    rooms.make(2, 60)
    rooms.clear()


@pytest.mark.parametrize("numbers", [[2], [1, 1], [1, 2]])
def test_what_was_not_made_cannot_be_taken(numbers: list[int]) -> None:
    rooms = ResultMemory(max_bytes=100)
    rooms.make(1, 10)
    with pytest.raises(RemoteProtocolError, match="not given"):
        rooms.take(numbers)
    rooms.clear()


def test_a_number_is_used_once_and_a_size_is_not_negative() -> None:
    rooms = ResultMemory(max_bytes=100)
    rooms.make(1, 10)
    for number, size_bytes in ((1, 10), (2, -1)):
        with pytest.raises(RemoteProtocolError, match="memory of a number"):
            rooms.make(number, size_bytes)
    rooms.clear()


def test_room_is_not_asked_for_without_end() -> None:
    rooms = ResultMemory(max_bytes=100)
    for number in range(1000):
        with pytest.raises(WorkLimit):
            rooms.make(number, 101)
    with pytest.raises(RemoteProtocolError, match="over 1000 times"):
        rooms.make(1000, 101)


@sealed_only
def test_the_size_of_room_is_fixed() -> None:
    rooms = ResultMemory(max_bytes=100)
    fd = rooms.make(1, 10)
    for size_bytes in (5, 20):
        with pytest.raises(PermissionError):
            os.truncate(fd, size_bytes)
    rooms.clear()
