"""Arrays of 1 to 256 MiB by `tcp` and through shared memory, against gRPC, and against one more copy.

Two processes on one machine, loopback. `tcp` is Flight with mutual TLS and is compared with grpcio with
mutual TLS; `local` is shared memory, which encrypts nothing, and is compared with grpcio without TLS. gRPC
sends protobuf `bytes`, in one message or in a stream. Beside them stand both paths with buffers of the
transport's own: one more copy on each side (benchmarks/baselines/private_buffers.py).

A way of ours is one `pointer.get()` of an array that nobody has asked for before: the request, the owner's
yes, the transfer, and the fingerprint verified where bytes have moved. What the request and the yes take is
measured with one number. `local` writes the array into shared memory within its time, which share() otherwise
does ahead. Codecs are off. A way of gRPC is one call and has neither a request nor a fingerprint. Each array
is compared with what was to arrive, after the clock.

A copy costs CPU time even where it is hidden behind something slower, so that is counted as well: of all
processes of both sides.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np
import psutil

from benchmarks.baselines import private_buffers
from benchmarks.baselines.grpc_array import GrpcArray
from benchmarks.command import benchmark, rounds
from benchmarks.harness import MIB, Sample, interleave, ratio, report
from benchmarks.owner import Owner, array
from duetlink import Settings

SIZES_MIB = (1, 4, 16, 64, 256)
QUICK = {"sizes_mib": (1,)}
_SEED = 5
_BASE = "what the copies are made of"

# the system counts CPU time in ticks of 10 ms: too few of them below
_CPU_FROM_MIB = 16

# path, whether gRPC has TLS beside it
PATHS = {"tcp": True, "local": False}


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
@rounds(5)
def main(sizes_mib: tuple[int, ...], rounds: int) -> None:
    for path, tls in PATHS.items():
        with contextlib.ExitStack() as stack:
            ours, copying = _Ours(path, copying=False), _Ours(path, copying=True)
            bare = GrpcArray(tls=tls)
            for one in (ours, copying, bare):
                stack.callback(one.close)
            _compare(path, tls, ours, copying, bare, sizes_mib, rounds)


def _compare(
    path: str,
    tls: bool,
    ours: _Ours,
    copying: _Ours,
    bare: GrpcArray,
    sizes_mib: tuple[int, ...],
    rounds: int,
) -> None:
    ours.serve(1, _SEED)
    asking = interleave({"": functools.partial(ours.get, array("float32", (1,), _SEED), [])}, 5 * rounds)[""]
    rows, cpu_rows, data = [], [], []
    for size_mib in sizes_mib:
        count = size_mib * MIB // 4
        expected = array("float32", (count,), _SEED)
        for one in (ours, copying, bare):
            one.serve(count, _SEED)
        ways: dict[str, Callable[..., float]] = {
            path: ours.get,
            "gRPC, one message": functools.partial(_timed, bare.get_unary),
            "gRPC, streamed": functools.partial(_timed, functools.partial(bare.get_streamed, count)),
            f"{path}, one more copy": copying.get,
        }
        for way in ways.values():
            way(expected, [])  # not counted
        cpu_s: dict[str, list[float]] = {name: [] for name in ways}
        calls: dict[str, Callable[[], float]] = {
            name: functools.partial(way, expected, cpu_s[name]) for name, way in ways.items()
        }
        samples = interleave(calls, rounds if size_mib > 16 else 3 * rounds)
        others = [(name, sample) for name, sample in samples.items() if name != path]
        rows.append(
            [
                str(size_mib),
                f"{samples[path].median_s * 1000:.4g}",
                f"{size_mib * MIB / samples[path].median_s / 1e6:.0f}",
                *(f"{sample.median_s * 1000:.4g}  {ratio(sample, samples[path])}" for _, sample in others),
            ]
        )
        if size_mib >= _CPU_FROM_MIB:
            per_gb = [statistics.fmean(taken) / (size_mib * MIB / 1e9) for taken in cpu_s.values()]
            cpu_rows.append([str(size_mib), *(f"{figure:.2f}" for figure in per_gb)])
        data.append(
            {
                "size_bytes": size_mib * MIB,
                "cpu_s": cpu_s,
                "times_s": {name: sample.times_s for name, sample in samples.items()},
                "times_as_fast": {name: _times(sample, samples[path]) for name, sample in others},
            }
        )
    security = "with mutual TLS" if tls else "without TLS"
    headers = ["MiB", f"{path} ms", "MB/s", *(f"{name}: ms, of {path}" for name, _ in others)]
    title = (
        f"{path} against gRPC {security}: medians, and {path} so many times as fast (least to most).\n"
        f"A request and its yes, for one number: {asking.median_s * 1000:.3g} ms ({asking.spread})"
    )
    report(f"zero_copy_{path}", title, headers, rows, {"asking_s": asking.times_s, "sizes": data})
    if cpu_rows:
        title = "CPU seconds per GB, of all processes of both sides: means"
        headers = ["MiB", path, *(name for name, _ in others)]
        report(f"zero_copy_{path}_cpu", title, headers, cpu_rows, cpu_rows)


def _times(other: Sample, ours: Sample) -> float:
    return other.median_s / ours.median_s


def _timed(get: Callable[[], np.ndarray], expected: np.ndarray, cpu_s: list[float]) -> float:
    """Seconds that `get` takes; adds to `cpu_s` the CPU seconds of this process and its children."""
    gc.collect()
    before_s = _cpu_s()
    start_s = time.perf_counter()
    value = get()
    taken_s = time.perf_counter() - start_s
    cpu_s.append(_cpu_s() - before_s)
    if not np.array_equal(value, expected):
        raise SystemExit("what arrived is not what was sent")
    return taken_s


def _cpu_s() -> float:
    this = psutil.Process()
    taken = [process.cpu_times() for process in (this, *this.children(recursive=True))]
    return float(sum(one.user + one.system for one in taken))


class _Ours:
    """A duet over one path, its owner in a process of its own, with or without one more copy on each side."""

    def __init__(self, path: str, *, copying: bool) -> None:
        # prepare_limit_bytes: shared memory is written when it is asked for, not ahead
        settings = Settings(only=(path,), held_bytes=1, prepare_limit_bytes=1)
        self._owner = Owner(settings, private_buffers=copying)
        self._around = private_buffers.copying_what_arrives if copying else contextlib.nullcontext
        self._numbers = itertools.count()
        self._duet: Any = self._owner.scientist
        while self._duet.statistics().path is None:
            time.sleep(0.01)
        self._duet.compression.set(mode="manual", codec={"tensor": "raw", "bytes": "raw"}, level={})

    def serve(self, count: int, seed: int) -> None:
        if _BASE in self._duet.store:
            self._owner.unshare(_BASE)
        self._owner.share(_BASE, "float32", (count,), seed)

    def get(self, expected: np.ndarray, cpu_s: list[float]) -> float:
        """Seconds that one fetch of a fresh copy takes."""
        name = f"copy {next(self._numbers)}"
        self._owner.share_copy(name, _BASE)
        pointer = self._duet.store[name]
        with self._around():
            taken_s = _timed(lambda: pointer.get(timeout_s=600), expected, cpu_s)
        self._owner.unshare(name)
        return taken_s

    def close(self) -> None:
        self._owner.close()


if __name__ == "__main__":
    main()
