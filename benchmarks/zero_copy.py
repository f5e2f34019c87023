"""Arrays of 1 to 256 MiB by `tcp` and through shared memory, against gRPC, and against one more copy.

Two processes on one machine, loopback. `tcp` is Flight with mutual TLS and is compared with grpcio with
mutual TLS; `local` is shared memory, which encrypts nothing, and is compared with grpcio without TLS. gRPC
sends protobuf `bytes`, in one message or in a stream. Beside them stand both paths with buffers of the
transport's own: one more copy on each side (benchmarks/private_buffers.py).

A way of ours is one `pointer.get()` of an array that nobody has asked for before: the request, the owner's
yes, the transfer, and the fingerprint verified where bytes have moved. What the request and the yes take is
measured with one number. `local` writes the array into shared memory within its time, which share() otherwise
does ahead. Codecs are off. A way of gRPC is one call and has neither a request nor a fingerprint. Each array
is compared with what was to arrive, after the clock.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np

from benchmarks import private_buffers
from benchmarks.command import benchmark, rounds
from benchmarks.grpc_array import GrpcArray
from benchmarks.harness import Sample, interleave, ratio, report
from benchmarks.owner import Owner, array
from duetlink.settings import MIB, Settings

SIZES_MIB = (1, 4, 16, 64, 256)
_SEED = 5
_BASE = "what the copies are made of"

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
    asking = interleave({"": functools.partial(ours.get, array("float32", (1,), _SEED))}, 5 * rounds)[""]
    rows, data = [], []
    for size_mib in sizes_mib:
        count = size_mib * MIB // 4
        expected = array("float32", (count,), _SEED)
        for one in (ours, copying, bare):
            one.serve(count, _SEED)
        calls: dict[str, Callable[[], float]] = {
            path: functools.partial(ours.get, expected),
            "gRPC, one message": functools.partial(_timed, bare.get_unary, expected),
            "gRPC, streamed": functools.partial(_timed, lambda n=count: bare.get_streamed(n), expected),
            f"{path}, one more copy": functools.partial(copying.get, expected),
        }
        for call in calls.values():
            call()  # not counted
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
        data.append(
            {
                "size_bytes": size_mib * MIB,
                "times_s": {name: sample.times_s for name, sample in samples.items()},
                "times_as_fast": {name: _times(sample, samples[path]) for name, sample in others},
            }
        )
    security = "with mutual TLS" if tls else "without TLS"
    headers = ["MiB", f"{path} ms", "MB/s", *(f"{name}: ms, of {path}" for name in list(calls)[1:])]
    title = (
        f"{path} against gRPC {security}: medians, and {path} so many times as fast (least to most).\n"
        f"A request and its yes, for one number: {asking.median_s * 1000:.3g} ms ({asking.spread})"
    )
    report(f"zero_copy_{path}", title, headers, rows, {"asking_s": asking.times_s, "sizes": data})


def _times(other: Sample, ours: Sample) -> float:
    return other.median_s / ours.median_s


def _timed(get: Callable[[], np.ndarray], expected: np.ndarray) -> float:
    gc.collect()
    start_s = time.perf_counter()
    value = get()
    taken_s = time.perf_counter() - start_s
    if not np.array_equal(value, expected):
        raise SystemExit("what arrived is not what was sent")
    return taken_s


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

    def get(self, expected: np.ndarray) -> float:
        """Seconds that one fetch of a fresh copy takes."""
        name = f"copy {next(self._numbers)}"
        self._owner.share_copy(name, _BASE)
        pointer = self._duet.store[name]
        with self._around():
            taken_s = _timed(lambda: pointer.get(timeout_s=600), expected)
        self._owner.unshare(name)
        return taken_s

    def close(self) -> None:
        self._owner.close()


if __name__ == "__main__":
    main()
