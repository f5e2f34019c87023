"""Private training by `DpSgd`, Opacus and torch.func, beside plain SGD; then two processes against one.

The first table is the case of the project that this one began with: a 9-50-1 perceptron, batches of 256 of
960,000 rows, a clipping norm of 3, a sigma of 0.9. The ways take turns of `--steps` steps on one thread,
whose processor time is taken; an epoch has 3,750. There, an epoch took 170.9 s on four GPUs. DpSgd draws its
batches, and has a row with batches that were drawn before, as Opacus has. Opacus also has one with its own
loader, as `make_private` makes it, for a tenth of the steps. Where `pip install opake` has been done, there
is a row of it as well.

The second has networks of convolutions, on images and on series, measured likewise with batches of 64 to 256
of 4,096 rows and a twentieth of the steps: DpSgd draws its batches, those of plain SGD and of Opacus were
drawn before.

The third is 784-512-512-10, batches of 512, one process against two that add up over a group of duetlink,
each with one thread and half of the rows, by the clock, also with a twentieth of the steps. Where cores are
busy, it says little: the load is told.
"""

from __future__ import annotations

import importlib.util
import math
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
import torch
from torch import Tensor, nn

from benchmarks.command import benchmark, rounds
from benchmarks.harness import Sample, interleave, ratio, report
from duetlink.learning import DpSgd

ROWS, BATCH, CLIP, NOISE, RATE = 960_000, 256, 3.0, 0.9, 0.01
LARGE_ROWS, LARGE_BATCH = 20_000, 512
DRAWN = "batches drawn before"
QUICK = {"steps": 10}


def small() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(9, 50), nn.ReLU(), nn.Linear(50, 1), nn.Flatten(0))


def large() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        *(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    )


def digits() -> nn.Module:
    """The network of Opacus' own example for MNIST."""
    torch.manual_seed(1)
    first = (nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1))
    second = (nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Flatten())
    return nn.Sequential(*first, *second, nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10))


def photographs() -> nn.Module:
    torch.manual_seed(1)
    first = (nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU())
    second = (nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    third = (nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(*first, *second, *third, nn.Linear(64, 10))


def series() -> nn.Module:
    torch.manual_seed(1)
    first = (nn.Conv1d(16, 32, 5, padding=2), nn.ReLU(), nn.Conv1d(32, 32, 5, padding=2), nn.ReLU())
    return nn.Sequential(*first, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, 10))


# the network, the shape of its inputs, and the batch
CONVOLUTIONS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "MNIST, 28x28, batch 256": (digits, (1, 28, 28), 256),
    "32x32 in three colors, batch 64": (photographs, (3, 32, 32), 64),
    "128 items of 16 series, batch 64": (series, (16, 128), 64),
}
CONVOLUTION_ROWS = 4096


def census() -> tuple[Tensor, Tensor]:
    """Nine columns of bits and a label, as the source's; made by a seed."""
    draws = torch.Generator().manual_seed(2)
    x = torch.randint(0, 2, (ROWS, 9), generator=draws).float()
    return x, (x.sum(1) + torch.randn(ROWS, generator=draws) > 4.5).float()


@dataclass(frozen=True, slots=True)
class Problem:
    """What is trained on what."""

    make: Callable[[], nn.Module]
    loss: type[nn.Module]
    data: tuple[Tensor, Tensor]
    batch: int
    steps: int


def ours(problem: Problem, *, drawn: bool = False, **settings: Any) -> Callable[[], float]:
    """DpSgd with batches that it draws while it runs, or, if `drawn`, has drawn before."""
    model = problem.make()
    training = DpSgd(
        model,
        torch.optim.SGD(model.parameters(), lr=RATE),
        problem.loss(reduction="none"),
        rows=len(problem.data[0]),
        batch=problem.batch,
        clip=CLIP,
        noise=NOISE,
        **settings,
    )

    x, y = problem.data
    before = [
        rows for rows, _ in zip(training.batches(torch.arange(len(x))), range(problem.steps), strict=False)
    ]

    def run() -> float:
        began = time.process_time()
        if drawn:
            for (rows,) in before:
                training.step(x[rows], y[rows])
        else:
            for _, batch in zip(range(problem.steps), training.batches(x, y), strict=False):
                training.step(*batch)
        return time.process_time() - began

    return run


