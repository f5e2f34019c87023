"""An audit of a private training: trains on canaries, and compares the result with the claimed epsilon.

This file runs the trainings. It reads their weights after every step, as an attacker that gets each
checkpoint could. `evidence.py` decides what follows from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from duetlink.learning.audit.bounds import Bools, Floats
from duetlink.learning.audit.canaries import CANARIES, Counts, ProbeModel, count, loss, rows_of
from duetlink.learning.audit.evidence import Evidence, Run, find
from duetlink.learning.audit.noise import chance_alike
from duetlink.learning.dp.accounting import Spending
from duetlink.learning.dp.keystream import Keystream

_STEPS = 4
_ONE_IN = 4  # one in four rows is in a batch of the sampled training
_SAMPLED_STEPS = 40


class Training(Protocol):
    """The training to audit: `DpSgd`, or another class with these members."""

    @property
    def spending(self) -> Spending: ...

    def batches(self, *tensors: Tensor) -> Iterable[tuple[Tensor, ...]]: ...

    def step(self, *batch: Tensor) -> None: ...


@dataclass(frozen=True, slots=True)
class Probe:
    """The arguments from which `make` builds a training for one run of the audit."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    loss: Callable[[Tensor, Tensor], Tensor]
    rows: int  # declared
    batch: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of an audit. `broken` is empty if no promise was found broken."""

    claimed: float  # epsilon of the audited steps
    shown: float  # the lower bound that was found, at the audit's confidence
    broken: tuple[str, ...]

    def __str__(self) -> str:
        if not self.broken:
            return (
                f"nothing found: epsilon {self.claimed:.3g} is claimed, at least {self.shown:.3g} was shown"
            )
        return f"epsilon {self.claimed:.3g} is claimed. " + " ".join(self.broken)


def audit(
    make: Callable[[Probe], Training], *, clip: float, delta: float = 1e-5, confidence: float = 0.999999
) -> Verdict:
    """Train several times on canaries, and test the results for everything that a private training must not
    do.

    Args:
        make: builds the training from a probe, the same every time, with the clipping norm and noise to
            audit.
        clip: the clipping norm of that training.
        delta: of the claimed epsilon.
        confidence: the probability that a sound training is found sound.
    """
    included = Keystream().uniform(CANARIES) < 0.5
    everyone, nobody = np.ones(CANARIES, np.bool_), np.zeros(CANARIES, np.bool_)
    half = CANARIES // 2

    def run(canaries: Bools, *, rows: int, batch: int, steps: int = _STEPS) -> Run:
        return _train(make, canaries, clip=clip, rows=rows, batch=batch, steps=steps)

    evidence = Evidence(
        whole=run(included, rows=half, batch=half),
        included=included,
        empty=run(nobody, rows=half, batch=half),
        sampled=run(everyone, rows=CANARIES, batch=CANARIES // _ONE_IN, steps=_SAMPLED_STEPS),
        few=tuple(run(everyone[:rows], rows=2, batch=2) for rows in range(3)),
    )
    found = find(evidence, delta, confidence)
    return Verdict(found.claimed, found.shown, found.broken)


def _train(
    make: Callable[[Probe], Training], canaries: Bools, *, clip: float, rows: int, batch: int, steps: int
) -> Run:
    model = ProbeModel()
    training = make(Probe(model, torch.optim.SGD(model.parameters(), lr=1.0), loss, rows, batch))
    weights, counts = [model.weights()], list[Counts]()
    tensors = rows_of(canaries, clip)
    while len(counts) < steps:
        for drawn in training.batches(*tensors):
            counts.append(count(drawn[-1]))
            training.step(*drawn)
            weights.append(model.weights())
            if len(counts) == steps:
                break
    return Run(np.diff(np.stack(weights), axis=0) * (-batch / clip), np.stack(counts), training.spending)


def share_noise(frames: Sequence[Floats], confidence: float = 0.999999) -> bool:
    """Return True if the frames of a group's members have noise in common, which each could subtract.

    `frames`: one array per member, all of one shape, from a step on empty batches.
    """
    return chance_alike(np.stack([frame.reshape(-1) for frame in frames])) < 1.0 - confidence
