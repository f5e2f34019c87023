"""Blocks of numbers as whole multiples of a step: the largest magnitude of a block is `levels` steps.

A block that cannot be written so (it has an infinity or a NaN, or its step is subnormal or has multiples that
overflow) is kept unchanged: its step is NaN, and its items follow the others. Padding of the last block is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs.base import Bound
from duetlink.data.codecs.element import Element
from duetlink.data.codecs.lossy.numbers import Floats, computed_in, rounding

Rounding: TypeAlias = Callable[[Floats], Floats]  # rounds to whole numbers; may write to its input

# Relative error in float32 of dividing by a step, of the step itself, and of multiplying by it.
_ARITHMETIC = 2.0**-21


@dataclass(frozen=True, slots=True)
class QuantisedBlocks:
    """Blocks after quantisation."""

    steps: Floats  # (blocks,); NaN: kept
    multiples: NDArray[np.int8]  # (blocks that are not kept, block)
    kept: Floats  # (blocks that are kept, block)


def quantise(floats: Floats, block: int, levels: int, rounding: Rounding) -> QuantisedBlocks:
    """Quantise (n,) numbers in ceil(n / block) blocks. `rounding` must not move a number by more than 1."""
    blocks = _blocks(floats, block)
    with np.errstate(over="ignore", invalid="ignore"):
        largest = np.maximum(blocks.max(axis=1), -blocks.min(axis=1))  # NaN where there is one
        steps = largest / levels
        usable = np.isfinite(steps * levels) & ((steps >= np.finfo(steps.dtype).tiny) | (largest == 0))
    steps = np.where(usable, steps, np.nan).astype(blocks.dtype)
    kept = blocks[:0]
    if not usable.all():
        blocks, kept = blocks[usable], blocks[~usable]
    divisors = np.where(steps[usable] == 0, 1, steps[usable]).astype(blocks.dtype)
    multiples = rounding(blocks / divisors[:, None])
    np.clip(multiples, -levels, levels, out=multiples)
    return QuantisedBlocks(steps, multiples.astype(np.int8), kept)


def dequantise(quantised: QuantisedBlocks, count: int) -> Floats:
    """Return the first `count` numbers of the blocks."""
    steps = quantised.steps
    kept = np.isnan(steps)
    if not kept.any():
        return _multiply(quantised.multiples, steps).reshape(-1)[:count]
    blocks = np.empty((steps.size, quantised.multiples.shape[1]), steps.dtype)
    blocks[~kept] = _multiply(quantised.multiples, steps[~kept])
    blocks[kept] = quantised.kept
    return blocks.reshape(-1)[:count]


def step_bound(element: Element, levels: int, steps: float) -> Bound:
    """Return the error bound, given that `Rounding` moves a number by at most `steps` steps."""
    block = (steps + levels * _ARITHMETIC) / levels
    if element.storage == computed_in(element):
        return Bound(0.0, block)
    relative = rounding(element)
    # a subnormal original is a multiple of `least`: an error of less than half of that is rounded away
    least = math.ldexp(1.0, 2 - (1 << element.exponent_bits - 1) - element.mantissa_bits)
    subnormal = min(steps, least / 2 / float(np.finfo(np.float32).tiny)) / levels
    return Bound(relative, (block + subnormal) * (1 + relative))


def _multiply(multiples: NDArray[np.int8], steps: Floats) -> Floats:
    with np.errstate(over="ignore", invalid="ignore"):  # a hostile step
        return multiples * steps[:, None]


def _blocks(floats: Floats, block: int) -> Floats:
    missing = -floats.size % block
    padded = np.pad(floats, (0, missing)) if missing else floats
    return padded.reshape(-1, block)
