"""What `duet.status()` returns: what one side of a duet holds, and why, as a table."""

from __future__ import annotations

from dataclasses import dataclass

from duetlink.base.quantities import size_text
from duetlink.base.runtime.holdings import HeldStatus
from duetlink.duet.display import Shown, Table


@dataclass(frozen=True, slots=True, repr=False)
class DuetStatus(Shown):
    """One side at one moment. Whatever is held is let go of when its last reason goes."""

    state: str  # as `duet.state`
    descriptors: int | None  # of this process, that are open; None: not known
    descriptor_limit: int | None  # None: there is none
    held: tuple[HeldStatus, ...]  # the oldest first

    @property
    def held_bytes(self) -> int:
        """Of all that is held. What is shared is the memory of the object itself."""
        return sum(held.size_bytes for held in self.held)

    def table(self) -> Table:
        rows = [
            (held.title, size_text(held.size_bytes), str(held.descriptors or ""), "; ".join(held.reasons))
            for held in self.held
        ]
        caption = f"Held: {size_text(self.held_bytes)}"
        if self.descriptors is not None:
            most = f" of {self.descriptor_limit:,}" if self.descriptor_limit is not None else ""
            caption += f"; {self.descriptors:,}{most} descriptors open"
        return Table(caption, ("what", "size", "descriptors", "why"), rows, "nothing is held")
