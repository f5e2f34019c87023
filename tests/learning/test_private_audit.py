"""The audit: right on mechanisms of known epsilon; each planted bug is caught, a sound training is not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from duetlink.learning.audit.bounds import epsilon_of_mu, gaussian_bound, one_run_bound
from duetlink.learning.audit.probe import Probe, audit, share_noise
from duetlink.learning.dp.accounting import Spending
from duetlink.learning.dp.training import DpSgd
from tests.learning.test_private_training import Members
from tests.learning.test_private_training import make as make_training

CLIP = 2.0
NOISE = 1.0


def sound(probe: Probe) -> DpSgd:
    return DpSgd(
        probe.model,
        probe.optimizer,
        probe.loss,
        rows=probe.rows,
        batch=probe.batch,
        clip=CLIP,
        noise=NOISE,
    )


# -- mechanisms of known epsilon -----------------------------------------------------------------------------


def coins(count: int, seed: int) -> tuple[np.random.Generator, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng, rng.random(count) < 0.5


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_randomised_response_is_bounded_from_below_and_closely(epsilon: float) -> None:
    rng, included = coins(20_000, seed=11)
    honest = rng.random(len(included)) < 1.0 / (1.0 + math.exp(-epsilon))
    answers = np.where(honest, included, ~included)
    scores = answers + 1e-6 * rng.random(len(included))
    found = one_run_bound(scores, included, 0.0)
    assert 0.85 * epsilon < found < epsilon


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
def test_the_gaussian_mechanism_is_bounded_from_below_and_closely(mu: float) -> None:
    rng, included = coins(5_000, seed=12)
    scores = included * mu + rng.standard_normal(len(included))
    true = epsilon_of_mu(mu, 1e-5)
    assert 0.8 * true < gaussian_bound(scores, included, 1e-5) < true
    assert 0.0 < one_run_bound(scores, included, 1e-5) < true


@pytest.mark.parametrize("bound", [one_run_bound, gaussian_bound])
def test_noise_alone_shows_next_to_nothing(bound: object) -> None:
    rng, included = coins(2_000, seed=13)
    assert bound(rng.standard_normal(len(included)), included, 1e-5) < 0.2  # type: ignore[operator]


def test_epsilon_of_mu_inverts_its_delta() -> None:
    epsilon = epsilon_of_mu(1.0, 1e-5)
    delta = stats.norm.cdf(-epsilon + 0.5) - math.exp(epsilon) * stats.norm.cdf(-epsilon - 0.5)
    assert delta == pytest.approx(1e-5, rel=1e-6)
    assert epsilon == pytest.approx(4.3775, abs=1e-3)  # the analytic Gaussian mechanism's, for sigma 1


def test_scores_that_tell_all_show_the_most_that_the_number_of_canaries_allows() -> None:
    _, included = coins(1_000, seed=14)
    assert one_run_bound(included.astype(float), included, 0.0) > 4.5
    assert gaussian_bound(included.astype(float), included, 1e-5) == math.inf


# -- planted bugs --------------------------------------------------------------------------------------------


class NoNoise(DpSgd):
    def _own_noise(self, count: int) -> Tensor:
        return torch.zeros(count)


class PublicSeed(DpSgd):
    """As in the seed project: every rank and every run has the same noise."""

    def _own_noise(self, count: int) -> Tensor:
        generator = torch.Generator().manual_seed(1234 + self.spending.steps)
        return NOISE * CLIP * torch.randn(count, generator=generator)


class ClipsTheMean(DpSgd):
    """Clips the gradient of the batch instead of each sample's."""

    def step(self, *batch: Tensor) -> None:
        *inputs, targets = batch
        self._steps += 1
        model = self._clipping.model
        gradient = torch.zeros_like(next(model.parameters()))
        if len(targets):
            losses = self._clipping.loss(model(*inputs), targets)
            (gradient,) = torch.autograd.grad(losses.mean(), list(model.parameters()))
        mean = gradient * min(1.0, CLIP / max(float(gradient.norm()), 1e-12))
        noise = self._own_noise(gradient.numel()).view_as(gradient).float()
        next(model.parameters()).grad = mean + noise / self._batch
        self._optimizer.step()


class DividesByTheRealisedBatch(DpSgd):
    def step(self, *batch: Tensor) -> None:
        declared, self._batch = self._batch, max(1, len(batch[-1]))
        super().step(*batch)
        self._batch = declared


class DividesByTheTrueNumber(DpSgd):
    """By the rate times how many rows there are."""

    def batches(self, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
        self._true = max(1e-9, self._rate * len(tensors[0]))
        return super().batches(*tensors)

    def step(self, *batch: Tensor) -> None:
        declared, self._batch = self._batch, self._true  # type: ignore[assignment]
        super().step(*batch)
        self._batch = declared


class SkipsEmptyBatches(DpSgd):
    def step(self, *batch: Tensor) -> None:
        if len(batch[-1]):
            super().step(*batch)
        else:
            self._steps += 1


class TellsAnotherSigma(DpSgd):
    @property
    def spending(self) -> Spending:
        return Spending(self._rate, 4.0 * self._noise, self._steps)


# by what each is found out, so that no other look covers for the one that is for it
BUGS = {
    NoNoise: "What it learnt shows an epsilon of at least inf",
    PublicSeed: "Two trainings had the same noise",
    ClipsTheMean: "What it learnt shows an epsilon of at least",
    DividesByTheRealisedBatch: "The noise tells 1 row from 2",
    DividesByTheTrueNumber: "The noise tells 1 row from 2",
    SkipsEmptyBatches: "The noise tells 0 rows from 1",
    TellsAnotherSigma: "What it learnt shows an epsilon of at least",
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug: type[DpSgd]) -> None:
    def make(probe: Probe) -> DpSgd:
        return bug(
            probe.model,
            probe.optimizer,
            probe.loss,
            rows=probe.rows,
            batch=probe.batch,
            clip=CLIP,
            noise=NOISE,
        )

    verdict = audit(make, clip=CLIP)
    assert any(BUGS[bug] in found for found in verdict.broken), verdict


def test_members_with_one_noise_are_found_out() -> None:
    rng = np.random.default_rng(15)
    own = [rng.standard_normal(2_000) for _ in range(3)]
    assert not share_noise(own)
    assert share_noise([own[0], own[1], 0.5 * own[0]])
    assert share_noise([own[0], own[1], own[1] + 2.0 * own[2]])


def given_by_ranks(bug: bool) -> list[Any]:
    """What three ranks give away in a step on empty batches, each with noise of its own or with rank 0's."""
    members = Members(3)
    trainings = [make_training(nn.Linear(40, 50), group=each, trust="none") for each in members.members]
    drawn = trainings[0]._own_noise(2_050)
    for training in trainings if bug else ():
        training._own_noise = lambda *_: drawn  # type: ignore[method-assign]
    nothing = (torch.empty(0, 40), torch.empty(0, dtype=torch.int64))
    members.run(lambda member: trainings[member.rank].step(*nothing))
    return [seen[0][:2_050] for seen in members.seen]


def test_ranks_that_share_their_noise_are_found_out_and_others_never() -> None:
    assert share_noise(given_by_ranks(bug=True))
    assert not any(share_noise(given_by_ranks(bug=False)) for _ in range(20))


def test_a_sound_training_is_never_accused() -> None:
    verdicts = [audit(sound, clip=CLIP) for _ in range(20)]
    assert [verdict.broken for verdict in verdicts] == [()] * 20
    assert all(0.2 * verdict.claimed < verdict.shown < verdict.claimed for verdict in verdicts)
