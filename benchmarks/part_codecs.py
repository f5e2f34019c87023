"""How small and how fast: every lossless codec, and what the tuner makes of them, on arrays of each kind.

Everything goes the way of a transfer: blocks of a body, encoded on a pool, as in net/flight/sending.py.
The times are those until the last block is encoded, of `auto` with all its trials. One thread encodes, but
for the `auto` that has all processors, as a transfer has, and chooses how many it uses; lzma -6 is the
standard library's, which has one.
"""

from __future__ import annotations

from benchmarks.baselines.every_codec import AUTO, AUTO_ALL, LZMA, measure
from benchmarks.command import benchmark
from benchmarks.harness import report
from benchmarks.kinds import KINDS

SIZE_BYTES = 64 << 20


@benchmark
def main() -> None:
    found = {kind: measure(kind, 0 if kind.endswith("frame") else SIZE_BYTES) for kind in KINDS}
    for kind in KINDS:
        if kind.endswith("frame"):
            found[f"{kind}, {SIZE_BYTES >> 20} MiB like it"] = measure(kind, SIZE_BYTES)
    ways = list(next(iter(found.values())))
    rows = [
        [kind, *(f"{ratio:.3g}  {rate / 1e6:.0f}" for ratio, rate, _ in figures.values())]
        for kind, figures in found.items()
    ]
    report("part_codecs", "Times smaller, and MB/s encoded by one thread", ["kind", *ways], rows, found)
    headers = ["kind", "auto: times smaller", "lzma -6", "auto / lzma: size", "speed"]
    headers += ["by one thread", "decoded MB/s"]
    rows = []
    for kind, figures in found.items():
        (ratio, rate, decoded), (lzma_ratio, lzma_rate, _) = figures[AUTO_ALL], figures[LZMA]
        rows.append(
            [
                kind,
                f"{ratio:.3f}",
                f"{lzma_ratio:.3f}",
                f"{lzma_ratio / ratio:.3f}",
                f"{rate / lzma_rate:.0f}x",
                f"{figures[AUTO][1] / lzma_rate:.0f}x",
                f"{decoded / 1e6:.0f}",
            ]
        )
    report("part_codecs_auto", 'objective "bytes" against lzma -6', headers, rows, found)


if __name__ == "__main__":
    main()
