"""What programs have in common is run once: with that, and without (`reuse_bytes=0`).

Ten aggregates of one filtered frame of 200 MB, asked one by one; and a training of 300 steps, whose loss is
asked for five times on the way. Both sides are in this process, with a policy that approves; rooms are
processes of their own. What is worked on is shared anew for each round, so nothing is kept when it begins.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

import duetlink
from benchmarks.command import benchmark, rounds
from benchmarks.harness import interleave, ratio, report, timed
from duetlink import Duet, Policy, Settings

ROWS, COLUMNS = 2_500_000, 10
ASKS = [(f"c{number}", name) for number, name in enumerate(5 * ("mean", "std"))]
STEPS, LOSSES = 300, 5


class Pair:
    """An owner with a frame, and a scientist who asks."""

    def __init__(self, reuse_bytes: int) -> None:
        settings = dataclasses.replace(Settings(), audit_path="", reuse_bytes=reuse_bytes)
        self.owner: Duet = duetlink.launch(settings=settings)
        self.scientist: Duet = duetlink.join(str(self.owner.code), settings=settings)
        self.owner.policies.add(Policy("approve"))

    def aggregates(self) -> float:
        """The seconds that all asks take."""
        draw = np.random.default_rng(0)
        frame, mock = (
            pd.DataFrame({f"c{number}": draw.uniform(0, 1, rows) for number in range(COLUMNS)})
            for rows in (ROWS, 1000)
        )
        shared = self._shared(frame, "frame", mock)
        float(shared.c0.head(1).sum().get())  # a room is there

        def ask() -> None:
            chosen = shared[shared.c0 > 0.5]
            for column, aggregate in ASKS:
                getattr(chosen[column], aggregate)().get()

        return timed(ask)

    def training(self) -> float:
        """The seconds of a training, with losses on the way and the weights."""
        draw = torch.Generator().manual_seed(0)
        images = torch.randn(256, 64, generator=draw)
        shared = self._shared(images, "images", torch.zeros_like(images))
        float(shared[0, 0].get())

        def train() -> None:
            torch.manual_seed(1)
            model = self.scientist.remote(
                torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
            )
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            for step in range(1, STEPS + 1):
                loss = (model(shared) - 1.0).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % (STEPS // LOSSES) == 0:
                    loss.get()
            self.scientist.fetch(list(model.parameters()))

        return timed(train)

    def _shared(self, obj: Any, name: str, mock: Any) -> Any:
        revision = self.owner.share(obj, name, mock=mock).revision
        return self.scientist.wait_object(name, 60, revision=revision)

    def close(self) -> None:
        self.scientist.close()
        self.owner.close()


@benchmark
@rounds(5)
def main(rounds: int) -> None:
    torch.set_num_threads(1)
    pairs = {"without": Pair(0), "with": Pair(Settings().reuse_bytes)}
    works: dict[str, Callable[[Pair], float]] = {
        f"{len(ASKS)} aggregates": Pair.aggregates,
        f"{STEPS} steps, {LOSSES} losses": Pair.training,
    }
    rows, data = [], {}
    try:
        for what, work in works.items():
            found = interleave({name: partial(work, pair) for name, pair in pairs.items()}, rounds)
            for name, taken in found.items():
                times = [f"{taken.median_s:.2f} s", f"{taken.spread} ms", ratio(found["without"], taken)]
                rows.append([f"{what}, {name}", *times])
                data[f"{what}, {name}"] = taken.times_s
    finally:
        for pair in pairs.values():
            pair.close()
    headers = ["", "median", "least to most", "times as fast"]
    report("reuse", "Beginnings of programs run once", headers, rows, data)
