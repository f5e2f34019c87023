"""How long until an object is there: the tuner against every codec that could be fixed, over real links.

Two notebooks on hosts of the lab (tests/lab: Linux and root), joined by tcp; the scientist's line is shaped
with tbf. A way is one `get` of SIZE_BYTES, from the request to the decoded object, verified. Nothing is found
in earlier versions. On the slower links the best fixed codec is looked for among those that make the object
smallest, for there nothing else counts; lzma and blosc2 are always measured.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import statistics
import threading
from collections.abc import Iterator

from benchmarks.baselines.every_codec import measure
from benchmarks.command import benchmark, parts
from benchmarks.harness import report
from benchmarks.kinds import KINDS
from tests.lab.lab import Lab
from tests.lab.namespace import unsupported
from tests.lab.notebook import Notebook

SIZE_BYTES = 64 << 20
RATES_MBIT = (10, 100, 1000, 0)
ROUNDS = {10: 1, 100: 1, 1000: 3, 0: 5}
FIXED = (
    "raw",
    "pcodec",
    "planes",
    "frame_of_reference",
    "decimals",
    "sparse",
    "zstd",
    "lz4",
    "blosc2",
    "bitshuffle",
    "bytedelta",
    "zlib",
    "lzma",
)
ALWAYS = ("raw", "blosc2", "lzma")
ONCE = ("zlib", "lzma")  # so slow that a second time would say no more
SMALLEST = 3
AUTO = "auto"
VERBOSE = bool(os.environ.get("VERBOSE"))  # print the decisions
_EARLIER = "the earlier module, as published: 20 to 25 % smaller, 15 to 18 % faster than nothing"

_SETTINGS = "Settings(only=('tcp',), held_bytes=1, signaling=Settings.from_environment().signaling)"
_OWNER = f"""
from benchmarks.kinds import make
asset = None
def share(kind, size_bytes):
    global asset
    if asset is not None:
        asset.unshare()
    asset = duet.share(make(kind, size_bytes), kind)
duet = duetlink.launch(settings={_SETTINGS})
approve_all(duet)
out = duet.code
"""
_SCIENTIST = """
def join(code):
    global duet
    duet = duetlink.join(code, settings=SETTINGS)
    while not duet.statistics().path:
        time.sleep(0.01)
def steer(way):
    if way == 'auto':
        duet.compression.set(mode='auto', codec={'tensor': 'auto', 'bytes': 'auto'}, level={'bytes': None})
    else:
        plain = way if way in ('raw', 'zlib', 'lzma', 'zstd', 'lz4', 'blosc2') else 'zstd'
        duet.compression.set(mode='manual', codec={'tensor': way, 'bytes': plain}, level={})
def deliver(name, way):
    steer(way)
    begin = time.monotonic()
    value = duet.store[name].get()
    taken = time.monotonic() - begin
    global last
    last = value
    return [taken, duet.statistics().transfers[-1].wire_bytes]
def decisions():
    return [[d.path, str(d.before), str(d.after), d.why, d.predicted_bytes_per_s, d.measured_bytes_per_s]
            for d in duet.tuning.decisions]
def follow(name, way, seconds):
    steer(way)
    pending = duet.store[name].request()
    begin, before, seen = time.monotonic(), duet.statistics().received_bytes, []
    while time.monotonic() < begin + seconds and pending.state != 'complete':
        seen.append([time.monotonic() - begin, duet.statistics().received_bytes - before])
        time.sleep(0.02)
    pending.withdraw()
    return seen
""".replace("SETTINGS", _SETTINGS)


class Pair:
    """Two notebooks, one link of tcp between them."""

    def __init__(self, lab: Lab, rate_mbit: float) -> None:
        self._lab = lab
        self.owner, self.scientist = Notebook(lab.host("open")), Notebook(lab.host("open"))
        self.shape(rate_mbit)
        code = self.owner.run(_OWNER)
        self.scientist.run(_SCIENTIST)
        self.scientist.run(f"join({code!r})")

    def shape(self, rate_mbit: float) -> None:
        self._lab.shape(self.scientist.host, rate_mbit=rate_mbit or None)

    def share(self, kind: str, size_bytes: int = SIZE_BYTES) -> None:
        """Only this one is held: the others' memory would be missed."""
        for warm_bytes in (1 << 20, size_bytes):  # a library that a first object imports is nobody's merit
            self.owner.run(f"share({kind!r}, {warm_bytes})")
            self.scientist.run(f"duet.wait_object({kind!r}, 60)")
            if warm_bytes < size_bytes:
                self.deliver(kind, "raw")

    def deliver(self, kind: str, way: str) -> tuple[float, int]:
        taken_s, wire_bytes = self.scientist.value(f"deliver({kind!r}, {way!r})")
        return taken_s, wire_bytes

    def close(self) -> None:
        for notebook in (self.scientist, self.owner):
            notebook.begin("duet.close()")
        for notebook in (self.scientist, self.owner):
            notebook.answer()
            notebook.close()


@contextlib.contextmanager
def _pair(rate_mbit: float) -> Iterator[Pair]:
    with Lab() as lab, contextlib.closing(Pair(lab, rate_mbit)) as pair:
        yield pair


Cell = dict[str, list[float]]  # by way: seconds


