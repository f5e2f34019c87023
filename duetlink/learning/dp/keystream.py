"""Unpredictable Gaussian noise from a cryptographic generator."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from duetlink.base.chance.words import RandomWords

# A draw of a few hundred numbers is bound by the number of calls, so several are drawn together: 64 KiB.
_TOGETHER = 2**13
# torch takes the calling thread alone for fewer than 2,048 cosines. For more it has threads, for which a fork
# of the process would wait forever.
_OF_ONE_THREAD = 2_000


class Keystream(RandomWords):
    """Random words, and normal numbers made of them."""

    def _begin(self) -> None:
        super()._begin()
        self._ready: dict[int, list[npt.NDArray[np.float64]]] = {}  # by count; each is given once

    def normal(self, count: int) -> npt.NDArray[np.float64]:
        """Return `count` numbers of the standard normal distribution, which belong to the caller."""
        self._check_process()
        ready = self._ready.get(count)
        if not ready:
            draws = max(1, _TOGETHER // max(1, count))
            ready = list(self._normal(draws * count).reshape(draws, count))
            self._ready = {count: ready}
        return ready.pop()

    def _normal(self, count: int) -> npt.NDArray[np.float64]:
        """Draw `count` numbers.

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
        pairs = np.empty_like(angle)
        size = _OF_ONE_THREAD if count <= _TOGETHER else len(angle)
        for at in range(0, len(angle), size):  # Box and Muller 1958
            part = torch.from_numpy(angle[at : at + size])
            pairs[at : at + size] = part.cos().numpy()
            pairs[at : at + size] += part.sin_().numpy()
        pairs *= radius
        return np.asarray((pairs[:count] + pairs[count:]) / 2.0)
