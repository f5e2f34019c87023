"""The released weights of an audit's trainings, and the findings that follow from them.

Everything here is a function of values: the same evidence gives the same findings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from duetlink.learning.audit.bounds import Bools, Floats, gaussian_bound, one_run_bound
from duetlink.learning.audit.canaries import Counts, along, quiet
from duetlink.learning.audit.draws import suspect_draws
from duetlink.learning.audit.influence import suspect_influence
from duetlink.learning.audit.noise import chance_alike, chance_of_one_size, suspect_noise
from duetlink.learning.audit.suspicion import Suspicion
from duetlink.learning.dp.accounting import Spending

_DIGITS = 3  # digits of a score, in clipping norms: without noise, scores differ only by float32 rounding


@dataclass(frozen=True, slots=True)
class Run:
    """One training, step by step."""

    sums: Floats  # shape (steps, tensors, columns): the change of the weights by each step, in clipping norms
    counts: Counts  # shape (steps, CANARIES): the number of times each canary was in the batch
    spending: Spending  # the training's own account of these steps


@dataclass(frozen=True, slots=True)
class Evidence:
    """The trainings of one audit."""

    whole: Run  # each step takes all of the included canaries
    included: Bools  # shape (CANARIES,), each by a fair coin
    empty: Run  # the same training without rows
    sampled: Run  # on all canaries, by batches that are samples
    few: tuple[Run, ...]  # on 0, 1, 2, ... rows, all of them in each step


@dataclass(frozen=True, slots=True)
class Findings:
    """The claimed epsilon, the lower bound that the audit has shown, and the broken promises."""

    claimed: float  # epsilon of the steps of `whole`
    shown: float  # the lower bound that was found
    broken: tuple[str, ...]


def find(evidence: Evidence, delta: float, confidence: float) -> Findings:
    """Apply all tests. A sound training has no findings with a probability of at least `confidence`.

    Each test has an equal share of the remaining probability (Bonferroni).
    """
    suspicions = list(_suspicions(evidence))
    whole, empty = (along(run.sums).sum(0) for run in (evidence.whole, evidence.empty))
    learnt = {
        "What it learnt": np.round(whole, _DIGITS),
        "What it learnt, less what the same training learns of nothing": np.round(whole - empty, _DIGITS),
    }
    bounds = (one_run_bound, gaussian_bound)
    share = (1.0 - confidence) / (len(suspicions) + len(learnt) * len(bounds))
    claimed = evidence.whole.spending.epsilon(delta)
    broken: list[str] = []
    shown = 0.0
    for what, scores in learnt.items():
        least = max(bound(scores, evidence.included, delta, 1.0 - share) for bound in bounds)
        shown = max(shown, least)
        if least > claimed:
            broken.append(f"{what} shows an epsilon of at least {least:.3g}.")
    # written so that a NaN counts as broken
    broken += [each.finding for each in suspicions if not each.chance >= share]
    return Findings(claimed, shown, tuple(broken))


def _suspicions(evidence: Evidence) -> Iterator[Suspicion]:
    sampled = evidence.sampled
    for run in (evidence.whole, sampled):
        made, counted = len(run.sums), run.spending.steps
        yield Suspicion(float(counted >= made), f"It made {made} steps, and its account has {counted}.")
    yield from suspect_draws(sampled.counts, sampled.spending.rate)
    yield from suspect_influence(along(sampled.sums), sampled.counts, quiet(sampled.sums))
    yield from suspect_noise(quiet(sampled.sums), sampled.spending.noise)
    both = np.stack([quiet(run.sums).reshape(-1) for run in (evidence.whole, evidence.empty)])
    yield Suspicion(
        chance_alike(both), "Two trainings had the same noise, which could be subtracted from both."
    )
    for rows, (fewer, more) in enumerate(zip(evidence.few[:-1], evidence.few[1:], strict=True)):
        yield Suspicion(
            chance_of_one_size(quiet(fewer.sums), quiet(more.sums)),
            f"The noise distinguishes {rows} row{'s' * (rows != 1)} from {rows + 1}.",
        )
