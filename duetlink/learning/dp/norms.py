"""Squared norms of gradients that are sums over the positions of a sample, and parts of a batch.

Shapes: B samples, T positions in a sample. Norms are float64 tensors of shape (B,): in float32 the square of
a number below 1e-23 is 0, and a model of such numbers would not be clipped.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

# If a sample's positions cancel each other, rounding errors of 2^-24 of each term remain, in its norm and in
# the sum over all samples. To keep these below the clipping norm, a norm counts as at least this part of the
# sum of its terms' norms. Other models are not affected: 10,000 terms at random angles sum to a 100th of it.
LEAST_OF_TERMS = 2.0**-10
# Beyond this a sample counts as not finite: items that float32 rounds to 0 next to the largest would matter.
_MOST_SCALES = 1e20
_LEAST_BACK = 1e-30  # float32 keeps its 24 bits down to 1e-38
# A part stays in a core's cache, and its memory is used again; 1 and 16 MiB were slower for some shapes.
PART_BYTES = 4 * 2**20


def weighted_back(back: Tensor, weights: Tensor) -> Tensor:
    """Multiply each sample of `back` by its weight."""
    weights = weights.to(back.dtype).view(-1, *[1] * (back.dim() - 1))
    # smaller numbers are rounded by a large factor, and may be multiplied by large inputs
    return functional.hardshrink(back * weights, _LEAST_BACK)


def parts(samples: int, bytes_each: int) -> list[slice]:
    """Return the samples in parts, each of whose gradients take at most 4 MiB, but for a single sample."""
    count = max(1, PART_BYTES // max(1, bytes_each))
    return [slice(at, at + count) for at in range(0, samples, count)]


def lengths(values: Tensor) -> Tensor:
    """Return the norms over all dimensions but the first, float64."""
    flat = values if values.dim() == 2 else values.reshape(len(values), -1)
    norms: Tensor = torch.linalg.vector_norm(flat, dim=1, dtype=torch.float64)
    return norms


def squares(values: Tensor) -> Tensor:
    """Return the sum of squares over all dimensions but the first, float64."""
    return lengths(values).square_()


def norms_of(values: Tensor) -> Tensor:
    """Return the norms along the last dimension, float64; scaled by the largest item, so float32 is
    enough.
    """
    largest = values.abs().amax(-1, keepdim=True)
    scaled = values / torch.where(largest == 0.0, 1.0, largest)
    return scaled.square().sum(-1).sqrt().double() * largest.squeeze(-1)


def no_squares(back: Tensor) -> Tensor:
    return torch.zeros(len(back), dtype=torch.float64, device=back.device)


def sums(values: Tensor) -> Tensor:
    """Return the squared norms of the sums over all positions. `values`: (B, *, n)."""
    values = values.reshape(len(values), -1, values.shape[-1])
    terms = norms_of(values).sum(1)
    return torch.maximum(squares(values.sum(1)), (LEAST_OF_TERMS * terms).square())


def products(left: Tensor, right: Tensor) -> Tensor:
    """Return the squared Frobenius norms of left^T right by sample: (B, T, in) and (B, T, out)."""
    positions, size = left.shape[1], left.shape[2] * right.shape[2]
    left_norms, right_norms = norms_of(left), norms_of(right)
    scales = left_norms.amax(1) * right_norms.amax(1)
    if 2 * positions * positions <= size:
        left, right = scaled(left, left_norms), scaled(right, right_norms)
        found = (left @ left.transpose(1, 2)).double().mul_(right @ right.transpose(1, 2)).sum((1, 2))
        found = found * scales.square()
    else:
        each = size * left.element_size()
        found = torch.cat(
            [squares(left[part].transpose(1, 2) @ right[part]) for part in parts(len(left), each)]
        )
    terms = (left_norms * right_norms).sum(1)
    found = torch.maximum(found, (LEAST_OF_TERMS * terms).square())
    return torch.where(scales <= _MOST_SCALES, found, torch.inf)  # also if it is NaN


def scaled(values: Tensor, norms: Tensor) -> Tensor:
    """Divide each sample by the largest norm of its positions."""
    largest = norms.amax(1).to(values.dtype)
    return values / torch.where(largest > 0.0, largest, 1.0).view(-1, 1, 1)
