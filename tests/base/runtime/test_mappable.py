"""Memory that is filled in place and sealed in place; what other processes can do with it."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import mmap
import os
import resource
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from duetlink.base.runtime import mappable, shared_memory
from duetlink.base.runtime.mappable import HEAD_BYTES, TAIL_BYTES, MappableMemory, memory_at
from duetlink.testing.faults import set_constants

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memfds exist on Linux only")

SIZE_BYTES = 10_000
HEADER, TRAILER = b"header..", b"trailer"


def made(size_bytes: int = SIZE_BYTES) -> tuple[MappableMemory, np.ndarray[Any, Any]]:
    memory = MappableMemory(size_bytes)
    return memory, np.frombuffer(memory.cells(), np.uint8)


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def _is_ours(fd: str) -> bool:
    with contextlib.suppress(FileNotFoundError):  # the descriptor with which the folder was listed
        return os.readlink(f"/proc/self/fd/{fd}").startswith("/memfd:duetlink-")
    return False


def in_a_fork(work: Callable[[], bytes]) -> bytes:
    """What `work` returns in a forked child of this process, which is gone afterwards."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, work())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answer:
        found = answer.read()
    os.waitpid(child, 0)
    return found


def test_it_is_zeros_and_is_sealed_with_header_and_trailer_around_the_data() -> None:
    memory, array = made()
    assert not array.any()
    array[:] = 7
    sealed = memory.seal(HEADER, TRAILER)
    assert sealed is not None
    assert bytes(sealed.body) == HEADER + b"\x07" * SIZE_BYTES + TRAILER
    assert sealed.body.readonly
    assert sealed.start_bytes == HEAD_BYTES - len(HEADER)
    assert sealed.total_bytes == HEAD_BYTES + SIZE_BYTES + TAIL_BYTES
    assert shared_memory.is_sealed(sealed.fd, sealed.total_bytes)
    assert os.readlink(f"/proc/self/fd/{sealed.fd}") == f"/memfd:{mappable.name_of(sealed.label)} (deleted)"


def test_a_write_after_sealing_raises_nothing_and_reaches_nobody() -> None:
    memory, array = made()
    array[:] = 7
    sealed = memory.seal(b"", b"")
    assert sealed is not None
    array[5_000] = 8
    assert array[5_000] == 8
    assert bytes(sealed.body) == b"\x07" * SIZE_BYTES
    writable = np.frombuffer(sealed.copy_on_write(), np.uint8)
    writable[0] = 9
    assert bytes(sealed.body) == b"\x07" * SIZE_BYTES
    assert array[0] == 7


def test_the_same_bytes_are_sealed_once_and_changed_ones_are_not() -> None:
    memory, array = made()
    sealed = memory.seal(HEADER, TRAILER)
    assert memory.seal(HEADER, TRAILER) is sealed is not None
    assert memory.seal(b"HEADER..", TRAILER) is None
    assert memory.seal(HEADER, b"TRAILER") is None
    assert memory.seal(HEADER, b"") is None
    array[-1] = 1
    assert memory.seal(HEADER, TRAILER) is None
    array[-1] = 0
    assert memory.seal(HEADER, TRAILER) is sealed


def test_what_has_no_room_around_the_data_or_would_not_be_aligned_is_refused_before_it() -> None:
    memory, array = made()
    assert memory.seal(bytes(HEAD_BYTES + 8), b"") is None
    assert memory.seal(b"", bytes(TAIL_BYTES + 1)) is None
    assert memory.seal(b"unaligned", b"") is None
    array[0] = 1
    sealed = memory.seal(bytes(HEAD_BYTES), bytes(TAIL_BYTES))
    assert sealed is not None
    assert sealed.start_bytes == 0
    assert sealed.body[HEAD_BYTES] == 1


def test_nobody_can_write_to_it_shrink_it_or_grow_it_before_or_after_sealing() -> None:
    memory, array = made()
    (fd,) = [fd for fd in os.listdir("/proc/self/fd") if _is_ours(fd)]
    for _ in range(2):
        other = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
        with pytest.raises(PermissionError):
            os.pwrite(other, b"x", 0)
        with pytest.raises(PermissionError):
            os.ftruncate(other, 0)
        with pytest.raises(PermissionError):
            os.ftruncate(other, 1 << 30)
        with pytest.raises(PermissionError):
            mmap.mmap(other, SIZE_BYTES)
        os.close(other)
        memory.seal(b"", b"")
    assert not array.any()


