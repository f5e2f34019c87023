"""Whether a model and its loss keep the samples of a batch apart.

Theory. Clipping bounds what a row can change only if a sample's gradient is its own. With
`nn.Softmax(dim=0)`, or a loss that subtracts the batch's mean, a row changes the gradients of all others,
each within its clip. So the losses are added up with random weights w: where samples are apart, the
derivative of sum(w_i loss_i) by anything of sample i is w_i times that of sum(loss_i), and else it is not.

What has no derivative, such as targets that are whole numbers, or code that compares rows, is looked at in
another way: one sample is put in the place of half of them, and no loss of the other half may change.

Both looks are taken with the model's own parameters and with random ones, since a dependence that is
multiplied by a weight of 0 shows only when the weight has been trained. Samples that are not finite are left
out: one that is mixed with others makes NaN of them all, which are equal to each other.
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
) -> bool:
    """Whether this batch shows that samples are apart; else the next one has to be looked at as well.

    `losses` gives one number for each sample. Draws no random number that the training would have drawn.

    Raises:
        SettingError: a sample's loss depends on another sample.
    """
    finite = torch.stack([_is_finite(x) for x in (*batch[0], batch[1])]).all(0)
    if int(finite.sum()) < 2:
        return False
    batch = tuple(x[finite] for x in batch[0]), batch[1][finite]
    is_seen = True
    for drawn in (False, True):
        for last, (dtype, targets_too) in enumerate(_WAYS, 1):
            try:
                with torch.random.fork_rng(devices=[]), torch.enable_grad():
                    is_seen &= _check(model, losses, batch, dtype, drawn=drawn, targets_too=targets_too)
                break
            except RuntimeError:  # the loss has weights of float32, or no derivative by its targets
                if last == len(_WAYS):
                    raise
    return is_seen


# In float64 rounding errors are told from a dependence that is small.
_WAYS = ((torch.float64, True), (torch.float64, False), (torch.float32, True), (torch.float32, False))
# What may be rounded: of the largest derivative by the same tensor, and by any.
_ROUNDED = {torch.float64: (1e-8, 1e-12), torch.float32: (1e-4, 1e-5)}
_MIXED = (
    "the model or the loss mixes the samples of a batch, so that nobody's influence can be bounded: the "
    "first dimension has to count the samples, and nothing may go along it, from the inputs to the losses "
    "(outputs of shape (B, 1) beside targets of shape (B,) do); "
    'clipping="per_sample" gives each sample a batch of its own'
)


def _check(
    model: nn.Module,
    losses: Callable[[Any, Tensor], Tensor],
    batch: tuple[tuple[Tensor, ...], Tensor],
    dtype: torch.dtype,
    *,
    drawn: bool,
    targets_too: bool,
) -> bool:
    """Whether what was looked at is finite, and not all the same."""
    held = {name: _drawn(p) if drawn else p for name, p in model.named_parameters()}
    own = {name: _as(t, dtype).clone() for name, t in (held | dict(model.named_buffers())).items()}
    for name in held:
        own[name].requires_grad_(own[name].is_floating_point())
    inputs, targets = tuple(_followed(x, dtype) for x in batch[0]), _as(batch[1], dtype)
    if targets_too:
        targets = _followed(targets, dtype)
    samples = len(targets)
    of_own, of_any = _ROUNDED[dtype]

    def losses_of(order: Tensor) -> Tensor:
        with torch.random.fork_rng(devices=[]):
            outputs = functional_call(model, own, tuple(_as(x, dtype)[order] for x in batch[0]))
            return losses(outputs, _as(batch[1], dtype)[order]).detach()

    order = torch.arange(samples)
    usual = losses_of(order)
    is_seen = bool(torch.isfinite(usual).all())
    for kept, instead in ((order < samples // 2, 0), (order >= samples // 2, samples - 1)):
        for whole in (x for x in (*batch[0], batch[1]) if not x.is_floating_point()):
            is_seen &= bool((whole[~kept] != whole[instead]).any())  # else nothing was changed
        found = losses_of(torch.where(kept, order, instead))[kept]
        if not _is_close(found, usual[kept], of_own) and _is_close(losses_of(order), usual, of_own):
            raise SettingError(_MIXED)  # and not by a chance that is not torch's
    edges = [get_gradient_edge(t) for t in (*inputs, targets) if t.grad_fn is not None]
    with _outputs_of(model, edges, samples):
        each = losses(functional_call(model, own, inputs), targets)
    if not edges:
        return is_seen
    weights = 1.0 + torch.rand(samples, dtype=each.dtype)
    plain = torch.autograd.grad(each.sum(), edges, retain_graph=True, allow_unused=True)
    weighted = torch.autograd.grad((each * weights).sum(), edges, allow_unused=True)
    pairs = [
        (_times(ones, weights), found)
        for ones, found in zip(plain, weighted, strict=True)
        if found is not None
    ]
    least = of_any * max((_largest(expected) for expected, _ in pairs), default=0.0)
    if not all(_is_close(found, expected, of_own, least) for expected, found in pairs):
        raise SettingError(_MIXED)
    return is_seen and all(bool(torch.isfinite(expected).all()) for expected, _ in pairs)


def _is_close(found: Tensor, expected: Tensor, share: float, least: float = 0.0) -> bool:
    """But for what is rounded: a share of the largest, or `least`."""
    tolerance = max(share * _largest(expected), least)
    return torch.allclose(found, expected, rtol=10 * share, atol=tolerance, equal_nan=True)


def _is_finite(samples: Tensor) -> Tensor:
    """Of each, whether all its numbers are. Bool, shape (B,)."""
    return torch.isfinite(samples).flatten(1).all(1) if samples.dim() > 1 else torch.isfinite(samples)


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
