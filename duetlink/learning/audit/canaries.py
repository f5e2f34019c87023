"""Canaries: rows with known gradients, which can be recognised in a training's released sums.

Theory. The model is two linear layers with one input. The loss of a sample is the sum of its outputs times
its targets, and its input is 1. So its gradient equals its targets, for the weight and for the bias of each
layer: four tensors of one size. Each canary's targets are in columns of its own. The last columns are quiet:
no row changes them, so they hold only noise.

A canary's gradient has the same size in several coordinates of each tensor. A training that clips each
coordinate or each tensor by itself, or leaves one out of the norm, lets through more than the clipping norm.
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
_LENGTH = 1e3  # a canary's gradient in one coordinate, in clipping norms

Counts = npt.NDArray[np.int64]


class ProbeModel(nn.Module):
    """Two linear layers: inputs of shape (B, 1) to outputs of shape (B, columns of both layers)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(1, _COLUMNS), nn.Linear(1, _COLUMNS)
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.cat((self.first(inputs), self.second(inputs)), 1)

    def weights(self) -> Floats:
        """Return a copy of the parameters, shape (tensors, columns)."""
        return np.stack([p.detach().double().numpy().reshape(-1) for p in self.parameters()])


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs * targets).sum(1)


def rows_of(included: Bools, clip: float) -> tuple[Tensor, Tensor]:
    """Return the inputs and targets of the included canaries, `included` of shape (at most CANARIES,)."""
    targets = torch.zeros(len(included), 2, _COLUMNS)
    for canary in range(len(included)):
        targets[canary, :, canary * _OWN : (canary + 1) * _OWN] = _LENGTH * clip
    chosen = targets.flatten(1)[torch.from_numpy(included)]
    return torch.ones(len(chosen), 1), chosen


def count(targets: Tensor) -> Counts:
    """Count each canary in a batch. Shape (CANARIES,)."""
    firsts = targets[:, : CANARIES * _OWN : _OWN]
    return np.bincount(firsts.argmax(1).numpy(), minlength=CANARIES) if len(firsts) else _NONE.copy()


_NONE: Counts = np.zeros(CANARIES, np.int64)


def along(sums: Floats) -> Floats:
    """Return the part of each canary in each sum, shape (steps, CANARIES), for sums of shape (steps, tensors,
    columns).

    Noise has the same standard deviation here as in one coordinate.
    """
    own = sums[:, :, : CANARIES * _OWN].reshape(len(sums), _TENSORS, CANARIES, _OWN)
    return np.asarray(own.sum((1, 3)) / np.sqrt(_TENSORS * _OWN))


def quiet(sums: Floats) -> Floats:
    """Return the columns of each sum without canaries. Shape (steps, tensors, QUIET)."""
    return sums[:, :, CANARIES * _OWN :]
