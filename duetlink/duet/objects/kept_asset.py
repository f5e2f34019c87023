"""The record of an asset that survives a restart, and the interface that saves it."""

from __future__ import annotations

from dataclasses import dataclass

from duetlink.duet.objects.asset import AssetInfo, Content


@dataclass(frozen=True, slots=True)
class KeptAsset:
    """An asset of an earlier kernel, without its content. Its revision continues if exactly the same content
    is shared again.
    """

    info: AssetInfo
    fingerprint: str  # XXH3 of the encoded content, hexadecimal; empty: the kernel ended before it was known
    shared: bool  # False: unshared; kept so that its revision number is not used again

    async def is_of(self, content: Content) -> bool:
        """Return True if `content` has the same fingerprint as the asset had."""
        return bool(self.fingerprint) and (await content.outgoing()).fingerprint.hex() == self.fingerprint


class AssetPersistence:
    """Saves nothing: the base of `Persistence`, with the part that the catalogue uses. Methods run on the
    loop thread.
    """

    async def shared(self, info: AssetInfo, content: Content) -> None:
        """Save an asset before it is offered. Raises StateUnavailable: it must not be offered."""

    def unshared(self, info: AssetInfo) -> None:
        """Save that a revision is no longer offered."""

    async def written(self, *, sync: bool = True) -> None:
        """Return when all changes are written; with `sync`, when they are on the disk. Raises
        StateUnavailable.
        """
