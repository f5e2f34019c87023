"""What the catalogue asks of whatever brings shared objects back after a restart."""

from __future__ import annotations

from typing import Protocol

from duetlink.duet.objects.asset import AssetInfo, Content


class AssetPersistence(Protocol):
    """Methods belong to the loop thread."""

    async def shared(self, info: AssetInfo, content: Content) -> None:
        """An asset is to be offered. Raises StateUnavailable: it must not be."""

    def unshared(self, info: AssetInfo) -> None:
        """A revision is offered no longer."""

    async def written(self, *, sync: bool = True) -> None:
        """Return when all of it is written, with `sync` on the disk. Raises StateUnavailable."""
