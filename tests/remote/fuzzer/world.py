"""What the programs work with: an owner's objects, and mocks of them that are unlike."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import torch

ROWS = 8


def data() -> dict[str, Any]:
    """The owner's objects, by the names that programs have for them; new ones at each call."""
    ages = [91.0, 20.0, 35.5, 62.0, 47.0, 18.5, 29.0, 70.0]
    pays = [3.0, 9.0, 4.5, 8.0, 2.5, 7.0, 1.0, 6.0]
    return {
        "x": np.array([3.0, -1.0, 4.0, 1.5, -5.0, 9.0, 2.0, 6.0]),
        "X": np.arange(24.0).reshape(8, 3) ** 1.5 - np.array([3.0, 10.0, 1.0]),
        "k": np.array([0, 1, 1, 3, 2, 3, 3, 0]),
        "y": np.array([0, 1, 2, 0, 1, 2, 0, 1]),
        "t": torch.tensor([3.0, -1.0, 4.0, 1.5, -5.0, 9.0, 2.0, 6.0]),
        "T": torch.arange(24.0).reshape(8, 3) / 7 - 1,
        "f": pd.DataFrame(
            {
                "age": ages,
                "pay": pays,
                "n": [4, 7, 1, 3, 7, 9, 2, 4],
                "town": ["Ulm", "Bonn", "Ulm", "Jena", "Bonn", "Ulm", "Ulm", "Jena"],
                "name": ["Bob", "Eve", "Ada", "Cyd", "Dot", "Fay", "Gus", "Hal"],
            }
        ),
        "g": pd.DataFrame({"a": pays, "b": ages}, index=["u", "u", "v", "w", "u", "z", "v", "w"]),
        "s": pd.Series(["a b", "c d e", "f", "g h", "i j k l", "m", "n o", "p q r"]),
        "p": pl.DataFrame(
            {
                "age": ages,
                "pay": pays,
                "n": [4, 7, 1, 3, 7, 9, 2, 4],
                "town": ["Ulm", "Bonn", "Ulm", "Jena", "Bonn", "Ulm", "Ulm", "Jena"],
                "words": [["a"], ["b", "c"], ["d", "e", "f"], ["g"], ["h", "i"], ["j"], ["k"], ["l", "m"]],
            }
        ),
    }


def mocks() -> dict[str, Any]:
    """Mocks of the same names, types and sizes."""
    ages = [7.0, 11.0, 3.0, 5.0, 16.0, 2.0, 9.0, 13.0]
    pays = [-40.0, 80.0, 10.0, -70.0, 30.0, 20.0, -90.0, 55.0]
    return {
        "x": np.array([-0.5, 70.0, 0.25, -8.0, 33.0, 0.125, 12.0, -2.0]),
        "X": np.sin(np.arange(24.0)).reshape(8, 3),
        "k": np.array([0, 0, 2, 0, 2, 0, 2, 2]),
        "y": np.array([1, 0, 1, 1, 0, 0, 1, 0]),
        "t": torch.tensor([-0.5, 70.0, 0.25, -8.0, 33.0, 0.125, 12.0, -2.0]),
        "T": torch.cos(torch.arange(24.0)).reshape(8, 3),
        "f": pd.DataFrame(
            {
                "age": ages,
                "pay": pays,
                "n": [1, 2, 3, 4, 5, 6, 7, 8],
                "town": ["Ulm", "Jena", "Jena", "Ulm", "Jena", "Ulm", "Jena", "Jena"],
                "name": ["a", "b", "c", "d", "e", "f", "g", "h"],
            }
        ),
        "g": pd.DataFrame({"a": ages, "b": pays}, index=["u", "v", "w", "z", "r", "q", "m", "o"]),
        "s": pd.Series(["x y z", "v", "w w w", "t", "r q p o n", "k k", "j", "h i"]),
        "p": pl.DataFrame(
            {
                "age": ages,
                "pay": pays,
                "n": [1, 2, 3, 4, 5, 6, 7, 8],
                "town": ["Ulm", "Jena", "Jena", "Ulm", "Jena", "Ulm", "Jena", "Jena"],
                "words": [["x", "y"], ["z"], ["w"], ["v", "u"], ["t"], ["s", "r", "q"], ["o"], ["n"]],
            }
        ),
    }


@functools.cache
def names() -> tuple[str, ...]:
    """Of all objects."""
    return tuple(data())
