"""Tests that a model and its loss keep the samples of a batch apart.

Theory. Clipping bounds the influence of a row only if a sample's gradient is its own. With
`nn.Softmax(dim=0)`, or a loss that subtracts the batch's mean, a row changes the gradients of all others,
each within its clip. Four tests find this:

- Derivatives. The losses are summed with random weights w. If samples are apart, the derivative of
  sum(w_i loss_i) with respect to anything of sample i is w_i times that of sum(loss_i); otherwise not.
- Replacement. Integers, and code that compares rows, have no derivative. So one sample replaces half of
  the batch, and no loss of the other half may change.
- Count. The losses of a shorter batch must equal those of the longer one.
- Layers. Each of torch's own layers in the model is tested by itself, with random inputs.

All tests but the last run with the model's own parameters and with random ones, since a dependence that is
multiplied by a weight of 0 shows only after that weight has been trained. A threshold before or after a layer
can still hide a dependence until a row exceeds it; that is why layers are tested by themselves. Samples that
are not finite are left out: mixed with others, they turn them all into NaN, and all NaN count as equal.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.func import functional_call

from duetlink.errors import SettingError


def check_apart(
    model: nn.Module, losses: Callable[[Any, Tensor], Tensor], batch: tuple[tuple[Tensor, ...], Tensor]
) -> bool:
    """Return True if this batch shows that samples are apart; if it shows nothing, test the next one as well.

    `losses` returns one number for each sample. The training's own random numbers are not used up.

    Raises:
        SettingError: a sample's loss depends on another sample.
    """
    finite = torch.stack([_is_finite(x) for x in (*batch[0], batch[1])]).all(0)
    if int(finite.sum()) < 2:
        return False
    batch = tuple(x[finite] for x in batch[0]), batch[1][finite]
    is_seen = True
    for drawn in (False, True):
        is_seen &= _in_some_way(model, functools.partial(_check, model, losses, batch, drawn=drawn))
    is_seen &= _check_places(model, batch[0], len(batch[1]))
    for call in _calls(model, batch[0], len(batch[1])):
        _in_some_way(model, functools.partial(_check_layer, call, len(batch[1])))
    for drawn in (False, True):
        _in_some_way(model, functools.partial(_check_count, model, losses, batch, drawn=drawn))
    return is_seen


def _in_some_way(model: nn.Module, check: Callable[..., bool]) -> bool:
    for last, (dtype, targets_too) in enumerate(_WAYS, 1):
        try:
            with torch.random.fork_rng(devices=[]), torch.enable_grad(), _as_it_was(model):
                return check(dtype=dtype, targets_too=targets_too)
        except RuntimeError:  # some weights are float32, or the loss has no derivative by its targets
            if last == len(_WAYS):
                raise
    raise AssertionError


# In float64, rounding errors differ clearly from a small dependence.
_WAYS = ((torch.float64, True), (torch.float64, False), (torch.float32, True), (torch.float32, False))
# The tolerance for rounding: relative to the largest derivative by the same tensor, and by any tensor.
_ROUNDED = {torch.float64: (1e-8, 1e-12), torch.float32: (1e-4, 1e-5)}
_MIXED = (
    "the model or the loss mixes the samples of a batch, so that the influence of a row cannot be bounded: "
    "the first dimension has to count the samples from the inputs to the losses, and no operation may "
    "combine items along it (outputs of shape (B, 1) with targets of shape (B,) do that); "
    'clipping="per_sample" gives each sample a batch of its own'
)


def _check(
    model: nn.Module,
    losses: Callable[[Any, Tensor], Tensor],
    batch: tuple[tuple[Tensor, ...], Tensor],
    *,
    dtype: torch.dtype,
    drawn: bool,
    targets_too: bool,
) -> bool:
    """Test replacement and derivatives; returns False if the batch shows nothing (not finite, or
    all alike).
    """
    own = _own(model, dtype, drawn)
    inputs, targets = tuple(_followed(x, dtype) for x in batch[0]), _as(batch[1], dtype)
    if targets_too:
        targets = _followed(targets, dtype)
    samples = len(targets)
    of_own, _ = _ROUNDED[dtype]

    losses_of = functools.partial(_losses_of, model, own, losses, batch, dtype)
    order = torch.arange(samples)
    usual = losses_of(order)
    is_seen = bool(torch.isfinite(usual).all())
    for kept, instead in ((order < samples // 2, 0), (order >= samples // 2, samples - 1)):
        for whole in (x for x in (*batch[0], batch[1]) if not x.is_floating_point()):
            is_seen &= bool((whole[~kept] != whole[instead]).any())  # otherwise nothing was changed
        found = losses_of(torch.where(kept, order, instead))[kept]
        if not _is_close(found, usual[kept], of_own) and _is_close(losses_of(order), usual, of_own):
            raise SettingError(_MIXED)  # unless the losses use random numbers that are not torch's
    edges = [get_gradient_edge(t) for t in (*inputs, targets) if t.grad_fn is not None]
    with _outputs_of(model, edges, samples):
        each = losses(functional_call(model, own, inputs), targets)
    return is_seen and (not edges or _check_derivatives(each, edges, dtype))


def _own(model: nn.Module, dtype: torch.dtype, drawn: bool) -> dict[str, Tensor]:
    """Copy the parameters, with derivatives, and the buffers. `drawn`: random parameters instead."""
    held = {name: _drawn(p) if drawn else p for name, p in model.named_parameters()}
    own = {name: _as(t, dtype).clone() for name, t in (held | dict(model.named_buffers())).items()}
    for name in held:
        own[name].requires_grad_(own[name].is_floating_point())
    return own


def _losses_of(
    model: nn.Module,
    own: dict[str, Tensor],
    losses: Callable[[Any, Tensor], Tensor],
    batch: tuple[tuple[Tensor, ...], Tensor],
    dtype: torch.dtype,
    order: Tensor,
    *,
    again: bool = False,
) -> Tensor:
    """Return the losses of the samples in this order, with equal random numbers each time, or others if
    `again`.
    """
    with torch.random.fork_rng(devices=[]):
        if again:
            torch.rand(1)
        outputs = functional_call(model, own, tuple(_as(x, dtype)[order] for x in batch[0]))
        return losses(outputs, _as(batch[1], dtype)[order]).detach()


def _check_count(
    model: nn.Module,
    losses: Callable[[Any, Tensor], Tensor],
    batch: tuple[tuple[Tensor, ...], Tensor],
    *,
    dtype: torch.dtype,
    drawn: bool,
    targets_too: bool,
) -> bool:
    """Raise SettingError if a sample's loss depends on the number of samples.

    Random layers, such as dropout, are switched off for it; returns False if the losses stay random even so.
    """
    losses_of = functools.partial(_losses_of, model, _own(model, dtype, drawn), losses, batch, dtype)
    order, (of_own, _) = torch.arange(len(batch[1])), _ROUNDED[dtype]
    usual = losses_of(order)
    if not _is_close(losses_of(order, again=True), usual, of_own):
        model.eval()  # restored by `_as_it_was`
        usual = losses_of(order)
        if not _is_close(losses_of(order, again=True), usual, of_own):
            return False
    for count in {len(order) - 1, (len(order) + 1) // 2}:
        try:
            found = losses_of(order[:count])
        except Exception as error:  # an error of the model's own code, which took the longer batch
            raise SettingError(
                f"the model or the loss accepts a batch of {len(order)} samples, but fails with {count}: "
                f"{error}. The number of rows in a batch is random, from 1 on"
            ) from error
        if not _is_close(found, usual[:count], of_own):
            raise SettingError(
                "a sample's loss depends on how many samples are in the batch, so that one row more "
                "changes what all others count: leave out what is made of their number, such as "
                "/ len(targets); DpSgd divides by batch= itself"
            )
    return True


@contextlib.contextmanager
def _as_it_was(model: nn.Module) -> Iterator[None]:
    """Restore the attributes of all layers afterwards, including whether they train.

    A model may keep a tensor there, such as a mask that it makes once. Made in float64, it would not fit
    float32 later.
    """
    held = [(layer, dict(vars(layer))) for layer in model.modules()]
    try:
        yield
    finally:
        for layer, attributes in held:
            vars(layer).clear()
            vars(layer).update(attributes)


def _check_derivatives(each: Tensor, edges: Sequence[GradientEdge], dtype: torch.dtype) -> bool:
    """Test the derivatives of `each`, one number for each sample, by `edges`. Returns False if they are not
    finite.

    Raises:
        SettingError: a derivative mixes samples.
    """
    weights = 1.0 + torch.rand(len(each), dtype=each.dtype)
    plain = torch.autograd.grad(each.sum(), edges, retain_graph=True, allow_unused=True)
    weighted = torch.autograd.grad((each * weights).sum(), edges, allow_unused=True)
    pairs = [
        (_times(ones, weights), found)
        for ones, found in zip(plain, weighted, strict=True)
        if found is not None
    ]
    of_own, of_any = _ROUNDED[dtype]
    least = of_any * max((_largest(expected) for expected, _ in pairs), default=0.0)
    if not all(_is_close(found, expected, of_own, least) for expected, found in pairs):
        raise SettingError(_MIXED)
    return all(bool(torch.isfinite(expected).all()) for expected, _ in pairs)


def _is_close(found: Tensor, expected: Tensor, share: float, least: float = 0.0) -> bool:
    """Compare up to rounding: a tolerance of `share` of the largest magnitude, at least `least`."""
    tolerance = max(share * _largest(expected), least)
    return torch.allclose(found, expected, rtol=10 * share, atol=tolerance, equal_nan=True)


def _is_finite(samples: Tensor) -> Tensor:
    """Mark the samples that are entirely finite. Bool, shape (B,)."""
    return torch.isfinite(samples).flatten(1).all(1) if samples.dim() > 1 else torch.isfinite(samples)


def _drawn(like: Tensor) -> Tensor:
    """Draw random normal parameters, divided by the root of the number of items in a row."""
    if not like.is_floating_point():
        return like
    return torch.randn_like(like).div_(math.sqrt(max(1, like[:1].numel())))


def _as(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.detach().to(dtype) if tensor.is_floating_point() else tensor


def _followed(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a copy that has a derivative, if its dtype can; it may be changed in place."""
    return _as(tensor, dtype).clone().requires_grad_().clone() if tensor.is_floating_point() else tensor


