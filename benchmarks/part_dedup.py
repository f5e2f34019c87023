"""Deduplication: how fast chunks are found, and what of a changed object need not be sent again.

Chunking is timed against the pure-Python implementation of the `fastcdc` package (which has a compiled one
too), with the same limits: 2 KiB, 8 KiB, 64 KiB. What is saved is what was found, less the manifest.
"""

from __future__ import annotations

import json
from functools import partial

import numpy as np
from fastcdc.fastcdc_py import fastcdc_py
from numpy.typing import NDArray

from benchmarks.command import benchmark, rounds
from benchmarks.harness import Sample, interleave, report, timed
from duetlink.data.dedup import Held, Manifest, Match, Segment, cut, find, name_chunks

KEY = bytes(range(32))
MIB = 1 << 20
TARGET_BYTES = 8 << 10


@benchmark
@rounds(11)
def main(rounds: int) -> None:
    _speed(rounds)
    _saved()


def _speed(rounds: int) -> None:
    rng = np.random.default_rng(1)
    kinds = {"random bytes": rng.bytes(32 * MIB), "JSON records": _records(rng, 300_000)}
    rows, data = [], []
    for kind, body in kinds.items():
        sizes, samples, mean_bytes = _time(body, rounds)
        rates = {name: sizes[name] / sample.median_s / 1e6 for name, sample in samples.items()}
        ratio = _ratio(samples["fastcdc"], samples["cut"], sizes["cut"] / sizes["fastcdc"])
        rows.append([kind, f"{len(body) / 1e6:.3g}", *(f"{rate:.4g}" for rate in rates.values()), ratio])
        data.append(
            {
                "kind": kind,
                "size_bytes": sizes,
                "times_s": {name: sample.times_s for name, sample in samples.items()},
                "speedup": rates["cut"] / rates["fastcdc"],
                "mean_chunk_bytes": mean_bytes,
            }
        )
    headers = ["", "MB", "fastcdc MB/s", "cut MB/s", "name chunks MB/s", "cut vs fastcdc"]
    report("part_dedup_speed", "Chunking, one thread: medians, ratios (least to most)", headers, rows, data)


def _time(body: bytes, rounds: int) -> tuple[dict[str, int], dict[str, Sample], float]:
    """Bytes per way, times, and the mean chunk; the slow way gets a part of the body."""
    part = body[: 4 * MIB]
    cuts = cut(body, [], TARGET_BYTES)
    samples = interleave(
        {
            "fastcdc": lambda: timed(lambda: list(fastcdc_py(part, 2048, TARGET_BYTES, 65536))),
            "cut": lambda: timed(lambda: cut(body, [], TARGET_BYTES)),
            "chunks": lambda: timed(lambda: name_chunks(body, cuts, KEY)),
        },
        rounds,
    )
    sizes = {name: len(part) if name == "fastcdc" else len(body) for name in samples}
    return sizes, samples, float(np.mean(cuts.sizes_bytes))


def _ratio(base: Sample, sample: Sample, scale: float) -> str:
    """How many times faster per byte, by medians; then the least and most that single runs would give."""
    least = scale * min(base.times_s) / max(sample.times_s)
    most = scale * max(base.times_s) / min(sample.times_s)
    return f"{scale * base.median_s / sample.median_s:.3g}x ({least:.3g} to {most:.3g})"


def _send(new: Held, sent: list[bytes]) -> None:
    sent.append(_manifest(new).to_bytes())


def _find(manifest: Manifest, old: Held, found: list[Match]) -> None:
    found += find(manifest, [old], KEY)


def _saved() -> None:
    rows, data = [], []
    for case, (old, new) in _cases().items():
        sent: list[bytes] = []
        make_s = timed(partial(_send, new, sent))
        manifest = Manifest.from_bytes(sent[0], new.body.nbytes)
        found: list[Match] = []
        find_s = timed(partial(_find, manifest, old, found))
        size, manifest_bytes, found_bytes = new.body.nbytes, len(sent[0]), _checked(found, old, new)
        saved = (found_bytes - manifest_bytes) / size
        rows.append(
            [
                case,
                f"{size / 1e6:.4g}",
                f"{100 * manifest_bytes / size:.3f} %",
                f"{100 * saved:.2f} %",
                f"{size / make_s / 1e6:.3g}",
                f"{old.body.nbytes / find_s / 1e6:.3g}",
            ]
        )
        data.append(
            {
                "case": case,
                "size_bytes": size,
                "manifest_bytes": manifest_bytes,
                "found_bytes": found_bytes,
                "saved_share": saved,
                "manifest_s": make_s,
                "find_s": find_s,
            }
        )
    headers = ["sent again", "MB", "manifest", "saved", "manifest MB/s", "find MB/s"]
    report("part_dedup", "What need not be sent again", headers, rows, data)


def _cases() -> dict[str, tuple[Held, Held]]:
    """What the peer holds, and what is sent."""
    rng = np.random.default_rng(2)
    table = rng.random((64_000, 128))
    columns = [rng.random(320_000) for _ in range(25)]
    longer = [np.concatenate([column, rng.random(3200)]) for column in columns]
    octets, added = rng.bytes(32 * MIB), rng.bytes(100)
    middle = len(octets) // 2
    inserted = added + octets[:middle] + added + octets[middle:-9] + added + octets[-9:]
    records = _records(rng, 300_000)
    return {
        "array, unchanged": (_pack(table), _pack(table)),
        "array, 1 % rows appended": (_pack(table), _pack(np.concatenate([table, rng.random((640, 128))]))),
        "25 columns, 1 % rows appended": (_pack(*columns), _pack(*longer)),
        "25 columns, one changed": (_pack(*columns), _pack(*columns[:9], rng.random(320_000), *columns[10:])),
        "bytes, 100 inserted at 3 places": (_stream(octets), _stream(inserted)),
        "JSON, 1 % records appended": (_stream(records), _stream(records + _records(rng, 3000))),
    }


def _manifest(held: Held) -> Manifest:
    cuts = cut(held.body, held.segments)
    return Manifest(cuts, name_chunks(held.body, cuts, KEY))


def _checked(matches: list[Match], old: Held, new: Held) -> int:
    """Bytes found; they are what they should be."""
    for match in matches:
        source = old.body[match.source_start :][: match.size_bytes]
        target = new.body[match.target_start :][: match.size_bytes]
        if not np.array_equal(np.frombuffer(source, np.uint8), np.frombuffer(target, np.uint8)):
            raise RuntimeError(f"{match} does not hold what it says")
    return sum(match.size_bytes for match in matches)


def _records(rng: np.random.Generator, count: int) -> bytes:
    return b"\n".join(
        json.dumps({"id": index, "name": f"person {index % 977}", "score": score}).encode()
        for index, score in enumerate(rng.random(count).tolist())
    )


def _stream(octets: bytes) -> Held:
    return Held(memoryview(octets), [])


def _pack(*arrays: NDArray[np.float64]) -> Held:
    """Arrays as a body: a header, then each at a multiple of 64 bytes."""
    body, segments = bytearray(b"header" * 50), []
    for array in arrays:
        body += bytes(-len(body) % 64)
        segments.append(Segment(len(body), array.nbytes, array.nbytes // len(array)))
        body += array.tobytes()
    return Held(memoryview(bytes(body)), segments)


if __name__ == "__main__":
    main()
