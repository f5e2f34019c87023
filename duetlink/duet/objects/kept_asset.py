"""What is kept of an asset for the kernel after this one, and who keeps it."""

from __future__ import annotations

from dataclasses import dataclass

from duetlink.duet.objects.asset import AssetInfo, Content


@dataclass(frozen=True, slots=True)
class KeptAsset:
    """An asset of an earlier kernel, without its content. Its revision goes on when the very same content is
    shared again.
    """

    info: AssetInfo
    fingerprint: str  # XXH3 of the encoded content, hexadecimal; empty: the kernel ended before it was known
    shared: bool  # False: only its number is kept, so that no other content gets it

    async def is_of(self, content: Content) -> bool:
        """Whether that is the content that it had."""
        return bool(self.fingerprint) and (await content.outgoing()).fingerprint.hex() == self.fingerprint


class AssetPersistence:
    """What the catalogue asks of whatever brings shared objects back after a restart. This one keeps nothing.
    Methods belong to the loop thread.
    """

    async def shared(self, info: AssetInfo, content: Content) -> None:
        """An asset is to be offered. Raises StateUnavailable: it must not be."""

    def unshared(self, info: AssetInfo) -> None:
        """A revision is offered no longer."""

    async def written(self, *, sync: bool = True) -> None:
        """Return when all of it is written, with `sync` on the disk. Raises StateUnavailable."""
