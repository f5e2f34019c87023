"""The engine below a group's sums, among four processes of one host: shared memory and sockets, beside gloo.

This measures a part: `groups` measures the public calls. The engine runs over plain TCP sockets here, as gloo
does, so that engines are compared and not links. All run in the same processes, in turn, on float32 arrays in
place, each called by a thread that waits. A time is that of rank 0, from a barrier on, for one of several
calls in a row. Every result is compared with the sum.
"""

from __future__ import annotations

import json
import os

import click

from benchmarks.command import benchmark, rounds, sizes
from benchmarks.harness import Sample, ratio, report
from benchmarks.members import measured

SIZES = (1024, 64 * 1024, 1024**2, 16 * 1024**2, 64 * 1024**2)
QUICK = {"members": 2, "sizes_bytes": (1024,)}


@benchmark
@click.option("--members", type=click.IntRange(2), default=4, show_default=True, help="How many processes.")
@sizes(SIZES)
@rounds(7)
def main(members: int, sizes_bytes: tuple[int, ...], rounds: int) -> None:
    before = os.getloadavg()
    found = measured("benchmarks.part_engine_member", members, rounds, json.dumps(sizes_bytes))
    rows = []
    for size, ways in zip(sizes_bytes, found, strict=True):
        samples = {name: Sample(tuple(times)) for name, times in ways.items()}
        gloo = samples.pop("gloo")
        row = [f"{size:,}", f"{gloo.median_s * 1000:.3f}"]
        for sample in samples.values():
            row += [f"{sample.median_s * 1000:.3f}", ratio(gloo, sample)]
        rows.append(row)
    report(
        "part_engine",
        f"the engine, {members} processes, load average {before[0]:.1f}, then {os.getloadavg()[0]:.1f}",
        ["bytes", "gloo ms", "shared memory ms", "of gloo", "plain TCP ms", "of gloo"],
        rows,
        {"sizes": SIZES, "members": members, "load_before": before, "ways": found},
    )


if __name__ == "__main__":
    main()
