"""The squared norm of each sample's gradient, layer by layer, from the layer's input and its output's
gradient.

In a linear layer, the gradient of one sample is the outer product of its input and its output's gradient, so
its norm follows without making the gradient (Goodfellow, "Efficient Per-Example Gradient Computations",
2015). With several positions in a sample, two methods give the same number, and the cheaper one is used: Gram
matrices of the positions ("ghost" norms, Li et al. 2022), or the sample's gradient itself.

Shapes: B samples, T positions in a sample. `inputs` is the layer's input, `back` the gradient of the sum of
all losses with respect to the layer's output. All functions return float64 tensors of shape (B,): in float32
the square of a number below 1e-23 is 0, and a model of such numbers would not be clipped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap
from torch.nn import functional
from torch.nn.modules.module import _has_any_global_hook

from duetlink.errors import SettingError
from duetlink.learning.dp.convolutions import ConvolutionGradients, is_convolution
from duetlink.learning.dp.norms import (
    LEAST_OF_TERMS,
    lengths,
    no_squares,
    norms_of,
    products,
    scaled,
    sums,
    weighted_back,
)

SquaredNorms = Callable[[Any, Tensor, Tensor], Tensor]

# These layers compute statistics over the batch, so no sample's gradient is its own.
_ACROSS_SAMPLES = (
    nn.modules.batchnorm._BatchNorm,
    nn.modules.instancenorm._InstanceNorm,
)


def check_layers(model: nn.Module) -> None:
    """Refuse layers in which one sample has no gradient of its own.

    Raises:
        SettingError: the model has a layer of batch statistics, or one that changes its weights by itself.
    """
    for name, layer in model.named_modules():
        across = isinstance(layer, _ACROSS_SAMPLES)
        if across and (isinstance(layer, nn.modules.batchnorm._BatchNorm) or layer.track_running_stats):
            raise SettingError(
                f"{name or 'the model'} is a {type(layer).__name__}: its statistics mix the samples of a "
                "batch, so that no sample's influence can be bounded; use GroupNorm or LayerNorm"
            )
        if isinstance(layer, nn.Embedding | nn.EmbeddingBag):
            if layer.scale_grad_by_freq:
                raise SettingError(
                    f"{name}: scale_grad_by_freq divides by other samples' counts; leave it out"
                )
            # also for a frozen layer: the scaled weights reveal which rows were in the batch
            if layer.max_norm is not None:
                raise SettingError(f"{name}: max_norm changes weights while they are used; leave it out")
            if layer.sparse and layer.weight.requires_grad:
                raise SettingError(
                    f"{name}: sparse=True leaves no place for the noise, which is added to every weight; "
                    "leave it out"
                )


def trainable(layer: nn.Module) -> dict[str, nn.Parameter]:
    """Return the layer's own parameters that require a gradient, by name; not those of its children."""
    found: dict[str, nn.Parameter] = {}
    for name, p in layer._parameters.items():
        if p is not None and p.requires_grad and not any(p is other for other in found.values()):
            found[name] = p
    return found


class LayerGradients(Protocol):
    """Each sample's gradient of one call of a layer: the norms, and the weighted sum."""

    kept_bytes: int  # of samples' gradients that are kept from the norms to the sum, within a given room

    def norms(self) -> list[Tensor]:
        """Return float64 tensors of shape (B,) whose squares add up to the squared norms over all trainable
        parameters of the layer.
        """

    def weighted(self, weights: Tensor) -> dict[str, Tensor]:
        """Return the sum over the samples, each times its float64 weight, by parameter."""


