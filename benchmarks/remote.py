"""Work on pointers: what an operation costs beside the operation itself, and a step of training beside local
training.

The owner is in a process of its own, each room in another. Each of the three has one core where torch
computes.
"""

from __future__ import annotations

import dataclasses
import itertools
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.command import benchmark, rounds
from benchmarks.harness import interleave, report, timed
from benchmarks.owner import Owner
from duetlink import Settings

OPERATIONS = 1000
ITEMS = 1000
ROWS, BATCH, SIDE = 1024, 64, 64
EPOCHS = 5  # of one training, which is asked for as a whole
LAYERS = (SIDE * SIDE, 512, 256, 128, 10)
ASSETS = 10_000


@benchmark
@rounds(15)
def main(rounds: int) -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory:
        settings = dataclasses.replace(
            Settings(), audit_path=f"{directory}/audit.jsonl", max_assets=2 * ASSETS
        )
        owner = Owner(settings)
        try:
            _operations(owner, rounds)
            _training(owner, rounds)
            _store(owner)
        finally:
            owner.close()


def _operations(owner: Owner, rounds: int) -> None:
    duet = owner.scientist
    owner.share("x", "float64", (ITEMS,), 1, mock=True)
    pointer: Any = duet.store["x"]
    mock = pointer.mock.copy()
    (pointer + 1).get(reason="a room is ready")

    def chain(array: Any) -> Any:
        for _ in range(OPERATIONS // 2):
            array = array * 1.0001
            array = array + 0.5
        return array

    def remote() -> float:
        return timed(lambda: chain(pointer))

    def remote_done() -> float:
        return timed(lambda: chain(pointer).get(reason="a chain"))

    def round_trip() -> float:
        return timed(lambda: (pointer + 1).get(reason="one operation"))

    real = (chain(pointer)).get(reason="check")
    own = duet.store["x"].get(reason="check")
    np.testing.assert_array_equal(real, chain(own))
    ways: dict[str, Callable[[], float]] = {
        "on the mock itself": lambda: timed(lambda: chain(mock)),
        "on the pointer, recorded": remote,
        "on the pointer, asked for and got": remote_done,
        "one operation, asked for and got": round_trip,
    }
    samples = interleave(ways, rounds)
    local_s = samples["on the mock itself"].median_s
    rows = [
        [name, f"{sample.median_s * 1000:.2f} ({sample.spread})", f"{sample.median_s / local_s:.2f}"]
        for name, sample in samples.items()
    ]
    less = (
        samples["on the pointer, asked for and got"].median_s
        - samples["one operation, asked for and got"].median_s
    )
    rows.append(["the third without the fourth", f"{less * 1000:.2f}", f"{less / local_s:.2f}"])
    report(
        "remote_operations",
        f"{OPERATIONS:,} element-wise operations on {ITEMS:,} float64",
        ["what", "ms, median (least to most)", "times the first"],
        rows,
        {name: sample.times_s for name, sample in samples.items()},
    )


def _mlp() -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for wide, narrow in itertools.pairwise(LAYERS):
        layers += [nn.Linear(wide, narrow), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _train(images: Any, labels: Any, model: nn.Module, optimiser: torch.optim.Optimizer) -> Any:
    """Some epochs; returns the last loss."""
    loss = None
    for start in [*range(0, ROWS, BATCH)] * EPOCHS:
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(
            model(images[start : start + BATCH]), labels[start : start + BATCH]
        )
        loss.backward()
        optimiser.step()
    return loss


def _training(owner: Owner, rounds: int) -> None:
    duet = owner.scientist
    owner.share_digits("images", "labels", ROWS, SIDE)
    images, labels = duet.store["images"], duet.store["labels"]
    here = images.get(reason="to compare"), labels.get(reason="to compare")
    local, far = _mlp(), duet.remote(_mlp())
    local_optimiser = torch.optim.SGD(local.parameters(), lr=0.05)
    far_optimiser = torch.optim.SGD(far.parameters(), lr=0.05)
    steps = EPOCHS * ROWS // BATCH

    losses: list[tuple[float, float]] = []

    def train_here() -> float:
        model = _mlp()
        optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
        return timed(partial(_train, *here, model, optimiser))

    def train_far() -> float:
        model = duet.remote(_mlp())  # anew: a program has all steps from the first on
        optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
        return timed(lambda: _train(images, labels, model, optimiser).get(reason="the last loss"))

    there = _train(images, labels, far, far_optimiser)
    losses.append((float(_train(*here, local, local_optimiser)), float(there.get(reason="check"))))
    ways: dict[str, Callable[[], float]] = {"local": train_here, "on pointers": train_far}
    samples = interleave(ways, max(5, rounds // 3))
    fetched = duet.fetch(far, reason="check")
    apart = max(
        float((one - two).abs().max())
        for one, two in zip(local.parameters(), fetched.parameters(), strict=True)
    )
    local_s = samples["local"].median_s
    rows = [
        [
            name,
            f"{sample.median_s / steps * 1000:.2f}",
            f"{local_s / sample.median_s:.2f}",
        ]
        for name, sample in samples.items()
    ]
    report(
        "remote_training",
        f"A step of SGD, {steps} at a time, an MLP of {len(LAYERS) - 1} layers, {BATCH} images of "
        f"{SIDE}x{SIDE}; parameters differ by at most {apart:.1e}",
        ["what", "ms a step", "speed, of local"],
        rows,
        {name: sample.times_s for name, sample in samples.items()} | {"losses": losses, "apart": apart},
    )


def _store(owner: Owner, rounds: int = 7) -> None:
    duet = owner.scientist
    owner.share_many(ASSETS)
    duet.wait_object(f"asset {ASSETS - 1}", 120)
    ways: dict[str, Callable[[], float]] = {
        "names": lambda: timed(lambda: list(duet.store)),
        "the table": lambda: timed(lambda: duet.store.table()),
        "as HTML": lambda: timed(lambda: duet.store._repr_html_()),
        "as text": lambda: timed(lambda: repr(duet.store)),
    }
    samples = interleave(ways, rounds)
    report(
        "remote_store",
        f"A store of {len(duet.store):,} assets, listed",
        ["what", "ms, median (least to most)"],
        [[name, f"{sample.median_s * 1000:.1f} ({sample.spread})"] for name, sample in samples.items()],
        {name: sample.times_s for name, sample in samples.items()},
    )


if __name__ == "__main__":
    main()
