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
    operations: tuple[str, ...] | None = None  # by which it was made; None: it is an asset
    assets: tuple[str, ...] = ()  # and from what
    code: str = ""  # digest of how it was made
    lineage: str = ""  # that in Python
    group: int | None = 1  # of how many rows it is at least made; None: no row of an asset is in it
    is_function: bool = False  # it is what a whole function makes
    # else the function has not been run, and nobody knows type and size of what it makes
    is_made: bool = True

    @classmethod
    def of(cls, info: AssetInfo, peer: str) -> Self:
        """About an object of this side's that `peer` asks for, or what it has made of some."""
        made = info.lineage
        if made is None:
            return cls(info.name, info.kind, info.tags, peer, info.size_bytes, info.elements)
        return cls(
            info.name,
            info.kind,
            info.tags,
            peer,
            info.size_bytes,
            info.elements,
            made.operations,
            tuple(name for name, _ in made.assets),
            made.digest,
            made.code,
            info.group,
            any(operation.startswith("function ") for operation in made.operations),
            not info.is_unmade,
        )
