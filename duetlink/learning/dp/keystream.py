"""Unpredictable Gaussian noise from a cryptographic generator."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from duetlink.base.chance.words import RandomWords


class Keystream(RandomWords):
    """Random words, and normal numbers made of them."""

    def normal(self, count: int) -> npt.NDArray[np.float64]:
        """Return `count` numbers of the standard normal distribution.

        Each is the sum of four draws, halved: the last bits of a single draw would reveal which floating
        point numbers it can have been added to (Mironov 2012; Holohan and Braghin, "Secure Random Sampling in
        Differential Privacy", 2021, section 3).
        """
        draws = 4 * count
        half = (draws + 1) // 2
        radius = np.sqrt(-2.0 * np.log(self.uniform(half)))
        angle = 2.0 * np.pi * self.uniform(half)
        pairs = np.concatenate((radius * np.cos(angle), radius * np.sin(angle)))[
            :draws
        ]  # Box and Muller 1958
        return np.asarray(pairs.reshape(4, count).sum(axis=0) / 2.0)
