"""What a member called: told to the others with its first frame, so that different calls meet as an error."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

# a first frame's head has room for it in UTF-8
MAX_TEXT_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of a collective operation. Members' calls fit if all but `place` is equal."""

    kind: str
    what: str = ""  # the form of the value: "float32[3, 4]"
    operation: str = ""  # "sum", … of those that add
    root: int | None = None
    algorithm: str = ""
    order: tuple[int, ...] = ()
    codec: str = ""  # of what travels
    place: str = ""  # where it was called: "train.py:12"

    @property
    def digest(self) -> bytes:
        """8 bytes that are equal where the calls fit."""
        named = (self.kind, self.what, self.operation, self.root, self.algorithm, self.order, self.codec)
        return hashlib.blake2b(repr(named).encode(), digest_size=8).digest()

    @property
    def text(self) -> str:
        """For people: `all_reduce(float32[3], sum, ring) at train.py:12`."""
        root = f"root={self.root}" if self.root is not None else ""
        order = "-".join(map(str, self.order)) if self.order != tuple(range(len(self.order))) else ""
        inside = ", ".join(
            part
            for part in (self.what, self.operation, root, f"{self.algorithm} {order}".strip(), self.codec)
            if part
        )
        place = f" at {self.place}" if self.place else ""
        return f"{self.kind}({inside}){place}"[:MAX_TEXT_CHARACTERS]
