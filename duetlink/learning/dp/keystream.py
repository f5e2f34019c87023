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
        import torch  # its cosine takes a fifth of the time of NumPy's

        drawn = self.uniform(4 * count)
        radius, angle = drawn[: 2 * count], drawn[2 * count :]
        np.log(radius, out=radius)
        radius *= -2.0
        np.sqrt(radius, out=radius)
        angle *= 2.0 * np.pi
        angles = torch.from_numpy(angle)
        pairs = angles.cos().numpy()  # Box and Muller 1958
        pairs += angles.sin_().numpy()
        pairs *= radius
        return np.asarray((pairs[:count] + pairs[count:]) / 2.0)
