"""Approvals that are kept, and answer the peer when it asks again.

A person's approval always does. One by a policy or a budget only counts as long as the policies agree; it
saves the request from being listed again.
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
    """An approval that is kept: the request that it was given for, and who gave it."""

    request: Incoming
    by: str


class Grants:
    """The kept approvals of one duet. Used on the loop thread only. A person's grants survive a restart with
    `resume`.
    """

    def __init__(self, persistence: Persistence) -> None:
        self._persistence = persistence
        self._by_whose: dict[tuple[str, ...], StandingYes] = {}
        # the keys of `_by_whose` for each revision that a grant is about
        self._of_asset: dict[tuple[str, int], dict[tuple[str, ...], None]] = {}

    def resume(self, granted: Iterable[Incoming]) -> None:
        """Load a person's grants that an earlier kernel saved."""
        for request in granted:
            self._add(StandingYes(request, PERSON))

    def find(self, whose: tuple[str, ...]) -> StandingYes | None:
        return self._by_whose.get(whose)

    def put(self, request: Incoming, by: str) -> None:
        """Keep an approval. The first one stays, but a person's replaces any other."""
        if by == PERSON:
            self._persistence.granted(request)
        known = self._by_whose.get(request.whose)
        if known is None or (by == PERSON and known.by != PERSON):
            self._add(StandingYes(request, by))

    def take_back(self, request: Incoming) -> None:
        if request.whose in self._by_whose:
            self._drop(request.whose)
        self._persistence.taken_back(request)

    def stands(self, request: Incoming) -> bool:
        """Return True if this request is the one by which a person granted its object."""
        known = self._by_whose.get(request.whose)
        return known is not None and known.request is request and known.by == PERSON

    def forget(self, request: Incoming) -> None:
        """Drop the grant of a policy or budget together with its request, which leaves the history. The peer
        has to ask again.
        """
        known = self._by_whose.get(request.whose)
        if known is not None and known.request is request and known.by != PERSON:
            self._drop(request.whose)

    def retire(self, info: AssetInfo) -> list[Incoming]:
        """Drop all grants of a revision that is no longer shared, and of results made from it. Return their
        requests.
        """
        gone = self._of_asset.pop((info.name, info.revision), {})
        requests = [self._drop(whose).request for whose in list(gone)]
        self._persistence.retired(info)
        return requests

    def _add(self, yes: StandingYes) -> None:
        whose = yes.request.whose
        self._by_whose[whose] = yes
        for asset in yes.request.asset.sources:
            self._of_asset.setdefault(asset, {})[whose] = None

    def _drop(self, whose: tuple[str, ...]) -> StandingYes:
        yes = self._by_whose.pop(whose)
        for asset in yes.request.asset.sources:
            if (of_asset := self._of_asset.get(asset)) is not None:
                of_asset.pop(whose, None)
                if not of_asset:
                    del self._of_asset[asset]
        return yes
