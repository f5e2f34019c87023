"""An audit of a private training: it trains on canaries, and what it learns is held against its claim.

Here are the trainings. Their weights are read after every step, as someone who gets each checkpoint could.
What follows from them is decided in `evidence.py`.
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
_ONE_IN = 4  # rows is in a batch of the sampled training
_SAMPLED_STEPS = 40


class Training(Protocol):
    """What is audited: `DpSgd`, or another with the same face."""

    @property
    def spending(self) -> Spending: ...

    def batches(self, *tensors: Tensor) -> Iterable[tuple[Tensor, ...]]: ...

    def step(self, *batch: Tensor) -> None: ...


@dataclass(frozen=True, slots=True)
class Probe:
    """What a training is made from, for one run of the audit."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    loss: Callable[[Tensor, Tensor], Tensor]
    rows: int  # declared
    batch: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an audit has found. `broken` is empty where nothing speaks against the claim."""

    claimed: float  # epsilon of the audited steps
    shown: float  # that it is at least, with the audit's confidence
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
    """Train several times on canaries, and look for what a private training may not do.

    Args:
        make: makes the training from a probe, the same every time, with the clipping norm and noise to audit.
        clip: its clipping norm.
        delta: of the epsilon that is claimed.
        confidence: with what probability a sound training is found sound.
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
    """Whether what members of a group gave to one sum has noise in common, so that each could take all of it
    off. `frames`: one array per member, all of one shape, from a step on empty batches.
    """
    return chance_alike(np.stack([frame.reshape(-1) for frame in frames])) < 1.0 - confidence
