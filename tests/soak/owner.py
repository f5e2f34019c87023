"""The owner of a soak's duet: shares, is asked, withdraws; a policy answers most, a person the rest."""

from __future__ import annotations

import contextlib
import threading

import duetlink
from duetlink import Policy
from duetlink.duet.store import Asset
from duetlink.errors import LinkClosed, RequestAnswered
from tests.soak import tables
from tests.soak.half import Half, settings


class Side(Half):
    def __init__(self, only: tuple[str, ...]) -> None:
        super().__init__(duetlink.launch(name="owner", settings=settings(only)))
        self.assets: dict[str, Asset] = {}
        self.duet.policies.add(Policy("approve", assets=("open *",)))
        self.code = self.duet.code
        threading.Thread(target=self._answer, name="person", daemon=True).start()

    def share(self, version: int) -> dict[str, int]:
        """Share everything in this version; returns the revisions."""
        for name in tables.NAMES:
            self.assets[name] = self.duet.share(tables.content(name, version), name, mock="auto")
        return {name: asset.revision for name, asset in self.assets.items()}

    def unshare(self) -> None:
        for name in tables.UNSHARED:
            self.assets.pop(name).unshare()

    def _answer(self) -> None:
        """What a person does all day."""
        with contextlib.suppress(LinkClosed):
            while True:
                request = self.duet.wait_request()
                with contextlib.suppress(RequestAnswered):
                    if "please" in request.reason:
                        request.approve()
                    else:
                        request.deny("not without a word of courtesy")
