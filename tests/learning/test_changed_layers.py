"""Layers that were changed after they were made. torch's own ways to do that keep the class of a layer, which
then computes something else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune, spectral_norm, weight_norm

from duetlink.errors import SettingError
from duetlink.learning.dp import layers
from duetlink.learning.dp.clipping import CLIPPINGS, BookKeeping
from duetlink.testing.faults import replace_function

CLIP = 1e-3  # every sample's gradient is far above it
IMAGE, ROWS, ROW = (2, 6, 6), (2, 6), (6,)


def of_the_target(outputs: Tensor, targets: Tensor) -> Tensor:
    """A loss whose gradient does not end."""
    return outputs.gather(1, targets.unsqueeze(1)).squeeze(1)


def pruned(layer: nn.Module) -> nn.Module:
    return prune.l1_unstructured(layer, "weight", amount=0.3)  # type: ignore[no-any-return]


def hooked(layer: nn.Module) -> nn.Module:
    layer.register_forward_hook(lambda layer, inputs, output: output * 1000.0)
    return layer


def hooked_before(layer: nn.Module) -> nn.Module:
    layer.register_forward_pre_hook(lambda layer, inputs: (inputs[0] * 1000.0,))
    return layer


def hooked_backward(layer: nn.Module) -> nn.Module:
    def larger(layer: nn.Module, back: Any) -> tuple[torch.Tensor, ...]:
        return (back[0] * 1000.0,)

    layer.register_full_backward_pre_hook(larger)
    return layer


def tied(layer: nn.LayerNorm) -> nn.Module:
    layer.bias = layer.weight
    return layer


def with_another(layer: nn.Module, method: str) -> nn.Module:
    original = getattr(layer, method)
    setattr(layer, method, lambda *given: 1000.0 * original(*given))
    return layer


def convolution(bias: bool = False) -> nn.Module:
    return nn.Conv2d(2, 3, 3, bias=bias)


CHANGED: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "weight_norm of a convolution": (lambda: weight_norm(convolution()), IMAGE),
    "weight_norm of a linear layer": (lambda: weight_norm(nn.Linear(6, 4)), ROW),
    "parametrized weight_norm": (lambda: parametrizations.weight_norm(convolution()), IMAGE),
    "spectral_norm": (lambda: spectral_norm(convolution()), IMAGE),
    "parametrized spectral_norm": (lambda: parametrizations.spectral_norm(nn.Linear(6, 4)), ROW),
    "a pruned convolution": (lambda: pruned(convolution()), IMAGE),
    "a pruned convolution with a bias": (lambda: pruned(convolution(bias=True)), IMAGE),
    "a pruned LayerNorm": (lambda: pruned(nn.LayerNorm(6)), ROWS),
    "a pruned GroupNorm": (lambda: pruned(nn.GroupNorm(1, 2)), IMAGE),
    "a hook": (lambda: hooked(nn.GroupNorm(1, 2)), IMAGE),
    "a hook before": (lambda: hooked_before(nn.LayerNorm(6)), ROWS),
    "a hook of the backward pass": (lambda: hooked_backward(nn.GroupNorm(1, 2)), IMAGE),
    "weight and bias in one": (lambda: tied(nn.LayerNorm(6)), ROWS),
    "another forward": (lambda: with_another(nn.GroupNorm(1, 2), "forward"), IMAGE),
    "another part of forward": (lambda: with_another(convolution(), "_conv_forward"), IMAGE),
}
REFUSED = {
    ("bookkeeping", "parametrized weight_norm"): "belongs to no layer of its own",
    ("bookkeeping", "parametrized spectral_norm"): "belongs to no layer of its own",
    ("bookkeeping", "a hook of the backward pass"): "for GroupNorm, one of the model's layers",
    ("per_sample", "a hook of the backward pass"): r"torch\.func makes no gradient",
}


def model_with(layer: nn.Module, shape: tuple[int, ...], train_the_head: bool) -> nn.Module:
    with torch.no_grad():
        count = layer(torch.zeros(1, *shape)).numel()
    head = nn.Linear(count, 3).requires_grad_(train_the_head)
    # spectral_norm writes to its buffers while it trains, which is refused
    return nn.Sequential(layer, nn.Flatten(), head).eval()


def norm_of(gradients: dict[str, Tensor]) -> float:
    return float(torch.cat([gradient.double().flatten() for gradient in gradients.values()]).norm())


@pytest.mark.parametrize("train_the_head", [True, False])
@pytest.mark.parametrize("way", ["bookkeeping", "per_sample"])
@pytest.mark.parametrize("name", CHANGED)
@pytest.mark.filterwarnings("ignore:There is a performance drop", "ignore:Full backward hook is firing")
@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")
def test_a_sample_is_clipped_in_a_changed_layer(name: str, way: str, train_the_head: bool) -> None:
    torch.manual_seed(0)
    make, shape = CHANGED[name]
    model = model_with(make(), shape, train_the_head)
    x, y = 3.0 * torch.randn(4, *shape), torch.randint(0, 3, (4,))

    def sums() -> list[dict[str, Tensor]]:
        clipping = CLIPPINGS[way](model, of_the_target, CLIP)
        parts = (slice(0, 4), *(slice(at, at + 1) for at in range(4)))
        return [clipping.of(((x[part],), y[part])) for part in parts]

    if (way, name) in REFUSED:
        with pytest.raises(SettingError, match=REFUSED[way, name]):
            sums()
        return
    together, *ones = sums()
    assert [norm_of(one) for one in ones] == pytest.approx([CLIP] * 4, rel=1e-4)
    for key, gradient in together.items():
        torch.testing.assert_close(gradient, sum(one[key] for one in ones), rtol=1e-3, atol=1e-7)


def test_a_rule_that_gives_too_small_a_norm_is_found_with_the_first_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def rule_of(layer: nn.Module) -> Any:
        rule = true(layer)
        return rule if rule is None else lambda layer, inputs, back: rule(layer, inputs, back) / 4.0

    true = replace_function(monkeypatch, layers, "rule_of", rule_of)
    model = nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 3))
    batch = ((torch.randn(4, 6),), torch.randint(0, 3, (4,)))
    with pytest.raises(SettingError, match="0, a LayerNorm: a sample's gradient has a norm of"):
        BookKeeping(model, of_the_target, CLIP).of(batch)


@pytest.mark.parametrize("way", CLIPPINGS)
def test_a_layer_that_is_changed_later_needs_another_training(way: str) -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 3))
    clipping = CLIPPINGS[way](model, of_the_target, CLIP)
    pruned(model[0])
    with pytest.raises(SettingError, match=r"0\.weight_orig is none of the parameters"):
        clipping.of(((torch.randn(4, 6),), torch.randint(0, 3, (4,))))


def test_a_hook_of_later_is_clipped_as_well() -> None:
    torch.manual_seed(0)
    layer = nn.GroupNorm(1, 2)
    model = model_with(layer, IMAGE, train_the_head=False)
    x, y = torch.randn(4, *IMAGE), torch.randint(0, 3, (4,))
    clipping = BookKeeping(model, of_the_target, CLIP)
    clipping.of(((x,), y))
    hooked(layer)
    assert norm_of(clipping.of(((x[:1],), y[:1]))) == pytest.approx(CLIP, rel=1e-4)