def gradients_of(layer: nn.Module, inputs: Tensor, back: Tensor, room: int) -> LayerGradients:
    """Return the cheapest way for this layer and these shapes. `room`: the bytes of gradients it may keep.

    Raises:
        SettingError: no way fits the layer, and torch.func cannot make the samples' gradients.
    """
    rule = _rule_of(layer)
    if rule is _linear and inputs.dim() == 2:
        return _OfOnePosition(layer, inputs, back)
    if rule is not None:
        return _ByRule(rule, layer, inputs, back)
    if is_convolution(layer, inputs) and _is_as_made(layer):
        return ConvolutionGradients(layer, inputs, back, room)
    return _Made(layer, inputs, back)


class _OfOnePosition:
    """A linear layer with one position in a sample, whose gradient is an outer product (Goodfellow 2015)."""

    kept_bytes = 0

    def __init__(self, layer: nn.Module, inputs: Tensor, back: Tensor) -> None:
        self._parameters, self._inputs, self._back = trainable(layer), inputs, back

    def norms(self) -> list[Tensor]:
        of_back = lengths(self._back)
        found = [of_back] if "bias" in self._parameters else []
        return [*found, of_back * lengths(self._inputs)] if "weight" in self._parameters else found

    def weighted(self, weights: Tensor) -> dict[str, Tensor]:
        back, found = weighted_back(self._back, weights), {}
        if "weight" in self._parameters:
            found["weight"] = back.t() @ self._inputs
        if "bias" in self._parameters:
            found["bias"] = back.sum(0)
        return found


class _ByRule:
    """A layer with a rule needs only its input and `back`."""

    kept_bytes = 0

    def __init__(self, rule: SquaredNorms, layer: nn.Module, inputs: Tensor, back: Tensor) -> None:
        self._rule, self._layer, self._inputs, self._back = rule, layer, inputs, back

    def norms(self) -> list[Tensor]:
        return [self._rule(self._layer, self._inputs, self._back).sqrt_()]

    def weighted(self, weights: Tensor) -> dict[str, Tensor]:
        weighted = weighted_back(self._back, weights)
        if type(self._layer) is nn.Linear:
            return _linear_gradients(self._layer, self._inputs, weighted)
        with torch.enable_grad():
            copies = {name: p.detach().requires_grad_() for name, p in trainable(self._layer).items()}
            outputs = functional_call(self._layer, copies, (self._inputs.detach(),))
            found = torch.autograd.grad(outputs, list(copies.values()), weighted)
        return dict(zip(copies, found, strict=True))


class _Made:
    """For any other layer the samples' gradients are made once, and used for both."""

    kept_bytes = 0

    def __init__(self, layer: nn.Module, inputs: Tensor, back: Tensor) -> None:
        self._each = sample_gradients(layer, inputs, back)

    def norms(self) -> list[Tensor]:
        return [lengths(gradient) for gradient in self._each.values()]

    def weighted(self, weights: Tensor) -> dict[str, Tensor]:
        return {name: torch.tensordot(weights.to(g.dtype), g, 1) for name, g in self._each.items()}


def sample_gradients(layer: nn.Module, inputs: Tensor, back: Tensor) -> dict[str, Tensor]:
    """Return each sample's gradient, of shape (B, *parameter's).

    Raises:
        SettingError: torch.func cannot make them, for example if the layer draws random numbers.
    """
    parameters = {name: p.detach() for name, p in trainable(layer).items()}

    def one(input_: Tensor, back_: Tensor) -> dict[str, Tensor]:
        pull = vjp(lambda p: functional_call(layer, p, (input_.unsqueeze(0),)), parameters)[1]
        found: dict[str, Tensor] = pull(back_.unsqueeze(0))[0]
        return found

    try:
        return dict(vmap(one)(inputs.detach(), back))
    except Exception as error:  # any error of the layer's own code
        raise SettingError(
            f"torch.func makes no gradient of each sample for {type(layer).__name__}, one of the model's "
            f'layers: {error}; clipping="per_sample" may take such models'
        ) from error


