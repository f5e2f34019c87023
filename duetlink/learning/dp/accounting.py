"""What a training has cost: epsilon by dp-accounting, under a stated adjacency.

Neighbouring tables differ in one row that is there or not (add or remove one). Batches are Poisson samples.
The noise is Gaussian, with a standard deviation of `noise` times the clipping norm, on the sum.
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
    """The steps that a training has made, empty batches included."""

    rate: float  # the probability of a row to be in a batch
    noise: float  # standard deviation of the noise, in clipping norms
    steps: int

    def __post_init__(self) -> None:
        """Raises SettingError for what no training can have."""
        if not 0.0 < self.rate <= 1.0:
            raise SettingError(f"rate is {self.rate!r}: the probability of a row is above 0, at most 1")
        if not (self.noise >= 0.0 and self.steps >= 0):
            raise SettingError(f"noise is {self.noise!r} and steps are {self.steps!r}: neither is below 0")

    def epsilon(self, delta: float, accountant: str = "pld") -> float:
        """The epsilon of all steps together; infinite without noise.

        "pld" composes privacy loss distributions (Koskela et al. 2020; Doroshenko et al. 2022), which is
        tight; "rdp" composes Renyi divergences (Mironov 2017), which is looser and serves as a check. With a
        noise below 0.2 it is taken in any case: distributions of such losses take minutes to compose, and
        there is no privacy to be told.

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
    """Of a sum over `members`, the standard deviation of the noise that whoever it is does not know, as a
    multiple of the declared one.

    "members" are `colluding` of them that put together what they have, or one alone; "everybody else" has the
    sum only. With "secure_sum" each share has a variance of the declared one over those that do not collude.
    """
    if trust == "leader":
        return 0.0 if against == "members" else 1.0  # rank 0 knows all of the noise
    if trust == "none":
        return 1.0 if against == "members" else math.sqrt(members)  # members see what each gives away
    unknown = members - max(colluding, 1) if against == "members" else members
    return math.sqrt(unknown / (members - colluding))


@functools.lru_cache(maxsize=64)
def most_steps(epsilon: float, delta: float, rate: float, noise: float) -> int:
    """How many steps cost at most `epsilon`.

    Raises:
        SettingError: there is no noise, epsilon is not positive, no such rate, or not even one step is within
            it.
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
    """The least noise (in clipping norms, to three digits) for which `steps` steps cost at most `epsilon`.

    Raises:
        SettingError: epsilon is not positive, no such rate or steps, or no noise up to 10,000 is enough.
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
