"""Exact discrete Gaussian noise, from a generator of the operating system's entropy.

Theory. Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy", 2020, algorithms 1 to
3, vectorised: rejection sampling from a discrete Laplace distribution. A coin with probability exp(-p/q) is
made of coins with rational probabilities, and those of uniform whole numbers. No number is rounded on the
way, so the last bits reveal nothing (Mironov 2012).

The sum of a few such numbers is not a discrete Gaussian, but from a standard deviation of two steps on it is
so close that the difference does not matter (Kairouz, Liu and Steinke, "The distributed discrete Gaussian
mechanism for federated learning", 2021, theorem 9: 10 exp(-2 pi^2 sigma^2 k / (k + 1)), summed over k <
members).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duetlink.base.chance.words import RandomWords

# (|y| - sigma)^2 has to fit 63 bits for every y that occurs; at 2^24 it does for y up to 180 sigma.
MOST_SIGMA = 2**24

Words = NDArray[np.uint64]


class Coins(RandomWords):
    """Random numbers and biased coins, made of random 64-bit words."""

    def below(self, bounds: Words) -> Words:
        """Draw a uniform whole number from 0 up to each bound, exclusive."""
        found = self.words(len(bounds)).copy()
        # rejects the first 2^64 mod bound words, so that the rest is a multiple of the bound; 2^64 itself
        # does not fit
        too_many = (np.uint64(0) - bounds) % bounds
        while len(again := np.flatnonzero(found < too_many)):
            found[again] = self.words(len(again))
        return np.asarray(found % bounds)

    def exp_of_fraction(self, above: Words, under: Words) -> NDArray[np.bool_]:
        """Draw coins, True with probability exp(-above / under), for fractions up to 1 (algorithm 1)."""
        is_odd = np.ones(len(above), np.bool_)
        left = np.arange(len(above))
        turn = np.uint64(1)
        while len(left):
            goes_on = self.below(under[left] * turn) < above[left]
            left = left[goes_on]
            is_odd[left] ^= True
            turn += np.uint64(1)
        return is_odd

    def exp(self, above: Words, under: Words) -> NDArray[np.bool_]:
        """Draw coins, True with probability exp(-above / under)."""
        whole = above // under
        left = np.flatnonzero(whole)
        found = np.ones(len(above), np.bool_)
        while len(left):
            one = np.ones(len(left), np.uint64)
            passed = self.exp_of_fraction(one, one)
            found[left[~passed]] = False
            left = left[passed]
            whole[left] -= np.uint64(1)
            left = left[whole[left] > 0]
        rest = np.flatnonzero(found)
        found[rest] = self.exp_of_fraction(above[rest] % under[rest], under[rest])
        return found

    def laplace(self, count: int, scale: int) -> NDArray[np.int64]:
        """Draw at most `count` numbers y with probability proportional to exp(-|y| / scale) (algorithm 2)."""
        scales = np.full(count, scale, np.uint64)
        part = self.below(scales)
        part = part[self.exp_of_fraction(part, scales)]
        whole = np.zeros(len(part), np.uint64)
        left = np.arange(len(part))
        while len(left):
            one = np.ones(len(left), np.uint64)
            left = left[self.exp_of_fraction(one, one)]
            whole[left] += np.uint64(1)
        size = (part + np.uint64(scale) * whole).astype(np.int64)
        is_negative = (self.words(len(size)) & np.uint64(1)).astype(np.bool_)
        keep = ~(is_negative & (size == 0))  # zero would be twice as probable
        return np.asarray(np.where(is_negative, -size, size)[keep])


def discrete_gaussian(sigma: int, count: int, coins: Coins | None = None) -> NDArray[np.int64]:
    """Draw `count` whole numbers y with probability proportional to exp(-y^2 / (2 sigma^2)) (algorithm 3).

    Raises:
        ValueError: sigma is not from 1 to 2^24.
    """
    if not 1 <= sigma <= MOST_SIGMA:
        raise ValueError(f"a standard deviation of {sigma} steps: 1 to {MOST_SIGMA} can be drawn exactly")
    coins = Coins() if coins is None else coins
    found = [np.empty(0, np.int64)]
    missing = count
    while missing:
        drawn = coins.laplace(2 * missing + 64, sigma)
        off = (np.abs(drawn) - sigma).astype(np.uint64)  # squared below: its sign does not matter
        under = np.full(len(drawn), 2 * sigma * sigma, np.uint64)
        kept = drawn[coins.exp(off * off, under)][:missing]
        found.append(kept)
        missing -= len(kept)
    return np.concatenate(found)
