"""The memory that a kernel makes for a room's results: as much as it allows, sealed before it is used."""

from __future__ import annotations

from duetlink.base.runtime import shared_memory
from duetlink.compute.worker.protocol import memory
from duetlink.errors import RemoteProtocolError, WorkLimit

_MOST = 64
_MOST_ASKED = 1000


class ResultMemory:
    """Those of one room, for the command at hand. Its descriptors are closed by `take` or `clear`."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._fds: dict[int, int] = {}
        self._made_bytes = 0
        self._asked = 0

    def make(self, number: object, size_bytes: object) -> int:
        """A descriptor of new memory, which stays ours.

        Raises:
            WorkLimit: over the limit, or the system has no more.
            RemoteProtocolError: these are no numbers, it is in use, or this is asked without end.
        """
        if type(number) is not int or type(size_bytes) is not int or number in self._fds or size_bytes < 0:
            raise RemoteProtocolError("it wants memory of a number that is in use, or of no size")
        self._asked += 1
        if self._asked > _MOST_ASKED:
            raise RemoteProtocolError(f"it wants memory over {_MOST_ASKED} times for one result")
        if self._made_bytes + size_bytes > self._most_bytes or len(self._fds) >= _MOST:
            raise WorkLimit(
                f"a result of {self._made_bytes + size_bytes:,} bytes is over the {self._most_bytes:,} that "
                "the owner allows"
            )
        fd = self._fds[number] = memory.create(size_bytes)
        self._made_bytes += size_bytes
        return fd

    def take(self, numbers: object) -> tuple[int, ...]:
        """Seal these, a list of numbers, and hand them over; the others are closed.

        Raises:
            RemoteProtocolError: there is none of that number, or the room keeps it writable.
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
        """Give all of it up."""
        memory.close_all(self._fds.values())
        self._fds.clear()
        self._made_bytes = self._asked = 0
