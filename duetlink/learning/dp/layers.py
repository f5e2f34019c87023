"""The squared norm of each sample's gradient, layer by layer, from what went in and what came back.

For a linear layer, the gradient of one sample is the outer product of its input and of the gradient of its
output, so its norm needs no gradient at all (Goodfellow, "Efficient Per-Example Gradient Computations",
2015). With several positions in a sample, two ways give the same number, and the cheaper one is taken: Gram
matrices of the positions ("ghost" norms, Li et al. 2022), or the sample's gradient itself.

Shapes: B samples, T positions in a sample. `inputs` is what the layer got, `back` the gradient of the sum of
all losses with respect to what it returned. All functions return float tensors of shape (B,).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap
from torch.nn import functional

from duetlink.errors import SettingError

SquaredNorms = Callable[[Any, Tensor, Tensor], Tensor]

# What learns from the other samples of a batch: nobody's gradient is their own there.
_ACROSS_SAMPLES = (
    nn.modules.batchnorm._BatchNorm,
    nn.modules.instancenorm._InstanceNorm,
)


def check_layers(model: nn.Module) -> None:
    """Refuse what has no gradient of one sample alone.

    Raises:
        SettingError: the model has a layer of batch statistics.
    """
    for name, layer in model.named_modules():
        across = isinstance(layer, _ACROSS_SAMPLES)
        if across and (isinstance(layer, nn.modules.batchnorm._BatchNorm) or layer.track_running_stats):
            raise SettingError(
                f"{name or 'the model'} is a {type(layer).__name__}: its statistics mix the samples of a "
                "batch, so that no sample's influence can be bounded; use GroupNorm or LayerNorm"
            )
        if isinstance(layer, nn.Embedding | nn.EmbeddingBag) and layer.scale_grad_by_freq:
            raise SettingError(f"{name}: scale_grad_by_freq divides by other samples' counts; leave it out")


def trainable(layer: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that the layer itself holds and that are to be learnt, by name."""
    return {name: p for name, p in layer.named_parameters(recurse=False) if p.requires_grad}


def squared_norms(layer: nn.Module, inputs: Tensor, back: Tensor) -> Tensor:
    """Of the gradients of all trainable parameters of the layer."""
    rule = _RULES.get(type(layer), _by_samples)
    return rule(layer, inputs, back)


def weighted_gradients(layer: nn.Module, inputs: Tensor, back: Tensor, weights: Tensor) -> dict[str, Tensor]:
    """The sum of the samples' gradients, each times its weight, by parameter. `weights`: shape (B,)."""
    weighted = back * weights.view(-1, *[1] * (back.dim() - 1))
    if type(layer) is nn.Linear:
        return _linear_gradients(layer, inputs, weighted)
    parameters = trainable(layer)
    with torch.enable_grad():
        copies = {name: p.detach().requires_grad_() for name, p in parameters.items()}
        outputs = functional_call(layer, copies, (inputs.detach(),))
        found = torch.autograd.grad(outputs, list(copies.values()), weighted)
    return dict(zip(copies, found, strict=True))


def sample_gradients(layer: nn.Module, inputs: Tensor, back: Tensor) -> dict[str, Tensor]:
    """Each sample's gradient by itself, of shape (B, *parameter's)."""
    parameters = {name: p.detach() for name, p in trainable(layer).items()}

    def one(input_: Tensor, back_: Tensor) -> dict[str, Tensor]:
        pull = vjp(lambda p: functional_call(layer, p, (input_.unsqueeze(0),)), parameters)[1]
        found: dict[str, Tensor] = pull(back_.unsqueeze(0))[0]
        return found

    return dict(vmap(one)(inputs.detach(), back))


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
    return _outer(layer, inputs.flatten(1, -2) if inputs.dim() > 3 else inputs, back)


