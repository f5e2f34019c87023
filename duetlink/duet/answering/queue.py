"""The requests of one session: all open ones, and the latest that have been answered.

A session may have any number of requests. An answered one can be inspected for a while; then it is forgotten,
oldest first. Its number is not used again. A request that a person granted stays as long as its grant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from duetlink.duet.answering.handling import Asker, Handling
from duetlink.duet.answering.incoming import Incoming
from duetlink.duet.answering.states import PENDING

HISTORY = 1_000  # answered requests, about a person's day; each takes some KiB


class Queue:
    """Requests by number, oldest first. Methods run on the loop thread; any thread may read `requests`."""

    def __init__(
        self, is_granted_by: Callable[[Incoming], bool], forgotten: Callable[[Incoming], None]
    ) -> None:
        """`is_granted_by` returns True for a request by which a person granted its object. `forgotten` is
        called with each request that is dropped.
        """
        self._is_granted_by = is_granted_by
        self._forgotten = forgotten
        self._handlings: dict[int, Handling] = {}
        self._open: dict[int, Handling] = {}
        self._granted: dict[int, Handling] = {}  # answered, and granted by a person
        self._answered: dict[int, Handling] = {}  # in order of their answers
        self._next = 0

    def resume(self, requests: Iterable[Incoming]) -> None:
        """Load the requests of an earlier kernel, ordered by number."""
        for request in requests:
            handling = self._handlings[request.number] = Handling.resumed(request)
            self._next = request.number + 1
            self._open[request.number] = handling
            if not handling.is_open:
                self.end(handling)

    @property
    def requests(self) -> list[Incoming]:
        return [handling.request for handling in list(self._handlings.values())]

    @property
    def open(self) -> list[Handling]:
        """The requests that wait, or whose answer is being sent."""
        return list(self._open.values())

    @property
    def pending(self) -> list[Incoming]:
        return [handling.request for handling in self._open.values() if handling.request.state == PENDING]

    def next_number(self) -> int:
        return self._next

    def add(self, request: Incoming) -> Handling:
        """Add a new request, whose number must be `next_number()`."""
        assert request.number == self._next
        self._next += 1
        handling = self._handlings[request.number] = self._open[request.number] = Handling(request)
        return handling

    def __getitem__(self, number: int) -> Handling:
        return self._handlings[number]

    def end(self, handling: Handling) -> None:
        """Move a case that has ended into the history, and forget the oldest beyond `HISTORY`."""
        number = handling.request.number
        del self._open[number]
        (self._granted if self._is_granted_by(handling.request) else self._answered)[number] = handling
        while len(self._answered) > HISTORY:
            oldest = next(iter(self._answered))
            del self._answered[oldest]
            self._forgotten(self._handlings.pop(oldest).request)

    def retired(self, request: Incoming) -> None:
        """Treat an answered request as ordinary history again, since its grant is gone."""
        handling = self._granted.pop(request.number, None)
        if handling is not None:
            self._answered[request.number] = handling


class Questions:
    """The peer's questions by number, as long as the peer may withdraw them: until the answer, and after it
    until the offered body has been transferred.
    """

    def __init__(self, is_moving: Callable[[Asker], bool]) -> None:
        self._is_moving = is_moving
        self._handlings: dict[bytes, Handling] = {}
        self._answered: dict[bytes, Handling] = {}

    def add(self, number: bytes, handling: Handling) -> None:
        for answered in [
            answered
            for answered, its in self._answered.items()  # few: at most the number of open transfers
            if not self._is_moving(its.askers[answered])
        ]:
            del self._answered[answered], self._handlings[answered]
        self._answered.pop(number, None)  # the peer may reuse a number
        self._handlings[number] = handling

    def get(self, number: bytes) -> Handling | None:
        return self._handlings.get(number)

    def end(self, handling: Handling) -> None:
        """Mark all questions of this case as answered."""
        for number in handling.askers:
            if self._handlings.get(number) is handling:
                self._answered[number] = handling

    def drop(self, number: bytes, handling: Handling) -> None:
        """Forget one question that the peer has withdrawn while others still wait."""
        del self._handlings[number], handling.askers[number]
