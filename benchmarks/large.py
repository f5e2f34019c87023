"""One GiB: over tcp against bare Flight, through shared memory against numpy.copy; memory used."""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import statistics
import sys
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from benchmarks.baselines.bare_flight import BareFlight
from benchmarks.command import benchmark, rounds
from benchmarks.harness import GIB, MIB, Sample, interleave, report, timed
from benchmarks.owner import Owner, cpu_s, peak_bytes
from duetlink import Settings

BATCH_MIB = (1, 2, 4)
SHAPE = (GIB // 8,)


@benchmark
@rounds(8)
def main(rounds: int) -> None:
    tcp, local = Owner(Settings(only=("tcp",), held_bytes=1)), Owner(Settings(only=("local",), held_bytes=1))
    tcp.share("big", "float64", SHAPE, 1)
    pointer = tcp.scientist.store["big"]

    def ours() -> object:
        return pointer.get(timeout_s=600)

    _memory(tcp, ours)
    bare = {f"bare Flight, {mib} MiB batches": BareFlight(SHAPE[0], mib) for mib in BATCH_MIB}
    kept = "in memory kept from the run before"
    ways: dict[str, Callable[[], float]] = {
        "duetlink tcp": functools.partial(_levelled, ours),
        f"duetlink tcp, {kept}": functools.partial(timed, ours),
        **{name: functools.partial(_levelled, one.get) for name, one in bare.items()},
        f"bare Flight, 4 MiB batches, {kept}": functools.partial(
            timed, bare["bare Flight, 4 MiB batches"].get
        ),
    }
    for way in ways.values():
        way()
    samples = interleave(ways, rounds)
    best = min((name for name in samples if "bare" in name), key=lambda name: samples[name].median_s)
    reference_s = samples[best].median_s
    rows = [
        [
            name,
            f"{sample.median_s * 1000:.4g} ({sample.spread})",
            f"{GIB / sample.median_s / 1e6:.0f}",
            f"{reference_s / sample.median_s:.2f}",
        ]
        for name, sample in samples.items()
    ]
    report(
        "large_tcp",
        f"1 GiB of float64 over TLS, loopback, two processes (1.00 = {best})",
        ["way", "ms, median (least to most)", "MB/s", "of best bare"],
        rows,
        {name: sample.times_s for name, sample in samples.items()},
    )
    plain = BareFlight(SHAPE[0], 4, tls=False)
    largest = bare["bare Flight, 4 MiB batches"]
    _processor(
        {
            "duetlink tcp": (ours, tcp.pid),
            "bare Flight, 4 MiB batches": (largest.get, largest.pid),
            "bare Flight without TLS, 4 MiB batches": (plain.get, plain.pid),
        },
        rounds,
    )
    for one in (*bare.values(), plain):
        one.close()

    tcp.close()
    _local(local, rounds)
    local.close()


def _processor(ways: dict[str, tuple[Callable[[], object], int]], rounds: int) -> None:
    """Measure the processor time of both sides; a way's number is the sender's process."""
    here = os.getpid()
    spent: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (work, pid) in ways.items():
            _level_memory()
            before = cpu_s(here), cpu_s(pid)
            taken_s = timed(work)
            spent[name].append((cpu_s(here) - before[0], cpu_s(pid) - before[1], taken_s))
    rows = [
        [name, *(f"{statistics.median(each) * 1e9 / GIB:.2f}" for each in zip(*found, strict=True))]
        for name, found in spent.items()
    ]
    report(
        "large_processor",
        "Processor time of 1 GiB of float64 over loopback, medians",
        ["way", "receiver, s/GB", "sender, s/GB", "time, s/GB"],
        rows,
        spent,
    )


def _memory(tcp: Owner, get: Callable[[], object]) -> None:
    """Measure both processes' extra memory by the first large get, since later ones reuse what it has left.

    A small get has loaded the libraries.
    """
    tcp.share("small", "float64", (4 * MIB,), 2)
    tcp.scientist.store["small"].get(timeout_s=600)
    before = peak_bytes(reset=True), tcp.peak_bytes(reset=True)
    get()
    extra = peak_bytes() - before[0], tcp.peak_bytes() - before[1]
    rows = [
        [side, f"{size_bytes / MIB:.0f}", f"{size_bytes / GIB:.2f}"]
        for side, size_bytes in zip(("receiver", "sender"), extra, strict=True)
    ]
    report(
        "large_memory",
        "Peak extra memory of the first large tcp get, of 1 GiB (growth of the process's high-water mark)",
        ["side", "MiB", "of the value"],
        rows,
        rows,
    )


def _local(local: Owner, rounds: int) -> None:
    source = np.random.default_rng(0).random(SHAPE)
    samples: dict[str, list[float]] = {"numpy.copy": [], "local, first": []}
    again: list[float] = []
    for number in range(rounds + 2):
        name = f"big {number}"
        local.share(name, "float64", SHAPE, 1)
        pointer = local.scientist.store[name]
        ways: dict[str, Callable[[], object]] = {
            "numpy.copy": source.copy,
            "local, first": functools.partial(pointer.get, timeout_s=600),
        }
        for way in ways:
            _level_memory()
            taken_s = timed(ways[way])
            if number >= 2:  # not the warm-up
                samples[way].append(taken_s)
        again.append(min(timed(ways["local, first"]) for _ in range(3)))
        local.unshare(name)
    medians = {way: statistics.median(taken) for way, taken in samples.items()}
    copy_s = medians["numpy.copy"]
    again_s = sorted(again)[len(again) // 2]
    rows = [
        [
            name,
            f"{medians[name] * 1000:.4g} ({Sample(tuple(taken)).spread})",
            f"{medians[name] / copy_s:.2f}",
        ]
        for name, taken in samples.items()
    ]
    rows.append(["local, again", f"{again_s * 1000:.3g}", f"{again_s / copy_s:.4f}"])
    report(
        "large_local",
        "1 GiB through shared memory, two processes",
        ["way", "ms, median (least to most)", "of one numpy.copy"],
        rows,
        samples | {"again": again},
    )


def _levelled(work: Callable[[], object]) -> float:
    _level_memory()
    return timed(work)


def _level_memory() -> None:
    """Give every run the same start: all freed memory back at the system, and enough of it warm.

    duetlink gives each value memory of its own, new from the system; Arrow's and libc's allocators keep what
    a run has freed for the next one, which a program that holds its values does not have. And in a virtual
    machine, memory that lay free for some seconds has to be fetched from the host again: clearing pages is
    then over half of a transfer's time, for whichever way comes first.
    """
    gc.collect()
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    ones = np.ones(SHAPE[0] * 5 // 4)
    if sys.platform == "linux":  # shared memory takes small pages, which are kept apart from large ones
        with os.fdopen(os.memfd_create("level"), "wb", buffering=0) as memory:
            memory.write(ones.data)


if __name__ == "__main__":
    main()
