"""The yeses that stand. A person's answers the peer whenever it asks again; a policy's or a budget's only as
long as the policies agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from duetlink.duet.answering.incoming import Incoming
from duetlink.duet.answering.persistence import Persistence
from duetlink.duet.answering.states import PERSON
from duetlink.duet.objects.asset import AssetInfo


@dataclass(frozen=True, slots=True)
class StandingYes:
    request: Incoming
    by: str


class Grants:
    """Belongs to the loop thread. Those of a person are kept for the next kernel."""

    def __init__(self, persistence: Persistence) -> None:
        self._persistence = persistence
        self._by_whose: dict[tuple[str, ...], StandingYes] = {}

    def resume(self, granted: Iterable[Incoming]) -> None:
        """Those of a person that an earlier kernel has kept."""
        self._by_whose = {request.whose: StandingYes(request, PERSON) for request in granted}

    def find(self, whose: tuple[str, ...]) -> StandingYes | None:
        return self._by_whose.get(whose)

    def put(self, request: Incoming, by: str) -> None:
        """The first yes stays; a person's takes the place of any other."""
        if by == PERSON:
            self._persistence.granted(request)
        known = self._by_whose.get(request.whose)
        if known is None or (by == PERSON and known.by != PERSON):
            self._by_whose[request.whose] = StandingYes(request, by)

    def take_back(self, request: Incoming) -> None:
        self._by_whose.pop(request.whose, None)
        self._persistence.taken_back(request)

    def retire(self, info: AssetInfo) -> None:
        """This revision is no longer offered."""
        for whose in [whose for whose in self._by_whose if whose[1:] == info.identity]:
            del self._by_whose[whose]
        self._persistence.retired(info)