def _largest(tensor: Tensor) -> float:
    return float(tensor.abs().nan_to_num(0.0, 0.0).max()) if tensor.numel() else 0.0


def _times(ones: Tensor, weights: Tensor) -> Tensor:
    return ones * weights.to(ones.dtype).view(-1, *[1] * (ones.dim() - 1))


@contextlib.contextmanager
def _outputs_of(model: nn.Module, edges: list[GradientEdge], samples: int) -> Iterator[None]:
    """While the model runs, append the outputs of its innermost layers for the samples to `edges`."""

    def note(layer: nn.Module, given: tuple[Any, ...], keywords: dict[str, Any], outputs: Any) -> None:
        if isinstance(outputs, Tensor) and outputs.grad_fn is not None and outputs.shape[:1] == (samples,):
            edges.append(get_gradient_edge(outputs))

    with _noted(filter(_is_innermost, model.modules()), note):
        yield


@contextlib.contextmanager
def _noted(layers: Iterable[nn.Module], note: Callable[..., None]) -> Iterator[None]:
    """Call `note` at each call of these layers, like a forward hook of torch with keywords."""
    handles = [layer.register_forward_hook(note, with_kwargs=True) for layer in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _run(model: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    """Run the model forward; the model, the inputs and torch's random state stay as they were."""
    own = (*model.named_parameters(), *model.named_buffers())
    with torch.random.fork_rng(devices=[]), torch.no_grad(), _as_it_was(model):
        copies = {name: t.detach().clone() for name, t in own}
        functional_call(model, copies, tuple(x.clone() for x in inputs))


def _is_innermost(layer: nn.Module) -> bool:
    return next(layer.children(), None) is None


def _is_torchs(layer: nn.Module) -> bool:
    return type(layer).__module__.startswith("torch.nn.modules.")


# -- each layer by itself ----------------------------------------------------------------------------------


# These work item by item, so they need no test; nor do containers. So a usual model costs next to nothing.
_ITEM_BY_ITEM = (nn.Sequential, nn.Identity, nn.Dropout, nn.ReLU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.Tanh)


@dataclass(frozen=True, slots=True)
class _LayerCall:
    """The arguments of one call of one of torch's own layers."""

    layer: nn.Module
    inputs: tuple[Any, ...]
    keywords: dict[str, Any]


def _calls(model: nn.Module, inputs: tuple[Tensor, ...], samples: int) -> list[_LayerCall]:
    """Return the calls of torch's layers with the samples in the first dimension. (The model's own code is
    left to a reviewer.)
    """
    calls: list[_LayerCall] = []

    def note(layer: nn.Module, given: tuple[Any, ...], keywords: dict[str, Any], outputs: Any) -> None:
        if not given or not isinstance(given[0], Tensor) or given[0].shape[:1] != (samples,):
            return
        if type(layer) is not nn.Linear or given[0].dim() == 1:
            calls.append(_LayerCall(layer, given, keywords))

    looked_at = [one for one in model.modules() if _is_torchs(one) and type(one) not in _ITEM_BY_ITEM]
    with _noted(looked_at, note):
        _run(model, inputs)
    return calls


def _check_places(model: nn.Module, inputs: tuple[Tensor, ...], samples: int) -> bool:
    """Test that torch's layers get samples in their first dimension, or inputs that are equal for all
    samples.

    An example of the latter are the positions of words. Integers have no derivative, so no other test covers
    them. Returns False if all samples of the batch are alike.

    Raises:
        SettingError: a layer takes the samples in another dimension, or moves them there.
    """
    others = tuple(x[:1].expand_as(x) for x in inputs)  # the first sample replaces all
    usual, changed = (_elsewhere(model, given, samples) for given in (inputs, others))
    if len(usual) != len(changed) or not all(map(_is_equal, usual, changed)):
        raise SettingError(_MIXED)
    return any(bool((x != other).any()) for x, other in zip(inputs, others, strict=True))


def _elsewhere(model: nn.Module, inputs: tuple[Tensor, ...], samples: int) -> list[Tensor]:
    """Return the inputs and outputs of torch's layers whose first dimension is not the samples."""
    found: list[Tensor] = []

    def note(layer: nn.Module, given: tuple[Any, ...], keywords: dict[str, Any], outputs: Any) -> None:
        made = outputs[0] if isinstance(outputs, tuple) and outputs else outputs
        for tensor in (*given[:1], made):
            if isinstance(tensor, Tensor) and tensor.shape[:1] != (samples,):
                found.append(tensor.detach().clone())

    with _noted((one for one in model.modules() if _is_torchs(one) and _is_innermost(one)), note):
        _run(model, inputs)
    return found


def _is_equal(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, equal_nan=True)


def _check_layer(call: _LayerCall, samples: int, *, dtype: torch.dtype, targets_too: bool) -> bool:
    """Raise SettingError if the layer's output for one sample depends on another one."""
    own = {name: _drawn(p) for name, p in call.layer.named_parameters()} | dict(call.layer.named_buffers())
    inputs = tuple(
        _followed(torch.randn_like(x), dtype) if isinstance(x, Tensor) and x.is_floating_point() else x
        for x in call.inputs
    )
    edges = [
        get_gradient_edge(x)
        for x in inputs
        if isinstance(x, Tensor) and x.grad_fn is not None and x.shape[:1] == (samples,)
    ]
    own = {name: _as(t, dtype).clone() for name, t in own.items()}
    found = functional_call(call.layer, own, inputs, call.keywords)
    found = found[0] if isinstance(found, tuple) else found
    if not isinstance(found, Tensor) or not edges:
        return True
    if found.shape[:1] != (samples,):
        raise SettingError(_MIXED)
    if found.grad_fn is None:
        return True
    return _check_derivatives((found * torch.randn_like(found)).reshape(samples, -1).sum(1), edges, dtype)
