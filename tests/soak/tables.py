"""The objects of a soak: what they are called, how large they are, and what they hold in each version."""

from __future__ import annotations

import numpy as np
import pandas as pd

OPEN = tuple(f"open {number}" for number in range(30))  # a policy says yes
ASKED = tuple(f"asked {number}" for number in range(6))  # a person says yes or no
NAMES = OPEN + ASKED
# 1 KB to 4 MB; what is asked of a person is in the middle
SIZES = {name: int(128 * 1.32**number) for number, name in enumerate(OPEN)} | dict.fromkeys(ASKED, 5_000)
FRAMES = ("open 3", "open 13", "asked 0")
UNSHARED = NAMES[1::3]  # at the end of each cycle


def content(name: str, version: int) -> np.ndarray | pd.DataFrame:
    """Of one version: both sides make the same."""
    numbers = np.random.default_rng([NAMES.index(name), version]).random(SIZES[name])
    return pd.DataFrame({"a": numbers, "b": numbers > 0.5}) if name in FRAMES else numbers


def same(found: object, expected: np.ndarray | pd.DataFrame) -> bool:
    if isinstance(expected, pd.DataFrame):
        return isinstance(found, pd.DataFrame) and found.equals(expected)
    return isinstance(found, np.ndarray) and np.array_equal(found, expected)
