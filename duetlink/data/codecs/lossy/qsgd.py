"""QSGD (Alistarh et al., NeurIPS 2017, arXiv:1610.02132): stochastic levels per bucket.

An item is rounded at random to one of the two multiples of its bucket's step next to it, so that its expected
value is the item. The step follows the largest magnitude, not the 2-norm: the authors' practical variant,
QSGDinf. Its error is bounded. Levels are entropy-coded.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from duetlink.data.codecs.base import Array, Bound
from duetlink.data.codecs.element import Element
from duetlink.data.codecs.lossy.blocks import BlockCodec
from duetlink.data.codecs.lossy.levels import quantise, step_bound
from duetlink.data.codecs.lossy.numbers import Floats, to_floats
from duetlink.data.codecs.lossy.stochastic import Stochastic


class Qsgd(Stochastic, BlockCodec):
    """Buckets of 512. Level n has 2^(7 - n) - 1 steps: 127 at level 0, 1 (ternary) at level 6.

    Unbiased for float32 and float64 up to their own rounding; narrower floats are rounded to nearest once
    more.
    """

    number: ClassVar[int] = 36
    name: ClassVar[str] = "qsgd"
    block: ClassVar[int] = 512
    levels: ClassVar[range] = range(7)

    def steps(self, level: int) -> int:
        return (1 << 7 - level) - 1

    def bound(self, element: Element, level: int) -> Bound:
        return step_bound(element, self.steps(level), 1.0)

    def encode_by(self, chance: np.random.Philox, array: Array, element: Element, level: int) -> bytes:
        random = np.random.Generator(chance)

        def by_chance(multiples: Floats) -> Floats:
            whole = np.floor(multiples)
            multiples -= whole
            whole += random.random(multiples.shape, np.float32) < multiples
            return whole

        return self._pack(quantise(to_floats(array, element), self.block, self.steps(level), by_chance))
