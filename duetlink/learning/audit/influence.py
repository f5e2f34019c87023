"""Tests whether a row moves a sum by at most one clipping norm, and only the sums of its batches."""

from __future__ import annotations

import math

import numpy as np

from duetlink.learning.audit.bounds import Bools, Floats
from duetlink.learning.audit.canaries import Counts
from duetlink.learning.audit.suspicion import Suspicion, chance_of_excess


def suspect_influence(moved: Floats, counts: Counts, quiet: Floats) -> list[Suspicion]:
    """Test the rows in a batch, those outside of it, and the single row with the largest influence.

    Args:
        moved: shape (steps, rows), the part of each row in each sum, in clipping norms.
        counts: shape (steps, rows), the number of times the row was in the batch.
        quiet: the noise of each step, shape (steps, ...).
    """
    is_in = counts > 0
    inside, outside = moved[is_in], moved[~is_in]
    return [
        Suspicion(
            _chance_of_mean(inside - 1.0),
            f"The rows of a batch move its sum by {_mean(inside):.3g} clipping norms each.",
        ),
        Suspicion(
            min(1.0, 2.0 * _chance_of_mean(outside * math.copysign(1.0, _mean(outside)))),
            f"The rows that are not in a batch move its sum by {_mean(outside):.3g} clipping norms each.",
        ),
        _of_one_row(moved, is_in, quiet),
    ]


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


def _chance_of_mean(values: Floats) -> float:
    """Return the probability of a mean so far above 0 for normal values around 0 (t test)."""
    if len(values) < 2:
        return 1.0
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    return float(chance_of_excess(_mean(values), error, len(values) - 1))


def _of_one_row(moved: Floats, is_in: Bools, quiet: Floats) -> Suspicion:
    """Test for a single row that is not clipped, which no mean over rows would show."""
    noise = np.sqrt(np.square(quiet.reshape(len(quiet), -1)).mean(1, keepdims=True))
    chances = chance_of_excess(np.where(is_in, moved - 1.0, np.abs(moved)), noise, quiet[0].size)
    least = np.unravel_index(np.argmin(chances), chances.shape)
    return Suspicion(
        min(1.0, 2.0 * chances.size * float(chances[least])),
        f"A single row moved a sum by {moved[least]:.3g} clipping norms.",
    )
