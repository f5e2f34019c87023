"""Private training: our clipped sums, Opacus', torch.func's, and plain SGD; then two processes against one.

The first table is the case of the project that this one began with: a 9-50-1 perceptron, batches of 256 of
960,000 rows, a clipping norm of 3, a sigma of 0.9. Each way runs `--steps` steps on one thread, whose
processor time is taken; an epoch has 3,750. There, an epoch took 170.9 s on four GPUs. Ours draws its
batches; Opacus is measured with batches that were drawn before, and with its own loader, as `make_private`
makes it, for a tenth of the steps. Where `pip install opake` has been done, there is a row of it as well.

The second is 784-512-512-10, batches of 512, one process against two that add up over a group of duetlink,
each with one thread and half of the rows, by the clock. Where cores are busy, it says little: the load is
told.
"""

from __future__ import annotations

import importlib.util
import math
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

import click
import torch
from torch import Tensor, nn

from benchmarks.command import benchmark, rounds
from benchmarks.harness import Sample, interleave, ratio, report
from duetlink.learning import DpSgd

ROWS, BATCH, CLIP, NOISE, RATE = 960_000, 256, 3.0, 0.9, 0.01
LARGE_ROWS, LARGE_BATCH = 20_000, 512
QUICK = {"steps": 10}


def small() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(9, 50), nn.ReLU(), nn.Linear(50, 1), nn.Flatten(0))


def large() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        *(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    )


def census() -> tuple[Tensor, Tensor]:
    """Nine columns of bits and a label, as the source's; made by a seed."""
    draws = torch.Generator().manual_seed(2)
    x = torch.randint(0, 2, (ROWS, 9), generator=draws).float()
    return x, (x.sum(1) + torch.randn(ROWS, generator=draws) > 4.5).float()


def ours(data: tuple[Tensor, Tensor], steps: int, clipping: str) -> Callable[[], float]:
    model = small()
    training = DpSgd(
        model,
        torch.optim.SGD(model.parameters(), lr=RATE),
        nn.BCEWithLogitsLoss(reduction="none"),
        rows=ROWS,
        batch=BATCH,
        clip=CLIP,
        noise=NOISE,
        clipping=clipping,
    )

    def run() -> float:
        began = time.process_time()
        for _, batch in zip(range(steps), training.batches(*data), strict=False):
            training.step(*batch)
        return time.process_time() - began

    return run


def opacus(data: tuple[Tensor, Tensor], steps: int) -> Callable[[], float]:
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    model = GradSampleModule(small(), loss_reduction="mean")
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=RATE),
        noise_multiplier=NOISE,
        max_grad_norm=CLIP,
        expected_batch_size=BATCH,
    )
    loss = nn.BCEWithLogitsLoss()
    return _loop(data, steps, model, optimizer, loss)


