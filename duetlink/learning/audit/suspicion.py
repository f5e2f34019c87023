"""What one test of an audit found, with how seldom a sound training gives cause for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from duetlink.learning.audit.bounds import Floats

# Of a clipping norm: what float32 rounds in a sum of some hundred rows is far smaller.
_ROUNDED = 1e-3


@dataclass(frozen=True, slots=True)
class Suspicion:
    """`finding` is true, and a sound training would look so with a probability of at most `chance`."""

    chance: float
    finding: str


def chance_of_excess(excess: Floats | float, error: Floats | float, freedom: int) -> Any:
    """How probable it is that what is 0, or less, is measured at `excess` or above, item by item.

    `error` is the standard deviation of the measurement, estimated with so many degrees of freedom. Both are
    in clipping norms, and what float32 rounds is no excess.
    """
    beyond = np.asarray(excess) - _ROUNDED
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(beyond <= 0.0, 1.0, stats.t.sf(beyond / error, freedom))
