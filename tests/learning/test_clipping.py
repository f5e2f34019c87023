"""The clipped sum of per-sample gradients: by hand, and equal for all ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import weight_norm

from duetlink.errors import SettingError
from duetlink.learning.dp.clipping import CLIPPINGS, BookKeeping, Opacus, PerSample
from duetlink.learning.dp.training import DpSgd

CROSS_ENTROPY = nn.CrossEntropyLoss(reduction="none")


def by_hand(model: nn.Module, inputs: Tensor, targets: Tensor) -> tuple[dict[str, Tensor], float]:
    """The sum, by a backward pass for each sample, and the clipping norm that every second one is above."""
    each = []
    for x, y in zip(inputs, targets, strict=True):
        loss = CROSS_ENTROPY(model(x.unsqueeze(0)), y.unsqueeze(0)).sum()
        parameters = [p for p in model.parameters() if p.requires_grad]
        each.append(torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True))
    norms = torch.stack([torch.cat([g.flatten() for g in gradients]).norm() for gradients in each])
    clip = float(norms.median())
    scales = [min(1.0, clip / float(norm)) for norm in norms]
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    total = {
        name: torch.stack([scale * gradients[at] for scale, gradients in zip(scales, each, strict=True)]).sum(
            0
        )
        for at, name in enumerate(names)
    }
    assert sum(scale < 1.0 for scale in scales) == 3
    return total, clip


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 3)
        self.change = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.second(x + self.change(self.first(x))))


class Twice(nn.Module):
    """The same layer two times."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.last(torch.tanh(self.inner(torch.tanh(self.inner(x))))))


class Tied(nn.Module):
    """Two layers that hold one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.back = nn.Embedding(11, 5), nn.Linear(5, 11, bias=False)
        self.back.weight = self.table.weight

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.back(torch.tanh(self.table(x))).mean(1))


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 5, padding_idx=0)
        self.norm, self.last = nn.LayerNorm(5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.last(self.norm(self.table(x))).mean(1))


def images() -> Tensor:
    return torch.randn(7, 4, 8, 8)


def words() -> Tensor:
    return torch.randint(0, 11, (7, 9))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor], int]] = {
    "perceptron": (
        lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)),
        lambda: torch.randn(7, 6),
        3,
    ),
    "residual": (Residual, lambda: torch.randn(7, 6), 3),
    "no-bias": (lambda: nn.Linear(6, 3, bias=False), lambda: torch.randn(7, 6), 3),
    "positions": (
        lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Flatten(), nn.Linear(20, 3)),
        lambda: torch.randn(7, 4, 6),
        3,
    ),
    "few-positions": (
        lambda: nn.Sequential(nn.Linear(30, 20), nn.Flatten(), nn.Linear(40, 3)),
        lambda: torch.randn(7, 2, 30),
        3,
    ),
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(4, 6, 3, padding=1, stride=2),
            nn.GroupNorm(2, 6),
            nn.ReLU(),
            nn.Conv2d(6, 4, 3, groups=2, dilation=1, bias=False),
            nn.Flatten(),
            nn.Linear(16, 3),
        ),
        images,
        3,
    ),
    "padded-with-the-edge": (
        lambda: nn.Sequential(
            nn.Conv2d(4, 2, 3, padding="same", padding_mode="reflect"), nn.Flatten(), nn.Linear(128, 3)
        ),
        images,
        3,
    ),
    "one-dimension": (
        lambda: nn.Sequential(nn.Conv1d(4, 6, 3), nn.Flatten(), nn.Linear(36, 3)),
        lambda: torch.randn(7, 4, 8),
        3,
    ),
    "words": (Words, words, 3),
}


def problem(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(7)
    make, inputs, classes = MODELS[name]
    return make(), inputs(), torch.randint(0, classes, (7,))


# Opacus 1.6's hooks give another gradient than autograd, which is found out; or torch refuses them.
NOT_BY_OPACUS = {
    "residual": (RuntimeError, "inplace"),
    "padded-with-the-edge": (SettingError, "per_sample"),
    "words": (SettingError, "per_sample"),
}


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize(("dtype", "rounded"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@pytest.mark.parametrize("way", CLIPPINGS)
@pytest.mark.parametrize("name", MODELS)
def test_every_way_gives_the_sum_of_clipped_gradients(
    name: str, way: str, dtype: torch.dtype, rounded: float
) -> None:
    model, inputs, targets = problem(name)
    model = model.to(dtype)
    inputs = inputs.to(dtype) if inputs.is_floating_point() else inputs
    expected, clip = by_hand(model, inputs, targets)
    clipping = CLIPPINGS[way](model, CROSS_ENTROPY, clip)
    if way == "opacus" and name in NOT_BY_OPACUS:
        error, words = NOT_BY_OPACUS[name]
        with pytest.raises(error, match=words):
            clipping.sum(((inputs,), targets))
        return
    found = clipping.sum(((inputs,), targets)).gradients
    assert found.keys() == expected.keys()
    for key, gradient in found.items():
        torch.testing.assert_close(gradient, expected[key], rtol=rounded, atol=rounded / 10)
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("make", [Twice, Tied])
@pytest.mark.parametrize("way", ["bookkeeping", "per_sample"])
def test_what_is_used_twice_adds_up_before_it_is_clipped(way: str, make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(7)
    model = make()
    inputs = torch.randn(7, 6) if make is Twice else words()
    targets = torch.randint(0, 3, (7,))
    expected, clip = by_hand(model, inputs, targets)
    found = CLIPPINGS[way](model, CROSS_ENTROPY, clip).sum(((inputs,), targets)).gradients
    for key, gradient in found.items():
        torch.testing.assert_close(gradient, expected[key], rtol=1e-5, atol=1e-6)


class Around(nn.Module):
    """Its weight is used without a call of its layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.second(functional.linear(self.first(x), self.first.weight)))


