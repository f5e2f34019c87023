"""The requests of one session: those that are open, and the latest that have been answered.

A session has no end of requests. Whoever has answered one may look at it for a while; then it is forgotten,
the oldest first, and its number goes to no other. What a person has granted stays for as long as the grant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from duetlink.duet.answering.handling import Asker, Handling
from duetlink.duet.answering.incoming import Incoming
from duetlink.duet.answering.states import PENDING

HISTORY = 1_000  # answered requests: a day of a person's; each takes some KiB


class Queue:
    """By number, oldest first. Methods belong to the loop thread; any thread may read `requests`."""

    def __init__(self, stands: Callable[[Incoming], bool], forgotten: Callable[[Incoming], None]) -> None:
        """`stands` says whether a person's grant is by this request; `forgotten` hears of what is dropped."""
        self._stands = stands
        self._forgotten = forgotten
        self._handlings: dict[int, Handling] = {}
        self._open: dict[int, Handling] = {}
        self._granted: dict[int, Handling] = {}  # answered, and granted by a person
        self._answered: dict[int, Handling] = {}  # in the order of their answers
        self._next = 0

    def resume(self, requests: Iterable[Incoming]) -> None:
        """Those of an earlier kernel, by number."""
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
        """Those that wait, or whose answer is on its way."""
        return list(self._open.values())

    @property
    def pending(self) -> list[Incoming]:
        return [handling.request for handling in self._open.values() if handling.request.state == PENDING]

    def next_number(self) -> int:
        return self._next

    def add(self, request: Incoming) -> Handling:
        """A new one; its number is `next_number()`."""
        assert request.number == self._next
        self._next += 1
        handling = self._handlings[request.number] = self._open[request.number] = Handling(request)
        return handling

    def __getitem__(self, number: int) -> Handling:
        return self._handlings[number]

    def end(self, handling: Handling) -> None:
        """It has been answered, or nobody waits for it any more."""
        number = handling.request.number
        del self._open[number]
        (self._granted if self._stands(handling.request) else self._answered)[number] = handling
        while len(self._answered) > HISTORY:
            oldest = next(iter(self._answered))
            del self._answered[oldest]
            self._forgotten(self._handlings.pop(oldest).request)

    def retired(self, request: Incoming) -> None:
        """A person's grant by this request holds no longer."""
        handling = self._granted.pop(request.number, None)
        if handling is not None:
            self._answered[request.number] = handling


class Questions:
    """The peer's questions by their numbers, as long as the peer may take one back: until it is answered, and
    until what it was offered has moved.
    """

    def __init__(self, is_moving: Callable[[Asker], bool]) -> None:
        self._is_moving = is_moving
        self._handlings: dict[bytes, Handling] = {}
        self._answered: dict[bytes, Handling] = {}

    def add(self, number: bytes, handling: Handling) -> None:
        for answered in [
            answered
            for answered, its in self._answered.items()  # few: so many transfers are open at most
            if not self._is_moving(its.askers[answered])
        ]:
            del self._answered[answered], self._handlings[answered]
        self._answered.pop(number, None)  # the peer may use a number again
        self._handlings[number] = handling

    def get(self, number: bytes) -> Handling | None:
        return self._handlings.get(number)

    def end(self, handling: Handling) -> None:
        """All questions that wait for it have their answer."""
        for number in handling.askers:
            if self._handlings.get(number) is handling:
                self._answered[number] = handling

    def drop(self, number: bytes, handling: Handling) -> None:
        """One of several has been taken back."""
        del self._handlings[number], handling.askers[number]
