"""What is compressed in the benchmarks: arrays of each kind that people send, of any size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets

FINE_TUNED = "fine-tuned weights, XOR"


def _normal(size_bytes: int, random: np.random.Generator) -> np.ndarray:
    return random.normal(0, 0.02, size_bytes // 4).astype("<f4")


def _heavy(size_bytes: int, random: np.random.Generator) -> np.ndarray:
    return (random.standard_t(2, size_bytes // 4) * 1e-3).astype("<f4")


def _sparse(share: float) -> Callable[[int, np.random.Generator], np.ndarray]:
    def make(size_bytes: int, random: np.random.Generator) -> np.ndarray:
        count = size_bytes // 4
        return np.where(random.random(count) < share, random.normal(0, 1, count), 0).astype("<f4")

    return make


def _relu(size_bytes: int, random: np.random.Generator) -> np.ndarray:
    return np.maximum(random.normal(0, 1, size_bytes // 4), 0).astype("<f4")


def _fine_tuned(size_bytes: int, random: np.random.Generator) -> np.ndarray:
    before = _normal(size_bytes, random)
    after = (before + 1e-4 * random.normal(0, 1, len(before))).astype("<f4")
    changed: np.ndarray = before.view("<u4") ^ after.view("<u4")
    return changed


def _decimals(size_bytes: int, random: np.random.Generator) -> np.ndarray:
    return np.round(random.normal(50, 20, size_bytes // 8), 2)


def _integers(size_bytes: int, random: np.random.Generator) -> np.ndarray:
    return random.integers(0, 100, size_bytes // 8)


def _frame(load: Callable[..., Any]) -> Callable[[int, np.random.Generator], pd.DataFrame]:
    """A real frame. Where more rows are asked for, they are drawn from its own, each number changed by about
    5 % and rounded to as many decimals as its column has.
    """

    def make(size_bytes: int, random: np.random.Generator) -> pd.DataFrame:
        frame = load(as_frame=True).frame
        rows = size_bytes // int(frame.memory_usage(index=False).sum() / len(frame))
        if rows <= len(frame):
            return frame
        drawn = frame.iloc[random.integers(0, len(frame), rows)].reset_index(drop=True)
        for name in drawn.select_dtypes("float"):
            decimals = next(n for n in range(9) if np.allclose(frame[name], frame[name].round(n), rtol=0))
            drawn[name] = np.round(drawn[name] * random.normal(1, 0.05, rows), decimals)
        return drawn

    return make


KINDS: dict[str, Callable[[int, np.random.Generator], Any]] = {
    "normal weights": _normal,
    "heavy-tailed gradients": _heavy,
    "1 % sparse": _sparse(0.01),
    "10 % sparse": _sparse(0.10),
    "ReLU activations": _relu,
    FINE_TUNED: _fine_tuned,
    "decimals in float64": _decimals,
    "small integers": _integers,
    "breast-cancer frame": _frame(datasets.load_breast_cancer),
    "digits frame": _frame(datasets.load_digits),
}


def make(kind: str, size_bytes: int) -> Any:
    """An object of that kind of about that size; the same each time."""
    return KINDS[kind](size_bytes, np.random.default_rng(1))
