"""An array from its filling to the peer of the same machine: of numpy.empty, and of duetlink.empty.

Two processes, default settings, the public API. The owner fills an array from another one and shares it, the
scientist gets it and reads all of it. An ordinary array is copied into shared memory after share() (up to
256 MiB ahead of the request); one of duetlink.empty is in shared memory from the start, where filling takes
longer. "get" includes what share() does in the background: digesting all bytes, and for an ordinary array the
copy. "get again" is a second one, after all that. Memory is what both processes and the shared memory have in
use more than before, once all was read.
"""

from __future__ import annotations

import functools
import gc
import itertools
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np

from benchmarks.command import benchmark, rounds
from benchmarks.harness import MIB, Sample, interleave, ratio, report, timed
from benchmarks.owner import Owner, used_bytes
from duetlink import Settings

SIZES_MIB = (16, 64, 256, 1024)
WAYS = ("numpy.empty", "duetlink.empty")
_STEPS = ("fill", "share", "get", "read")
_AGAIN = "get again"
_WARM_ROUNDS = 2


@benchmark
@click.option(
    "--size-mib",
    "sizes_mib",
    type=click.IntRange(1),
    multiple=True,
    default=SIZES_MIB,
    show_default=True,
    help="MiB of an array; may be repeated.",
)
@rounds(7)
def main(sizes_mib: tuple[int, ...], rounds: int) -> None:
    owner = Owner(Settings())
    while owner.scientist.statistics().path != "local":
        time.sleep(0.01)
    numbers = itertools.count()
    rows, data = [], []
    for size_mib in sizes_mib:
        owner.make_source(size_mib * MIB // 8)
        runs: dict[str, list[_Run]] = {way: [] for way in WAYS}
        calls: dict[str, Callable[[], float]] = {
            way: functools.partial(_timed, owner, way, numbers, runs[way]) for way in WAYS
        }
        interleave(calls, _WARM_ROUNDS)
        for way in WAYS:
            runs[way].clear()
        samples = interleave(calls, rounds)
        for way in WAYS:
            rows.append(_row(size_mib, way, samples, runs[way]))
        data.append({"size_bytes": size_mib * MIB, "runs": runs})
    owner.close()
    report(
        "in_place",
        "From filling an array to a peer of this machine having read it: medians, ms\n"
        "(all: least to most; of numpy.empty: times as fast, by medians, then by single runs)",
        ["MiB", "made by", *_STEPS, "all", "of numpy.empty", _AGAIN, "memory, of its size"],
        rows,
        data,
    )


_Run = dict[str, float]


def _row(size_mib: int, way: str, samples: dict[str, Sample], runs: list[_Run]) -> list[str]:
    memory = statistics.median(run["used_bytes"] for run in runs) / (size_mib * MIB)
    return [
        str(size_mib),
        way,
        *(f"{statistics.median(run[step] for run in runs) * 1000:.4g}" for step in _STEPS),
        f"{samples[way].median_s * 1000:.4g} ({samples[way].spread})",
        ratio(samples[WAYS[0]], samples[way]),
        f"{statistics.median(run[_AGAIN] for run in runs) * 1000:.3g}",
        f"{memory:.2f}",
    ]


def _timed(owner: Owner, way: str, numbers: Any, runs: list[_Run]) -> float:
    """Seconds of all steps; adds them one by one to `runs`, with the bytes that were in use at the end."""
    name = f"array {next(numbers)}"
    gc.collect()
    before_bytes = owner.used_bytes() + used_bytes(os.getpid())
    times_s = [time.perf_counter()]
    owner.fill(name, way)
    times_s.append(time.perf_counter())
    owner.share_filled(name)
    pointer = owner.scientist.wait_object(name, 60)
    times_s.append(time.perf_counter())
    value = pointer.get(timeout_s=600)
    times_s.append(time.perf_counter())
    total = float(np.add.reduce(value))
    times_s.append(time.perf_counter())
    after_bytes = owner.used_bytes() + used_bytes(os.getpid())
    if not owner.is_sum_of_source(total):
        raise SystemExit("what arrived is not what was filled in")
    run = {step: end - start for step, (start, end) in zip(_STEPS, itertools.pairwise(times_s), strict=True)}
    again_s = timed(functools.partial(pointer.get, timeout_s=600))
    runs.append(run | {_AGAIN: again_s, "used_bytes": after_bytes - before_bytes})
    del value, pointer
    owner.unshare(name)
    return times_s[-1] - times_s[0]


if __name__ == "__main__":
    main()
