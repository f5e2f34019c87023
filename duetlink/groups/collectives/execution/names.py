"""The names of an epoch's members, for error texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Names:
    """Member names by rank. A member without a known name is `rank 2`."""

    def __init__(self, known: Sequence[str] = ()) -> None:
        self._known = list(known)

    def __getitem__(self, rank: int) -> str:
        """Return `rank 2 (ann)`."""
        (known,) = self.alone([rank])
        return f"rank {rank} ({known})" if known and known != f"rank {rank}" else f"rank {rank}"

    def alone(self, ranks: Iterable[int]) -> tuple[str, ...]:
        """Return the bare names, `ann`; empty for a member whose name is not known."""
        return tuple(self._known[rank] if rank < len(self._known) else "" for rank in ranks)

    def have(self, ranks: Sequence[int]) -> str:
        """Return `rank 2 (ann) has`, or `rank 2 (ann), rank 3 (bo) have`."""
        return f"{', '.join(self[rank] for rank in ranks)} {'has' if len(ranks) == 1 else 'have'}"
