"""A convolution's norms and weighted sum, compared with torch.func's gradient of each sample."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from duetlink.learning.dp import norms
from duetlink.learning.dp.clipping import BookKeeping, PerSample
from duetlink.learning.dp.convolutions import ConvolutionGradients
from duetlink.learning.dp.layers import LayerGradients, gradients_of, sample_gradients

KINDS: tuple[Any, ...] = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
ROOM = 2**20
MODES = ("zeros", "reflect", "replicate", "circular")


@st.composite
def layers(draw: st.DrawFn) -> tuple[nn.Module, tuple[int, ...]]:
    """A convolution, and the shape of its inputs without samples."""
    dimensions = draw(st.integers(1, 3))
    groups = draw(st.integers(1, 3))
    few = st.lists(st.integers(1, 3), min_size=dimensions, max_size=dimensions).map(tuple)
    stride, padding = draw(few), draw(few | st.sampled_from(["same", "valid"]))
    layer = KINDS[dimensions - 1](
        groups * draw(st.integers(1, 3)),
        groups * draw(st.integers(1, 3)),
        draw(few),
        stride=1 if padding == "same" else stride,
        padding=padding,
        dilation=draw(few),
        groups=groups,
        bias=draw(st.booleans()),
        padding_mode=draw(st.sampled_from(MODES)),
    )
    return layer, (layer.in_channels, *(draw(st.integers(7, 9)) for _ in range(dimensions)))


def case(layer: nn.Module, shape: tuple[int, ...], samples: int) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, gradients of the outputs, and weights."""
    inputs = torch.randn(samples, *shape, dtype=next(layer.parameters()).dtype)
    back = torch.randn_like(layer(inputs).detach())
    return inputs, back, torch.rand(samples, dtype=torch.float64)


def squared(found: LayerGradients) -> Tensor:
    return torch.stack(found.norms()).square().sum(0)


def compare(layer: nn.Module, inputs: Tensor, back: Tensor, weights: Tensor, room: int, close: Any) -> None:
    with torch.no_grad():
        found = gradients_of(layer, inputs, back, room)
        each = sample_gradients(layer, inputs, back)
        assert isinstance(found, ConvolutionGradients)
        squares = sum(g.double().flatten(1).square().sum(1) for g in each.values())
        torch.testing.assert_close(squared(found), squares, **close)
        added = found.weighted(weights)
    assert added.keys() == each.keys()
    for name, gradients in each.items():
        expected = torch.tensordot(weights.to(gradients.dtype), gradients, 1)
        torch.testing.assert_close(added[name], expected, **close)


EXACT = {"rtol": 1e-11, "atol": 1e-11}  # float64
SINGLE = {"rtol": 1e-4, "atol": 1e-4}  # float32, sums of up to 700 products


@pytest.mark.filterwarnings("ignore:There is a performance drop", "ignore:Using padding='same'")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@given(st.data())
@settings(max_examples=30, deadline=None)
def test_norms_and_sum_are_those_of_each_samples_gradient(dtype: torch.dtype, data: st.DataObject) -> None:
    layer, shape = data.draw(layers())
    torch.manual_seed(0)
    layer.to(dtype)
    if layer.bias is not None:
        frozen = data.draw(st.sampled_from(["weight", "bias", None]))
        for name, parameter in layer.named_parameters():
            parameter.requires_grad_(name != frozen)
    inputs, back, weights = case(layer, shape, data.draw(st.integers(1, 5)))
    room = data.draw(st.sampled_from([0, ROOM]))
    compare(layer, inputs, back, weights, room, EXACT if dtype is torch.float64 else SINGLE)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("padding", [0, 1, "same"])
def test_gram_matrices_of_few_positions_give_the_same(groups: int, padding: int | str) -> None:
    torch.manual_seed(0)
    layer = nn.Conv2d(16, 32, 3, padding=padding, groups=groups).double()
    inputs, back, weights = case(layer, (16, 3, 3) if padding == 0 else (16, 2, 2), 5)
    compare(layer, inputs, back, weights, ROOM, EXACT)
    assert gradients_of(layer, inputs, back, ROOM).kept_bytes == 0


