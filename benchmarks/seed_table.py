"""The table of the system that this one follows: arrays from owner to scientist, three ways.

Ways: `channel` (the value in messages on the WebRTC data channel, nothing else), `tcp` (Flight over TCP),
`local` (shared memory). Each time a fresh array, asked for, approved at once by the other process, fetched,
decoded and compared; what is timed is `pointer.get()`. What share() does in the background (the fingerprint,
and for `local` the copy into shared memory) has ended before; `local, unprepared` has that copy in its time.
"""

from __future__ import annotations

import functools
import gc
import itertools
import time

import click
import numpy as np

from benchmarks.command import benchmark, rounds
from benchmarks.harness import interleave, ratio, report
from benchmarks.owner import Owner, array
from duetlink import Settings

DTYPES = ("float16", "float32", "float64")
SIZES = (100, 200, 500, 1000, 3000)
QUICK = {"sides": (100,)}


@benchmark
@click.option(
    "--side",
    "sides",
    type=click.IntRange(1),
    multiple=True,
    default=SIZES,
    show_default=True,
    help="Rows and columns of an array; may be repeated.",
)
@rounds(5)
def main(sides: tuple[int, ...], rounds: int) -> None:
    ways = {
        "channel": Owner(Settings(only=("channel",), held_bytes=1), data_channel_only=True),
        "tcp": Owner(Settings(only=("tcp",), held_bytes=1)),
        "local": Owner(Settings(only=("local",), held_bytes=1)),
        "local, unprepared": Owner(Settings(only=("local",), held_bytes=1, prepare_limit_bytes=1)),
    }
    for owner in ways.values():
        while owner.scientist.statistics().path is None:
            time.sleep(0.01)
    seeds = itertools.count()

    def get(owner: Owner, dtype: str, shape: tuple[int, ...]) -> float:
        seed = next(seeds)
        name = f"array {seed}"
        owner.share(name, dtype, shape, seed)
        pointer = owner.scientist.store[name]
        gc.collect()
        start_s = time.perf_counter()
        value = pointer.get(timeout_s=600)
        taken_s = time.perf_counter() - start_s
        assert np.array_equal(value, array(dtype, shape, seed))
        owner.unshare(name)
        return taken_s

    rows, data = [], []
    for dtype, size in itertools.product(DTYPES, sides):
        shape = (size, size)
        size_bytes = np.dtype(dtype).itemsize * size * size
        for owner in ways.values():
            get(owner, dtype, shape)  # not counted
        few = 3 if size_bytes > 10_000_000 else rounds if size_bytes > 500_000 else 5 * rounds
        samples = interleave(
            {name: functools.partial(get, owner, dtype, shape) for name, owner in ways.items()}, few
        )
        base_s = samples["channel"].median_s
        row = [f"{dtype} {shape}", f"{size_bytes / 1e6:.3g}"]
        for name, sample in samples.items():
            row.append(f"{sample.median_s * 1000:.4g}")
            if name != "channel":
                row.append(ratio(samples["channel"], sample))
        rows.append(row)
        data.append(
            {
                "dtype": dtype,
                "shape": shape,
                "size_bytes": size_bytes,
                "times_s": {name: sample.times_s for name, sample in samples.items()},
                "speedup": {name: base_s / sample.median_s for name, sample in samples.items()},
            }
        )
    headers = ["array", "MB", "channel ms"]
    for name in list(ways)[1:]:
        headers += [f"{name} ms", f"{name} vs channel"]
    report(
        "seed_table",
        "Owner to scientist, two processes: medians, ratios (least to most)",
        headers,
        rows,
        data,
    )
    for owner in ways.values():
        owner.close()


if __name__ == "__main__":
    main()
