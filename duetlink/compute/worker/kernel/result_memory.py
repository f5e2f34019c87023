"""The memory that a kernel makes for a room's results, up to a limit, and seals before reading it."""

from __future__ import annotations

from duetlink.base.runtime import shared_memory
from duetlink.compute.worker.protocol import memory
from duetlink.errors import RemoteProtocolError, WorkLimit

_MAX_PIECES = 64
_MAX_REQUESTS = 1000


class ResultMemory:
    """The result memory of one room, for the current command. `take` or `clear` closes its descriptors."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._fds: dict[int, int] = {}
        self._made_bytes = 0
        self._requests = 0

    def make(self, number: object, size_bytes: object) -> int:
        """Return a descriptor of new memory, which this object keeps and closes.

        Raises:
            WorkLimit: the memory would exceed the limit, or the system has no more.
            RemoteProtocolError: the arguments are invalid, the number is in use, or the room asks too often.
        """
        if type(number) is not int or type(size_bytes) is not int or number in self._fds or size_bytes < 0:
            raise RemoteProtocolError("it wants memory of a number that is in use, or of no size")
        self._requests += 1
        if self._requests > _MAX_REQUESTS:
            raise RemoteProtocolError(f"it wants memory over {_MAX_REQUESTS} times for one result")
        if self._made_bytes + size_bytes > self._max_bytes or len(self._fds) >= _MAX_PIECES:
            raise WorkLimit(
                f"a result of {self._made_bytes + size_bytes:,} bytes is over the {self._max_bytes:,} that "
                "the owner allows"
            )
        fd = self._fds[number] = memory.create(size_bytes)
        self._made_bytes += size_bytes
        return fd

    def take(self, numbers: object) -> tuple[int, ...]:
        """Seal the memory of these numbers, a list, and pass its descriptors to the caller; close all other.

        Raises:
            RemoteProtocolError: a number is unknown, or the room still has a writable mapping.
        """
        if type(numbers) is not list or not all(type(number) is int for number in numbers):
            raise RemoteProtocolError("a reply does not say which memory it is in")
        if len(set(numbers)) != len(numbers) or not self._fds.keys() >= set(numbers):
            raise RemoteProtocolError("it gives back memory that it was not given")
        for number in numbers:
            try:
                shared_memory.seal(self._fds[number], shared_memory.SEALS)
            except OSError as error:
                why = f"memory of a result cannot be sealed: {error.strerror}"
                raise RemoteProtocolError(why) from None
        taken = tuple(self._fds.pop(number) for number in numbers)
        self.clear()
        return taken

    def clear(self) -> None:
        """Close all of it, and start counting from zero."""
        memory.close_all(self._fds.values())
        self._fds.clear()
        self._made_bytes = self._requests = 0
