"""Models, losses and figures that a scientist chooses so that a private training tells more than its account
says. Each of these trainings would otherwise pass with the epsilon that it claims.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.ao.quantization import FusedMovingAvgObsFakeQuantize, disable_fake_quant

from duetlink.compute.privacy import meter
from duetlink.errors import SettingError
from duetlink.learning.dp.clipping import BookKeeping, PerSample
from duetlink.learning.dp.training import DpSgd

SQUARES = nn.MSELoss(reduction="none")


def training(model: nn.Module, loss: Any = SQUARES, **changed: Any) -> DpSgd:
    settings: dict[str, Any] = {"rows": 8, "batch": 8, "clip": 1.0, "noise": 1.0} | changed
    return DpSgd(model, torch.optim.SGD(model.parameters(), lr=1.0), loss, **settings)


# -- what float32 cannot square or add up ------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 4), (2, 1, 4), (2, 3, 4)])
def test_inputs_whose_squares_are_zero_are_clipped(shape: tuple[int, ...]) -> None:
    model = nn.Linear(4, 1, bias=False)

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return 1e22 * outputs.flatten(1).sum(1)

    clipping = BookKeeping(model, loss, clip=1e-3)
    found = clipping.sum(((torch.full(shape, 1e-24),), torch.zeros(2)))
    # each of the two gradients has a norm of 0.02 or more before, and 0.001 after
    assert float(found.gradients["weight"].norm()) == pytest.approx(2e-3, rel=1e-5)


def test_positions_that_cancel_each_other_leave_no_rounding_errors() -> None:
    torch.manual_seed(0)
    factors = torch.randint(-64, 64, (64,)).float()
    factors[-1] -= factors.sum()

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs.squeeze(2) * factors * 2**50).sum(1) * targets

    clipping = BookKeeping(nn.Linear(1, 1), loss, clip=1.0)
    inputs = torch.ones(3_000, 64, 1)
    for _ in range(8):  # by chance nothing is left
        found = clipping.sum(((inputs,), torch.randint(2**10, (3_000,)).float()))
        # each gradient of the bias is 0; without the guard the sum of all is 1e16 and so
        assert float(found.gradients["bias"].norm()) < 1.0


def test_the_last_bits_of_a_coordinate_do_not_tell_what_the_noise_was_added_to() -> None:
    model = nn.Linear(50_000, 1, bias=False)
    with torch.no_grad():
        model.weight.zero_()
    training(model, batch=1).step(torch.empty(0, 50_000), torch.empty(0, 1))
    steps = model.weight.detach().double() * 2**24
    assert torch.equal(steps, steps.round())  # also close to 0, where float32 has finer numbers
    assert float(model.weight.detach().std()) == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize("clip", [1e-28, 1e28])
def test_a_clip_at_the_ends_of_float32_is_refused(clip: float) -> None:
    with pytest.raises(SettingError, match="from 1e-10 to"):
        training(nn.Linear(1, 1), clip=clip)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_parameters_of_few_bits_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(SettingError, match="what is trained is float32 or float64"):
        training(nn.Linear(1, 1, dtype=dtype))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_whose_steps_nobody_counts_is_refused(copied: Callable[[DpSgd], DpSgd]) -> None:
    with pytest.raises(SettingError, match="is not copied or pickled"):
        copied(training(nn.Linear(1, 1)))


# -- what a model keeps beside its parameters --------------------------------------------------------------


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
@pytest.mark.parametrize("frozen", [True, False])
def test_weights_that_are_scaled_where_they_were_used_are_refused(kind: Any, frozen: bool) -> None:
    used = kind(10, 2, max_norm=1.0)
    used.weight.requires_grad_(not frozen)
    with pytest.raises(SettingError, match="max_norm changes weights"):
        training(nn.Sequential(used, nn.Flatten(1), nn.Linear(2, 1)))


class Remembers(nn.Module):
    """Adds what it sees to a buffer, or puts it in its place."""

    def __init__(self, replace: bool) -> None:
        super().__init__()
        self.inner = nn.Linear(1, 1)
        self.replace = replace
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        if self.replace:
            self.seen = x.detach().sum(0)
        else:
            self.seen += x.detach().sum(0)
        return torch.as_tensor(self.inner(x))


@pytest.mark.parametrize("replace", [True, False])
def test_a_buffer_that_remembers_rows_ends_the_training(replace: bool) -> None:
    model = Remembers(replace)
    before = model.inner.weight.detach().clone()
    with pytest.raises(SettingError, match="changes its parameters or buffers while it is used"):
        training(model).step(torch.ones(8, 1), torch.ones(8, 1))
    assert torch.equal(model.inner.weight, before)


# -- what one sample has to do with another ----------------------------------------------------------------


def softmax_of_the_batch() -> nn.Sequential:
    last = nn.Linear(1, 1)
    layers = nn.Sequential(nn.Linear(1, 1), nn.Softmax(dim=0), last)
    with torch.no_grad():  # only when it has been trained does the last layer pass anything on
        last.weight.zero_()
    return layers


def minus_the_targets(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square()


def minus_the_mean(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets - (outputs - targets).mean()).square()


def of_the_others_targets(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets / targets.sum()).square()


class Compares(nn.Module):
    """Has no derivative by what it compares with."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.inner(x) * (x > x.median()))