@pytest.mark.parametrize("room", [0, ROOM])
def test_parts_of_a_batch_add_up_to_it(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    layer = nn.Conv2d(3, 4, 3).double()
    monkeypatch.setattr(norms, "PART_BYTES", 2 * 8 * layer.weight.numel())  # two samples
    inputs, back, weights = case(layer, (3, 9, 9), 5)
    compare(layer, inputs, back, weights, room, EXACT)


def test_gradients_are_kept_only_where_there_is_room() -> None:
    layer = nn.Conv2d(3, 4, 3)  # 108 weights, 432 bytes a sample
    inputs, back, _ = case(layer, (3, 9, 9), 5)
    assert [gradients_of(layer, inputs, back, room).kept_bytes for room in (2159, 2160)] == [0, 2160]


class Largest(TorchDispatchMode):
    """Notes the size of the largest tensor that an operation returns."""

    size_bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        outputs = func(*args, **(kwargs or {}))
        for made in outputs if isinstance(outputs, tuple | list) else (outputs,):
            if isinstance(made, Tensor) and made.untyped_storage() is not None:
                self.size_bytes = max(self.size_bytes, made.untyped_storage().nbytes())
        return outputs


def test_gradients_that_do_not_fit_are_made_in_parts() -> None:
    layer = nn.Conv2d(32, 64, 3, padding=1)  # 72 KiB a sample, 18 MiB together
    inputs, back, weights = case(layer, (32, 8, 8), 256)  # 2 and 4 MiB
    with torch.no_grad(), Largest() as largest:  # type: ignore[no-untyped-call]
        found = gradients_of(layer, inputs, back, 0)
        found.norms()
        found.weighted(weights)
    assert largest.size_bytes <= 4 * 2**20


@pytest.mark.parametrize("kind", KINDS)
def test_positions_that_cancel_each_other_count_as_a_part_of_their_terms(kind: Any) -> None:
    layer = kind(1, 1, 1)
    inputs = torch.ones(2, 1, *[4] * len(layer.kernel_size))
    back = torch.ones_like(inputs)
    back[0, 0, 2:] = -1.0
    terms = inputs[0].numel()
    found = squared(gradients_of(layer, inputs, back, ROOM))
    # of the first sample all terms cancel, of weight and of bias
    assert found.tolist() == pytest.approx([2.0 * (terms / 1024.0) ** 2, 2.0 * terms**2])


@pytest.mark.parametrize("groups", [1, 2])
def test_inputs_whose_squares_are_zero_have_a_norm(groups: int) -> None:
    layer = nn.Conv2d(2, 2, 1, bias=False, groups=groups)
    inputs, back = torch.full((1, 2, 1, 1), 1e-24), torch.full((1, 2, 1, 1), 1e22)
    count = 4 // groups
    found = squared(gradients_of(layer, inputs, back, ROOM))
    assert float(found) == pytest.approx(count * 1e-4, rel=1e-4)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_image_that_is_not_finite_counts_as_none(value: float) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 3, 3, groups=1), nn.ReLU(), nn.Conv2d(3, 3, 3, groups=3), nn.Flatten())
    loss = nn.CrossEntropyLoss(reduction="none")
    inputs, targets = torch.randn(5, 2, 6, 6), torch.randint(0, 3, (5,))
    expected = PerSample(model, loss, 1e-2).sum(((inputs[1:],), targets[1:])).gradients
    inputs[0, 0, 3, 3] = value
    found = BookKeeping(model, loss, 1e-2).sum(((inputs,), targets)).gradients
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-7)


def test_images_of_no_finite_gradient_add_up_to_nothing() -> None:
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Flatten(), nn.Linear(12, 3))
    inputs = torch.full((2, 1, 4, 4), float("nan"))
    clipping = BookKeeping(model, nn.CrossEntropyLoss(reduction="none"), 1.0)
    found = clipping.sum(((inputs,), torch.tensor([0, 1]))).gradients
    assert all(gradient.abs().max() == 0.0 for gradient in found.values())