def _outer(layer: nn.Module, inputs: Tensor, back: Tensor) -> Tensor:
    """`inputs`: (B, in) or (B, T, in); `back`: (B, out) or (B, *, out) with as many positions."""
    parameters = trainable(layer)
    total = back.new_zeros(len(back))
    if inputs.dim() == 2:
        squares = back.square().sum(1)
        if "weight" in parameters:
            total = total + inputs.square().sum(1) * squares
        return total + squares if "bias" in parameters else total
    back = back.reshape(len(back), -1, back.shape[-1])
    if "weight" in parameters:
        total = total + _products(inputs, back)
    if "bias" in parameters:
        total = total + back.sum(1).square().sum(1)
    return total


def _products(left: Tensor, right: Tensor) -> Tensor:
    """The squared Frobenius norms of left^T right, sample by sample: (B, T, in) and (B, T, out)."""
    positions, size = left.shape[1], left.shape[2] * right.shape[2]
    if 2 * positions * positions <= size:
        return (left @ left.transpose(1, 2)).mul_(right @ right.transpose(1, 2)).sum((1, 2))
    return (left.transpose(1, 2) @ right).square().sum((1, 2))


def _convolution(layer: nn.Conv2d, inputs: Tensor, back: Tensor) -> Tensor:
    if layer.padding_mode != "zeros" or isinstance(layer.padding, str):
        return _by_samples(layer, inputs, back)
    groups, samples = layer.groups, len(inputs)
    patches = functional.unfold(inputs, layer.kernel_size, layer.dilation, layer.padding, layer.stride)
    parameters = trainable(layer)
    total = back.new_zeros(samples)
    if "weight" in parameters:
        left = patches.reshape(samples * groups, -1, patches.shape[-1]).transpose(1, 2)
        right = back.reshape(samples * groups, back.shape[1] // groups, -1).transpose(1, 2)
        total = total + _products(left, right).view(samples, groups).sum(1)
    if "bias" in parameters:
        total = total + back.flatten(2).sum(2).square().sum(1)
    return total


def _embedding(layer: nn.Embedding, inputs: Tensor, back: Tensor) -> Tensor:
    if layer.max_norm is not None:
        raise SettingError("an Embedding with max_norm changes its weights while it is used; leave it out")
    tokens = inputs.reshape(len(inputs), -1)
    back = back.reshape(*tokens.shape, -1)
    if layer.padding_idx is not None:
        back = back * (tokens != layer.padding_idx).unsqueeze(-1)
    same = tokens.unsqueeze(1) == tokens.unsqueeze(2)
    return ((back @ back.transpose(1, 2)) * same).sum((1, 2))


def _layer_norm(layer: nn.LayerNorm, inputs: Tensor, back: Tensor) -> Tensor:
    normal = functional.layer_norm(inputs, layer.normalized_shape, eps=layer.eps)
    return _scale_and_shift(layer, normal, back, inputs.dim() - len(layer.normalized_shape))


def _group_norm(layer: nn.GroupNorm, inputs: Tensor, back: Tensor) -> Tensor:
    normal = functional.group_norm(inputs, layer.num_groups, eps=layer.eps)
    return _scale_and_shift(layer, normal.transpose(1, -1), back.transpose(1, -1), inputs.dim() - 1)


def _scale_and_shift(layer: nn.Module, normal: Tensor, back: Tensor, first: int) -> Tensor:
    """For weight and bias that lie along the dimensions from `first` on."""
    parameters = trainable(layer)
    between = tuple(range(1, first))
    total = back.new_zeros(len(back))
    for name, values in (("weight", back * normal), ("bias", back)):
        if name in parameters:
            gradient = values.sum(between) if between else values
            total = total + gradient.flatten(1).square().sum(1)
    return total


def _by_samples(layer: nn.Module, inputs: Tensor, back: Tensor) -> Tensor:
    gradients = sample_gradients(layer, inputs, back).values()
    return torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients]).sum(0)


_RULES: dict[type[nn.Module], SquaredNorms] = {
    nn.Linear: _linear,
    nn.Conv2d: _convolution,
    nn.Embedding: _embedding,
    nn.LayerNorm: _layer_norm,
    nn.GroupNorm: _group_norm,
}
