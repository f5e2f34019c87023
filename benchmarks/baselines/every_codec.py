"""An object by every lossless codec, each fixed, and by the tuner: how small and how fast.

Everything goes the way of a transfer: blocks of a body, encoded on a pool, as in net/flight/sending.py. One
thread encodes, but for the `auto` that has all processors, and chooses how many it uses.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from benchmarks.kinds import make
from duetlink.codecs import codecs
from duetlink.data import values
from duetlink.data.codecs.base import BYTES, TENSOR
from duetlink.data.tuning import CodecController, Compression, RateCap, Tuner
from duetlink.net.flight.body import Outgoing, ReceiveBuffer
from duetlink.net.flight.receiving import Decoding
from duetlink.net.flight.sending import Order, Sending
from duetlink.net.paths.flight_path import FlightPath

ROUNDS = 3
AUTO = "auto, bytes"
AUTO_ALL = f"{AUTO}, {os.cpu_count()} threads"
LZMA = "lzma"

Figures = dict[str, tuple[float, float, float]]


def measure(kind: str, size_bytes: int, count: int = ROUNDS) -> Figures:
    """By way: times smaller, bytes per second encoded, and decoded; medians, ways in turn. A frame of 0 bytes
    is the real one.
    """
    encoded = values.encode(make(kind, size_bytes))
    body = Outgoing(encoded.segments, encoded.size_bytes, encoded.parts)
    settings = dict.fromkeys((AUTO, AUTO_ALL), Compression(objective="bytes"))
    for codec in codecs():
        if codec.lossless and codec.kind in (BYTES, TENSOR) and codec.name != "raw":
            by_role = {TENSOR: codec.name, BYTES: codec.name if codec.kind == BYTES else "zstd"}
            levels: dict[str, int | None] = dict.fromkeys((TENSOR, BYTES), 6) if codec.name == LZMA else {}
            settings[codec.name] = Compression(mode="manual", codec=by_role, level=levels)
    taken: dict[str, list[tuple[float, float, float]]] = {way: [] for way in settings}
    for number in range(count):
        for way, compression in settings.items():
            if number == 0 or way != LZMA:  # a minute each
                threads = os.cpu_count() or 1 if way == AUTO_ALL else 1
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
