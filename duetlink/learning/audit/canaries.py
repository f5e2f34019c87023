"""Rows whose gradients are known, and where they are in what a training releases.

Theory. The model is two linear layers of one input; the loss of a sample is the sum of its outputs times its
targets, and its input is 1. So its gradient is its targets, for the weight and for the bias of each layer:
four tensors of one size. Each canary's targets are in columns of its own, the last columns are quiet: no row
touches them, and they get noise alone.

A canary's gradient is of equal size in several coordinates of each tensor. A training that clips each
coordinate, or each tensor, or leaves one out of the norm, lets through more than the clipping norm of it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from duetlink.learning.audit.bounds import Bools, Floats

CANARIES = 400
QUIET = 500  # columns of each tensor
_OWN = 2  # columns of a canary in each tensor
_COLUMNS = CANARIES * _OWN + QUIET
_TENSORS = 4
_LENGTH = 1e3  # of a canary's gradient in one coordinate, in clipping norms

Counts = npt.NDArray[np.int64]


class ProbeModel(nn.Module):
    """Maps inputs of shape (B, 1) to outputs of shape (B, columns of both layers)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(1, _COLUMNS), nn.Linear(1, _COLUMNS)
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.cat((self.first(inputs), self.second(inputs)), 1)

    def weights(self) -> Floats:
        """Shape (tensors, columns); a copy."""
        return np.stack([p.detach().double().numpy().reshape(-1) for p in self.parameters()])


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs * targets).sum(1)


def rows_of(included: Bools, clip: float) -> tuple[Tensor, Tensor]:
    """The inputs and targets of the canaries that are included, `included` of shape (at most CANARIES,)."""
    targets = torch.zeros(len(included), 2, _COLUMNS)
    for canary in range(len(included)):
        targets[canary, :, canary * _OWN : (canary + 1) * _OWN] = _LENGTH * clip
    chosen = targets.flatten(1)[torch.from_numpy(included)]
    return torch.ones(len(chosen), 1), chosen


def count(targets: Tensor) -> Counts:
    """How often each canary is in a batch. Shape (CANARIES,)."""
    firsts = targets[:, : CANARIES * _OWN : _OWN]
    return np.bincount(firsts.argmax(1).numpy(), minlength=CANARIES) if len(firsts) else _NONE.copy()


_NONE: Counts = np.zeros(CANARIES, np.int64)


def along(sums: Floats) -> Floats:
    """How much of each canary is in each sum: shape (steps, CANARIES), of sums of shape (steps, tensors,
    columns). Noise has the standard deviation here that it has in one coordinate.
    """
    own = sums[:, :, : CANARIES * _OWN].reshape(len(sums), _TENSORS, CANARIES, _OWN)
    return np.asarray(own.sum((1, 3)) / np.sqrt(_TENSORS * _OWN))


def quiet(sums: Floats) -> Floats:
    """What is in each sum where no canary is. Shape (steps, tensors, QUIET)."""
    return sums[:, :, CANARIES * _OWN :]
