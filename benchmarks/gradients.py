"""Bytes against accuracy: gradients of four workers through every compressor.

The digits of scikit-learn (1,797 images of 8 x 8), in five folds of 1437/360: each seed trains on four and is
tested on the fifth, so that every image is tested once. A multilayer perceptron (26,122 parameters) and a
small convolutional network (38,282), momentum SGD, `EPOCHS` epochs with a cosine schedule. Each worker has a
quarter of the training images; in every step it compresses the gradient of its batch; the chunks are decoded,
averaged and applied once, as all workers would. Equal seeds give equal models, shards and batches.
Sparsifying methods but DGC choose from all parameters at once; the others compress tensor by tensor.

Each core trains one model at a time; all of them take an hour of processor time.

Volume is what the workers send, headers and all, over their gradients in float32; beside it that of the last
epoch, without warm-up. Each model has one learning rate for all methods, times the factor that a method has
in `METHODS`. DGC carries the momentum itself, so that its mean is applied by plain SGD.
"""

from __future__ import annotations

import math
import multiprocessing
import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold
from torch import nn

from benchmarks.baselines import deep_reduce
from benchmarks.command import benchmark, parts
from benchmarks.harness import report
from duetlink.codecs import decode
from duetlink.codecs.gradients import Dgc, GradientCompressor, PowerSgd, Quantised, RandomK, TopK

WORKERS = 4
SEEDS = 5
EPOCHS = 60
BATCH = 16  # of one worker
MOMENTUM = 0.9