def test_a_weight_that_is_used_around_its_layer_is_found_out() -> None:
    torch.manual_seed(7)
    model, inputs, targets = Around(), torch.randn(7, 6), torch.randint(0, 3, (7,))
    with pytest.raises(SettingError, match=r"first\.weight"):
        BookKeeping(model, CROSS_ENTROPY, 1.0).sum(((inputs,), targets))
    expected, clip = by_hand(model, inputs, targets)
    found = PerSample(model, CROSS_ENTROPY, clip).sum(((inputs,), targets)).gradients
    torch.testing.assert_close(found["first.weight"], expected["first.weight"], rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("way", CLIPPINGS)
def test_a_sample_without_a_finite_gradient_counts_as_none(way: str) -> None:
    model, inputs, targets = problem("perceptron")
    clipping = CLIPPINGS[way](model, CROSS_ENTROPY, 1.0)
    expected = clipping.sum(((inputs[1:],), targets[1:])).gradients
    for value in (float("nan"), float("inf")):
        inputs[0, 0] = value
        found = clipping.sum(((inputs,), targets)).gradients
        for key, gradient in found.items():
            torch.testing.assert_close(gradient, expected[key])


@pytest.mark.parametrize(
    "layer",
    [nn.BatchNorm1d(6), nn.InstanceNorm1d(6, affine=True, track_running_stats=True), nn.SyncBatchNorm(6)],
)
@pytest.mark.parametrize("way", CLIPPINGS)
def test_layers_that_mix_samples_are_refused(way: str, layer: nn.Module) -> None:
    with pytest.raises(SettingError, match="GroupNorm or LayerNorm"):
        CLIPPINGS[way](nn.Sequential(nn.Linear(6, 6), layer), CROSS_ENTROPY, 1.0)


def test_a_loss_of_the_whole_batch_is_refused() -> None:
    model, inputs, targets = problem("perceptron")
    with pytest.raises(SettingError, match='reduction="none"'):
        BookKeeping(model, nn.CrossEntropyLoss(), 1.0).sum(((inputs,), targets))


def test_a_model_that_flattens_samples_away_is_refused() -> None:
    model = nn.Sequential(nn.Flatten(0, 1), nn.Linear(6, 3), nn.Unflatten(0, (7, 4)))
    with pytest.raises(SettingError, match="28 samples of 7"):
        BookKeeping(model, CROSS_ENTROPY, 1.0).sum(((torch.randn(7, 4, 6),), torch.randint(0, 3, (7,))))


@pytest.mark.parametrize("clip", [0.0, -1.0, float("nan")])
def test_a_clipping_norm_is_above_zero(clip: float) -> None:
    with pytest.raises(SettingError, match="above 0"):
        BookKeeping(nn.Linear(2, 2), CROSS_ENTROPY, clip)


def test_what_torch_func_cannot_take_apart_is_told() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.GRU(4, 3, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            return torch.as_tensor(self.inner(x)[0][:, -1])

    inputs, targets = torch.randn(7, 5, 4), torch.randint(0, 3, (7,))
    with pytest.raises(
        SettingError, match='a GRU, takes or returns more than one tensor: clipping="per_sample"'
    ):
        BookKeeping(Recurrent(), CROSS_ENTROPY, 1.0).sum(((inputs,), targets))
    with pytest.raises(SettingError, match=r"torch\.func makes no gradient of each sample"):
        PerSample(Recurrent(), CROSS_ENTROPY, 1.0).sum(((inputs,), targets))


class WithInside(nn.Module):
    """A layer of several positions, and of several tensors, within a model of one."""

    def __init__(self, inner: nn.Module, call: Callable[[Any, Tensor], Tensor], size: int) -> None:
        super().__init__()
        self.inner, self.call, self.last = inner, call, nn.Linear(size, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.last(self.call(self.inner, x)))


def last_state(layer: Any, x: Tensor) -> Tensor:
    return torch.as_tensor(layer(x)[0][:, -1])


FOREIGN: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor]]] = {
    "EmbeddingBag": (lambda: nn.Sequential(nn.EmbeddingBag(11, 3)), words),
    "RNN": (lambda: WithInside(nn.RNN(6, 4, batch_first=True), last_state, 4), lambda: torch.randn(7, 5, 6)),
    "GRU": (lambda: WithInside(nn.GRU(6, 4, batch_first=True), last_state, 4), lambda: torch.randn(7, 5, 6)),
    "LSTM": (
        lambda: WithInside(nn.LSTM(6, 4, batch_first=True), last_state, 4),
        lambda: torch.randn(7, 5, 6),
    ),
    "attention": (
        lambda: WithInside(
            nn.MultiheadAttention(6, 2, batch_first=True), lambda layer, x: layer(x, x, x)[0].mean(1), 6
        ),
        lambda: torch.randn(7, 5, 6),
    ),
    "encoder": (
        lambda: WithInside(
            nn.TransformerEncoderLayer(6, 2, 8, batch_first=True), lambda layer, x: layer(x).mean(1), 6
        ),
        lambda: torch.randn(7, 5, 6),
    ),
    "weight_norm": (lambda: weight_norm(nn.Linear(6, 3)), lambda: torch.randn(7, 6)),
}


