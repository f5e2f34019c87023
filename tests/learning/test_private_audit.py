"""The audit: right on mechanisms of known epsilon; each planted bug is caught, a sound training is not."""

from __future__ import annotations

import functools
import math
import re
import secrets
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from duetlink.learning.audit.bounds import epsilon_of_mu, gaussian_bound, one_run_bound
from duetlink.learning.audit.canaries import CANARIES, QUIET, along, quiet
from duetlink.learning.audit.draws import suspect_draws
from duetlink.learning.audit.evidence import Evidence, Run, find
from duetlink.learning.audit.influence import suspect_influence
from duetlink.learning.audit.noise import suspect_noise
from duetlink.learning.audit.probe import Probe, Verdict, audit, share_noise
from duetlink.learning.audit.suspicion import Suspicion
from duetlink.learning.dp.accounting import Spending
from duetlink.learning.dp.training import DpSgd
from tests.learning.test_private_training import Members
from tests.learning.test_private_training import make as make_training

CLIP = 2.0
NOISE = 1.0


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise, samples and coins are the same in every run of the test."""
    monkeypatch.setattr(secrets, "token_bytes", np.random.default_rng(16).bytes)


def sound(probe: Probe, noise: float = NOISE, clipping: str = "bookkeeping") -> DpSgd:
    return DpSgd(
        probe.model,
        probe.optimizer,
        probe.loss,
        rows=probe.rows,
        batch=probe.batch,
        clip=CLIP,
        noise=noise,
        clipping=clipping,
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
    def _own_noise(self, count: int, rank: int = 0, size: int = 1) -> Tensor:
        return torch.zeros(count)


class PublicSeed(DpSgd):
    """As in the seed project: every rank and every run has the same noise."""

    def _own_noise(self, count: int, rank: int = 0, size: int = 1) -> Tensor:
        generator = torch.Generator().manual_seed(1234 + self.spending.steps)
        return NOISE * CLIP * torch.randn(count, generator=generator)


class ClipsTheMean(DpSgd):
    """Clips the gradient of the batch instead of each sample's."""

    def step(self, *batch: Tensor) -> None:
        *inputs, targets = batch
        self._steps += 1
        model = self._clipping.model
        parameters = list(model.parameters())
        mean = [torch.zeros_like(p) for p in parameters]
        if len(targets):
            losses = self._clipping.loss(model(*inputs), targets)
            mean = list(torch.autograd.grad(losses.mean(), parameters))
        norm = float(torch.cat([gradient.reshape(-1) for gradient in mean]).norm())
        for parameter, gradient in zip(parameters, mean, strict=True):
            noise = self._own_noise(gradient.numel()).view_as(gradient).float()
            parameter.grad = gradient * min(1.0, CLIP / max(norm, 1e-12)) + noise / self._batch
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


class NoiseInTheFirstStepAlone(DpSgd):
    def _own_noise(self, count: int, rank: int = 0, size: int = 1) -> Tensor:
        return super()._own_noise(count, rank, size) * (self.spending.steps == 1)


class ClipsToTwice(DpSgd):
    """The clipping norm is 2 C, the noise that for C."""

    def step(self, *batch: Tensor) -> None:
        self._clipping.clip = 2.0 * CLIP
        super().step(*batch)


