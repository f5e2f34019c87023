"""A group with several members on each of two hosts, whose lines have a rate: what a sum brings across."""

from __future__ import annotations

import contextlib
import json
import time
from types import TracebackType
from typing import NamedTuple, Self

from tests.lab.lab import Lab
from tests.lab.notebook import Notebook

_QUIET_BYTES = 50_000  # in a second: heartbeats of all links

_BEGIN = """
import dataclasses
settings = dataclasses.replace(Settings.from_environment(), reconnect_timeout_s=30.0)
def group_sum(items, algorithm):
    x = np.random.default_rng(group.rank).integers(-999, 999, items).astype(np.float32)
    group.barrier()
    start_s = time.monotonic()
    total = group.all_reduce(x, algorithm=algorithm)
    return [time.monotonic() - start_s, digest(total)]
"""


class SiteSum(NamedTuple):
    """One sum, as seen from outside."""

    elapsed_s: float  # at the slowest member
    sent_bytes: tuple[int, int]  # by each host over its line, with all headers
    is_equal: bool  # at all members


class TwoSites:
    """`members` notebooks on each of two hosts, in one group; the first host has the first ranks."""

    def __init__(self, lab: Lab, members: int, *, rate_mbit: float, delay_ms: float) -> None:
        self.hosts = [lab.host("open"), lab.host("open")]
        self._all = contextlib.ExitStack()
        self.notebooks = [Notebook(host) for host in self.hosts for _ in range(members)]
        for notebook in self.notebooks:
            self._all.callback(notebook.close)
        for host in self.hosts:
            lab.shape(host, rate_mbit=rate_mbit, delay_ms=delay_ms)
        first, *others = self.notebooks
        made = f"group = duetlink.group(size={2 * members}, settings=settings); out = group.code"
        code = first.run(_BEGIN + made)
        for notebook in others:
            notebook.run(f"{_BEGIN}group = duetlink.group({code!r}, settings=settings)")
        self.all("group.wait_ready(60)")
        self._wait_quiet()
        self.sum(1000)  # before it they agree on figures and hosts
        self._wait_quiet()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for notebook in self.notebooks:
            with contextlib.suppress(OSError):  # it may have ended
                notebook.begin("group.close()")
        self._all.close()

    def all(self, statement: str) -> list[object]:
        """What it gives at each, run at all together."""
        for notebook in self.notebooks:
            notebook.begin(statement)
        return [notebook.answer() for notebook in self.notebooks]

    def _wait_quiet(self) -> None:
        """Wait until the best paths are up and measured, and the lines are quiet; for a minute at most."""
        deadline_s = time.monotonic() + 60
        sent, quiet_s = self._sent_bytes(), 0
        while quiet_s < 2 and time.monotonic() < deadline_s:
            time.sleep(1)
            before, sent = sent, self._sent_bytes()
            most = max(now - then for now, then in zip(sent, before, strict=True))
            quiet_s = quiet_s + 1 if most < _QUIET_BYTES else 0

    def explain(self, size_bytes: int) -> str:
        """The explanation of a sum, once the members have agreed on figures."""
        return str(self.notebooks[0].value(f"str(group.explain('all_reduce', {size_bytes}))"))

    def sum(self, size_bytes: int, algorithm: str | None = None) -> SiteSum:
        before = self._sent_bytes()
        found = self.all(f"out = group_sum({size_bytes // 4}, {algorithm!r})")
        after = self._sent_bytes()
        elapsed_s, digests = zip(*found, strict=True)
        return SiteSum(max(elapsed_s), (after[0] - before[0], after[1] - before[1]), len(set(digests)) == 1)

    def _sent_bytes(self) -> list[int]:
        shown = [
            host.line.namespace.configure(["ip", "-json", "-stats", "link", "show", "dev", "customer"])
            for host in self.hosts
        ]
        return [json.loads(each)[0]["stats64"]["rx"]["bytes"] for each in shown]
