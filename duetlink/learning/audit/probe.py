"""An audit of a private training: it trains on canaries, and what it learns is held against its claim.

The probe is a linear model without a bias, whose sample gradients are its inputs. Each canary's gradient has
a coordinate of its own, and is far longer than the clipping norm; the other coordinates get noise alone. So
one short training shows how much of a row comes through, and with how much noise.
"""

from __future__ import annotations

import itertools
import math
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn

from duetlink.learning.audit.bounds import Bools, Floats, gaussian_bound, one_run_bound
from duetlink.learning.dp.accounting import Spending

_CANARIES = 400
_QUIET = 4_000  # coordinates that no row touches
_LENGTH = 1e3  # of a canary's gradient, in clipping norms
_STEPS = 4


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
        confidence: how seldom a sound training is accused, in each of the audit's five looks.
    """
    broken: list[str] = []
    first, included, training = _canaries(make, clip)
    shadow, _, _ = _canaries(make, clip, none=True)
    claimed = training.spending.epsilon(delta)
    bounds = {
        "What it learnt": first.scores,
        "What it learnt, less what the same training learns of nothing": first.scores - shadow.scores,
    }
    shown = 0.0
    for what, scores in bounds.items():
        least = max(
            one_run_bound(scores, included, delta, confidence),
            gaussian_bound(scores, included, delta, confidence),
        )
        shown = max(shown, least)
        if least > claimed:
            broken.append(f"{what} shows an epsilon of at least {least:.3g}.")
    if _alike(first.quiet, shadow.quiet, 1.0 - confidence):
        broken.append("Two trainings had the same noise: whoever knows it takes it off.")
    for rows in (1, 0):
        if _differ(_quiet(make, rows), _quiet(make, rows + 1), 1.0 - confidence):
            broken.append(f"The noise tells {rows} row{'s' * (rows != 1)} from {rows + 1}.")
    return Verdict(claimed, shown, tuple(broken))


@dataclass(frozen=True, slots=True)
class _Learnt:
    scores: Floats  # one for each canary, in clipping norms
    quiet: Floats  # where no canary is


def _canaries(
    make: Callable[[Probe], Training], clip: float, *, none: bool = False
) -> tuple[_Learnt, Bools, Training]:
    included = np.array([secrets.randbelow(2) == 1 for _ in range(_CANARIES)])
    inputs = (
        _LENGTH * clip * torch.eye(_CANARIES, _CANARIES + _QUIET)[torch.from_numpy(included & (not none))]
    )
    rows = _CANARIES // 2
    weights, training = _trained(make, inputs, rows=rows, batch=rows)
    learnt = -weights * rows / clip
    return _Learnt(learnt[:_CANARIES], learnt[_CANARIES:]), included, training


def _quiet(make: Callable[[Probe], Training], rows: int) -> Floats:
    """The noise of a training on so many rows, where two are declared and every batch takes all there are."""
    inputs = torch.eye(rows, _CANARIES + _QUIET)
    weights, _ = _trained(make, inputs, rows=2, batch=2)
    return weights[_CANARIES:]


def _trained(
    make: Callable[[Probe], Training], inputs: Tensor, *, rows: int, batch: int
) -> tuple[Floats, Training]:
    model = nn.Linear(inputs.shape[1], 1, bias=False)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    training = make(Probe(model, optimizer, lambda outputs, _: outputs.squeeze(1), rows, batch))
    steps = 0
    while steps < _STEPS:
        for drawn, targets in training.batches(inputs, torch.zeros(len(inputs))):
            training.step(drawn, targets)
            steps += 1
            if steps == _STEPS:
                break
    return model.weight.detach().double().numpy()[0], training


def share_noise(frames: Sequence[Floats], confidence: float = 0.999999) -> bool:
    """Whether what members of a group gave to one sum has noise in common, so that each could take all of it
    off. `frames`: one array per member, all of one shape, from a step on empty batches.
    """
    pairs = list(itertools.combinations(frames, 2))
    return any(_alike(first, second, (1.0 - confidence) / len(pairs)) for first, second in pairs)


def _alike(first: Floats, second: Floats, doubt: float) -> bool:
    """Whether two lists of noise go together."""
    if not (first.std() and second.std()):
        return False  # no noise at all, which shows elsewhere
    return bool(abs(np.corrcoef(first, second)[0, 1]) > stats.norm.isf(doubt / 2) / math.sqrt(len(first)))


def _differ(first: Floats, second: Floats, doubt: float) -> bool:
    """Whether two lists of normal noise have different variances (F test)."""
    variances = float(first.var(ddof=1)), float(second.var(ddof=1))
    if min(variances) == 0.0:
        return max(variances) > 0.0
    ratio = variances[0] / variances[1]
    side = stats.f.sf(max(ratio, 1.0 / ratio), len(first) - 1, len(second) - 1)
    return bool(2.0 * float(side) < doubt)
