"""Whether a model and its loss keep the samples of a batch apart.

Theory. Clipping bounds what a row can change only if a sample's gradient is its own. With
`nn.Softmax(dim=0)`, or a loss that subtracts the batch's mean, a row changes the gradients of all others,
each within its clip. So the losses are added up with random weights w: where samples are apart, the
derivative of sum(w_i loss_i) by anything of sample i is w_i times that of sum(loss_i), and else it is not.

That is looked at with the model's own parameters and with random ones, since a dependence that is multiplied
by a weight of 0 shows only when the weight has been trained. What has no derivative is not seen, such as a
model's own code that compares the rows of a batch.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.func import functional_call

from duetlink.errors import SettingError


def check_apart(
    model: nn.Module,
    losses: Callable[[Any, Tensor], Tensor],
    parameters: Mapping[str, Tensor],
    batch: tuple[tuple[Tensor, ...], Tensor],
) -> None:
    """`losses` gives one number for each sample; `batch` has at least two. Draws no random number that the
    training would have drawn.

    Raises:
        SettingError: a sample's loss depends on another sample.
    """
    own = {name: p.detach().clone().requires_grad_() for name, p in parameters.items()}
    other = {name: _drawn(p).requires_grad_() for name, p in parameters.items()}
    for chosen in (own, other):
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            _check(model, losses, chosen, batch)


def _drawn(like: Tensor) -> Tensor:
    """Random parameters of a common size: normal, by the root of how many a row has."""
    return torch.randn_like(like).div_(math.sqrt(max(1, like[:1].numel())))


def _check(
    model: nn.Module,
    losses: Callable[[Any, Tensor], Tensor],
    parameters: dict[str, Tensor],
    batch: tuple[tuple[Tensor, ...], Tensor],
) -> None:
    inputs, targets = tuple(map(_leaf, batch[0])), _leaf(batch[1])
    samples = len(targets)
    edges = [get_gradient_edge(leaf) for leaf in (*inputs, targets) if leaf.requires_grad]
    with _outputs_of(model, edges, samples):
        each = losses(functional_call(model, parameters, inputs), targets)
    if not edges:
        return
    weights = 1.0 + torch.rand(samples, dtype=each.dtype)
    plain = torch.autograd.grad(each.sum(), edges, retain_graph=True, allow_unused=True)
    weighted = torch.autograd.grad((each * weights).sum(), edges, allow_unused=True)
    for ones, found in zip(plain, weighted, strict=True):
        if ones is None or found is None:
            continue
        expected = ones * weights.to(ones.dtype).view(-1, *[1] * (ones.dim() - 1))
        tolerance = 1e-4 * float(expected.abs().nan_to_num(0.0, 0.0).max()) if expected.numel() else 0.0
        if not torch.allclose(found, expected, rtol=1e-3, atol=tolerance, equal_nan=True):
            raise SettingError(
                "the model or the loss mixes the samples of a batch, so that nobody's influence can be "
                "bounded: the first dimension has to count the samples, and nothing may go along it, from "
                'the inputs to the losses; clipping="per_sample" gives each sample a batch of its own'
            )


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().clone().requires_grad_() if tensor.is_floating_point() else tensor


@contextlib.contextmanager
def _outputs_of(model: nn.Module, edges: list[GradientEdge], samples: int) -> Iterator[None]:
    """While the model runs, note what its innermost layers return for the samples."""

    def note(layer: nn.Module, inputs: tuple[Any, ...], outputs: Any) -> None:
        if isinstance(outputs, Tensor) and outputs.grad_fn is not None and outputs.shape[:1] == (samples,):
            edges.append(get_gradient_edge(outputs))

    layers = [layer for layer in model.modules() if next(layer.children(), None) is None]
    handles = [layer.register_forward_hook(note) for layer in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
