"""The snapshots that `duet.statistics()` and `duet.status()` return: the link, and what this side holds and
why.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from typing import Self

from duetlink.base.quantities import rate_text, size_text
from duetlink.base.runtime.holdings import HeldStatus
from duetlink.duet.display import Displayed, Table
from duetlink.net.link.traffic import Statistics
from duetlink.net.paths.path_selector import PathStatus


@dataclass(frozen=True, slots=True, repr=False)
class ShownStatistics(Displayed, Statistics):
    """A link at one moment; sizes in bytes, rates in bytes per second, times in seconds."""

    @classmethod
    def of(cls, statistics: Statistics) -> Self:
        fields = dataclasses.fields(Statistics)
        return cls(**{field.name: getattr(statistics, field.name) for field in fields})

    def table(self) -> Table:
        """Return a table of the link, each path that was tried, and the number of transfers by state."""
        rows = [
            ("state", self.state),
            ("path in use", self.path or "none yet"),
            ("round trip", milliseconds(self.round_trip_s)),
            ("sent", _moved(self.sent_bytes, self.sent_wire_bytes, self.sent_bytes_per_s)),
            ("received", _moved(self.received_bytes, self.received_wire_bytes, self.received_bytes_per_s)),
            *((f"path {path.name}", _path_words(path)) for path in self.paths),
            ("transfers", self._transfer_words()),
        ]
        if self.reconnects:
            rows.append(("reconnects", str(self.reconnects)))
        return Table("Statistics", ("", ""), rows)

    def _transfer_words(self) -> str:
        if not self.transfers:
            return "none"
        states = Counter(transfer.state for transfer in self.transfers)
        counted = ", ".join(f"{count} {state}" for state, count in states.items())
        return f"{counted}; see duet.transfers"


@dataclass(frozen=True, slots=True, repr=False)
class DuetStatus(Displayed):
    """One side of a duet at one moment. A held object is freed when its last reason goes."""

    state: str  # as `duet.state`
    descriptors: int | None  # open in this process; None: not known
    descriptor_limit: int | None  # None: no limit
    held: tuple[HeldStatus, ...]  # the oldest first

    @property
    def held_bytes(self) -> int:
        """The size of all that is held. A shared object counts although it is the person's own memory."""
        return sum(held.size_bytes for held in self.held)

    @property
    def shared_bytes(self) -> int:
        """Of `held_bytes`, what is in shared memory, which a peer of this host can map: copies of assets, and
        arrays of `duetlink.empty`.
        """
        return sum(held.shared_bytes for held in self.held)

    def table(self) -> Table:
        rows = [
            (held.title, size_text(held.size_bytes), str(held.descriptors or ""), "; ".join(held.reasons))
            for held in self.held
        ]
        caption = f"Held: {size_text(self.held_bytes)}"
        if self.shared_bytes:
            caption += f", {size_text(self.shared_bytes)} of it in shared memory"
        if self.descriptors is not None:
            most = f" of {self.descriptor_limit:,}" if self.descriptor_limit is not None else ""
            caption += f"; {self.descriptors:,}{most} descriptors open"
        return Table(caption, ("what", "size", "descriptors", "why"), rows, "nothing is held")


def milliseconds(time_s: float | None) -> str:
    return "not measured yet" if time_s is None else f"{time_s * 1000:.1f} ms"


def _moved(size_bytes: int, wire_bytes: int, bytes_per_s: float) -> str:
    words = f"{size_text(size_bytes)}, {rate_text(bytes_per_s)} now"
    saved_bytes = size_bytes - wire_bytes
    return words if saved_bytes <= 0 else f"{words}; {size_text(saved_bytes)} of it did not have to move"


def _path_words(path: PathStatus) -> str:
    words = [path.state]
    if path.bytes_per_s:
        words.append(f"{'at least ' if path.at_least else ''}{rate_text(path.bytes_per_s)}")
    if path.loss:
        words.append(f"{path.loss:.1%} of packets lost")
    if path.why:
        words.append(path.why)
    return ", ".join(words)
