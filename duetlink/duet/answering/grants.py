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
class KeptGrant:
    """An approval that is kept: the request that it was given for, and who gave it."""

    request: Incoming
    by: str


class Grants:
    """The kept approvals of one duet. Used on the loop thread only. A person's grants survive a restart with
    `resume`.
    """

    def __init__(self, persistence: Persistence) -> None:
        self._persistence = persistence
        self._by_key: dict[tuple[str, ...], KeptGrant] = {}
        # the keys of `_by_key` for each revision that a grant is about
        self._keys_by_asset: dict[tuple[str, int], dict[tuple[str, ...], None]] = {}

    def resume(self, granted: Iterable[Incoming]) -> None:
        """Load a person's grants that an earlier kernel saved."""
        for request in granted:
            self._add(KeptGrant(request, PERSON))

    def find(self, key: tuple[str, ...]) -> KeptGrant | None:
        return self._by_key.get(key)

    def put(self, request: Incoming, by: str) -> None:
        """Keep an approval. The first one stays, but a person's replaces any other."""
        if by == PERSON:
            self._persistence.granted(request)
        known = self._by_key.get(request.grant_key)
        if known is None or (by == PERSON and known.by != PERSON):
            self._add(KeptGrant(request, by))

    def undo(self, request: Incoming) -> None:
        if request.grant_key in self._by_key:
            self._drop(request.grant_key)
        self._persistence.grant_undone(request)

    def is_granted_by(self, request: Incoming) -> bool:
        """Return True if this request is the one by which a person granted its object."""
        known = self._by_key.get(request.grant_key)
        return known is not None and known.request is request and known.by == PERSON

    def forget(self, request: Incoming) -> None:
        """Drop the grant of a policy or budget together with its request, which leaves the history. The peer
        has to ask again.
        """
        known = self._by_key.get(request.grant_key)
        if known is not None and known.request is request and known.by != PERSON:
            self._drop(request.grant_key)

    def retire(self, info: AssetInfo) -> list[Incoming]:
        """Drop all grants of a revision that is no longer shared, and of results made from it. Return their
        requests.
        """
        gone = self._keys_by_asset.pop((info.name, info.revision), {})
        requests = [self._drop(key).request for key in list(gone)]
        self._persistence.retired(info)
        return requests

    def _add(self, grant: KeptGrant) -> None:
        key = grant.request.grant_key
        self._by_key[key] = grant
        for asset in grant.request.asset.sources:
            self._keys_by_asset.setdefault(asset, {})[key] = None

    def _drop(self, key: tuple[str, ...]) -> KeptGrant:
        grant = self._by_key.pop(key)
        for asset in grant.request.asset.sources:
            if (keys := self._keys_by_asset.get(asset)) is not None:
                keys.pop(key, None)
                if not keys:
                    del self._keys_by_asset[asset]
        return grant