Gradients = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Method:
    """One row of the table. `make` gives the compressor of one worker; None: gradients travel as they are."""

    name: str
    make: Callable[[int], GradientCompressor] | None = None
    rate: float = 1.0  # times that of the model
    momentum: float = MOMENTUM  # of the optimiser, after averaging
    flat: bool = False  # all parameters as one vector


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one training."""

    accuracy: float
    volume: float  # sent over dense
    last_volume: float  # in the last epoch


def perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )


def convolutional() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10)),
    )


@dataclass(frozen=True, slots=True)
class Model:
    """A network and the learning rate at which dense training does well."""

    name: str
    make: Callable[[], nn.Module]
    rate: float


MODELS = (Model("MLP", perceptron, 0.2), Model("CNN", convolutional, 0.1))


def _top_k(
    name: str, density: float, index: str = "auto", value: str = "lossless", rate: float = 1.0
) -> Method:
    def make(worker: int) -> TopK:
        return TopK(density, index=index, value=value, seed=worker)

    return Method(name, make, rate, flat=True)


def _dgc(density: float, value: str) -> Method:
    def make(worker: int) -> Dgc:
        return Dgc(density, momentum=MOMENTUM, value=value, workers=WORKERS, seed=worker)

    return Method(f"DGC {density:.1%}, {value}", make, momentum=0.0)


def _seedless(name: str, make: Callable[[], GradientCompressor]) -> Method:
    return Method(name, lambda worker: make())


# at 10 %; each index codec and each value codec at least once, with those of `deep_reduce`
DEEP_REDUCE = (
    *(("bloom_p0", "qsgd"), ("bloom_p1", "bfloat16"), ("bloom_p2", "block8"), ("run_length", "lossless")),
    *(("huffman", "natural"), ("gap_rice", "block8"), ("elias_fano", "float16"), ("bitmap", "raw")),
    *(("gap_rice", "polynomial"), ("gap_rice", "double_exponential"), ("auto", "block8"), ("auto", "block4")),
)

METHODS = (
    Method("dense"),
    _top_k("top-k 10 %", 0.1),
    _top_k("top-k 1 %", 0.01),
    Method("random-k 10 %", lambda worker: RandomK(0.1, seed=worker), rate=0.1, flat=True),
    *(_dgc(density, value) for density in (0.01, 0.001) for value in ("lossless", "block8")),
    *(_seedless(f"PowerSGD rank {rank}", partial(PowerSgd, rank)) for rank in (1, 2, 4)),
    *(
        _seedless(name, partial(Quantised, name))
        for name in ("qsgd", "natural", "block8", "block4", "bfloat16")
    ),
    *(_top_k(f"10 %: {index} x {value}", 0.1, index, value) for index, value in DEEP_REDUCE),
    # what comes late does less harm in smaller steps
    _top_k("10 %: auto x block4, 0.7 of the rate", 0.1, "auto", "block4", 0.7),
)


class Digits:
    """The folds."""

    def __init__(self) -> None:
        digits = load_digits()
        self.images = torch.tensor(digits.images[:, None] / 16, dtype=torch.float32)
        self.labels = torch.tensor(digits.target)
        folds = StratifiedKFold(SEEDS, shuffle=True, random_state=0)
        self.folds = list(folds.split(digits.data, digits.target))


_digits = cache(Digits)


def _begin() -> None:
    """Prepare a process for training."""
    torch.set_num_threads(1)
    deep_reduce.register()


def _outcome(kind: Model, method: int, seed: int) -> Outcome:
    """Train in a process of the pool. `method` is a place in `METHODS`, whose functions cannot be sent."""
    return train(_digits(), kind, METHODS[method], seed)


def train(digits: Digits, kind: Model, method: Method, seed: int) -> Outcome:
    """One model from its first to its last step."""
    torch.manual_seed(seed)
    model = kind.make()
    parameters = dict(model.named_parameters())
    compressors = [method.make(worker) for worker in range(WORKERS)] if method.make else []
    dense_bytes = sum(parameter.nbytes for parameter in parameters.values())
    velocity = {name: np.zeros(p.shape, np.float32) for name, p in parameters.items()}
    learning, testing = digits.folds[seed]
    shards = np.array_split(np.random.default_rng(seed).permutation(learning), WORKERS)
    sent = []
    for epoch in range(EPOCHS):
        for compressor in compressors:
            compressor.epoch = epoch
        for step, batches in enumerate(steps := list(_batches(shards, seed, epoch))):
            done = (epoch + step / len(steps)) / EPOCHS
            rate = kind.rate * method.rate * 0.5 * (1 + math.cos(math.pi * done))
            gradients = [_gradients(model, digits, batch) for batch in batches]
            if method.flat:
                size_bytes, mean = _averaged([_flat(each) for each in gradients], compressors)
                mean = _split(mean, gradients[0])
            else:
                size_bytes, mean = _averaged(gradients, compressors)
            sent.append(size_bytes / dense_bytes / WORKERS)
            with torch.no_grad():
                for name, parameter in parameters.items():
                    velocity[name] = method.momentum * velocity[name] + mean[name]
                    parameter.sub_(rate * torch.from_numpy(velocity[name]))
    with torch.no_grad():
        right = model(digits.images[testing]).argmax(1) == digits.labels[testing]
    return Outcome(right.float().mean().item(), statistics.fmean(sent), statistics.fmean(sent[-len(steps) :]))


def _batches(shards: list[NDArray[np.int64]], seed: int, epoch: int) -> Iterator[list[NDArray[np.int64]]]:
    """Of each step of an epoch, the batch of each worker."""
    order = np.random.default_rng((seed, epoch))
    shuffled = [order.permutation(shard) for shard in shards]
    for at in range(0, min(map(len, shuffled)) - BATCH + 1, BATCH):
        yield [shard[at : at + BATCH] for shard in shuffled]


def _gradients(model: nn.Module, digits: Digits, batch: NDArray[np.int64]) -> Gradients:
    model.zero_grad()
    nn.functional.cross_entropy(model(digits.images[batch]), digits.labels[batch]).backward()
    found = {name: parameter.grad for name, parameter in model.named_parameters()}
    return {name: gradient.numpy() for name, gradient in found.items() if gradient is not None}


def _averaged(gradients: list[Gradients], compressors: list[GradientCompressor]) -> tuple[int, Gradients]:
    """Bytes sent, and the mean of what was decoded."""
    if not compressors:
        size_bytes = sum(gradient.nbytes for each in gradients for gradient in each.values())
        return size_bytes, {name: _mean([each[name] for each in gradients]) for name in gradients[0]}
    chunks = [compressor.compress_all(each) for compressor, each in zip(compressors, gradients, strict=True)]
    size_bytes = sum(len(data) for each in chunks for data in each.values())
    return size_bytes, {name: _mean([decode(each[name])[0] for each in chunks]) for name in chunks[0]}


def _flat(gradients: Gradients) -> Gradients:
    return {"all": np.concatenate([gradient.reshape(-1) for gradient in gradients.values()])}


def _split(mean: Gradients, like: Gradients) -> Gradients:
    ends = np.cumsum([gradient.size for gradient in like.values()])
    parts = np.split(mean["all"], ends[:-1])
    return {name: part.reshape(like[name].shape) for name, part in zip(like, parts, strict=True)}


def _mean(arrays: list[NDArray[Any]]) -> NDArray[np.float32]:
    whole: NDArray[Any] = sum(arrays[1:], arrays[0]) / np.float32(len(arrays))
    return whole


_NAMES = tuple(kind.name for kind in MODELS)


@benchmark
@parts("--model", "names", _NAMES)
def main(names: tuple[str, ...]) -> None:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(mp_context=spawn, initializer=_begin) as processes:
        for kind in MODELS:
            if kind.name in names:
                _table(processes, kind)


def _table(processes: ProcessPoolExecutor, kind: Model) -> None:
    trained = [
        [processes.submit(_outcome, kind, number, seed) for seed in range(SEEDS)]
        for number in range(len(METHODS))
    ]
    rows, data = [], []
    baseline: list[float] = []
    for method, futures in zip(METHODS, trained, strict=True):
        outcomes = [future.result() for future in futures]
        accuracies = [100 * outcome.accuracy for outcome in outcomes]
        baseline = baseline or accuracies  # dense comes first
        differences = [ours - dense for ours, dense in zip(accuracies, baseline, strict=True)]
        volume = statistics.fmean(outcome.volume for outcome in outcomes)
        last_volume = statistics.fmean(outcome.last_volume for outcome in outcomes)
        error = statistics.stdev(differences) / math.sqrt(SEEDS)
        rows.append(
            [
                method.name,
                f"{volume:.4f}",
                f"{last_volume:.4f}",
                f"{statistics.fmean(accuracies):.2f}",
                f"{statistics.fmean(differences):+.2f} ± {error:.2f}",
            ]
        )
        print(rows[-1], flush=True)
        data.append(
            {
                "model": kind.name,
                "method": method.name,
                "rate": kind.rate * method.rate,
                "volume": volume,
                "last_volume": last_volume,
                "accuracies": accuracies,
                "differences": differences,
            }
        )
    title = f"{kind.name}, {WORKERS} workers on digits: bytes over dense, accuracy of {SEEDS} seeds in points"
    headers = ["method", "volume", "last epoch", "accuracy", "to dense (± standard error)"]
    report(f"gradients_{kind.name}", title, headers, rows, data)


if __name__ == "__main__":
    main()