def _linear_gradients(layer: nn.Linear, inputs: Tensor, back: Tensor) -> dict[str, Tensor]:
    flat, flat_inputs = back.reshape(-1, layer.out_features), inputs.reshape(-1, layer.in_features)
    found = {}
    if layer.weight.requires_grad:
        found["weight"] = flat.t() @ flat_inputs
    if layer.bias is not None and layer.bias.requires_grad:
        found["bias"] = flat.sum(0)
    return found


# -- a rule for each layer ---------------------------------------------------------------------------------


def _linear(layer: nn.Linear, inputs: Tensor, back: Tensor) -> Tensor:
    """`inputs`: (B, *, in); `back`: (B, *, out) with as many positions."""
    parameters, total = trainable(layer), no_squares(back)
    inputs, back = (values.reshape(len(values), -1, values.shape[-1]) for values in (inputs, back))
    if "weight" in parameters:
        total = total + products(inputs, back)
    if "bias" in parameters:
        total = total + sums(back)
    return total


def _embedding(layer: nn.Embedding, inputs: Tensor, back: Tensor) -> Tensor:
    tokens = inputs.reshape(len(inputs), -1)
    back = back.reshape(*tokens.shape, -1)
    if layer.padding_idx is not None:
        back = back * (tokens != layer.padding_idx).unsqueeze(-1)
    norms = norms_of(back)
    back = scaled(back, norms)
    same = tokens.unsqueeze(1) == tokens.unsqueeze(2)
    found = ((back @ back.transpose(1, 2)) * same).sum((1, 2)).double() * norms.amax(1).square()
    return torch.maximum(found, (LEAST_OF_TERMS * norms.sum(1)).square())


def _layer_norm(layer: nn.LayerNorm, inputs: Tensor, back: Tensor) -> Tensor:
    normal = functional.layer_norm(inputs, layer.normalized_shape, eps=layer.eps)
    return _scale_and_shift(layer, normal, back, inputs.dim() - len(layer.normalized_shape))


def _group_norm(layer: nn.GroupNorm, inputs: Tensor, back: Tensor) -> Tensor:
    normal = functional.group_norm(inputs, layer.num_groups, eps=layer.eps)
    return _scale_and_shift(layer, normal.transpose(1, -1), back.transpose(1, -1), inputs.dim() - 1)


def _scale_and_shift(layer: nn.Module, normal: Tensor, back: Tensor, first: int) -> Tensor:
    """Compute the norms for a weight and a bias along the dimensions from `first` on."""
    parameters = trainable(layer)
    total = no_squares(back)
    for name, values in (("weight", back * normal), ("bias", back)):
        if name in parameters:
            total = total + sums(values.flatten(first))
    return total


_RULES: dict[type[nn.Module], SquaredNorms] = {
    nn.Linear: _linear,
    nn.Embedding: _embedding,
    nn.LayerNorm: _layer_norm,
    nn.GroupNorm: _group_norm,
}


def _rule_of(layer: nn.Module) -> SquaredNorms | None:
    return _RULES.get(type(layer)) if _is_as_made(layer) else None


_OF_EVERY_LAYER = frozenset(vars(nn.Module()))


def _is_as_made(layer: nn.Module) -> bool:
    """Return True if the layer computes what its class does, from a weight and a bias of its own.

    `torch.nn.utils.weight_norm`, `prune` and `spectral_norm` keep the class, but give the layer other
    parameters and a hook that computes its weight from them.
    """
    own = [p for p in layer._parameters.values() if p is not None]
    kind = type(layer)
    set_by_kind = _OF_EVERY_LAYER.union(getattr(kind, "__constants__", ()))
    replaced = any(
        hasattr(kind, name) or name in layer._parameters for name in vars(layer).keys() - set_by_kind
    )  # such as forward
    hooks = (
        layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks
    )
    return (
        layer._parameters.keys() <= {"weight", "bias"}
        and len({id(p) for p in own}) == len(own)
        and not (replaced or hooks or layer._buffers or _has_any_global_hook())
    )
