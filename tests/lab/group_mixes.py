"""Groups of notebooks in networks of different kinds: they meet, work, lose one, and work on."""

from __future__ import annotations

import contextlib
import time
from types import TracebackType
from typing import Any, Self

from tests.lab.lab import Lab
from tests.lab.matrix import EXPECTED
from tests.lab.notebook import Notebook

# In each, whoever comes first opens the group.
MIXED = ("open", "symmetric", "port-restricted")  # tcp, punched and relay
MIXES = (
    ("open", "full-cone", "symmetric", "port-restricted"),  # udp as well
    ("open", "open", "open"),
    ("symmetric", "symmetric", "symmetric"),  # every link is relayed
    ("symmetric", "port-restricted", "open", "only-443"),
    ("address-restricted", "double-nat", "symmetric", "full-cone"),
    ("udp-blocked", "only-443", "open"),
    ("ipv6", "open", "port-restricted"),
    ("symmetric", "open", "port-restricted", "full-cone", "udp-blocked", "double-nat"),
)
# Up to four members lose each other soon, to keep the tests short. More of them have what users have: six
# make 15 links at once, on two cores loops then stand still for over half a second, and with heartbeats of
# 0.3 s a member that is well was taken for lost.
QUICK = (
    "heartbeat_interval_s=0.3, heartbeat_timeout_s=3.0, reconnect_timeout_s=3.0",
    "patience_s=0.0",
)
USUAL = ("", "patience_s=10.0")
MOST_QUICK = 4
PATIENCE_S = 15.0  # for the best paths, which may come up later than the first ones

_BEGIN = """
import dataclasses
from duetlink.errors import PeerLost
from tests.groups.member import die_in_the_middle
from tests.lab.group_work import everything
settings = dataclasses.replace(Settings.from_environment(), {settings})
"""
_PATHS = "out = [each.path or ('itself' if each.rank == group.rank else '') for each in group.members]"
_LOSE = """
before = x.copy()
try:
    group.all_reduce(x, in_place=True, algorithm="ring", timeout_s=60)
except PeerLost as lost:
    out = [lost.rank, lost.name, bool((x == before).all())]
"""


class Mix:
    """Notebooks, one in each of these networks, in one group; by rank."""

    def __init__(self, lab: Lab, kinds: tuple[str, ...]) -> None:
        self.kinds = kinds
        settings, self._patience = QUICK if len(kinds) <= MOST_QUICK else USUAL
        self._all = contextlib.ExitStack()
        self.notebooks = [Notebook(lab.host(kind)) for kind in kinds]
        for notebook in self.notebooks:
            self._all.callback(notebook.close)
            notebook.begin(_BEGIN.format(settings=settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for notebook in self.notebooks:
            with contextlib.suppress(OSError):  # it may have ended
                notebook.begin("group.close()")
        self._all.close()

    def all(self, statement: str) -> list[Any]:
        """What it gives at each, run at all together."""
        for notebook in self.notebooks:
            notebook.begin(statement)
        return [notebook.answer() for notebook in self.notebooks]

    def meet(self) -> float:
        """All by one code; returns the seconds until the group has begun for everybody."""
        first, *others = self.notebooks
        usual = f"settings=settings, {self._patience}"
        made = f"size={len(self.kinds)}, name={self.kinds[0]!r}, {usual}"
        for notebook in self.notebooks:
            notebook.run("pass")
        start_s = time.monotonic()
        code = first.run(f"group = duetlink.group({made}); out = group.code")
        for kind, notebook in zip(self.kinds[1:], others, strict=True):
            notebook.begin(f"group = duetlink.group({code!r}, name={kind!r}, {usual})")
        for notebook in others:
            notebook.answer()
        self.all("group.wait_ready(60)")
        took_s = time.monotonic() - start_s
        ranks = self.all("out = group.rank")
        self.notebooks = [self.notebooks[ranks.index(rank)] for rank in range(len(ranks))]
        self.kinds = tuple(notebook.host.kind for notebook in self.notebooks)
        return took_s

    def expected(self) -> list[list[bool]]:
        """Between whom (rows: who receives) nothing but a relay can be."""
        ranks = range(len(self.kinds))
        return [
            [of != at and EXPECTED[self.kinds[of], self.kinds[at]] == "relay" for of in ranks] for at in ranks
        ]

    def relayed(self) -> list[list[bool]]:
        """Between whom it is, once that is as expected or patience ends; the best of direct paths is for
        `matrix.py` to find, where less runs side by side.
        """
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            found = self.all(_PATHS)
            rows = [[path == "relay" for path in paths] for paths in found]
            settled = all(path and path != "channel" for paths in found for path in paths)
            if (settled and rows == self.expected()) or time.monotonic() > deadline_s:
                return rows
            time.sleep(0.1)

    def work(self) -> list[list[str]]:
        """Every operation at every member: the digests of results that are to be equal."""
        return self.all("out = everything(group)")

    def lose(self, rank: int, after: int) -> list[Any]:
        """That member is killed at its so many-th message of a sum; what the others hear of it."""
        self.all("x = np.full(500_000, group.rank + 1.0); group.barrier()")
        victim = self.notebooks.pop(rank)
        victim.run(f"die_in_the_middle({after})")
        victim.begin("group.all_reduce(x, in_place=True, algorithm='ring')")
        self.kinds = (*self.kinds[:rank], *self.kinds[rank + 1 :])
        return self.all(_LOSE)
