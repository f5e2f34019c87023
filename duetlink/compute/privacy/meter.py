"""What the private computations of this process have cost, while somebody counts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol


class Cost(Protocol):
    """One private computation, such as a training."""

    def epsilon(self, delta: float) -> float:
        """What it has cost so far."""


class Meter:
    """Adds up costs of computations on the same rows."""

    def __init__(self) -> None:
        self._costs: list[Cost] = []

    @property
    def is_used(self) -> bool:
        """Whether anything private was computed."""
        return bool(self._costs)

    def epsilon(self, delta: float) -> float:
        """Of all together, by basic composition: each at an equal part of delta (Dwork and Roth 2014, theorem
        3.16). One alone costs what it says.
        """
        return sum(cost.epsilon(delta / len(self._costs)) for cost in self._costs)

    def add(self, cost: Cost) -> None:
        self._costs.append(cost)


_counting: list[Meter] = []


@contextlib.contextmanager
def counted() -> Iterator[Meter]:
    """A meter of what is computed in the block, in any thread."""
    meter = Meter()
    _counting.append(meter)
    try:
        yield meter
    finally:
        _counting.remove(meter)


def is_counting() -> bool:
    """Whether trainings are counted, as in a function that an owner runs."""
    return bool(_counting)


def add(cost: Cost) -> None:
    """Tell whoever counts of a private computation that begins. Holds it no longer than they do."""
    for meter in _counting:
        meter.add(cost)