@pytest.mark.filterwarnings("ignore:Full backward hook is firing", "ignore:.*weight_norm. is deprecated")
@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", FOREIGN)
def test_what_opacus_does_not_take_is_told_and_leaves_the_model_as_it_was(name: str) -> None:
    torch.manual_seed(7)
    make, inputs = FOREIGN[name]
    model, batch = make(), ((inputs(),), torch.randint(0, 3, (7,)))
    with pytest.raises(SettingError, match='clipping="opacus" does not take this model or batch') as found:
        Opacus(model, CROSS_ENTROPY, 1.0).of(batch)
    assert '"bookkeeping" or "per_sample" may take it' in str(found.value)
    assert not any(hasattr(p, "grad_sample") for p in model.parameters())
    if name not in ("RNN", "GRU"):
        PerSample(model, CROSS_ENTROPY, 1.0).of(batch)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("way", ["bookkeeping", "opacus"])
def test_a_model_of_few_bits_is_told_so(way: str) -> None:
    class Autocast(nn.Module):
        def __init__(self, widens: bool) -> None:
            super().__init__()
            self.inner, self.widens = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), widens

        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                outputs = self.inner(x)
            return torch.as_tensor(outputs.float() if self.widens else outputs)

    torch.manual_seed(7)
    batch = ((torch.randn(7, 6),), torch.randint(0, 3, (7,)))
    for widens in (True, False):
        with pytest.raises(SettingError, match=r"computes in torch\.bfloat16, as in torch\.autocast"):
            CLIPPINGS[way](Autocast(widens), CROSS_ENTROPY, 1.0).of(batch)
    PerSample(Autocast(True), CROSS_ENTROPY, 1.0).of(batch)


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
@pytest.mark.parametrize("way", CLIPPINGS)
def test_sparse_gradients_are_refused_unless_frozen(way: str, kind: Any) -> None:
    with pytest.raises(SettingError, match="sparse=True leaves no place for the noise"):
        CLIPPINGS[way](nn.Sequential(kind(11, 3, sparse=True)), CROSS_ENTROPY, 1.0)
    frozen = kind(11, 3, sparse=True).requires_grad_(False)
    CLIPPINGS[way](nn.Sequential(frozen, nn.Linear(3, 3)), CROSS_ENTROPY, 1.0)


