"""One call of an operation at this member, and its progress bar."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from duetlink.base.drawing import screen
from duetlink.base.drawing.bars import bar
from duetlink.base.wire.text import harmless
from duetlink.data.accelerators.host_copies import HostCopies
from duetlink.groups.lifecycle.status import OperationStatus


@dataclass(slots=True, eq=False)
class Call:
    """One operation under way. Constructed on any thread, written on the loop thread, read on any thread."""

    place: str  # "cell 3:12"
    name: str = ""
    codec: str = ""  # the `codec` argument of an all_reduce
    began_s: float = field(default_factory=time.monotonic)
    moved: tuple[int, int] | None = None  # for `send` and `recv`: bytes moved so far, bytes in total
    copies: HostCopies = field(default_factory=HostCopies)  # of the call's tensors on accelerators

    def note(self, done_bytes: int, total_bytes: int) -> None:
        """Note the progress of a `send` or `recv`."""
        self.moved = done_bytes, total_bytes

    def __str__(self) -> str:
        return f"{self.name} at {self.place}"


class ProgressBar:
    """The progress bar of one call. Used on the thread that waits, so that output appears in its cell."""

    def __init__(self, names: Callable[[], Sequence[str]]) -> None:
        """`names` returns the members' names by rank."""
        self._names = names
        self._bar: Any = None

    def show(self, status: OperationStatus | None) -> None:
        """Draw the progress; does nothing before the call has taken a second."""
        if status is None or (self._bar is None and status.elapsed_s < screen.delay_s()):
            return
        if self._bar is None:
            self._bar = bar(unit="B", unit_scale=True, desc=status.call.partition(" ")[0])
        if status.total_bytes != self._bar.total:
            self._bar.total = status.total_bytes
        names = self._names()
        waiting = ", ".join(_named(rank, names) for rank in status.waiting_for)
        self._bar.set_postfix_str(f"waiting for {waiting}" if waiting else "", refresh=False)
        self._bar.n = status.done_bytes
        self._bar.refresh()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.set_postfix_str("", refresh=False)
            if kind is None and self._bar.total:
                self._bar.n = self._bar.total
            self._bar.refresh()
            self._bar.close()


def _named(rank: int, names: Sequence[str]) -> str:
    return f"{rank} {harmless(names[rank])}" if rank < len(names) else str(rank)
