"""Series of what the processes of a soak hold, one value for each cycle, and which of them leak."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duetlink.base.quantities import size_text
from duetlink.settings import MIB
from tests.soak import proc
from tests.soak.kept import limit
from tests.soak.kernel import Kernel
from tests.soak.verdict import LEAST_CYCLES, excess, growth, steady_rise

LEAST_RISE = 3  # of a count, within a run
LEAST_RISE_OF_TASKS = 30  # asyncio's own: some heartbeats, reads and time-outs are under way at any time
BOUNDS = {"private bytes": 64 * MIB, "mapped bytes": 1024 * MIB}  # malloc maps 64 MiB ahead for each thread


@dataclass(slots=True)
class Series:
    """One quantity of one process."""

    process: str
    quantity: str
    values: list[float]

    @property
    def is_judged(self) -> bool:
        """Processes that come and go are too short for that."""
        return len(self.values) >= LEAST_CYCLES

    @property
    def leak(self) -> float:
        """By how much it has risen against its rule; 0 if all is well."""
        if not self.is_judged:
            return 0.0
        if self.quantity in BOUNDS:
            return growth(self.values, BOUNDS[self.quantity])
        if (most := limit(self.quantity)) is not None:
            return excess(self.values, most)
        of_asyncio = self.quantity.startswith(("asyncio.", "_asyncio."))
        return steady_rise(self.values, LEAST_RISE_OF_TASKS if of_asyncio else LEAST_RISE)

    def words(self, value: float) -> str:
        return size_text(int(value)) if self.quantity.endswith("bytes") else f"{value:g}"

    def __str__(self) -> str:
        leak, last = self.words(self.leak), self.words(self.values[-1])
        return f"{self.process}: {self.quantity} rose by {leak}, to {last}"


class Samples:
    """All series of one run. Both workloads take samples, each of its own processes."""

    def __init__(self) -> None:
        self.begun_s = time.monotonic()
        self.latest_s = self.begun_s
        self.done: dict[str, int] = defaultdict(int)  # by kind of work
        self._series: dict[tuple[str, str], Series] = {}
        self._times_s: dict[str, list[float]] = defaultdict(list)  # of each process
        self._names: dict[int, str] = {}  # of children, by pid
        self._lock = threading.Lock()

    @property
    def series(self) -> list[Series]:
        with self._lock:
            return [self._series[key] for key in sorted(self._series)]

    @property
    def leaks(self) -> list[Series]:
        return [series for series in self.series if series.leak]

    def take(self, kernels: Sequence[Kernel]) -> None:
        """At the end of a cycle, when nothing runs."""
        found = {}
        for kernel in kernels:
            census = kernel.census()
            children = proc.children(kernel.pid)
            found[kernel.name] = {"processes": len(children) + 1} | proc.held(kernel.pid) | census
            for pid, kind in children:
                name = self._named(kernel.name, pid, kind)
                try:
                    found[name] = proc.held(pid)
                except ProcessLookupError:
                    continue
        for process, quantities in found.items():
            self.add(process, quantities)

    def add(self, process: str, quantities: Mapping[str, float]) -> None:
        """One value of each quantity for a cycle; of what is not named, it holds none."""
        with self._lock:
            self.latest_s = time.monotonic()
            times_s = self._times_s[process]
            for quantity in quantities:
                if (process, quantity) not in self._series:
                    self._series[process, quantity] = Series(process, quantity, [0.0] * len(times_s))
            times_s.append(round(self.latest_s - self.begun_s, 1))
            for series in self._series.values():
                if series.process == process:
                    series.values.append(quantities.get(series.quantity, 0.0))

    def _named(self, kernel: str, pid: int, kind: str) -> str:
        with self._lock:
            if pid not in self._names:
                role = f"{kernel}'s {kind}"
                earlier = sum(name.startswith(role) for name in self._names.values())
                self._names[pid] = f"{role} {earlier + 1}" if earlier else role
            return self._names[pid]

    def to_json(self) -> dict[str, Any]:
        """By process: when samples were taken, in seconds from the start, and the values of each quantity."""
        found: dict[str, Any] = {
            process: {"times_s": times_s, "values": {}} for process, times_s in self._times_s.items()
        }
        for series in self.series:
            found[series.process]["values"][series.quantity] = series.values
        return {"done": self.done, "leaks": [str(leak) for leak in self.leaks], "processes": found}

    def count(self, done: dict[str, int]) -> None:
        with self._lock:
            for kind, number in done.items():
                self.done[kind] += number
