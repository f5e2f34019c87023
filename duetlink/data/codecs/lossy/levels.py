"""Blocks of numbers as whole multiples of a step: the largest magnitude of a block is `levels` steps.

A block that cannot be written so (an infinity or a NaN in it; a step that is subnormal, or whose multiples
overflow) is kept as it is: its step is NaN, its items follow the others. Padding of the last block is 0.
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

Rounding: TypeAlias = Callable[[Floats], Floats]  # of multiples to whole ones; it may write to its input

# of dividing by a step, of the step itself, and of multiplying with it: relative, in float32
_ARITHMETIC = 2.0**-21


@dataclass(frozen=True, slots=True)
class QuantisedBlocks:
    """Blocks after quantisation."""

    steps: Floats  # (blocks,); NaN: kept
    multiples: NDArray[np.int8]  # (blocks that are not kept, block)
    kept: Floats  # (blocks that are kept, block)


def quantise(floats: Floats, block: int, levels: int, rounding: Rounding) -> QuantisedBlocks:
    """(n,) numbers as ceil(n / block) blocks. `rounding` must not move a number by more than 1."""
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
    """The first `count` numbers of the blocks."""
    steps = quantised.steps
    kept = np.isnan(steps)
    if not kept.any():
        return _multiply(quantised.multiples, steps).reshape(-1)[:count]
    blocks = np.empty((steps.size, quantised.multiples.shape[1]), steps.dtype)
    blocks[~kept] = _multiply(quantised.multiples, steps[~kept])
    blocks[kept] = quantised.kept
    return blocks.reshape(-1)[:count]


def step_bound(element: Element, levels: int, steps: float) -> Bound:
    """What holds if `Rounding` moves a number by at most `steps` of its whole ones."""
    block = (steps + levels * _ARITHMETIC) / levels
    if element.storage == computed_in(element):
        return Bound(0.0, block)
    relative = rounding(element)
    # an original below the normal numbers is a multiple of `least`: what is nearer than half of it is exact
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