def test_a_layer_that_draws_random_numbers_itself_is_named() -> None:
    class DropsOut(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(6, 3))

        def forward(self, x: Tensor) -> Tensor:
            return functional.dropout(x, 0.5, self.training) @ self.weight

    batch = ((torch.randn(7, 6),), torch.randint(0, 3, (7,)))
    with pytest.raises(SettingError, match="gradient of each sample for DropsOut, one of the model's layers"):
        BookKeeping(DropsOut(), CROSS_ENTROPY, 1.0).of(batch)
    PerSample(DropsOut(), CROSS_ENTROPY, 1.0).of(batch)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("way", CLIPPINGS)
def test_what_a_model_keeps_in_an_attribute_stays_of_its_own_dtype(way: str) -> None:
    class Keeps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(6, 3)
            self.mask: Tensor | None = None

        def forward(self, x: Tensor) -> Tensor:
            if self.mask is None:
                self.mask = torch.eye(6, dtype=x.dtype)
            return torch.as_tensor(self.inner(x @ self.mask))

    model = Keeps()
    CLIPPINGS[way](model, CROSS_ENTROPY, 1.0).of(((torch.randn(7, 6),), torch.randint(0, 3, (7,))))
    assert model.mask is None or model.mask.dtype == torch.float32


def test_what_a_model_raises_without_clipping_comes_as_it_is() -> None:
    class Fails(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            raise KeyError("a figure of its own")

    with pytest.raises(KeyError, match="a figure of its own"):
        BookKeeping(Fails(), CROSS_ENTROPY, 1.0).of(((torch.randn(7, 6),), torch.randint(0, 3, (7,))))


def test_parameters_of_two_dtypes_are_trained() -> None:
    class Widens(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.double()

    model = nn.Sequential(nn.Linear(4, 3), Widens(), nn.Linear(3, 2).double())
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    training = DpSgd(model, optimizer, CROSS_ENTROPY, rows=8, batch=8, clip=1.0, noise=1.0)
    training.step(torch.randn(8, 4), torch.randint(0, 2, (8,)))
    assert [p.dtype for p in model.parameters()] == [torch.float32] * 2 + [torch.float64] * 2


def test_a_module_of_modules_with_parameters_of_its_own_is_referred() -> None:
    with pytest.raises(SettingError, match="per_sample"):
        BookKeeping(nn.MultiheadAttention(4, 2), CROSS_ENTROPY, 1.0)


def test_no_gradient_of_a_sample_is_kept_behind() -> None:
    model, inputs, targets = problem("perceptron")
    with pytest.warns(UserWarning, match="Full backward hook"):
        Opacus(model, CROSS_ENTROPY, 1.0).sum(((inputs,), targets))
    assert not any(getattr(p, "grad_sample", None) is not None for p in model.parameters())