class CountsOneStepInTwo(DpSgd):
    @property
    def spending(self) -> Spending:
        return Spending(self._rate, self._noise, self._steps // 2)


class OneNoiseForAllSteps(DpSgd):
    """Whoever has the weights of two steps takes it off."""

    def _own_noise(self, count: int, rank: int = 0, size: int = 1) -> Tensor:
        if not hasattr(self, "_drawn"):
            self._drawn = super()._own_noise(count, rank, size)
        return self._drawn


class DrawsAtTwiceTheRate(DpSgd):
    def batches(self, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
        told, self._rate = self._rate, min(1.0, 2.0 * self._rate)
        drawn = list(super().batches(*tensors))
        self._rate = told
        yield from drawn


class DrawsFixedBatches(DpSgd):
    """Shuffles the rows and cuts them into batches of one size, whose account is another."""

    def batches(self, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
        order = torch.from_numpy(np.argsort(self._keystream.uniform(len(tensors[0]))))
        for at in range(0, self.steps_per_epoch * self._batch, self._batch):
            yield tuple(tensor[order[at : at + self._batch]] for tensor in tensors)


class ClipsOtherwise(DpSgd):
    """Makes each sample's gradient, and clips it by a rule of its own."""

    def clip(self, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        """Of each sample, by parameter: the first dimension counts samples."""
        raise NotImplementedError

    def step(self, *batch: Tensor) -> None:
        model: nn.Module
        loss: Any
        model, loss = self._clipping.model, self._clipping.loss

        def loss_of(own: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
            return torch.as_tensor(loss(functional_call(model, own, (x[None],)), y[None])[0])

        def of(batch: tuple[tuple[Tensor, ...], Tensor]) -> dict[str, Tensor]:
            own = {name: p.detach() for name, p in model.named_parameters()}
            (rows,) = batch[0]
            each = vmap(grad(loss_of), in_dims=(None, 0, 0))(own, rows, batch[1])
            return {name: gradient.sum(0) for name, gradient in self.clip(each).items()}

        self._clipping.of = of  # type: ignore[method-assign]
        super().step(*batch)


def clipped(gradient: Tensor, norms: Tensor) -> Tensor:
    weights = (CLIP / norms).clamp(max=1.0)
    return gradient * weights.view(-1, *[1] * (gradient.dim() - 1))


class ClipsEachCoordinate(ClipsOtherwise):
    """To C, so that a gradient's norm may be the root of their number times C."""

    def clip(self, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: gradient.clamp(-CLIP, CLIP) for name, gradient in gradients.items()}


class ClipsEachParameter(ClipsOtherwise):
    """To C, and not all of them together."""

    def clip(self, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: clipped(each, each.flatten(1).norm(dim=1)) for name, each in gradients.items()}


class LeavesBiasesOutOfTheNorm(ClipsOtherwise):
    def clip(self, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        weights = [each.flatten(1) for name, each in gradients.items() if name.endswith("weight")]
        norms = torch.cat(weights, 1).norm(dim=1)
        return {name: clipped(each, norms) for name, each in gradients.items()}


class KeepsTheGradientOfTheStepBefore(DpSgd):
    """Adds a batch's sum to that of the batch before."""

    def step(self, *batch: Tensor) -> None:
        of, before = self._clipping.of, getattr(self, "_before", {})

        def added(batch: tuple[tuple[Tensor, ...], Tensor]) -> dict[str, Tensor]:
            self._before = of(batch)
            return {name: each + before.get(name, 0.0) for name, each in self._before.items()}

        self._clipping.of = added  # type: ignore[method-assign]
        super().step(*batch)
        self._clipping.of = of  # type: ignore[method-assign]


class UniformNoise(DpSgd):
    """Of the right variance."""

    def _own_noise(self, count: int, rank: int = 0, size: int = 1) -> Tensor:
        return NOISE * CLIP * math.sqrt(12.0) * torch.from_numpy(self._keystream.uniform(count) - 0.5)


class NoiseOfALessSigma(DpSgd):
    def _own_noise(self, count: int, rank: int = 0, size: int = 1) -> Tensor:
        return super()._own_noise(count, rank, size) / 1.3


# by what each is found out (a pattern), so that no other look covers for the one that is for it
BUGS = {
    NoNoise: "What it learnt shows an epsilon of at least inf",
    PublicSeed: "Two trainings had the same noise",
    ClipsTheMean: "What it learnt shows an epsilon of at least",
    DividesByTheRealisedBatch: "The noise distinguishes 1 row from 2",
    DividesByTheTrueNumber: "The noise distinguishes 1 row from 2",
    SkipsEmptyBatches: "The noise distinguishes 0 rows from 1",
    TellsAnotherSigma: "What it learnt shows an epsilon of at least",
    NoiseInTheFirstStepAlone: "In step 2 a parameter's noise has a standard deviation of 0",
    ClipsToTwice: r"The rows of a batch move its sum by (1\.9|2)",
    CountsOneStepInTwo: "It made 40 steps, and its account has 20",
    OneNoiseForAllSteps: "Two steps had noise in common",
    DrawsAtTwiceTheRate: r"Rows were drawn at a rate of 0\.(49|5)",
    DrawsFixedBatches: "The sizes of batches vary 0 times as much",
    ClipsEachCoordinate: r"The rows of a batch move its sum by 2\.[789]",
    ClipsEachParameter: r"The rows of a batch move its sum by (1\.9|2)",
    LeavesBiasesOutOfTheNorm: r"The rows of a batch move its sum by 1\.[345]",
    KeepsTheGradientOfTheStepBefore: r"The rows that are not in a batch move its sum by 0\.2",
    UniformNoise: "The noise is not normal",
    NoiseOfALessSigma: r"The noise has a standard deviation of 0\.7[67]",
}


@pytest.mark.parametrize("bug", BUGS)
@pytest.mark.usefixtures("seeded")
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
    assert any(re.search(BUGS[bug], found) for found in verdict.broken), verdict


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


# -- sound trainings -----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # Opacus, of inputs without a gradient
@pytest.mark.parametrize("clipping", ["bookkeeping", "per_sample", "opacus"])
@pytest.mark.usefixtures("seeded")
def test_a_sound_training_is_not_accused(clipping: str) -> None:
    verdict = audit(functools.partial(sound, clipping=clipping), clip=CLIP)
    assert verdict.broken == ()
    assert 0.2 * verdict.claimed < verdict.shown < verdict.claimed


@pytest.mark.parametrize("noise", [0.1, 10.0])
@pytest.mark.usefixtures("seeded")
def test_a_sound_training_is_not_accused_for_little_or_much_noise(noise: float) -> None:
    assert audit(functools.partial(sound, noise=noise), clip=CLIP).broken == ()


def test_a_training_that_claims_no_privacy_is_not_accused() -> None:
    verdict = audit(functools.partial(sound, noise=0.0), clip=CLIP)
    assert verdict == Verdict(math.inf, math.inf, ())


def released(rng: np.random.Generator, counts: np.ndarray, *, noise: float = NOISE, rate: float = 1.0) -> Run:
    """What a sound training releases, made without a training."""
    steps = len(counts)
    sums = noise * rng.standard_normal((steps, 4, 2 * CANARIES + QUIET))
    sums[:, :, : 2 * CANARIES] += np.repeat(counts, 2, axis=1)[:, None, :] / math.sqrt(8.0)
    return Run(sums, counts, Spending(rate, noise, steps))


def sound_evidence(rng: np.random.Generator) -> Evidence:
    included = rng.random(CANARIES) < 0.5
    few = [np.arange(CANARIES)[None].repeat(4, 0) < rows for rows in range(3)]
    return Evidence(
        whole=released(rng, included[None].repeat(4, 0).astype(np.int64)),
        included=included,
        empty=released(rng, np.zeros((4, CANARIES), np.int64)),
        sampled=released(rng, (rng.random((40, CANARIES)) < 0.25).astype(np.int64), rate=0.25),
        few=tuple(released(rng, counts.astype(np.int64)) for counts in few),
    )


def test_no_more_sound_trainings_are_accused_than_the_confidence_says() -> None:
    rng = np.random.default_rng(17)
    accused = [bool(find(sound_evidence(rng), 1e-5, confidence=0.5).broken) for _ in range(24)]
    assert 2 <= sum(accused) <= 12


def test_the_same_evidence_gives_the_same_findings() -> None:
    evidence = sound_evidence(np.random.default_rng(18))
    assert find(evidence, 1e-5, 0.999) == find(evidence, 1e-5, 0.999)


# -- who was drawn -------------------------------------------------------------------------------------------


def accused(suspicions: list[Suspicion]) -> list[str]:
    return [each.finding for each in suspicions if each.chance < 1e-8]


def test_a_row_that_is_twice_in_one_batch_is_found() -> None:
    counts = (np.random.default_rng(19).random((40, 400)) < 0.25).astype(np.int64)
    counts[3, 7] = 2
    assert accused(suspect_draws(counts, 0.25)) == ["A row was in one batch 2 times."]


def test_the_same_rows_in_every_batch_are_found() -> None:
    counts = (np.random.default_rng(20).random((1, 400)) < 0.25).astype(np.int64).repeat(40, axis=0)
    assert any("numbers of draws vary" in found for found in accused(suspect_draws(counts, 0.25)))


def test_each_row_once_in_an_epoch_is_found_though_the_batches_have_many_sizes() -> None:
    rng = np.random.default_rng(21)
    counts = np.concatenate([np.eye(4, dtype=np.int64)[rng.integers(4, size=400)].T for _ in range(10)])
    assert accused(suspect_draws(counts, 0.25)) == [
        "The rows' numbers of draws vary 0 times as much as those of Poisson samples."
    ]


@pytest.mark.parametrize("rate", [0.05, 0.25])
def test_samples_at_the_claimed_rate_or_below_it_are_not_suspected(rate: float) -> None:
    counts = (np.random.default_rng(22).random((40, 400)) < rate).astype(np.int64)
    assert accused(suspect_draws(counts, 0.25)) == []
    assert accused(suspect_draws(np.ones((40, 400), np.int64), 1.0)) == []


# -- how far a row moves a sum -------------------------------------------------------------------------------


def sampled_run(seed: int) -> Run:
    rng = np.random.default_rng(seed)
    return released(rng, (rng.random((40, CANARIES)) < 0.25).astype(np.int64), rate=0.25)


def influence_of(run: Run, moved: np.ndarray) -> list[str]:
    return accused(suspect_influence(moved, run.counts, quiet(run.sums)))


def test_a_single_row_that_is_not_clipped_is_found() -> None:
    run = sampled_run(23)
    moved = along(run.sums)
    assert influence_of(run, moved) == []
    moved[5, 11] = 9.5
    assert influence_of(run, moved) == ["A single row moved a sum by 9.5 clipping norms."]


def test_rows_of_the_batch_before_that_are_still_in_a_sum_are_found() -> None:
    run = sampled_run(24)
    moved = along(run.sums)
    moved[1:] += run.counts[:-1]
    assert any("that are not in a batch move its sum by 0.2" in each for each in influence_of(run, moved))


# -- noise ---------------------------------------------------------------------------------------------------


def noise_of(quiet: np.ndarray) -> list[str]:
    return accused(suspect_noise(quiet, NOISE))


def test_a_sigma_two_percent_too_small_is_found_and_more_noise_is_not() -> None:
    drawn = np.random.default_rng(25).standard_normal((40, 4, 1_000))
    assert noise_of(drawn) == noise_of(1.7 * drawn) == []
    assert noise_of(0.98 * drawn) == [
        "The noise has a standard deviation of 0.981, where the account has one of 1."
    ]


def test_parameters_with_one_noise_are_found() -> None:
    drawn = np.random.default_rng(26).standard_normal((40, 4, 1_000))
    drawn[:, 3] = drawn[:, 1]
    assert noise_of(drawn) == ["Two parameters had noise in common."]


def test_one_number_as_the_noise_of_many_coordinates_is_found() -> None:
    drawn = np.random.default_rng(27).standard_normal((40, 4, 500)).repeat(2, axis=2)
    assert noise_of(drawn) == ["Coordinates side by side had noise in common."]


def test_a_single_step_that_shares_a_third_of_its_noise_with_another_is_found() -> None:
    drawn = np.random.default_rng(28).standard_normal((40, 4, 1_000))
    drawn[30] = drawn[3] / 3.0 + drawn[30] * math.sqrt(8.0) / 3.0
    assert noise_of(drawn) == ["Two steps had noise in common."]
