"""One process of `part_iteration.py`: RANK SIZE ADDRESS FIRST PORT ROUNDS DENSITY WIDTH BATCH.

Rank 0 prints what it saw.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn

from benchmarks.part_sums_member import learn_rate, meet, part
from duetlink.base.runtime.loop import LoopThread
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.reduce_options import ReduceOptions

LEARNING_RATE = 0.002  # with more, the loss rises in the first steps
SAMPLED = 64  # one item in so many tells the threshold, as in Deep Gradient Compression (arXiv 1712.01887)
Sum = Callable[[np.ndarray], np.ndarray]


def vgg(width: int) -> nn.Module:
    """Like VGG (arXiv 1409.1556), for 32 by 32 pixels of grey: most parameters are in the large layers."""
    half = width // 2

    def block(given: int, made: int) -> list[nn.Module]:
        return [nn.Conv2d(given, made, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]

    large = [nn.Linear(2048, width), nn.ReLU(), nn.Linear(width, half), nn.ReLU(), nn.Linear(half, 10)]
    model = nn.Sequential(*block(1, 32), *block(32, 64), *block(64, 128), nn.Flatten(), *large)
    for layer in model:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    return model


class Training:
    """One way's model; its parameters, and its gradients, are one flat array each."""

    def __init__(self, width: int, sum_of: Sum, density: float | None) -> None:
        """With a density, only so much of the gradient is given to `sum_of`, and the rest remembered."""
        torch.manual_seed(0)
        self.model = vgg(width)
        size = sum(each.numel() for each in self.model.parameters())
        self.parameters = torch.empty(size)
        self.gradient = torch.zeros(size)
        done = 0
        for each in self.model.parameters():
            here = slice(done, done + each.numel())
            self.parameters[here] = each.detach().reshape(-1)
            each.data = self.parameters[here].view(each.shape)
            each.grad = self.gradient[here].view(each.shape)
            done += each.numel()
        self._sum_of = sum_of
        self._density = density
        self._memory = np.zeros(size, np.float32)

    def step(self, pixels: torch.Tensor, labels: torch.Tensor) -> tuple[float, float]:
        """One iteration: the loss before it, and the seconds that the sum took."""
        self.gradient.zero_()
        loss = nn.functional.cross_entropy(self.model(pixels), labels)
        loss.backward()
        given = self.gradient.numpy()
        if self._density is not None:
            given = self.sparse()
        start_s = time.perf_counter()
        mean = self._sum_of(given)
        sum_s = time.perf_counter() - start_s
        self.parameters.sub_(torch.from_numpy(mean), alpha=LEARNING_RATE)
        return loss.item(), sum_s

    def sparse(self) -> np.ndarray:
        """The largest items of the gradient and what is remembered; the memory has the others."""
        total = self._memory
        total += self.gradient.numpy()
        magnitudes = np.abs(total)
        sample = magnitudes[::SAMPLED]
        first = int(len(sample) * (1 - (self._density or 0)))
        chosen = magnitudes >= np.partition(sample, first)[first]
        given = np.where(chosen, total, np.float32(0))
        total -= given
        return given


def main() -> None:
    rank, size = int(sys.argv[1]), int(sys.argv[2])
    rounds, density, width, batch = int(sys.argv[6]), float(sys.argv[7]), int(sys.argv[8]), int(sys.argv[9])
    thread, transport, group = meet(rank, size, sys.argv[3], sys.argv[4], int(sys.argv[5]))
    memory = np.zeros(sum(each.numel() for each in vgg(width).parameters()), np.float32)
    learn_rate(thread, group, memory.size)

    def ours(codec: str | None, **more: Any) -> Sum:
        def mean(array: np.ndarray) -> np.ndarray:
            call = group.all_reduce(array, ReduceOptions("mean", True, "ring", codec), **more)
            return np.asarray(thread.run(call))

        return mean

    def by_gloo(array: np.ndarray) -> np.ndarray:
        dist.all_reduce(torch.from_numpy(array))
        array /= size
        return array

    agreed = f"agreed:{density}"
    ways = {
        "dense ring": Training(width, ours(None), None),
        "gloo": Training(width, by_gloo, None),
        "union": Training(width, ours("union"), density),
        "auto": Training(width, ours("auto"), density),
        agreed: Training(width, ours(agreed, memory=memory), None),
    }
    batches = batches_of(rank, size, rounds + 1, batch)
    check(ways["union"], batches[0], thread, group)
    found: dict[str, Any] = {name: {"times_s": [], "sums_s": [], "losses": []} for name in ways}
    for index, (pixels, labels) in enumerate(batches):  # the first warms up
        names = [*ways][index % len(ways) :] + [*ways][: index % len(ways)]
        for name in names:
            before_bytes = transport.sent_bytes
            dist.barrier()
            start_s = time.perf_counter()
            loss, sum_s = ways[name].step(pixels, labels)
            found[name]["times_s"].append(time.perf_counter() - start_s)
            found[name]["sums_s"].append(sum_s)
            found[name]["losses"].append(loss)
            found[name]["sent_bytes"] = transport.sent_bytes - before_bytes if name != "gloo" else 0
            report = None if name in ("dense ring", "gloo") else group.sums[-1]
            found[name]["way"] = "" if report is None else report.way
            found[name]["density"] = None if report is None else report.density
    for each in found.values():
        del each["times_s"][0], each["sums_s"][0]
    if rank == 0:
        print(json.dumps({"parameters": memory.size, "ways": found}), flush=True)
    part(thread, group)


def batches_of(rank: int, size: int, count: int, batch: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """A member's own share of the digits, four times as wide and as high."""
    pixels, labels = load_digits(return_X_y=True)
    images = np.kron(pixels.reshape(-1, 1, 8, 8)[rank::size] / 16, np.ones((1, 1, 4, 4))).astype(np.float32)
    random = np.random.default_rng(rank)
    chosen = [random.integers(0, len(images), batch) for _ in range(count)]
    return [(torch.from_numpy(images[each]), torch.from_numpy(labels[rank::size][each])) for each in chosen]


def check(
    training: Training, batch: tuple[torch.Tensor, torch.Tensor], thread: LoopThread, group: Collectives
) -> None:
    """Raise unless sums of sparse gradients have the dense ring's bits. The training stays as it is."""
    nn.functional.cross_entropy(training.model(batch[0]), batch[1]).backward()
    given = training.sparse()
    training._memory[:] = 0
    dense = thread.run(group.all_reduce(given, ReduceOptions("mean", algorithm="ring")))
    for codec in ("union", "auto"):
        coded = thread.run(group.all_reduce(given, ReduceOptions("mean", algorithm="ring", codec=codec)))
        if np.asarray(coded).tobytes() != np.asarray(dense).tobytes():
            raise SystemExit(f"{codec}: other bits than the dense ring's")
    group.flat.remembered.clear()


if __name__ == "__main__":
    main()
