"""Who takes part in a secure sum."""

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
        """32 bytes that stand for the epoch and the whole list, in its order."""
        head = b"duetlink/1 secure sum" + self.epoch.to_bytes(8, "big") + self.size.to_bytes(2, "big")
        lengths = b"".join(len(key).to_bytes(2, "big") + key for key in self.keys)
        return hashlib.sha256(head + lengths).digest()

    def check(self, colluding: int, *, is_noisy: bool) -> None:
        """Raises GroupError if a sum over these would show a member's value."""
        if self.size < LEAST_MEMBERS:
            raise GroupError(
                f"a secure sum of {self.size} members hides nothing: each takes its own value off the sum "
                f"and has the other's. It needs {LEAST_MEMBERS}; a plain all_reduce promises no secrecy"
            )
        if colluding > self.size - 1 - (not is_noisy):
            raise GroupError(
                f"if {colluding} of {self.size} members collude, they take their own values off the sum and "
                "have that of a single one. Only noise= hides it, and that of one honest member at least"
            )

    def ranks_of(self, later: Participants) -> Sequence[int] | None:
        """The ranks here of those who take part later; None if somebody new is among them."""
        places = {key: rank for rank, key in enumerate(self.keys)}
        found = [places.get(key) for key in later.keys]
        return None if None in found else [rank for rank in found if rank is not None]
