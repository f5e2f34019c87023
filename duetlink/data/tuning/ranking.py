"""Choices put in order, for a link of known speed or of one that may be anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from duetlink.data.tuning.choice import Choice
from duetlink.data.tuning.compression import FEWEST_BYTES
from duetlink.data.tuning.model import Figures, Line, cost, cpu_s, rate

# What a link whose speed nobody has measured may carry, in bytes per second.
POSSIBLE_GOODPUT = (1e6, 4e6, 16e6, 64e6, 250e6, 800e6)

_ALIKE = 1.01
_ALIKE_BYTES = 1.01
_MUCH_LIGHTER = 1.5


class Ranking:
    """The regret of each choice: how many times more it costs than the best, on the link where it does worst.
    With one line that is its cost over the least cost. `figures` are of the choices, `lines` of the link.
    """

    def __init__(
        self,
        objective: str,
        figures: Mapping[Choice, Figures],
        lines: Sequence[Line],
        size_bytes: int,
        chunk_bytes: int,
    ) -> None:
        self.figures = figures
        self.lines = lines
        self._alike = _ALIKE_BYTES if objective == FEWEST_BYTES else _ALIKE
        self._objective, self._size_bytes, self._chunk_bytes = objective, size_bytes, chunk_bytes
        costs = {choice: self._costs(found) for choice, found in figures.items()}
        self._least = [min(column) for column in zip(*costs.values(), strict=True)]
        self._regret = {choice: self._worst(row) for choice, row in costs.items()}

    def regret(self, choice: Choice) -> float:
        return self._regret[choice]

    def regret_of(self, figures: Figures) -> float:
        """Of a choice that is not among the ranked; below 1 if it beats them all everywhere."""
        return self._worst(self._costs(figures))

    def could_win(self, figures: Figures, margin: float) -> bool:
        """Whether it beats the best known by that factor, on one of the lines."""
        costs = self._costs(figures)
        return any(found * margin < least for found, least in zip(costs, self._least, strict=True))

    def best(self) -> Choice:
        """The least regret; of several that are alike, the one that takes the least processor time."""
        least = min(self._regret.values())
        alike = [choice for choice, found in self._regret.items() if found <= least * self._alike]
        return min(alike, key=lambda choice: cpu_s(self.figures[choice], self.lines[0]))

    def rate(self) -> float:
        """Bytes of arrays per second of the best, on the line where it is slowest."""
        best = self.figures[self.best()]
        return min(rate(best, line) for line in self.lines)

    def lighter(self, one: Choice, other: Choice) -> bool:
        """Whether `one` takes much less processor time for as few bytes, where bytes are what counts."""
        if self._objective != FEWEST_BYTES or self._regret[one] > self._alike * self._regret[other]:
            return False
        one_s, other_s = (cpu_s(self.figures[choice], self.lines[0]) for choice in (one, other))
        return one_s * _MUCH_LIGHTER < other_s

    def _costs(self, figures: Figures) -> list[float]:
        return [
            cost(self._objective, figures, line, self._size_bytes, self._chunk_bytes) for line in self.lines
        ]

    def _worst(self, costs: list[float]) -> float:
        worst: float = max(found / least for found, least in zip(costs, self._least, strict=True))
        return worst
