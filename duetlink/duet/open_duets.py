"""The open duets of a kernel. A duet is open until it is closed, even if no variable refers to it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar, overload

from duetlink.base.runtime.forks import in_child
from duetlink.duet.cell import Run
from duetlink.duet.display import Displayed, Table
from duetlink.errors import DuetError

RUN_AGAIN = "the cell that made this duet was run again"


class Closable(Protocol):
    """The part of a duet's interface that this module uses."""

    @property
    def role(self) -> str: ...
    @property
    def peer(self) -> str | None: ...
    @property
    def state(self) -> str: ...
    def close(self, reason: str = "") -> None: ...


T = TypeVar("T", bound=Closable)


class OpenDuets(Sequence[T], Displayed):
    """`duetlink.duets`: the open duets of this kernel, oldest first. Any thread may call its methods."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[T, Run | None] = {}  # including those that ended by themselves and were not closed

    def add(self, duet: T, run: Run | None) -> None:
        """List `duet`; `run` is the run of a cell that made it."""
        with self._lock:
            self._made[duet] = run
            in_child(self._forget)

    def discard(self, duet: T) -> None:
        """Remove a duet that is closed."""
        with self._lock:
            self._made.pop(duet, None)

    def replace(self, run: Run | None) -> list[str]:
        """Close the duets that earlier runs of the same cell made, and tell their peers why. Return the names
        of the peers.
        """
        with self._lock:
            made = list(self._made.items())
        disconnected = []
        for duet, by in made:
            if run is not None and by is not None and run.repeats(by):
                if duet.peer is not None and not duet.state.startswith("closed"):
                    disconnected.append(duet.peer)
                duet.close(RUN_AGAIN)
        return disconnected

    def others(self, duet: T) -> list[T]:
        """Return the open duets that another run than that of `duet` made."""
        with self._lock:
            made = dict(self._made)
        run = made.get(duet)
        return [other for other in self if other is not duet and (run is None or made.get(other) != run)]

    def close(self, reason: str = "") -> None:
        """Close all of them; their peers are told `reason`."""
        with self._lock:
            made = list(self._made)
        for duet in made:
            with contextlib.suppress(DuetError):
                duet.close(reason)

    def _open(self) -> list[T]:
        with self._lock:
            made = list(self._made)
        return [duet for duet in made if not duet.state.startswith("closed")]

    def __len__(self) -> int:
        return len(self._open())

    def __iter__(self) -> Iterator[T]:
        return iter(self._open())  # a snapshot, so that closing them in a loop reaches all

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self._open()[index]

    def table(self) -> Table:
        """Return a table with one row for each duet; its number is its index here."""
        rows = [
            (str(number), duet.role, duet.peer or "no one yet", duet.state)
            for number, duet in enumerate(self._open())
        ]
        return Table(
            "duets of this kernel",
            ("", "role", "peer", "state"),
            rows,
            "none is open; see duetlink.launch and duetlink.join",
        )
