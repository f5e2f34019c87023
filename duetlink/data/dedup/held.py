"""The bodies that one peer has sent or been sent, kept in memory to find chunks in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from duetlink.data.dedup.find import Held
from duetlink.data.dedup.layout import Segment

MAX_BODIES = 256  # limits empty bodies too, which the quota does not


@dataclass(frozen=True, slots=True)
class _Kept:
    name: str
    held: Held


class HeldBodies:
    """Bodies up to a quota, newest first, for one thread at a time.

    Bodies are referenced, not copied, so they live at least as long as they are kept here. A body above the
    quota is not kept. If the quota or `MAX_BODIES` is exceeded, superseded versions of an object are dropped
    first, then the others, the oldest first.
    """

    def __init__(self, quota_bytes: int) -> None:
        self._quota_bytes = quota_bytes
        self._kept: list[_Kept] = []

    def keep(
        self, name: str, body: memoryview, segments: Sequence[Segment], fingerprint: bytes = b""
    ) -> bool:
        """Keep a body as the newest version of the object `name`; return False if it is above the quota."""
        if body.nbytes > self._quota_bytes:
            return False
        self._kept.insert(0, _Kept(name, Held(body, tuple(segments), fingerprint)))
        while self.total_bytes > self._quota_bytes or len(self._kept) > MAX_BODIES:
            del self._kept[self._next_to_go()]
        return True

    def versions(self, name: str) -> list[Held]:
        """Return the bodies kept of one object, newest first."""
        return [kept.held for kept in self._kept if kept.name == name]

    def bodies(self) -> list[Held]:
        return [kept.held for kept in self._kept]

    @property
    def total_bytes(self) -> int:
        return sum(kept.held.body.nbytes for kept in self._kept)

    def _next_to_go(self) -> int:
        newest: dict[str, int] = {}
        for index, kept in enumerate(self._kept):
            newest.setdefault(kept.name, index)
        old = [index for index, kept in enumerate(self._kept) if newest[kept.name] != index]
        return old[-1] if old else len(self._kept) - 1
