"""Memory that the members of one host share: each member writes its own, and reads the others'.

Theory. Every member makes a memfd of fixed size, maps it, and sends the others its place under /proc with a
random label that no other process knows. A member that finds that name under /proc, the memory's size sealed,
and the label inside, is on the same host and the same user. No member can write another's memory, or remove
it while it is mapped.

The memory has two halves, used in turn. A half has a head, with the call and its owner's progress, and data.
A member that has arrived at chunk c + 1 no longer reads chunk c, and each waits for all at every chunk. So
the data of chunk c can be overwritten by chunk c + 2.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import secrets
import stat
import struct
import sys
import threading
from collections.abc import Sequence

import numpy as np

from duetlink.base.runtime import shared_memory
from duetlink.base.wire import json_
from duetlink.groups.collectives.execution.elements import Array

HEAD_BYTES = 4096
# The data of one half. It is larger than the caches of one core, so more would gain nothing, and the waits
# for each other (some 100 µs) are small against copying it.
DATA_BYTES = 4 * 1024 * 1024
HALF_BYTES = HEAD_BYTES + DATA_BYTES
SIZE_BYTES = HEAD_BYTES + 2 * HALF_BYTES  # the first page holds the label

_LABEL_BYTES = 16
_ARRIVED, _REDUCED = 0, 1  # indices of the head's 8-byte counters
_CALL = struct.Struct("<Q8sI")
_CALL_AT = 16


class OwnMemory:
    """The memory that this member writes."""

    def __init__(self) -> None:
        """Raises OSError if no memory can be created."""
        self._label = secrets.token_bytes(_LABEL_BYTES)
        self._fd = shared_memory.create(_name(self._label))
        try:
            os.ftruncate(self._fd, SIZE_BYTES)
            shared_memory.seal(self._fd, shared_memory.FIXED_SIZE)
            self.memory = Memory(mmap.mmap(self._fd, SIZE_BYTES))
        except BaseException:
            self.hide()
            raise
        self.memory.write_label(self._label)

    @property
    def address(self) -> bytes:
        """The process, descriptor and label by which other members find it."""
        return json.dumps([os.getpid(), self._fd, self._label.hex()]).encode()

    def hide(self) -> None:
        """Close the descriptor, so that no further process can map it. Existing mappings stay."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Memory:
    """One member's memory, mapped: this member's own, or another's to be read."""

    def __init__(self, mapping: mmap.mmap) -> None:
        self._mapping: mmap.mmap | None = mapping
        whole = np.frombuffer(mapping, np.uint8)
        starts = [HEAD_BYTES + half * HALF_BYTES for half in (0, 1)]
        self._label = whole[:_LABEL_BYTES]
        self._heads = [whole[start : start + HEAD_BYTES] for start in starts]
        self._words = [head[:16].view(np.uint64).data for head in self._heads]
        self._data = [whole[start + HEAD_BYTES : start + HALF_BYTES] for start in starts]

    @property
    def label(self) -> bytes:
        return self._label.tobytes()

    def write_label(self, label: bytes) -> None:
        self._label[...] = np.frombuffer(label, np.uint8)

    def write_call(self, chunk: int, sequence: int, digest: bytes, text: str) -> None:
        """Write the call into the head, before `arrive`."""
        data = text.encode()[: HEAD_BYTES - _CALL_AT - _CALL.size]
        data = _CALL.pack(sequence, digest, len(data)) + data
        self._heads[chunk % 2][_CALL_AT : _CALL_AT + len(data)] = np.frombuffer(data, np.uint8)

    def call(self, chunk: int) -> tuple[int, bytes, str]:
        """Return the owner's call: its number, digest and text."""
        head = self._heads[chunk % 2][_CALL_AT:].tobytes()
        sequence, digest, length = _CALL.unpack_from(head)
        text = head[_CALL.size :][: min(length, HEAD_BYTES)].decode("utf-8", "replace")
        return sequence, digest, "".join(c if c.isprintable() else "?" for c in text)

    def arrive(self, chunk: int) -> None:
        """Publish the data of this chunk: it may be read from now on."""
        _fence()
        self._words[chunk % 2][_ARRIVED] = chunk + 1

    def has_arrived(self, chunk: int) -> bool:
        return self._words[chunk % 2][_ARRIVED] > chunk

    def finish(self, chunk: int) -> None:
        """Publish that this member's share of the chunk has been reduced."""
        _fence()
        self._words[chunk % 2][_REDUCED] = chunk + 1

    def has_finished(self, chunk: int) -> bool:
        return self._words[chunk % 2][_REDUCED] > chunk

    def data(self, chunk: int) -> Array:
        """Return the memory of the chunk's data, as bytes."""
        return self._data[chunk % 2]

    def close(self) -> None:
        """Unmap the memory; if a view of it is still in use, it is unmapped with that. Safe to call twice."""
        self._label = np.empty(0, np.uint8)
        for words in self._words:
            words.release()
        self._heads, self._words, self._data = [], [], []
        # a view that is still in use keeps the mapping, which ends with that view
        mapping, self._mapping = self._mapping, None
        if mapping is not None:
            with contextlib.suppress(BufferError):
                mapping.close()


def supported() -> bool:
    """Return True on a system with sealed memory that other processes can find (Linux)."""
    return sys.platform == "linux" and os.path.isdir("/proc/self/fd")


def open_others(addresses: Sequence[bytes], rank: int) -> list[Memory | None]:
    """Map the other members' memory, by rank; None at this rank, and where it cannot be mapped here."""
    return [None if index == rank else _open(address) for index, address in enumerate(addresses)]


def _open(address: bytes) -> Memory | None:
    try:
        pid, fd, label_text = json_.read(address, tuple[int, int, str])
        label = bytes.fromhex(label_text)
    except ValueError:
        return None
    if len(label) != _LABEL_BYTES:
        return None
    path = f"/proc/{pid}/fd/{fd}"
    try:
        # checked before it is opened: a peer may name a device or a FIFO, which could block or act
        if os.readlink(path) != f"/memfd:{_name(label)} (deleted)":
            return None
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None  # another host, user or container
    try:
        return _map(opened, label)
    except OSError:
        return None
    finally:
        os.close(opened)


def _map(fd: int, label: bytes) -> Memory | None:
    status = os.fstat(fd)
    if status.st_uid != os.getuid() or not stat.S_ISREG(status.st_mode) or status.st_size != SIZE_BYTES:
        return None
    if not shared_memory.has_fixed_size(fd):
        return None
    memory = Memory(mmap.mmap(fd, SIZE_BYTES, prot=mmap.PROT_READ))
    if memory.label == label:
        return memory
    memory.close()
    return None


def _name(label: bytes) -> str:
    return f"duetlink-group-{label.hex()}"


_order = threading.Lock()


def _fence() -> None:
    """Make all earlier writes visible to other processes before any later write.

    x86 keeps that order by itself. Elsewhere, releasing a lock orders what is before it, and taking it again
    orders what is after it.
    """
    with _order:
        pass
    with _order:
        pass
