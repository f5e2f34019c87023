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
    # the allow-listed operations that made it, `UNKNOWN` for any other; None: it is an asset
    operations: tuple[str, ...] | None = None
    assets: tuple[str, ...] = ()  # the names of the assets that it was made from
    code: str = ""  # digest of the program or function
    lineage: str = ""  # the program as Python
    group: int | None = 1  # least number of rows that each number is made of; None: of no row of an asset
    is_function: bool = False  # it is the result of a whole function
    # False: the job has not been run, so type and size are unknown
    is_made: bool = True
    # the tags that all of its assets have (`tags`: that any of them has); None: it is an asset
    common_tags: tuple[str, ...] | None = None
    # digests of the preparations that its assets went through, with UNPREPARED if one was used directly;
    # empty for an asset, and for the result of a function
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
