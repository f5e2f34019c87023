"""A model as one flat array of numbers, and back."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from duetlink.errors import UnsupportedValue

Floats = npt.NDArray[np.float32]


class FlatModel:
    """A model's parameters and floating point buffers, in their order, as float32.

    Buffers of whole numbers, such as the count of batches of a batch norm, are not averaged.
    """

    def __init__(self, model: nn.Module) -> None:
        """Raises UnsupportedValue for a model without parameters, or with parameters that are not real."""
        parameters = dict(model.named_parameters())
        kept = model.state_dict()  # without buffers that are not saved
        buffers = {name: buffer for name, buffer in model.named_buffers() if name in kept}
        for name, tensor in parameters.items():
            if not tensor.is_floating_point():
                raise UnsupportedValue(f"the parameter {name} is {tensor.dtype}: averaged are real numbers")
        if not parameters:
            raise UnsupportedValue("the model has no parameters: there is nothing to average")
        self._tensors: dict[str, Tensor] = {
            **parameters,
            **{name: buffer for name, buffer in buffers.items() if buffer.is_floating_point()},
        }
        self.parameters = sum(tensor.numel() for tensor in parameters.values())  # they come first
        self.size = sum(tensor.numel() for tensor in self._tensors.values())

    def form(self) -> str:
        """Return names, shapes and dtypes as text: equal for models that can be averaged."""
        return json.dumps([[name, list(t.shape), str(t.dtype)] for name, t in self._tensors.items()])

    def digest(self, settings: object) -> bytes:
        """Hash the form and `settings`, which have a JSON form. 32 bytes."""
        return hashlib.sha256(f"{self.form()}{json.dumps(settings)}".encode()).digest()

    def read(self) -> Floats:
        """Return a copy of the numbers as they are now."""
        found = np.empty(self.size, np.float32)
        at = 0
        for tensor in self._tensors.values():
            flat = tensor.detach().cpu().float().reshape(-1).numpy()
            found[at : at + flat.size] = flat
            at += flat.size
        return found

    @torch.no_grad()
    def write(self, numbers: Floats) -> None:
        at = 0
        for tensor in self._tensors.values():
            piece = torch.from_numpy(numbers[at : at + tensor.numel()])
            tensor.copy_(piece.view(tensor.shape))
            at += tensor.numel()

    def drift(self, center: Floats) -> Tensor:
        """Return the squared distance of the parameters from `center`, as a tensor with gradients."""
        total = torch.zeros(())
        at = 0
        for tensor in self._tensors.values():
            if at >= self.parameters:
                break
            there = torch.from_numpy(center[at : at + tensor.numel()]).view(tensor.shape).to(tensor)
            total = total + (tensor - there).square().sum()
            at += tensor.numel()
        return total
