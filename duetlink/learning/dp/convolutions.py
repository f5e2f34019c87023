"""Each sample's gradient of a convolution, by one convolution in as many groups as there are samples.

The gradient of a weight is itself a convolution, of the inputs with the gradients of the outputs. If the
samples of a batch lie side by side as groups of channels, it gives one gradient for each sample, with no
unfolded copy of the inputs (Rochette, Manoel and Tramel, "Efficient Per-Example Gradient Computations in
Convolutional Neural Networks", 2019). Norms are those of these gradients, and so is the weighted sum.

Where a sample has few positions and the weight is large, its norm follows from Gram matrices of the
positions instead ("ghost" norms, see `layers.py`).

Shapes: as in `layers.py`; a layer with G groups has G weights side by side, each with a norm of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.grad import conv1d_weight, conv2d_weight, conv3d_weight

from duetlink.learning.dp.norms import (
    LEAST_OF_TERMS,
    parts,
    products,
    squares,
    sums,
    weighted_back,
)

_WEIGHT_GRADIENTS = {nn.Conv1d: conv1d_weight, nn.Conv2d: conv2d_weight, nn.Conv3d: conv3d_weight}
_FORWARDS = {nn.Conv1d: functional.conv1d, nn.Conv2d: functional.conv2d, nn.Conv3d: functional.conv3d}

# By measurement: Gram matrices of T positions are taken where 32 T^2 is at most the size of a group's weight.
# By operations it would be 2 T^2; but they need unfolded inputs, and a second product for the sum.
_GRAM_COST = 32
# In float32, squares below 2^-126 are inexact: an item that is smaller than this is missing in a norm.
_LEAST_SQUARED = 2.0**-63


def is_convolution(layer: nn.Module, inputs: Tensor) -> bool:
    """Return True if `ConvolutionGradients` takes this class of layer, and inputs that have samples."""
    return type(layer) in _WEIGHT_GRADIENTS and inputs.dim() == len(layer.kernel_size) + 2  # type: ignore[arg-type]


class ConvolutionGradients:
    """Each sample's gradient of one call of a convolution: the norms, and the weighted sum."""

    def __init__(self, layer: nn.Module, inputs: Tensor, back: Tensor, room: int) -> None:
        """`room`: the samples' gradients are kept if they take at most as many bytes; otherwise they are made
        again for the sum.
        """
        assert isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d)
        self._layer, self._inputs, self._back = layer, inputs, back
        if isinstance(layer.padding, str) or layer.padding_mode != "zeros":
            mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
            self._inputs = functional.pad(inputs, layer._reversed_padding_repeated_twice, mode=mode)
            self._padding: tuple[int, ...] = (0,) * len(layer.kernel_size)
        else:
            self._padding = layer.padding
        positions, size = math.prod(back.shape[2:]), layer.weight.numel()
        self._by_gram = isinstance(layer, nn.Conv2d) and _GRAM_COST * positions**2 <= size // layer.groups
        bytes_each = size * back.element_size()
        self._parts = parts(len(back), bytes_each)
        self.kept_bytes = len(back) * bytes_each
        if not layer.weight.requires_grad or self._by_gram or self.kept_bytes > room:
            self.kept_bytes = 0
        self._kept: list[Tensor] = []

    def norms(self) -> list[Tensor]:
        """Return the norms for weight and bias, if trained: float64 tensors of shape (B,)."""
        found = []
        if self._layer.weight.requires_grad:
            squared = self._gram_squares() if self._by_gram else self._squares()
            found.append(squared.sum(1).sqrt_())
        if self._layer.bias is not None and self._layer.bias.requires_grad:
            found.append(self._bias_squares().sqrt_())
        return found

    def weighted(self, weights: Tensor) -> dict[str, Tensor]:
        """Return the sum over the samples, each times its float64 weight, by parameter."""
        layer, weights = self._layer, weights.to(self._back.dtype)
        found = {}
        if layer.weight.requires_grad:
            if self._by_gram:
                back = weighted_back(self._back, weights)
                found["weight"] = self._weight_gradient(self._inputs, back, layer.weight.shape, layer.groups)
            else:
                total = self._back.new_zeros(layer.weight.numel())
                for part, each in zip(self._parts, self._kept or map(self._of, self._parts), strict=True):
                    total.addmv_(each.view(-1, len(total)).t(), weights[part])
                found["weight"] = total.view_as(layer.weight)
        if layer.bias is not None and layer.bias.requires_grad:
            found["bias"] = weights @ self._back.flatten(2).sum(2)
        return found

    def _of(self, part: slice) -> Tensor:
        """Return the gradients of the samples in `part`, of shape (samples * out, in / groups * kernel)."""
        layer, inputs, back = self._layer, self._inputs[part], self._back[part]
        samples, out = back.shape[:2]
        found = self._weight_gradient(
            inputs.reshape(1, -1, *inputs.shape[2:]),
            back.reshape(1, -1, *back.shape[2:]),
            torch.Size((samples * out, *layer.weight.shape[1:])),
            samples * layer.groups,
        )
        return found.reshape(samples * out, -1)

    def _weight_gradient(self, inputs: Tensor, back: Tensor, shape: torch.Size, groups: int) -> Tensor:
        layer = self._layer
        make: Callable[..., Tensor] = _WEIGHT_GRADIENTS[type(layer)]
        return make(inputs, shape, back, layer.stride, self._padding, layer.dilation, groups)

    def _squares(self) -> Tensor:
        """Return the squared norms of each group's weight: float64, (B, groups).

        A row of a weight is short enough for a norm in float32, which is right to 1e-7; the rows are added in
        float64.
        """
        groups, made = self._layer.groups, []
        for part in self._parts:
            each = self._of(part)
            if self.kept_bytes:
                self._kept.append(each)
            rows = torch.linalg.vector_norm(each, dim=1).double().square()
            made.append(rows.view(-1, groups, self._layer.out_channels // groups).sum(2))
        found = torch.cat(made)
        left, right = self._bound_of(self._inputs), self._bound_of(self._back)
        least = (LEAST_OF_TERMS**2 * math.prod(self._layer.kernel_size)) * left * right
        doubtful = ~(found >= least).all(1)  # True for NaN, too
        if bool(doubtful.any()):
            terms = self._terms(self._inputs[doubtful], self._back[doubtful])
            found[doubtful] = torch.maximum(found[doubtful], (LEAST_OF_TERMS * terms).square())
        return found

    def _bound_of(self, values: Tensor) -> Tensor:
        """Return an upper bound of each group's sum of squares: float64, (B, groups)."""
        values = values.reshape(len(values), self._layer.groups, -1)
        lost = math.sqrt(values.shape[2]) * _LEAST_SQUARED
        norms: Tensor = torch.linalg.vector_norm(values, dim=2)
        return (norms.double() + lost).square()

    def _terms(self, inputs: Tensor, back: Tensor) -> Tensor:
        """Return the sum over positions of the norms of their gradients: float64, (B, groups)."""
        layer, groups = self._layer, self._layer.groups
        ones = torch.ones((1, 1, *layer.kernel_size), dtype=torch.float64)
        of_inputs, of_back = (
            values.double().square().reshape(len(values) * groups, -1, *values.shape[2:]).sum(1, keepdim=True)
            for values in (inputs, back)
        )
        run: Callable[..., Tensor] = _FORWARDS[type(layer)]
        patches = run(of_inputs, ones, None, layer.stride, self._padding, layer.dilation)
        return (patches * of_back).sqrt().flatten(1).sum(1).view(-1, groups)

    def _gram_squares(self) -> Tensor:
        layer, groups = self._layer, self._layer.groups
        unfolded = functional.unfold(
            self._inputs, layer.kernel_size, layer.dilation, self._padding, layer.stride
        )
        left = unfolded.reshape(len(unfolded) * groups, -1, unfolded.shape[-1]).transpose(1, 2)
        right = self._back.reshape(len(left), layer.out_channels // groups, -1).transpose(1, 2)
        return products(left, right).view(-1, groups)

    def _bias_squares(self) -> Tensor:
        found = squares(self._back.flatten(2).sum(2))
        positions = math.prod(self._back.shape[2:])
        least = LEAST_OF_TERMS**2 * positions * self._bound_of(self._back).sum(1)
        doubtful = ~(found >= least)
        if bool(doubtful.any()):
            found[doubtful] = sums(self._back[doubtful].flatten(2).transpose(1, 2))
        return found