def only_for_a_row_that_stands_out() -> nn.Sequential:
    """What passes the threshold goes to all others; until something does, nothing shows it."""
    along_the_batch = (nn.Unflatten(0, (1, -1)), nn.Threshold(100.0, 0.0), nn.AvgPool2d((9, 1), 1, (4, 0)))
    return nn.Sequential(*along_the_batch, nn.Hardtanh(0.5, 0.6), nn.Flatten(0, 1), nn.Linear(1, 1))


def as_many_as_there_are() -> nn.Sequential:
    """0.15 for a batch of 7 or more, else 0.1501: the derivatives of both are 0."""
    of_the_count = (nn.Threshold(1e30, 0.0), nn.Softmax(dim=0), nn.Hardtanh(0.15, 0.1501))
    return nn.Sequential(*of_the_count, nn.Linear(1, 1))


MIXED: dict[str, Callable[[], tuple[nn.Module, Any]]] = {
    "code that compares rows": lambda: (Compares(), SQUARES),
    "a layer along the batch": lambda: (softmax_of_the_batch(), SQUARES),
    "before all layers": lambda: (nn.Sequential(nn.Softmax(dim=0), nn.Linear(1, 1)), SQUARES),
    "a batch taken for positions": lambda: (
        nn.Sequential(nn.Linear(1, 2), nn.Unflatten(0, (1, -1)), nn.LocalResponseNorm(3), nn.Flatten(0, 1)),
        minus_the_targets,
    ),
    "behind a threshold": lambda: (only_for_a_row_that_stands_out(), SQUARES),
    "by the number of samples": lambda: (as_many_as_there_are(), SQUARES),
    "a loss of the whole batch": lambda: (nn.Linear(1, 1), minus_the_mean),
    "targets of the whole batch": lambda: (nn.Linear(1, 1), of_the_others_targets),
}


@pytest.mark.parametrize("name", MIXED)
def test_samples_that_are_mixed_are_found(name: str) -> None:
    torch.manual_seed(1)
    model, loss = MIXED[name]()
    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(SettingError, match="mixes the samples of a batch"):
        training(model, loss).step(torch.randn(8, 1), torch.randn(8, 1))
    assert all(torch.equal(p, was) for p, was in zip(model.parameters(), before, strict=True))


def over_their_number(outputs: Tensor, targets: Tensor) -> Tensor:
    return minus_the_targets(outputs, targets) / len(targets)


def even_or_odd(outputs: Tensor, targets: Tensor) -> Tensor:
    return minus_the_targets(outputs, targets) * (1e6 if len(targets) % 2 == 0 else 1e-6)


