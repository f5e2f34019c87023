"""The random numbers of one program: they follow from its seeds and from a salt, step by step.

Theory. A result is made by a run of its own, of the steps that it needs; so two results of one training are
made by two runs. They fit together only if a step draws the same numbers in both, whatever other steps each
of them has. So a step that draws is seeded by what the program says of it, and by nothing that happened in
the run. What no list knows to draw goes on from there, or from the salt with which a run begins.

Noise that is to protect somebody must come from the system: it is drawn after `__exit__`, never within.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import random
import sys
from collections.abc import Callable
from typing import Any, Self

from duetlink.compute.operations.steps.body import StepSeeds

_ENTROPY = "numpy.random.bit_generator"
_SEED_BYTES = 4  # NumPy takes 32 bits
_STATE_BYTES = 64  # of the system's, for a generator that takes so many


class Draws:
    """Within a `with`, the generators that a process shares follow from a salt, and entropy that NumPy asks
    the system for does, too. Afterwards all of it is the system's again. Not for use in several threads.
    """

    def __init__(self, salt: str) -> None:
        self._salt = salt
        self._stream = b""
        self._asked = 0  # how often entropy was, since the last seed
        self._system: Callable[[int], int] | None = None

    def __enter__(self) -> Self:
        if "numpy" in sys.modules:
            # what an unseeded generator begins with: `default_rng()`, also where a library calls it
            entropy: Any = importlib.import_module(_ENTROPY)
            self._system = entropy.randbits
            entropy.randbits = self._randbits
        self._seed(f"begin {self._salt}")
        return self

    def __exit__(self, *raised: object) -> None:
        if self._system is not None:
            entropy: Any = sys.modules[_ENTROPY]
            entropy.randbits = self._system
            self._system = None
        seed_by_system()

    def seed(self, draw: StepSeeds) -> None:
        """Let a step draw what it is to draw."""
        begin = f"salt {self._salt}" if draw.seed is None else f"seed {draw.seed}"
        self._seed(f"{begin} {draw.number}")

    def _seed(self, text: str) -> None:
        self._stream = hashlib.sha256(f"duetlink draw 1 {text}".encode()).digest()
        self._asked = 0
        _set_all(int.from_bytes(self._stream[:_SEED_BYTES]))

    def _randbits(self, bits: int) -> int:
        self._asked += 1
        size_bytes = (bits + 7) // 8
        drawn = hashlib.shake_256(self._stream + self._asked.to_bytes(8)).digest(size_bytes)
        return int.from_bytes(drawn) >> (8 * size_bytes - bits)


def seed_by_system() -> None:
    """Let the generators that a process shares go on with numbers that nobody can foretell.

    A fork has the generators of its process as they were, so all forks would draw the same.
    """
    random.seed(os.urandom(_STATE_BYTES))
    loaded: dict[str, Any] = sys.modules
    if "numpy" in loaded:
        words = [int.from_bytes(os.urandom(4)) for _ in range(_STATE_BYTES // 4)]
        loaded["numpy"].random.seed(words)
    if "torch" in loaded:
        loaded["torch"].default_generator.manual_seed(int.from_bytes(os.urandom(8)))
    if "polars" in loaded:
        loaded["polars"].set_random_seed(int.from_bytes(os.urandom(8)))


def _set_all(number: int) -> None:
    """Seed the generators that a process shares, of the libraries that are loaded."""
    random.seed(number)
    loaded: dict[str, Any] = sys.modules
    if "numpy" in loaded:
        loaded["numpy"].random.seed(number)
    if "torch" in loaded:
        loaded["torch"].default_generator.manual_seed(number)
    if "polars" in loaded:
        loaded["polars"].set_random_seed(number)
