"""Secure sums among four processes of one host, beside the plain sums of the same arrays.

Each way is a pair: `all_reduce` of float32 through memory that all share, over plain TCP sockets, and over
the same sockets with each member's sends held to 1 Gbit/s and 100 Mbit/s. A secure sum always goes over
sockets but for its result. It has a limit, so that float32 travels in 32 bits. Both of a pair give new
arrays. A time is that of rank 0, from a barrier on. Every result is compared with the other one.
"""

from __future__ import annotations

import os

import click

from benchmarks.command import benchmark, rounds
from benchmarks.harness import Sample, report
from benchmarks.members import measured

QUICK = {"members": 3, "size_bytes": 1000}


@benchmark
@click.option("--members", type=click.IntRange(3), default=4, show_default=True, help="How many processes.")
@click.option("--size-bytes", default=10_000_000, show_default=True, help="Of the array.")
@rounds(5)
def main(members: int, size_bytes: int, rounds: int) -> None:
    before = os.getloadavg()
    found = measured("benchmarks.part_secure_sums_member", members, rounds, size_bytes)
    rows = []
    for name, pair in found.items():
        plain, secure = (Sample(tuple(pair[way])) for way in ("plain", "secure"))
        row = [name]
        for sample in (plain, secure):
            row += [f"{sample.median_s * 1000:.1f}", sample.spread]
        rows.append([*row, f"{secure.median_s / plain.median_s:.2f}"])
    load = f"load average {before[0]:.1f}, then {os.getloadavg()[0]:.1f}"
    report(
        "part_secure_sums",
        f"{size_bytes:,} bytes, {members} processes, {load}",
        ["links", "plain ms", "plain, spread", "secure ms", "secure, spread", "times the plain one"],
        rows,
        {"size_bytes": size_bytes, "members": members, "load_before": before, "ways": found},
    )


if __name__ == "__main__":
    main()
