"""Ten aggregates of one filtered frame of 200 MB, asked one by one: with frozen values kept, and without.

Both sides are in this process, with a policy that approves; rooms are processes of their own. The frame is
shared anew for each round, so nothing is frozen when it begins.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd

import duetlink
from benchmarks.command import benchmark, rounds
from benchmarks.harness import interleave, ratio, report, timed
from duetlink import Policy
from duetlink.duet.duet import Duet
from duetlink.settings import Settings

ROWS, COLUMNS = 2_500_000, 10
ASKS = [(f"c{number}", name) for number, name in enumerate(5 * ("mean", "std"))]


class Pair:
    """An owner with a frame, and a scientist who asks."""

    def __init__(self, reuse_bytes: int) -> None:
        settings = dataclasses.replace(Settings(), audit_path="", reuse_bytes=reuse_bytes)
        self.owner: Duet = duetlink.launch(settings=settings)
        self.scientist: Duet = duetlink.join(str(self.owner.code), settings=settings)
        self.owner.policies.add(Policy("approve"))

    def ask(self, frame: pd.DataFrame, mock: pd.DataFrame) -> float:
        """The seconds that all asks take."""
        revision = self.owner.share(frame, "frame", mock=mock).revision
        shared: Any = self.scientist.wait_object("frame", 60, revision=revision)
        float(shared.c0.head(1).sum().get())  # a room is there
        return timed(lambda: self._ask(shared))

    def _ask(self, shared: Any) -> None:
        chosen = shared[shared.c0 > 0.5]
        for column, aggregate in ASKS:
            getattr(chosen[column], aggregate)().get()

    def close(self) -> None:
        self.scientist.close()
        self.owner.close()


@benchmark
@rounds(5)
def main(rounds: int) -> None:
    draw = np.random.default_rng(0)
    frame, mock = (
        pd.DataFrame({f"c{number}": draw.uniform(0, 1, rows) for number in range(COLUMNS)})
        for rows in (ROWS, 1000)
    )
    pairs = {"without": Pair(0), "with frozen values": Pair(Settings().reuse_bytes)}
    try:
        found = interleave(
            {name: lambda pair=pair: pair.ask(frame, mock) for name, pair in pairs.items()}, rounds
        )
    finally:
        for pair in pairs.values():
            pair.close()
    base = found["without"]
    rows = [
        [name, f"{taken.median_s:.2f} s", f"{taken.spread} ms", ratio(base, taken)]
        for name, taken in found.items()
    ]
    report(
        "reuse",
        f"{len(ASKS)} aggregates of a filtered frame of {frame.memory_usage().sum() / 1e6:.0f} MB",
        ["", "median", "least to most", "times as fast"],
        rows,
        {name: taken.times_s for name, taken in found.items()},
    )