class OverTheirNumber(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / len(x)


COUNTED: dict[str, Callable[[], tuple[nn.Module, Any]]] = {
    "a loss": lambda: (nn.Linear(1, 1), over_their_number),
    "a loss of odd numbers": lambda: (nn.Linear(1, 1), even_or_odd),
    "a model": lambda: (nn.Sequential(nn.Linear(1, 1), OverTheirNumber()), SQUARES),
    "beside a dropout": lambda: (
        nn.Sequential(nn.Linear(1, 4), nn.Dropout(), nn.Linear(4, 1)),
        over_their_number,
    ),
}


@pytest.mark.parametrize("samples", [2, 7, 8])
@pytest.mark.parametrize("name", COUNTED)
def test_a_loss_that_depends_on_how_many_samples_there_are_is_found(name: str, samples: int) -> None:
    torch.manual_seed(1)
    model, loss = COUNTED[name]()
    with pytest.raises(SettingError, match="depends on how many samples are in the batch"):
        training(model, loss).step(torch.randn(samples, 1), torch.randn(samples, 1))
    assert all(layer.training for layer in model.modules())


def test_a_model_that_takes_batches_of_one_size_only_is_refused() -> None:
    class OfEight(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.view(8, 1)

    model = nn.Sequential(nn.Linear(1, 1), OfEight())
    with pytest.raises(SettingError, match="accepts a batch of 8 samples, but fails with"):
        training(model).step(torch.randn(8, 1), torch.randn(8, 1))


class Shakes(nn.Module):
    """Never gives the same twice, and cannot be asked to."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.randn_like(x)


@pytest.mark.parametrize(
    "layer", [nn.Dropout(), nn.AlphaDropout(), Shakes()], ids=lambda layer: type(layer).__name__
)
def test_what_is_by_chance_is_not_taken_for_the_number_of_samples(layer: nn.Module) -> None:
    model = nn.Sequential(nn.Linear(1, 4), layer, nn.Linear(4, 1))
    model[0].eval()
    for count in (2, 7, 8):
        BookKeeping(model, SQUARES, 1.0).of(((torch.randn(count, 1),), torch.randn(count, 1)))
    assert [part.training for part in model.modules()] == [True, False, True, True]


@pytest.mark.parametrize("whole", [True, False])
def test_a_column_of_outputs_beside_a_row_of_targets_is_found(whole: bool) -> None:
    # torch compares each output with every target, and only warns
    targets = torch.arange(8) if whole else torch.arange(8.0)
    with (
        pytest.warns(UserWarning, match="different to the input size"),
        pytest.raises(SettingError, match=r"outputs of shape \(B, 1\) with targets"),
    ):
        training(nn.Linear(1, 1)).step(torch.ones(8, 1), targets)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_row_that_is_not_finite_hides_nothing_of_the_others(bad: float) -> None:
    x = torch.randn(8, 1)
    x[3] = bad  # what is mixed with it is no number, and so is equal to itself
    with pytest.raises(SettingError, match="mixes the samples of a batch"):
        training(softmax_of_the_batch()).step(x, torch.randn(8, 1))


@pytest.mark.parametrize("way", [BookKeeping, PerSample])
def test_what_a_batch_cannot_show_the_next_one_has_to(way: type[BookKeeping | PerSample]) -> None:
    looked_at: list[int] = []

    class Looking(way):  # type: ignore[misc, valid-type]
        def check_apart(self, batch: Any) -> bool:
            looked_at.append(len(batch[1]))
            return bool(super().check_apart(batch))

    clipping = Looking(nn.Linear(1, 1), SQUARES, 1.0)
    for x in (torch.ones(1, 1), torch.full((2, 1), torch.nan), torch.randn(3, 1), torch.randn(4, 1)):
        clipping.of(((x,), torch.ones(len(x), 1)))
    assert looked_at == ([2, 3] if way is BookKeeping else [2])


def test_inputs_of_other_rows_than_the_targets_are_refused() -> None:
    with pytest.raises(SettingError, match=r"there are 7 targets, and inputs of shape \(8, 1\)"):
        training(nn.Linear(1, 1)).step(torch.ones(8, 1), torch.ones(7, 1))


@pytest.mark.parametrize(
    "loss",
    [
        nn.L1Loss(reduction="none"),
        nn.HuberLoss(reduction="none"),
        nn.SoftMarginLoss(reduction="none"),  # has no derivative by its targets
        nn.CrossEntropyLoss(torch.tensor([1.0, 2.0]), reduction="none"),  # has weights of float32
    ],
    ids=lambda loss: type(loss).__name__,
)
def test_samples_that_are_apart_are_not_taken_for_mixed(loss: Any) -> None:
    for seed in range(12):  # what LayerNorm passes back nearly cancels, for some
        torch.manual_seed(seed)
        layers = (nn.ReLU(inplace=True), nn.Dropout(0.5), nn.LayerNorm(4), nn.Linear(4, 2))
        model = nn.Sequential(nn.Identity(), nn.Linear(3, 4), *layers)
        targets = (
            torch.ones(8, dtype=torch.int64) if isinstance(loss, nn.CrossEntropyLoss) else torch.ones(8, 2)
        )
        BookKeeping(model, loss, 1.0).of(((torch.randn(8, 3),), targets))
    first = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(3, 2))
    BookKeeping(first, loss, 1.0).of(((torch.randn(8, 3),), targets))


def test_layers_that_keep_samples_apart_are_not_taken_for_mixed() -> None:
    torch.manual_seed(0)
    seen = (nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.LocalResponseNorm(3), nn.MaxPool2d(2), nn.Dropout2d())
    attention = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).requires_grad_(False)
    told = (nn.Flatten(2), nn.Unflatten(2, (-1, 4)), nn.Flatten(1, 2), attention, nn.Flatten())
    model = nn.Sequential(*seen, *told, nn.Softmax(-1), nn.Linear(36 * 4, 1), nn.Flatten(0))
    BookKeeping(model, SQUARES, 1.0).of(((torch.randn(5, 1, 14, 14),), torch.zeros(5)))
    words = nn.Sequential(nn.Embedding(9, 3), nn.Flatten(), nn.Linear(12, 1))
    BookKeeping(words, SQUARES, 1.0).of(((torch.randint(9, (5, 4)),), torch.zeros(5, 1)))


def test_each_sample_in_a_batch_of_its_own_is_mixed_with_none() -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(1, 1), nn.Softmax(dim=0), nn.Linear(1, 1))
    x, y = torch.randn(8, 1), torch.randn(8, 1)
    together = PerSample(model, SQUARES, 1e6).of(((x,), y))
    ones = [PerSample(model, SQUARES, 1e6).of(((x[at : at + 1],), y[at : at + 1])) for at in range(8)]
    for name, gradient in together.items():
        assert torch.allclose(gradient, torch.stack([one[name] for one in ones]).sum(0), atol=1e-5)


# -- what no look at derivatives follows, and what is not counted ------------------------------------------


def test_whole_numbers_that_layers_move_out_of_the_first_dimension_are_found() -> None:
    table = torch.zeros(2_000, 1)
    table[1_000] = 1e6  # a row that no batch has had yet
    head = nn.Linear(1, 1, bias=False)
    model = nn.Sequential(
        *(nn.Flatten(0), nn.Unflatten(0, (1, -1)), nn.Embedding.from_pretrained(table)),
        *(nn.Threshold(100.0, 0.0), nn.MaxPool2d((81, 1), stride=1, padding=(40, 0))),
        *(nn.Flatten(0, 1), head, nn.Flatten(0)),
    )
    with pytest.raises(SettingError, match="mixes the samples of a batch"):
        training(model, nn.L1Loss(reduction="none")).step(torch.arange(8).reshape(-1, 1), torch.ones(8))


def test_a_kernel_that_writes_to_a_buffer_and_does_not_say_so_ends_the_training() -> None:
    observer = FusedMovingAvgObsFakeQuantize()
    model = nn.Sequential(observer, nn.Linear(1, 1), nn.Flatten(0))
    model.apply(disable_fake_quant)
    with pytest.raises(SettingError, match="changes its parameters or buffers"):
        training(model).step(torch.randn(8, 1), torch.randn(8))
    assert observer.activation_post_process.max_val == -torch.inf  # as it was made


def test_an_optimizer_of_other_parameters_is_refused() -> None:
    model, other = nn.Linear(1, 1), nn.Bilinear(1, 1, 1)
    optimizer = torch.optim.SGD([*model.parameters(), *other.parameters()], lr=1.0)
    settings: dict[str, Any] = {"rows": 8, "batch": 8, "clip": 1.0, "noise": 1.0}
    with pytest.raises(SettingError, match="holds 2 parameters that are none of the model's"):
        DpSgd(model, optimizer, SQUARES, **settings)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    private = DpSgd(model, optimizer, SQUARES, **settings)
    optimizer.add_param_group({"params": list(other.parameters())})
    with pytest.raises(SettingError, match="none of the model's"):
        private.step(torch.randn(8, 1), torch.randn(8, 1))


def test_where_trainings_are_counted_there_is_no_group() -> None:
    with meter.counted(), pytest.raises(SettingError, match="has no peers"):
        training(nn.Linear(1, 1), group=object(), trust="leader")


def test_no_seed_of_the_caller_reaches_a_dropout() -> None:
    masks: list[list[float]] = []

    class Seen(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            masks.append(x.detach().flatten().tolist())
            return x

    model = nn.Sequential(nn.Dropout(0.5), Seen(), nn.Linear(64, 1))
    private = training(model)
    inputs, targets = torch.ones(8, 64), torch.zeros(8, 1)
    private.step(inputs, targets)
    for _ in range(2):
        torch.manual_seed(5)
        private.step(inputs, targets)
        following = float(torch.rand(()))
    assert masks[-1] != masks[-2]
    torch.manual_seed(5)
    assert float(torch.rand(())) == following  # and the caller's own numbers go on as they were
