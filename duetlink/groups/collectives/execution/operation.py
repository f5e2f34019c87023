"""The description of a call: the first frame carries it, so members notice when their calls differ."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

# so that it fits the head of a first frame in UTF-8
MAX_TEXT_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of a collective operation. Members' calls match if all but `source_location` are equal."""

    kind: str
    what: str = ""  # the form of the value: "float32[3, 4]"
    operation: str = ""  # "sum", …; empty for operations that only copy
    root: int | None = None
    algorithm: str = ""
    order: tuple[int, ...] = ()
    codec: str = ""  # of the pieces that are sent
    source_location: str = ""  # the line of the user's program: "train.py:12"

    @property
    def digest(self) -> bytes:
        """Eight bytes that are equal for calls that match."""
        named = (self.kind, self.what, self.operation, self.root, self.algorithm, self.order, self.codec)
        return hashlib.blake2b(repr(named).encode(), digest_size=8).digest()

    @property
    def text(self) -> str:
        """The call for people: `all_reduce(float32[3], sum, ring) at train.py:12`."""
        root = f"root={self.root}" if self.root is not None else ""
        order = "-".join(map(str, self.order)) if self.order != tuple(range(len(self.order))) else ""
        inside = ", ".join(
            part
            for part in (self.what, self.operation, root, f"{self.algorithm} {order}".strip(), self.codec)
            if part
        )
        source_location = f" at {self.source_location}" if self.source_location else ""
        return f"{self.kind}({inside}){source_location}"[:MAX_TEXT_CHARACTERS]
