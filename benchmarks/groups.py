"""Sums among four processes of one host, as a user calls them, beside gloo.

The settings are the defaults, and all members write one audit log, as those of one user do. Measured are both
ways of `group.all_reduce`, the one that returns a new array and `in_place`, and torch's `all_reduce` over the
backend `duetlink`. gloo runs in processes of its own, which load torch and nothing of duetlink. The teams of
processes work in turn; one that does not work waits for its next order. A time is that of rank 0, from a
barrier on, for one of several calls in a row. All members check the sum.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
from functools import partial

import click

from benchmarks.command import benchmark, rounds, sizes
from benchmarks.harness import interleave, ratio, report
from benchmarks.team import Team

SIZES = (1024, 64 * 1024, 1024**2, 16 * 1024**2, 64 * 1024**2)
QUICK = {"members": 2, "sizes_bytes": (1024,)}


@benchmark
@click.option("--members", type=click.IntRange(2), default=4, show_default=True, help="How many processes.")
@sizes(SIZES)
@rounds(7)
def main(members: int, sizes_bytes: tuple[int, ...], rounds: int) -> None:
    before = os.getloadavg()
    rows, data = [], []
    with contextlib.ExitStack() as stack:
        gloo, torch, ours = (
            stack.enter_context(contextlib.closing(Team(*words, members=members)))
            for words in (
                ("benchmarks.torch_member", "gloo", "127.0.0.1"),
                ("benchmarks.torch_member", "duetlink", "127.0.0.1"),
                ("benchmarks.groups_member",),
            )
        )
        for size in sizes_bytes:
            ways = {
                "gloo": partial(gloo.seconds, size),
                "default": partial(ours.seconds, size, "default"),
                "in_place=True": partial(ours.seconds, size, "in_place"),
                "torch": partial(torch.seconds, size),
            }
            for way in ways.values():
                way()  # warms up
            samples = interleave(ways, rounds)
            base = samples.pop("gloo")
            row = [f"{size:,}", f"{base.median_s * 1000:.3f}"]
            for sample in samples.values():
                row += [f"{sample.median_s * 1000:.3f}", ratio(base, sample)]
            rows.append(row)
            data.append({"gloo": base.times_s} | {name: each.times_s for name, each in samples.items()})
    versions = f"gloo of torch {importlib.metadata.version('torch')}"
    load = f"load average {before[0]:.1f}, then {os.getloadavg()[0]:.1f}"
    headers = ["bytes", "gloo ms"]
    for name in ("default", "in_place=True", "torch"):
        headers += [f"{name} ms", f"{name}, x gloo"]
    report(
        "groups",
        f"all_reduce of float32, {members} processes, {versions}, {load}",
        headers,
        rows,
        {"sizes_bytes": sizes_bytes, "members": members, "load_before": before, "ways": data},
    )


if __name__ == "__main__":
    main()
