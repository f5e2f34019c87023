"""The result of one test of an audit, with its probability for a sound training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from duetlink.learning.audit.bounds import Floats

# In clipping norms: rounding by float32 in a sum of some hundred rows is far smaller.
_ROUNDED = 1e-3


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A finding, and the largest probability with which a sound training would show it."""

    chance: float
    finding: str


def chance_of_excess(excess: Floats | float, error: Floats | float, freedom: int) -> Any:
    """Return the probability of measuring `excess` or more where the truth is 0 or less, item by item.

    `error` is the standard deviation of the measurement, estimated with `freedom` degrees of freedom. Both
    are in clipping norms; excesses up to 0.001 are taken for rounding by float32.
    """
    beyond = np.asarray(excess) - _ROUNDED
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(beyond <= 0.0, 1.0, stats.t.sf(beyond / error, freedom))