def table(rate_mbit: int) -> None:
    """All kinds over one link."""
    cells: dict[str, Cell] = {}
    wire: dict[str, dict[str, int]] = {}
    with _pair(rate_mbit) as pair:
        for kind in KINDS:
            pair.share(kind)
            wire[kind] = {}
            ways = _ways(rate_mbit, kind)
            cell: Cell = {way: [] for way in ways}
            for number in range(ROUNDS[rate_mbit]):
                for way in ways:
                    if number == 0 or way not in ONCE:
                        taken_s, wire[kind][way] = pair.deliver(kind, way)
                        cell[way].append(taken_s)
                    if way == AUTO and VERBOSE:
                        for decision in pair.scientist.value("decisions()")[-8:]:
                            print("   ", decision, flush=True)
            cells[kind] = cell
            shown = {way: [round(time_s, 3) for time_s in times] for way, times in cell.items()}
            print(kind, json.dumps(shown), flush=True)
    _report(rate_mbit, cells, wire)


def _ways(rate_mbit: int, kind: str) -> list[str]:
    """What is measured: everything on fast links, what can be the best on slow ones."""
    if rate_mbit in (0, 1000):
        return [AUTO, *FIXED]
    times_smaller = {way: figures[0] for way, figures in measure(kind, 4 << 20, 1).items()}
    smallest = sorted(times_smaller, key=lambda way: -times_smaller[way])[: SMALLEST + 1]  # auto is one
    return [AUTO, *(way for way in FIXED if way in smallest or way in ALWAYS)]


def _report(rate_mbit: int, cells: dict[str, Cell], wire: dict[str, dict[str, int]]) -> None:
    rows = []
    for kind, cell in cells.items():
        seconds = {way: statistics.median(times) for way, times in cell.items()}
        auto_s = seconds[AUTO]
        best = min((way for way in seconds if way != AUTO), key=seconds.__getitem__)
        rows.append(
            [
                kind,
                f"{auto_s:.3f}",
                f"{best} {seconds[best]:.3f}",
                f"{auto_s / seconds[best]:.3f}",
                f"{auto_s / seconds['raw']:.3f}",
                f"{auto_s / seconds['lzma']:.3f}",
                f"{auto_s / seconds['blosc2']:.3f}",
                f"{1 - wire[kind][AUTO] / wire[kind]['raw']:.0%}",
            ]
        )
    link = f"{rate_mbit} Mbit/s" if rate_mbit else "no limit"
    headers = ["kind", "auto, s", "best fixed, s", "auto / best", "/ raw", "/ lzma", "/ blosc2", "smaller by"]
    title = f"{SIZE_BYTES >> 20} MiB over tcp, {link} ({_EARLIER})"
    report(f"delivery_{rate_mbit}", title, headers, rows, {"seconds": cells, "wire_bytes": wire})


# -- a link that changes -------------------------------------------------------------------------------------

CHANGES_MBIT = ((1000, 100), (100, 1000), (100, 10))
CHANGE_KINDS = ("ReLU activations", "normal weights")
BEFORE_S, SETTLE_S, LOOK_S = 4.0, 3.0, 4.0


def change() -> None:
    """The rate of arrival from SETTLE_S after a change of the link's speed on, against the best fixed codec's
    in the same stretch of time.
    """
    rows, data = [], {}
    with _pair(0) as pair:
        for kind in CHANGE_KINDS:
            pair.shape(0)
            pair.share(kind, 2 << 30)
            for before, after in CHANGES_MBIT:
                ways = (AUTO, "raw", "pcodec", "planes", "zstd")
                rates = {way: _through(pair, kind, way, before, after) for way in ways}
                best = max((way for way in rates if way != AUTO), key=rates.__getitem__)
                data[f"{kind}, {before} to {after}"] = rates
                rows.append(
                    [
                        f"{kind}, {before} to {after} Mbit/s",
                        f"{rates[AUTO] / 1e6:.2f}",
                        f"{best} {rates[best] / 1e6:.2f}",
                        f"{rates[AUTO] / rates[best]:.2f}",
                    ]
                )
                print(rows[-1], flush=True)
    title = f"{LOOK_S:g} s from {SETTLE_S:g} s after a change of the link on, MB/s of arrays"
    report("delivery_change", title, ["kind, link", "auto", "best fixed", "auto / best"], rows, data)


def _through(pair: Pair, kind: str, way: str, before_mbit: int, after_mbit: int) -> float:
    pair.shape(before_mbit)
    total_s = BEFORE_S + SETTLE_S + LOOK_S
    pair.scientist.begin(f"out = follow({kind!r}, {way!r}, {total_s})")
    _wait(BEFORE_S)
    pair.shape(after_mbit)
    seen: list[tuple[float, int]] = pair.scientist.answer()
    inside = [(at_s, size) for at_s, size in seen if at_s >= BEFORE_S + SETTLE_S]
    # from one chunk's arrival to another's: on a slow link few arrive
    arrivals = [later for (_, before), later in itertools.pairwise(inside) if later[1] > before]
    if len(arrivals) < 2:
        raise SystemExit(f"{kind} was there before the link had changed: take a larger one")
    (first_s, first), (last_s, last) = arrivals[0], arrivals[-1]
    return (last - first) / (last_s - first_s)


def _wait(time_s: float) -> None:
    threading.Event().wait(time_s)


_LINKS = (*map(str, RATES_MBIT), "change")


@benchmark
@parts("--link", "links", _LINKS, "Mbit/s; 0: no limit; change: a speed that changes.")
def main(links: tuple[str, ...]) -> None:
    if why := unsupported():
        print(f"delivery: not measured: {why}")
        return
    for link in links:
        if link == "change":
            change()
        else:
            table(int(link))


if __name__ == "__main__":
    main()
