"""The members that take part in a secure sum."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from duetlink.errors import GroupError

LEAST_MEMBERS = 3


@dataclass(frozen=True, slots=True)
class Participants:
    """The members of one epoch: their public keys in the group's roster, by rank."""

    epoch: int
    keys: tuple[bytes, ...]

    @property
    def size(self) -> int:
        return len(self.keys)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the epoch and the list of keys, in order."""
        head = b"duetlink/1 secure sum" + self.epoch.to_bytes(8, "big") + self.size.to_bytes(2, "big")
        lengths = b"".join(len(key).to_bytes(2, "big") + key for key in self.keys)
        return hashlib.sha256(head + lengths).digest()

    def check(self, colluding: int, *, is_noisy: bool) -> None:
        """Raise GroupError if a sum over these members would reveal a member's value.

        `colluding` is the number of members that may share what they know; `is_noisy` that the sum has noise.
        """
        if self.size < LEAST_MEMBERS:
            raise GroupError(
                f"a secure sum of {self.size} members hides nothing: each subtracts its own value from the "
                f"sum and has the other's. It needs {LEAST_MEMBERS}; a plain all_reduce promises no secrecy"
            )
        if colluding > self.size - 1 - (not is_noisy):
            raise GroupError(
                f"if {colluding} of {self.size} members collude, they subtract their own values from the sum "
                "and learn that of a single member. Only noise= hides it, if one member at least is honest"
            )

    def ranks_of(self, later: Participants) -> Sequence[int] | None:
        """Return the ranks, in this epoch, of the members of a later one; None if one of them is new."""
        places = {key: rank for rank, key in enumerate(self.keys)}
        found = [places.get(key) for key in later.keys]
        return None if None in found else [rank for rank in found if rank is not None]