def opacus(problem: Problem) -> Callable[[], float]:
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    model = GradSampleModule(problem.make(), loss_reduction="mean")
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=RATE),
        noise_multiplier=NOISE,
        max_grad_norm=CLIP,
        expected_batch_size=problem.batch,
    )
    return _loop(problem, model, optimizer)


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


def plain(problem: Problem) -> Callable[[], float]:
    model = problem.make()
    return _loop(problem, model, torch.optim.SGD(model.parameters(), lr=RATE))


def _loop(problem: Problem, model: nn.Module, optimizer: Any) -> Callable[[], float]:
    (x, y), loss = problem.data, problem.loss()
    drawn = [torch.randint(0, len(x), (problem.batch,)) for _ in range(problem.steps)]

    def run() -> float:
        began = time.process_time()
        for rows in drawn:
            optimizer.zero_grad()
            loss(model(x[rows]), y[rows]).backward()
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


def convolutions(rounds: int, steps: int) -> None:
    rows, times = [], {}
    for name, (make, shape, batch) in CONVOLUTIONS.items():
        draws = torch.Generator().manual_seed(2)
        x = torch.randn((CONVOLUTION_ROWS, *shape), generator=draws)
        y = torch.randint(0, 10, (len(x),), generator=draws)
        problem = Problem(make, nn.CrossEntropyLoss, (x, y), batch, min(steps, len(x) // batch))
        ways = {"plain SGD": plain(problem), "DpSgd": ours(problem), "Opacus": opacus(problem)}
        for way in ways.values():
            way()  # warm
        samples = interleave(ways, rounds)
        each = [f"{1000 * samples[way].median_s / problem.steps:.1f}" for way in ways]
        slower = ratio(samples["DpSgd"], samples["plain SGD"])
        rows.append([name, *each, slower, ratio(samples["Opacus"], samples["DpSgd"])])
        times[name] = {way: sample.times_s for way, sample in samples.items()}
    load = f"1-minute load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    report(
        "learning_convolutions",
        f"Convolutions, processor time of one thread, ms a step; {load}",
        ["network", "plain SGD", "DpSgd", "Opacus", "DpSgd: time of plain SGD", "DpSgd: speed of Opacus"],
        rows,
        {"load": load, "torch": torch.__version__, "times_s": times},
    )


@benchmark
@rounds(9)
@click.option("--steps", type=click.IntRange(10, 3000), default=200, show_default=True, help="Of each turn.")
def main(rounds: int, steps: int) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    data = census()
    problem = Problem(small, nn.BCEWithLogitsLoss, data, BATCH, steps)
    ways = {
        "plain SGD, no privacy": plain(problem),
        "DpSgd": ours(problem),
        f"DpSgd, {DRAWN}": ours(problem, drawn=True),
        'DpSgd(clipping="per_sample")': ours(problem, clipping="per_sample"),
        f"Opacus, {DRAWN}": opacus(problem),
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
            ratio(sample, samples["plain SGD, no privacy"]),
            ratio(samples[f"Opacus, {DRAWN}"], sample),
        ]
        for name, sample in samples.items()
    ]
    report(
        "learning_small",
        f"9-50-1, batch 256 of 960,000 rows, processor time of one thread; {load}",
        ["way", "ms a step", "s an epoch", "time of plain SGD", "speed of Opacus"],
        rows,
        {
            "load": load,
            "torch": torch.__version__,
            "steps": steps,
            "times_s": {name: each.times_s for name, each in samples.items()},
        },
    )
    few = max(10, steps // 20)
    convolutions(rounds, few)
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
