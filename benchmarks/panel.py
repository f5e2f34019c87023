"""The panel in two linked kernels: what it costs while it is watched, and how long a click takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import psutil

from benchmarks.command import benchmark
from benchmarks.harness import report
from tests.widgets.kernel import Kernel, pair

WATCHED_S = 20.0
CLICKS = 40
CELLS = {
    "idle": "",
    "while a cell sleeps": "import time; time.sleep({})",
    "while a cell spins in pure Python": "import time\nend = time.time() + {}\nwhile time.time() < end: pass",
    "while a cell looks for a file every millisecond": (
        "import os, time\nend = time.time() + {}\n"
        "while time.time() < end: os.path.exists('/'), sum(range(100_000))"
    ),
}
_CELL_S = 12


@benchmark
def main() -> None:
    owner, scientist = pair()
    try:
        watched, unwatched = [], []
        for _ in range(3):
            _look(owner, on=True)
            watched.append(_cpu_share(owner))
            _look(owner, on=False)
            unwatched.append(_cpu_share(owner))
        clicks = {name: list(_clicks(owner, cell)) for name, cell in CELLS.items()}
        owner.run("duet._panel.close()")
        without = [_cpu_share(owner) for _ in range(3)]
    finally:
        for kernel in (owner, scientist):
            kernel.close()
    rows = [
        ["kernel, panel on the screen, 4 ticks a second", _percent(watched), "of one core"],
        ["kernel, panel not on the screen", _percent(unwatched), "of one core"],
        ["kernel, linked, no panel at all", _percent(without), "of one core"],
        *(
            [f"click to acknowledged effect on both sides, {name}", _milliseconds(times), "ms"]
            for name, times in clicks.items()
        ),
    ]
    report(
        "panel",
        "The panel in two linked kernels",
        ["what", "median (least to most)", "unit"],
        rows,
        {"watched": watched, "unwatched": unwatched, "without": without, "clicks": clicks},
    )


def _look(kernel: Kernel, *, on: bool) -> None:
    kernel.say({"kind": "visible", "page": "benchmark", "on": on})
    kernel.say({"kind": "visible", "page": "test", "on": False})  # the one that `pair` said


def _cpu_share(kernel: Kernel) -> float:
    """The share of one core that the kernel takes, all its threads, while its duet is idle."""
    process = psutil.Process(kernel.pid)
    start, start_s = process.cpu_times(), time.monotonic()
    time.sleep(WATCHED_S)
    end = process.cpu_times()
    return float(end.user + end.system - start.user - start.system) / (time.monotonic() - start_s)


def _clicks(kernel: Kernel, cell: str) -> Iterator[float]:
    number = kernel.begin(cell.format(_CELL_S)) if cell else ""
    for click in range(CLICKS):
        yield kernel.click("set_compression", objective=("bytes", "throughput")[click % 2])[1]
    if cell:
        assert not kernel.ended(number), "the cell ended before the last click"
        kernel.wait_ended(number)


def _percent(shares: list[float]) -> str:
    low, middle, high = min(shares) * 100, statistics.median(shares) * 100, max(shares) * 100
    return f"{middle:.2f} % ({low:.2f} to {high:.2f})"


def _milliseconds(times_s: list[float]) -> str:
    return f"{statistics.median(times_s) * 1e3:.1f} ({min(times_s) * 1e3:.1f} to {max(times_s) * 1e3:.1f})"


if __name__ == "__main__":
    main()
