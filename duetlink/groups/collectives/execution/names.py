"""How members of an epoch are named in errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Names:
    """By rank, as far as they are known."""

    def __init__(self, known: Sequence[str] = ()) -> None:
        self._known = list(known)

    def __getitem__(self, rank: int) -> str:
        """`rank 2 (ann)`."""
        (known,) = self.alone([rank])
        return f"rank {rank} ({known})" if known and known != f"rank {rank}" else f"rank {rank}"

    def alone(self, ranks: Iterable[int]) -> tuple[str, ...]:
        """`ann`; empty where it is not known."""
        return tuple(self._known[rank] if rank < len(self._known) else "" for rank in ranks)

    def have(self, ranks: Sequence[int]) -> str:
        """`rank 2 (ann) has`, or `rank 2 (ann), rank 3 (bo) have`."""
        return f"{', '.join(self[rank] for rank in ranks)} {'has' if len(ranks) == 1 else 'have'}"
