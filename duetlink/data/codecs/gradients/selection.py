"""Which items of a gradient are sent: the largest by magnitude."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs.gradients.compressor import Float32Array


def largest(magnitudes: Float32Array, count: int) -> NDArray[np.int64]:
    """Sorted positions of the `count` largest of (n,) magnitudes; fewer where the others are zero."""
    if count >= len(magnitudes):
        return np.flatnonzero(magnitudes)
    chosen = np.argpartition(-magnitudes, count)[:count]
    return np.sort(chosen[magnitudes[chosen] > 0])
