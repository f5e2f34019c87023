"""An asset of an earlier kernel, without its content: it waits to be shared again."""

from __future__ import annotations

from dataclasses import dataclass

from duetlink.duet.objects.asset import AssetInfo, Content


@dataclass(frozen=True, slots=True)
class KeptAsset:
    """Its revision goes on when the very same content is shared again."""

    info: AssetInfo
    fingerprint: str  # XXH3 of the encoded content, hexadecimal; empty: the kernel ended before it was known
    shared: bool  # False: only its number is kept, so that no other content gets it

    async def is_of(self, content: Content) -> bool:
        """Whether that is the content that it had."""
        return bool(self.fingerprint) and (await content.outgoing()).fingerprint.hex() == self.fingerprint
