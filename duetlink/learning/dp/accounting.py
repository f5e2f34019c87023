"""The privacy cost of a training: epsilon by dp-accounting, under a stated adjacency.

Neighbouring tables differ in one row that is present or absent (add or remove one). Batches are Poisson
samples. The noise on the sum is Gaussian, with a standard deviation of `noise` times the clipping norm.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

from duetlink.errors import MissingLibrary, SettingError

ACCOUNTANTS = ("pld", "rdp")
AGAINST = ("members", "everybody else")

_MOST_STEPS = 10_000_000
_LEAST_COMPOSED = 0.2


@dataclass(frozen=True, slots=True)
class Spending:
    """The rate, noise and number of steps of a training; empty batches count as steps."""

    rate: float  # the probability that a row is in a batch
    noise: float  # standard deviation of the noise, in clipping norms
    steps: int

    def __post_init__(self) -> None:
        """Raises SettingError for a rate outside (0, 1], or negative noise or steps."""
        if not 0.0 < self.rate <= 1.0:
            raise SettingError(f"rate is {self.rate!r}: the probability of a row is above 0, at most 1")
        if not (self.noise >= 0.0 and self.steps >= 0):
            raise SettingError(f"noise is {self.noise!r} and steps are {self.steps!r}: neither is below 0")

    def epsilon(self, delta: float, accountant: str = "pld") -> float:
        """Return the epsilon of all steps together; infinite without noise.

        "pld" composes privacy loss distributions (Koskela et al. 2020; Doroshenko et al. 2022), which is
        tight. "rdp" composes Renyi divergences (Mironov 2017), which is looser and serves as a check. It is
        also used for any noise below 0.2: composing such distributions takes minutes, for a result without
        privacy.

        Raises:
            SettingError: delta is not between 0 and 1, or there is no such accountant.
            MissingLibrary: dp-accounting is not installed.
        """
        if not 0.0 < delta < 1.0:
            raise SettingError(f"delta is {delta!r}: it lies between 0 and 1, well below 1 over the rows")
        if accountant not in ACCOUNTANTS:
            raise SettingError(f"accountant is {accountant!r}: there are {', '.join(ACCOUNTANTS)}")
        if self.steps == 0:
            return 0.0
        if self.noise == 0.0:
            return float("inf")
        return _composed(self, delta, "rdp" if self.noise < _LEAST_COMPOSED else accountant)


@functools.lru_cache(maxsize=64)
def _composed(spending: Spending, delta: float, accountant: str) -> float:
    library = _dp_accounting()
    adjacency = library.NeighboringRelation.ADD_OR_REMOVE_ONE
    book = (
        library.pld.PLDAccountant(adjacency)
        if accountant == "pld"
        else library.rdp.RdpAccountant(neighboring_relation=adjacency)
    )
    step = library.PoissonSampledDpEvent(spending.rate, library.GaussianDpEvent(spending.noise))
    book.compose(step, spending.steps)
    return float(book.get_epsilon(delta))


def unknown_noise(against: str, trust: str, members: int, colluding: int) -> float:
    """Return the part of a sum's noise that an observer does not know, as a multiple of the declared noise.

    Observers are "members" (`colluding` of them that share what they know, or a single one), or "everybody
    else", who has only the sum. With "secure_sum" the variance of each member's share is the declared one
    divided by the number of members that do not collude.
    """
    if trust == "leader":
        return 0.0 if against == "members" else 1.0  # rank 0 knows all of the noise
    if trust == "none":
        return 1.0 if against == "members" else math.sqrt(members)  # members see what each gives away
    unknown = members - max(colluding, 1) if against == "members" else members
    return math.sqrt(unknown / (members - colluding))


@functools.lru_cache(maxsize=64)
def most_steps(epsilon: float, delta: float, rate: float, noise: float) -> int:
    """Return the largest number of steps that cost at most `epsilon`.

    Raises:
        SettingError: the noise is 0, epsilon is not positive, the rate is not in (0, 1], or a single step
            costs more than epsilon.
        MissingLibrary: dp-accounting is not installed.
    """
    if noise == 0.0:
        raise SettingError("noise is 0, so every step costs an infinite epsilon: no budget allows one")
    _check_epsilon(epsilon)

    def fits(steps: int) -> bool:
        return Spending(rate, noise, steps).epsilon(delta) <= epsilon

    if not fits(1):
        cost = Spending(rate, noise, 1).epsilon(delta)
        raise SettingError(f"one step with noise {noise} costs {cost:.3g}, more than the budget of {epsilon}")
    low, high = 1, 2
    while fits(high) and high < _MOST_STEPS:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def noise_for(epsilon: float, delta: float, rate: float, steps: int) -> float:
    """Return the least noise (in clipping norms, to three digits) for which `steps` steps cost at most
    `epsilon`.

    Raises:
        SettingError: epsilon is not positive, the rate or steps are out of range, or no noise up to 10,000 is
            enough.
        MissingLibrary: dp-accounting is not installed.
    """
    _check_epsilon(epsilon)
    low, high = 0.0, 0.5
    while Spending(rate, high, steps).epsilon(delta) > epsilon:
        low, high = high, 2.0 * high
        if high > 10_000.0:
            raise SettingError(f"no noise up to 10,000 keeps {steps} steps within an epsilon of {epsilon}")
    while high - low > 1e-3 * high:
        middle = (low + high) / 2.0
        if Spending(rate, middle, steps).epsilon(delta) > epsilon:
            low = middle
        else:
            high = middle
    return high


def _check_epsilon(epsilon: float) -> None:
    if not epsilon > 0.0:
        raise SettingError(f"epsilon is {epsilon!r}: it is above 0")


def _dp_accounting() -> Any:
    try:
        import dp_accounting
        import dp_accounting.pld
        import dp_accounting.rdp
    except ImportError:
        raise MissingLibrary(
            "the account of a private training needs dp-accounting: pip install 'duetlink[learning]'"
        ) from None
    return dp_accounting
