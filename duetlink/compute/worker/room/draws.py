"""The random numbers of one program, determined step by step by the program's seeds and a salt.

Theory. Each result is computed by a run of its own, with only the steps that it needs. Two results of one
training therefore come from two runs, and fit together only if a step draws the same numbers in both,
whatever other steps each run has. So a step that draws random numbers is seeded from the program alone, and
not from the state of the run. Operations that the lists do not know to draw continue from the last seed, or
from the salt with which a run begins.

Noise for privacy must come from the system: it is drawn after `__exit__`, never within.
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
_STATE_BYTES = 64  # of system entropy, for generators with a large state


class Draws:
    """A context manager that makes random numbers repeatable. Not for use in several threads.

    Inside, the global generators of random, NumPy, torch and Polars, and the entropy for NumPy's unseeded
    generators, are determined by the salt. On exit all of them are seeded by the system.
    """

    def __init__(self, salt: str) -> None:
        self._salt = salt
        self._stream = b""
        self._requests = 0  # the number of requests for entropy since the last seed
        self._system: Callable[[int], int] | None = None

    def __enter__(self) -> Self:
        if "numpy" in sys.modules:
            # the source of seeds for `default_rng()` without a seed, also inside libraries
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
        """Seed the generators for one step that draws."""
        begin = f"salt {self._salt}" if draw.seed is None else f"seed {draw.seed}"
        self._seed(f"{begin} {draw.number}")

    def _seed(self, text: str) -> None:
        self._stream = hashlib.sha256(f"duetlink draw 1 {text}".encode()).digest()
        self._requests = 0
        _set_all(int.from_bytes(self._stream[:_SEED_BYTES]))

    def _randbits(self, bits: int) -> int:
        self._requests += 1
        size_bytes = (bits + 7) // 8
        drawn = hashlib.shake_256(self._stream + self._requests.to_bytes(8)).digest(size_bytes)
        return int.from_bytes(drawn) >> (8 * size_bytes - bits)


def seed_by_system() -> None:
    """Seed the global generators with system entropy.

    Necessary in a fork, because all forks inherit the same state and would draw the same numbers.
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
    """Seed the global generators of the libraries that are loaded."""
    random.seed(number)
    loaded: dict[str, Any] = sys.modules
    if "numpy" in loaded:
        loaded["numpy"].random.seed(number)
    if "torch" in loaded:
        loaded["torch"].default_generator.manual_seed(number)
    if "polars" in loaded:
        loaded["polars"].set_random_seed(number)
