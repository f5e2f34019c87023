"""Memory that the members of one host share: each writes its own, and reads the others'.

Theory. Every member makes a memfd of fixed size, maps it, and tells the others where it is and how it is
named, with a random label that nobody else can know. Who finds that name under /proc, the memory's size
sealed, and the label inside, is on the same host, as the same user. Nobody can write another's memory, and
nobody can take it away while it is mapped.

The memory has two halves, used in turn. A half has a head, which says what was called and how far its owner
has come, and room for data. Who has arrived at chunk c + 1 no longer reads anything of chunk c; each waits
for all at every chunk; so what was written for chunk c can be overwritten for chunk c + 2.
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
# Of data in one half: beyond the caches of one core there is nothing to gain from more, and the waits for
# each other (some 100 µs) do not matter beside this.
ROOM_BYTES = 4 * 1024 * 1024
HALF_BYTES = HEAD_BYTES + ROOM_BYTES
SIZE_BYTES = HEAD_BYTES + 2 * HALF_BYTES  # the first page holds the label

_LABEL_BYTES = 16
_ARRIVED, _REDUCED = 0, 1  # the head's words of 8 bytes
_CALL = struct.Struct("<Q8sI")
_CALL_AT = 16


class OwnMemory:
    """This member's memory."""

    def __init__(self) -> None:
        """Raises OSError where there is no memory to share."""
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
        """Tells other members where it is."""
        return json.dumps([os.getpid(), self._fd, self._label.hex()]).encode()

    def hide(self) -> None:
        """Once all have mapped it, or nobody can: nobody finds it any more. What is mapped stays."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Memory:
    """One member's memory, mapped: one's own, or another's to be read."""

    def __init__(self, mapping: mmap.mmap) -> None:
        self._mapping: mmap.mmap | None = mapping
        whole = np.frombuffer(mapping, np.uint8)
        starts = [HEAD_BYTES + half * HALF_BYTES for half in (0, 1)]
        self._label = whole[:_LABEL_BYTES]
        self._heads = [whole[start : start + HEAD_BYTES] for start in starts]
        self._words = [head[:16].view(np.uint64).data for head in self._heads]
        self.rooms = [whole[start + HEAD_BYTES : start + HALF_BYTES] for start in starts]

    @property
    def label(self) -> bytes:
        return self._label.tobytes()

    def write_label(self, label: bytes) -> None:
        self._label[...] = np.frombuffer(label, np.uint8)

    def write_call(self, chunk: int, sequence: int, digest: bytes, text: str) -> None:
        """Say what was called, before `arrive`."""
        data = text.encode()[: HEAD_BYTES - _CALL_AT - _CALL.size]
        data = _CALL.pack(sequence, digest, len(data)) + data
        self._heads[chunk % 2][_CALL_AT : _CALL_AT + len(data)] = np.frombuffer(data, np.uint8)

    def call(self, chunk: int) -> tuple[int, bytes, str]:
        """What its owner called: number, digest and text."""
        head = self._heads[chunk % 2][_CALL_AT:].tobytes()
        sequence, digest, length = _CALL.unpack_from(head)
        text = head[_CALL.size :][: min(length, HEAD_BYTES)].decode("utf-8", "replace")
        return sequence, digest, "".join(c if c.isprintable() else "?" for c in text)

    def arrive(self, chunk: int) -> None:
        """What was written for this chunk may be read."""
        _fence()
        self._words[chunk % 2][_ARRIVED] = chunk + 1

    def has_arrived(self, chunk: int) -> bool:
        return self._words[chunk % 2][_ARRIVED] > chunk

    def finish(self, chunk: int) -> None:
        """This member's share of the chunk has been reduced."""
        _fence()
        self._words[chunk % 2][_REDUCED] = chunk + 1

    def has_finished(self, chunk: int) -> bool:
        return self._words[chunk % 2][_REDUCED] > chunk

    def room(self, chunk: int) -> Array:
        """Bytes for the chunk's data."""
        return self.rooms[chunk % 2]

    def close(self) -> None:
        """Unmap it, unless somebody still works in it, whose end then does. Safe to call twice."""
        self._label = np.empty(0, np.uint8)
        for words in self._words:
            words.release()
        self._heads, self._words, self.rooms = [], [], []
        # a view that somebody still has holds the mapping, which ends with it, however long this lives
        mapping, self._mapping = self._mapping, None
        if mapping is not None:
            with contextlib.suppress(BufferError):
                mapping.close()


def supported() -> bool:
    """Whether this system has sealed memory that others can find (Linux)."""
    return sys.platform == "linux" and os.path.isdir("/proc/self/fd")


def open_others(addresses: Sequence[bytes], rank: int) -> list[Memory | None] | None:
    """All members' memory by rank, None at one's own place; None if any of it cannot be mapped here."""
    found: list[Memory | None] = []
    for index, address in enumerate(addresses):
        memory = None if index == rank else _open(address)
        if memory is None and index != rank:
            for each in found:
                if each is not None:
                    each.close()
            return None
        found.append(memory)
    return found


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
        # looked at before it is opened: opening a device or a FIFO by a peer's word could block or act
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
    """What was written before is seen by others before what is written after.

    x86 keeps that order by itself. Elsewhere: releasing a lock orders what is before it, taking it again
    orders what is after it.
    """
    with _order:
        pass
    with _order:
        pass
