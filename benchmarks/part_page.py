"""The panel in a page, without a kernel: what the browser takes while it gets four ticks a second."""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import psutil

from benchmarks.command import benchmark
from benchmarks.harness import report
from duetlink_widgets.contract import HISTORY_COLUMNS, SCHEMA, TICK_S, History
from tests.browser.chromium import run_chromium
from tests.widgets.component import states
from tests.widgets.component.shown import Shown

WATCHED_S = 20.0
ROUNDS = 3

# ticks are made in the page: what Playwright costs does not count
TICKING = """
([tick, epoch_s, every_ms]) => {
  let sequence = 0;
  window.ticking = setInterval(() => {
    const second = Math.floor(Date.now() / 1000 - epoch_s), rate = 1e8 * (1 + Math.sin(second / 7) / 2);
    const row = [second, rate, 0, rate / 2, 0, second % 3 ? NaN : 0.02, 1e7];
    const rates = {sent_bytes_per_s: rate * (1 + Math.random() / 9), sent_wire_bytes_per_s: rate / 2};
    model.receive({...tick, ...rates, sequence: ++sequence}, row);
  }, every_ms);
}
"""


@benchmark
def main() -> None:
    shares: dict[str, list[float]] = {"ticking, Throughput": [], "ticking, Link": [], "no ticks": []}
    with tempfile.TemporaryDirectory() as home, run_chromium(Path(home)) as browser:
        page = browser.new_page(viewport={"width": 1000, "height": 1400})
        shown = Shown(page, "light", still=False)
        view = shown.view()
        epoch_s = math.floor(time.time()) - 900
        shown.receive(asdict(History("history", SCHEMA, epoch_s, list(HISTORY_COLUMNS))), _rows(900))
        for _ in range(ROUNDS):
            shares["no ticks"].append(_cpu_share())
            page.evaluate(TICKING, [states.tick(1), epoch_s, 1000 * TICK_S])
            for tab in ("Throughput", "Link"):
                view.get_by_role("tab", name=tab).click()
                shares[f"ticking, {tab}"].append(_cpu_share())
            page.evaluate("clearInterval(ticking)")
    rows = [[name, _percent(taken)] for name, taken in shares.items()]
    report(
        "part_page",
        "The panel in a page",
        ["what", "of one core, all of the browser: median (range)"],
        rows,
        shares,
    )


def _rows(count: int) -> list[float]:
    rate = 1e8
    rows = [(float(second), rate, 0.0, rate / 2, 0.0, 0.02, 1e7) for second in range(count)]
    return [number for row in rows for number in row]


def _cpu_share() -> float:
    """The share of one core that all processes of the browser take."""
    before, before_s = _browser_cpu_s(), time.monotonic()
    time.sleep(WATCHED_S)
    return (_browser_cpu_s() - before) / (time.monotonic() - before_s)


def _browser_cpu_s() -> float:
    below = psutil.Process().children(recursive=True)
    times = [process.cpu_times() for process in below if "chrom" in process.name()]
    return float(sum(taken.user + taken.system for taken in times))


def _percent(shares: list[float]) -> str:
    low, middle, high = min(shares) * 100, statistics.median(shares) * 100, max(shares) * 100
    return f"{middle:.2f} % ({low:.2f} to {high:.2f})"


if __name__ == "__main__":
    main()
