"""A meter that adds up the privacy cost of the private trainings that run in this process.

A room counts the trainings of an approved function, to compare their cost with the function's claim.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol


class Cost(Protocol):
    """One private computation, such as a training."""

    def epsilon(self, delta: float) -> float:
        """Return the epsilon that it has cost so far, at this delta."""


class Meter:
    """Adds up costs of computations on the same rows."""

    def __init__(self) -> None:
        self._costs: list[Cost] = []

    @property
    def is_used(self) -> bool:
        return bool(self._costs)

    def epsilon(self, delta: float) -> float:
        """Return the epsilon of all computations together, by basic composition.

        Each gets an equal part of delta (Dwork and Roth 2014, theorem 3.16). The result for a single
        computation is its own epsilon.
        """
        return sum(cost.epsilon(delta / len(self._costs)) for cost in self._costs)

    def add(self, cost: Cost) -> None:
        self._costs.append(cost)


_counting: list[Meter] = []


@contextlib.contextmanager
def counted() -> Iterator[Meter]:
    """Give a meter that counts the private computations that begin during the block, in any thread."""
    meter = Meter()
    _counting.append(meter)
    try:
        yield meter
    finally:
        _counting.remove(meter)


def is_counting() -> bool:
    """True while a meter is active, as in a function that an owner runs."""
    return bool(_counting)


def add(cost: Cost) -> None:
    """Register a private computation that begins with all active meters. Keeps no other reference to it."""
    for meter in _counting:
        meter.add(cost)
