"""`group.all_reduce` among four processes of one host, as a user calls it, beside gloo.

The settings are the defaults, and all members write one audit log, as those of one user do. Both ways of the
call are measured: the one that returns a new array, and `in_place`. gloo runs in processes of its own, which
load torch and nothing of duetlink. The two teams of processes work in turn; one that does not work waits for
its next order. A time is that of rank 0, from a barrier on, for one of several calls in a row. All members
check the sum.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from typing import IO, Any

import click

from benchmarks.command import benchmark, rounds, sizes
from benchmarks.harness import Sample, ratio, report

SIZES = (1024, 64 * 1024, 1024**2, 16 * 1024**2, 64 * 1024**2)
QUICK = {"members": 2, "sizes_bytes": (1024,)}
_CALLED_BYTES = 8 * 1024 * 1024  # of the calls in a row, at most 40 and at least 2


class Team:
    """The processes of one way. Rank 0 prints where the others find it, then the seconds of each order."""

    def __init__(self, module: str, members: int) -> None:
        self._command = [sys.executable, "-m", module]
        first = self._start(0, members, "", stdout=subprocess.PIPE)
        self._processes = [first]
        assert first.stdout is not None
        self._told = first.stdout
        place = self._next()["place"]
        self._processes += [self._start(rank, members, place) for rank in range(1, members)]

    def _start(
        self, rank: int, members: int, place: str, stdout: int | IO[str] = subprocess.DEVNULL
    ) -> subprocess.Popen[str]:
        words = [*self._command, str(rank), str(members), place]
        return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=stdout, text=True)

    def _next(self) -> dict[str, Any]:
        for line in self._told:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        raise click.ClickException(f"a member of {self._command[-1]} failed")

    def seconds(self, size_bytes: int, way: str) -> float:
        """Have all members call `way` some times in a row; return the seconds of one call at rank 0."""
        calls = max(2, min(40, _CALLED_BYTES // size_bytes))
        order = json.dumps({"items": size_bytes // 4, "calls": calls, "way": way})
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(order + "\n")
            process.stdin.flush()
        return float(self._next()["seconds"]) / calls

    def close(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        codes = [process.wait(60) for process in self._processes]
        if any(codes):
            raise click.ClickException(f"a member of {self._command[-1]} failed")


@benchmark
@click.option("--members", type=click.IntRange(2), default=4, show_default=True, help="How many processes.")
@sizes(SIZES)
@rounds(7)
def main(members: int, sizes_bytes: tuple[int, ...], rounds: int) -> None:
    before = os.getloadavg()
    found: list[dict[str, list[float]]] = []
    with (
        contextlib.closing(Team("benchmarks.groups_member", members)) as ours,
        contextlib.closing(Team("benchmarks.gloo_member", members)) as gloo,
    ):
        for size in sizes_bytes:
            times: dict[str, list[float]] = {"gloo": [], "default": [], "in_place": []}
            for _ in range(rounds + 1):
                times["gloo"].append(gloo.seconds(size, "in_place"))
                for way in ("default", "in_place"):
                    times[way].append(ours.seconds(size, way))
            found.append({name: taken[1:] for name, taken in times.items()})  # the first warms up
    rows = []
    for size, ways in zip(sizes_bytes, found, strict=True):
        base, new, in_place = (Sample(tuple(ways[name])) for name in ("gloo", "default", "in_place"))
        row = [f"{size:,}", f"{base.median_s * 1000:.3f}"]
        for sample in (new, in_place):
            row += [f"{sample.median_s * 1000:.3f}", ratio(base, sample)]
        rows.append(row)
    report(
        "groups",
        f"group.all_reduce, {members} processes, load average {before[0]:.1f}, then {os.getloadavg()[0]:.1f}",
        ["bytes", "gloo ms", "default ms", "of gloo", "in_place=True ms", "of gloo"],
        rows,
        {"sizes": sizes_bytes, "members": members, "load_before": before, "ways": found},
    )


if __name__ == "__main__":
    main()
