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
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.func import functional_call

from duetlink.errors import SettingError


def check_apart(
    model: nn.Module, losses: Callable[[Any, Tensor], Tensor], batch: tuple[tuple[Tensor, ...], Tensor]
) -> None:
    """`losses` gives one number for each sample; `batch` has at least two. Draws no random number that the
    training would have drawn.

    Raises:
        SettingError: a sample's loss depends on another sample.
    """
    for drawn in (False, True):
        for last, (dtype, targets_too) in enumerate(_WAYS, 1):
            try:
                with torch.random.fork_rng(devices=[]), torch.enable_grad():
                    _check(model, losses, batch, dtype, drawn=drawn, targets_too=targets_too)
                break
            except RuntimeError:  # the loss has weights of float32, or no derivative by its targets
                if last == len(_WAYS):
                    raise


# In float64 rounding errors are told from a dependence that is small.
_WAYS = ((torch.float64, True), (torch.float64, False), (torch.float32, True), (torch.float32, False))
# What may be rounded: of the largest derivative by the same tensor, and by any.
_ROUNDED = {torch.float64: (1e-8, 1e-12), torch.float32: (1e-4, 1e-5)}


def _check(
    model: nn.Module,
    losses: Callable[[Any, Tensor], Tensor],
    batch: tuple[tuple[Tensor, ...], Tensor],
    dtype: torch.dtype,
    *,
    drawn: bool,
    targets_too: bool,
) -> None:
    held = {name: _drawn(p) if drawn else p for name, p in model.named_parameters()}
    own = {name: _as(t, dtype).clone() for name, t in (held | dict(model.named_buffers())).items()}
    for name in held:
        own[name].requires_grad_(own[name].is_floating_point())
    inputs, targets = tuple(_followed(x, dtype) for x in batch[0]), _as(batch[1], dtype)
    if targets_too:
        targets = _followed(targets, dtype)
    samples = len(targets)
    edges = [get_gradient_edge(t) for t in (*inputs, targets) if t.grad_fn is not None]
    with _outputs_of(model, edges, samples):
        each = losses(functional_call(model, own, inputs), targets)
    if not edges:
        return
    weights = 1.0 + torch.rand(samples, dtype=each.dtype)
    plain = torch.autograd.grad(each.sum(), edges, retain_graph=True, allow_unused=True)
    weighted = torch.autograd.grad((each * weights).sum(), edges, allow_unused=True)
    pairs = [
        (_times(ones, weights), found)
        for ones, found in zip(plain, weighted, strict=True)
        if found is not None
    ]
    largest = [_largest(expected) for expected, _ in pairs]
    of_own, of_any = _ROUNDED[dtype]
    for (expected, found), own_largest in zip(pairs, largest, strict=True):
        tolerance = max(of_own * own_largest, of_any * max(largest))
        if not torch.allclose(found, expected, rtol=10 * of_own, atol=tolerance, equal_nan=True):
            raise SettingError(
                "the model or the loss mixes the samples of a batch, so that nobody's influence can be "
                "bounded: the first dimension has to count the samples, and nothing may go along it, from "
                'the inputs to the losses; clipping="per_sample" gives each sample a batch of its own'
            )


def _drawn(like: Tensor) -> Tensor:
    """Random parameters of a common size: normal, by the root of how many a row has."""
    if not like.is_floating_point():
        return like
    return torch.randn_like(like).div_(math.sqrt(max(1, like[:1].numel())))


def _as(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.detach().to(dtype) if tensor.is_floating_point() else tensor


def _followed(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """The same with a derivative, if it can have one; it may be changed in place."""
    return _as(tensor, dtype).clone().requires_grad_().clone() if tensor.is_floating_point() else tensor


def _largest(tensor: Tensor) -> float:
    return float(tensor.abs().nan_to_num(0.0, 0.0).max()) if tensor.numel() else 0.0


def _times(ones: Tensor, weights: Tensor) -> Tensor:
    """What is weighted sample by sample."""
    return ones * weights.to(ones.dtype).view(-1, *[1] * (ones.dim() - 1))


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