def opacus_loader(data: tuple[Tensor, Tensor], steps: int) -> Callable[[], float]:
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    inner = small()
    loader: Any = DataLoader(TensorDataset(*data), batch_size=BATCH)
    model, optimizer, loader = PrivacyEngine().make_private(
        module=inner,
        optimizer=torch.optim.SGD(inner.parameters(), lr=RATE),
        data_loader=loader,
        noise_multiplier=NOISE,
        max_grad_norm=CLIP,
    )
    loss, few = nn.BCEWithLogitsLoss(), max(1, steps // 10)

    def run() -> float:
        began = time.process_time()
        for _, (x, y) in zip(range(few), loader, strict=False):
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()
        return (time.process_time() - began) * steps / few

    return run


def opake(data: tuple[Tensor, Tensor], steps: int) -> Callable[[], float]:
    """Opake by its functions: a pure loss of one row, and states that each call returns."""
    import torchopt
    from opake.dpsgd.clipping import clipped_grad
    from opake.dpsgd.noise import gaussian_noise
    from opake.optimizers import sgd
    from opake.random import key

    model, loss = small(), nn.BCEWithLogitsLoss()

    def of_one(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        found: Tensor = loss(torch.func.functional_call(model, weights, (x[None],)), y[None])
        return found

    gradient, clip_state = clipped_grad(of_one, clipping_norm=CLIP, normalize_by=BATCH, batch_argnums=(1, 2))
    noise, noise_state = gaussian_noise(noise_multiplier=NOISE, key=key(1))
    optimizer = sgd(RATE)
    weights = {name: each.detach().clone() for name, each in model.named_parameters()}
    states = (clip_state, noise_state, optimizer.init(weights))
    drawn = [torch.randint(0, ROWS, (BATCH,)) for _ in range(steps)]

    def run() -> float:
        nonlocal weights, states
        began = time.process_time()
        for rows in drawn:
            clip_state, noise_state, optimizer_state = states
            clipped, clip_state = gradient(weights, data[0][rows], data[1][rows], state=clip_state)
            noisy, noise_state = noise(clipped, noise_state)
            change, optimizer_state = optimizer.update(noisy, optimizer_state, params=weights)
            weights = torchopt.apply_updates(weights, change, inplace=False)
            states = (clip_state, noise_state, optimizer_state)
        return time.process_time() - began

    return run


def plain(data: tuple[Tensor, Tensor], steps: int) -> Callable[[], float]:
    model = small()
    return _loop(data, steps, model, torch.optim.SGD(model.parameters(), lr=RATE), nn.BCEWithLogitsLoss())


def _loop(
    data: tuple[Tensor, Tensor], steps: int, model: nn.Module, optimizer: Any, loss: nn.Module
) -> Callable[[], float]:
    drawn = [torch.randint(0, ROWS, (BATCH,)) for _ in range(steps)]

    def run() -> float:
        began = time.process_time()
        for rows in drawn:
            optimizer.zero_grad()
            loss(model(data[0][rows]), data[1][rows]).backward()
            optimizer.step()
        return time.process_time() - began

    return run


def member(number: int, size: int, codes: Any, steps: int, took: Any) -> None:
    """One process of the second table."""
    import duetlink

    torch.set_num_threads(1)
    group = None
    if size > 1:
        group = duetlink.group(size=size) if number == 0 else duetlink.group(codes.get())
        for _ in range(size - 1 if number == 0 else 0):
            codes.put(group.code)
        group.wait_ready(60)
    model = large()
    training = DpSgd(
        model,
        torch.optim.SGD(model.parameters(), lr=RATE),
        nn.CrossEntropyLoss(reduction="none"),
        rows=LARGE_ROWS,
        batch=LARGE_BATCH,
        clip=CLIP,
        noise=NOISE,
        group=group,
        trust="leader",
    )
    draws = torch.Generator().manual_seed(number)
    x = torch.rand((LARGE_ROWS // size, 784), generator=draws)
    y = torch.randint(0, 10, (len(x),), generator=draws)
    began = 0.0
    for step, batch in zip(range(steps + 2), training.batches(x, y), strict=False):
        if step == 2:
            began = time.perf_counter()
        training.step(*batch)
    if number == 0:
        took.put(time.perf_counter() - began)
    if group is not None:
        group.close()


def processes(size: int, steps: int) -> float:
    spawn = multiprocessing.get_context("spawn")
    codes, took = spawn.Queue(), spawn.Queue()
    started = [
        spawn.Process(target=member, args=(number, size, codes, steps, took)) for number in range(size)
    ]
    for process in started:
        process.start()
    found = float(took.get(timeout=300))
    for process in started:
        process.join(60)
    return found


@benchmark
@rounds(3)
@click.option("--steps", type=click.IntRange(10, 3000), default=200, show_default=True, help="Of each run.")
def main(rounds: int, steps: int) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    data = census()
    ways = {
        "plain SGD, no privacy": plain(data, steps),
        "ours, bookkeeping": ours(data, steps, "bookkeeping"),
        "ours, torch.func": ours(data, steps, "per_sample"),
        "Opacus": opacus(data, steps),
        "Opacus, its loader": opacus_loader(data, steps),
    }
    if importlib.util.find_spec("opake"):
        ways["Opake"] = opake(data, steps)
    for way in ways.values():
        way()  # warm
    samples = interleave(ways, rounds)
    epoch = math.ceil(ROWS / BATCH) / steps
    load = f"1-minute load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    rows = [
        [
            name,
            f"{1000 * sample.median_s / steps:.3f}",
            f"{epoch * sample.median_s:.2f}",
            ratio(samples["Opacus"], sample),
        ]
        for name, sample in samples.items()
    ]
    report(
        "learning_small",
        f"9-50-1, batch 256 of 960,000 rows, processor time of one thread; {load}",
        ["way", "ms a step", "s an epoch", "of Opacus"],
        rows,
        {"load": load, "steps": steps, "times_s": {name: each.times_s for name, each in samples.items()}},
    )
    few = max(10, steps // 10)
    scaled: dict[str, Sample] = interleave(
        {"one": lambda: processes(1, few), "two": lambda: processes(2, few)}, rounds
    )
    report(
        "learning_large",
        f"784-512-512-10, batch 512, {few} steps; {load}",
        ["processes", "ms a step", "of one"],
        [[name, f"{1000 * s.median_s / few:.1f}", ratio(scaled["one"], s)] for name, s in scaled.items()],
        {"load": load, "steps": few, "times_s": {name: each.times_s for name, each in scaled.items()}},
    )


if __name__ == "__main__":
    main()
