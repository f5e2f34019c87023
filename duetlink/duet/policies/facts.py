"""What a policy may look at of a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from duetlink.duet.asset import AssetInfo


@dataclass(frozen=True, slots=True)
class Facts:
    """All of this side's making but `peer`, the name that the other side gave itself."""

    name: str
    kind: str
    tags: tuple[str, ...]
    peer: str
    size_bytes: int
    elements: int | None = None

    @classmethod
    def of(cls, info: AssetInfo, peer: str) -> Self:
        """About an object of this side's that `peer` asks for."""
        return cls(info.name, info.kind, info.tags, peer, info.size_bytes, info.elements)