def test_memory_is_found_by_all_of_its_data_only() -> None:
    memory, array = made()
    address = array.ctypes.data
    assert memory_at(address, SIZE_BYTES) is memory
    assert memory_at(address, SIZE_BYTES - 1) is None
    assert memory_at(address + 8, SIZE_BYTES - 8) is None
    del array
    gc.collect()
    assert memory_at(address, SIZE_BYTES) is None


def test_memory_and_descriptors_end_with_the_last_use() -> None:
    before = descriptors()
    memory, array = made()
    assert descriptors() == before + 1
    del memory, array
    assert descriptors() == before
    memory, array = made()
    array[:] = 3
    sealed = memory.seal(b"", b"")
    assert sealed is not None
    del memory, array
    assert descriptors() == before + 1
    assert bytes(sealed.body[:3]) == b"\x03\x03\x03"
    body = sealed.body
    del sealed
    assert descriptors() == before
    assert bytes(body[:3]) == b"\x03\x03\x03"


def test_a_forked_child_has_a_view_of_its_own_and_does_not_prevent_sealing() -> None:
    memory, array = made()
    array[:] = 1
    seen, done = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        array[0] = 9
        os.write(seen[1], bytes([array[0], array[5_000], memory.seal(b"", b"") is None]))
        os.read(done[0], 1)
        os._exit(0)
    assert os.read(seen[0], 3) == bytes([9, 1, True])
    assert array[0] == 1
    sealed = memory.seal(b"", b"")
    assert sealed is not None
    assert sealed.body[0] == 1
    os.write(done[1], b"x")
    os.waitpid(child, 0)
    for end in (*seen, *done):
        os.close(end)


def test_what_was_sealed_can_be_used_in_a_fork() -> None:
    memory, array = made()
    array[:] = 5
    sealed = memory.seal(b"", b"")

    def work() -> bytes:
        array[1] = 6
        again = memory.seal(b"", b"")
        return bytes([array[0], array[1], sealed is not None and sealed.body[1], again is None])

    assert in_a_fork(work) == bytes([5, 6, 5, True])
    assert memory.seal(b"", b"") is sealed


def test_an_array_is_whole_where_its_memory_cannot_be_mapped_privately() -> None:
    def work() -> bytes:
        size_bytes = 64 * 1024 * 1024
        memory, array = made(size_bytes)
        array[-1] = 7
        with open("/proc/self/statm", encoding="ascii") as file:
            used_bytes = int(file.read().split()[0]) * mmap.PAGESIZE
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used_bytes + size_bytes // 2, limits[1]))
        try:
            memory.seal(HEADER, b"")
        except OSError as error:
            resource.setrlimit(resource.RLIMIT_AS, limits)
            array[0] = 8
            sealed = memory.seal(HEADER, b"")
            return bytes([error.errno or 0, array[-1], sealed is not None and sealed.body[len(HEADER)]])
        return b""

    assert in_a_fork(work) == bytes([errno.ENOMEM, 7, 8])


def test_where_there_is_no_memfd_an_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mappable, "supported", lambda: False)
    with pytest.raises(OSError, match="no memfd"):
        MappableMemory(SIZE_BYTES)


def test_a_mapping_that_fails_leaves_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    before = descriptors()
    with pytest.raises(OSError):
        MappableMemory(1 << 62)
    assert descriptors() == before


def test_a_process_that_was_forked_in_c_prevents_sealing(monkeypatch: pytest.MonkeyPatch) -> None:
    set_constants(monkeypatch, mappable, FORK_S=0.0)
    memory, array = made()
    held = os.pipe()
    child = ctypes.PyDLL(None).fork()  # past Python's hooks: the child keeps a shared mapping
    if not child:
        os.read(held[0], 1)
        os._exit(0)
    try:
        with pytest.raises(OSError) as raised:
            memory.seal(HEADER, b"")
    finally:
        os.write(held[1], b"x")
        os.waitpid(child, 0)
        for end in held:
            os.close(end)
    assert raised.value.errno == errno.EBUSY
    array[0] = 1
    assert memory.seal(HEADER, b"") is None
