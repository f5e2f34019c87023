"""How small and how fast: every lossless codec, and what the tuner makes of them, on arrays of each kind.

Everything goes the way of a transfer: blocks of a body, encoded on a pool, as in net/flight/sending.py.
The times are those until the last block is encoded, of `auto` with all its trials. One thread encodes, but
for the `auto` that has all processors, as a transfer has, and chooses how many it uses; lzma -6 is the
standard library's, which has one.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from benchmarks.command import benchmark
from benchmarks.harness import report
from benchmarks.kinds import KINDS, make
from duetlink.data import values
from duetlink.data.codecs import codecs
from duetlink.data.codecs.base import BYTES, TENSOR
from duetlink.data.tuning import CodecController, Compression, RateCap, Tuner
from duetlink.net.flight.body import Outgoing, ReceiveBuffer
from duetlink.net.flight.receiving import Decoding
from duetlink.net.flight.sending import Order, Sending
from duetlink.net.paths.flight_path import FlightPath

SIZE_BYTES = 64 << 20
ROUNDS = 3
_AUTO = "auto, bytes"
_AUTO_ALL = f"{_AUTO}, {os.cpu_count()} threads"
_LZMA = "lzma"


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
    report("codecs", "Times smaller, and MB/s encoded by one thread", ["kind", *ways], rows, found)
    headers = ["kind", "auto: times smaller", "lzma -6", "auto / lzma: size", "speed"]
    headers += ["by one thread", "decoded MB/s"]
    rows = []
    for kind, figures in found.items():
        (ratio, rate, decoded), (lzma_ratio, lzma_rate, _) = figures[_AUTO_ALL], figures[_LZMA]
        rows.append(
            [
                kind,
                f"{ratio:.3f}",
                f"{lzma_ratio:.3f}",
                f"{lzma_ratio / ratio:.3f}",
                f"{rate / lzma_rate:.0f}x",
                f"{figures[_AUTO][1] / lzma_rate:.0f}x",
                f"{decoded / 1e6:.0f}",
            ]
        )
    report("codecs_auto", 'objective "bytes" against lzma -6', headers, rows, found)


Figures = dict[str, tuple[float, float, float]]


def measure(kind: str, size_bytes: int, count: int = ROUNDS) -> Figures:
    """By way: times smaller, bytes per second encoded, and decoded; medians, ways in turn. A frame of 0 bytes
    is the real one.
    """
    encoded = values.encode(make(kind, size_bytes))
    body = Outgoing(encoded.segments, encoded.size_bytes, encoded.parts)
    settings = dict.fromkeys((_AUTO, _AUTO_ALL), Compression(objective="bytes"))
    for codec in codecs():
        if codec.lossless and codec.kind in (BYTES, TENSOR) and codec.name != "raw":
            by_role = {TENSOR: codec.name, BYTES: codec.name if codec.kind == BYTES else "zstd"}
            levels: dict[str, int | None] = dict.fromkeys((TENSOR, BYTES), 6) if codec.name == _LZMA else {}
            settings[codec.name] = Compression(mode="manual", codec=by_role, level=levels)
    taken: dict[str, list[tuple[float, float, float]]] = {way: [] for way in settings}
    for number in range(count):
        for way, compression in settings.items():
            if number == 0 or way != _LZMA:  # a minute each
                threads = os.cpu_count() or 1 if way == _AUTO_ALL else 1
                taken[way].append(_encode(body, compression, threads))
    return {
        way: tuple(float(np.median([figures[index] for figures in rounds])) for index in range(3))  # type: ignore[misc]
        for way, rounds in taken.items()
    }


def _encode(body: Outgoing, compression: Compression, threads: int) -> tuple[float, float, float]:
    available = frozenset(codec.name for codec in codecs())
    tuner = Tuner(compression, available, threads, lambda decision: None)
    tuner.goodput["line"] = 1e6  # slow: bytes are what counts
    order = Order(body.whole, lambda now_s: CodecController(tuner, "x", "line", body.size_bytes, now_s))
    with ThreadPoolExecutor(threads) as pool:
        begin_s = time.perf_counter()
        batches = list(Sending(body, order, pool, RateCap(), FlightPath.chunk_bytes).batches())
        encode_s = time.perf_counter() - begin_s
        receive_buffer, decoding = ReceiveBuffer(body.size_bytes), Decoding(pool, threads)
        begin_s = time.perf_counter()
        for batch in batches:
            receive_buffer.write(decoding.decode(batch.data) if batch.coded else batch.data)
        decode_s = time.perf_counter() - begin_s
    if receive_buffer.digest() != body.fingerprint:
        raise SystemExit("what was decoded is not what was encoded")
    sent_bytes = sum(len(batch.data) for batch in batches)
    return body.size_bytes / sent_bytes, body.size_bytes / encode_s, body.size_bytes / decode_s


if __name__ == "__main__":
    main()
