"""Tests whether the noise is as the account says, in coordinates that no row changes.

All values are in clipping norms. More noise than claimed is allowed: members of a group that each add all of
it stay within their account. So the shape is compared with a normal distribution of the measured size, and
the size is only tested from below.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from duetlink.learning.audit.bounds import Floats
from duetlink.learning.audit.suspicion import Suspicion


def suspect_noise(quiet: Floats, claimed: float) -> list[Suspicion]:
    """Test noise of shape (steps, tensors, columns); `claimed` is the account's standard deviation."""
    steps, tensors, _ = quiet.shape
    sizes = _size(quiet)
    step, tensor = np.unravel_index(np.argmin(sizes), sizes.shape)
    least, whole = float(sizes[step, tensor]), float(_size(quiet.reshape(-1)))
    account = f"where the account has one of {claimed:.3g}."
    return [
        Suspicion(
            _chance_so_small(whole, claimed, quiet.size),
            f"The noise has a standard deviation of {whole:.3g}, {account}",
        ),
        Suspicion(
            min(1.0, sizes.size * _chance_so_small(least, claimed, quiet.shape[2])),
            f"In step {step + 1} a parameter's noise has a standard deviation of {least:.3g}, {account}",
        ),
        Suspicion(_chance_of_shape(quiet, sizes), "The noise is not normal."),
        Suspicion(chance_alike(quiet.reshape(steps, -1)), "Two steps had noise in common."),
        Suspicion(
            chance_alike(quiet.swapaxes(0, 1).reshape(tensors, -1)),
            "Two parameters had noise in common.",
        ),
        Suspicion(
            chance_alike(np.stack((quiet[:, :, 0::2].reshape(-1), quiet[:, :, 1::2].reshape(-1)))),
            "Coordinates side by side had noise in common.",
        ),
    ]


def chance_alike(rows: Floats) -> float:
    """Return the probability of the highest correlation between any two lists, if all were independent.

    `rows` has shape (lists, length). A list of zeros is ignored; another test shows that.
    """
    sizes = _size(rows)
    found = rows[sizes > 0.0] / sizes[sizes > 0.0, None]
    lists, length = len(found), rows.shape[1]
    pairs = lists * (lists - 1) // 2
    if not pairs:
        return 1.0
    correlations = found @ found.T / length
    most = float(np.abs(correlations[np.triu_indices(lists, 1)]).max())
    if most >= 1.0:
        return 0.0
    statistic = most * math.sqrt((length - 1) / (1.0 - most * most))
    return min(1.0, pairs * 2.0 * float(stats.t.sf(statistic, length - 1)))


def chance_of_one_size(first: Floats, second: Floats) -> float:
    """Return the probability that noise of equal size differs as much as these two do (F test)."""
    small, large = sorted((float(_size(first.reshape(-1))), float(_size(second.reshape(-1)))))
    if small == 0.0:
        return 1.0 if large == 0.0 else 0.0
    return min(1.0, 2.0 * float(stats.f.sf((large / small) ** 2, first.size, second.size)))


def _size(noise: Floats) -> Floats:
    """Return the standard deviation along the last axis, of noise with mean 0."""
    return np.asarray(np.sqrt(np.square(noise).mean(-1)))


def _chance_so_small(size: float, claimed: float, count: int) -> float:
    """Return the probability that `count` values of the claimed noise have this size or less."""
    return float(stats.chi2.cdf(count * (size / claimed) ** 2, count)) if claimed else 1.0


def _chance_of_shape(quiet: Floats, sizes: Floats) -> float:
    """Return the p-value of a Kolmogorov-Smirnov test of normal noise.

    Each step's noise is divided by its own standard deviation, so that a sound one fits even better than the
    test expects.
    """
    own = np.broadcast_to(sizes[..., None], quiet.shape)
    values = (quiet[own > 0.0] / own[own > 0.0]).reshape(-1)
    return float(stats.kstest(values, "norm", method="asymp").pvalue) if len(values) else 1.0
