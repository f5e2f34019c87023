"""The facts of a request that a policy may look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from duetlink.duet.objects.asset import AssetInfo


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of one request. SECURITY.md lists them, with how far the peer can influence each. This side
    has established all of them except `peer`, the name that the other side gave itself.
    """

    name: str
    kind: str
    tags: tuple[str, ...]
    peer: str
    size_bytes: int
    elements: int | None = None
    # of the lists, by which it was made, and `UNKNOWN` for all others; None: it is an asset
    operations: tuple[str, ...] | None = None
    assets: tuple[str, ...] = ()  # and from what
    code: str = ""  # digest of how it was made
    lineage: str = ""  # that in Python
    group: int | None = 1  # of how many rows it is at least made; None: of no row of an asset
    is_function: bool = False  # it is what a whole function makes
    # else the function has not been run, and nobody knows type and size of what it makes
    is_made: bool = True
    # of `tags`, which any of its assets has, those that all of them have; None: it is an asset
    common_tags: tuple[str, ...] | None = None
    # digests of the preparations that its assets went through; UNPREPARED is among them if one was used
    # otherwise. Empty: it is an asset, or what a function makes
    preparations: tuple[str, ...] = ()

    @property
    def is_group_known(self) -> bool:
        """True if `group` is known. For a program it is counted while the program runs; for a function it is
        known before.
        """
        return self.is_made or self.is_function

    @classmethod
    def of(cls, info: AssetInfo, peer: str) -> Self:
        """Return the facts of an object of this side's, or of a result made from such, that
        `peer` asks for.
        """
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
            info.common_tags or (),
            made.preparations,
        )
