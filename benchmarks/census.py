"""A census that nobody took: 12 columns of codes and numbers, some items missing; synthetic, by a seed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

COLUMNS = [
    "id",
    "age",
    "sex",
    "education",
    "marital",
    "work",
    "occupation",
    "hours",
    "children",
    "weeks",
    "wage",
    "rooms",
]  # whole numbers all, as in a public-use sample


def census(rows: int, *, missing: float = 0.05, seed: int = 22) -> pa.Table:
    """`rows` people; each item but the id is missing with probability `missing`, whatever the others are."""
    chance = np.random.default_rng(seed)
    age = np.clip(chance.normal(41, 18, rows), 0, 99).astype(np.int64)
    education = np.clip(age // 8 + chance.integers(-2, 4, rows), 0, 15)
    hours = np.where(age < 16, 0, np.clip(chance.normal(38, 9, rows), 0, 99)).astype(np.int64)
    columns = {
        "id": np.arange(rows),
        "age": age,
        "sex": chance.integers(0, 2, rows),
        "education": education,
        "marital": chance.integers(0, 5, rows),
        "work": chance.choice(4, rows, p=[0.6, 0.2, 0.1, 0.1]),
        "occupation": chance.integers(0, 500, rows),
        "hours": hours,
        "children": chance.poisson(0.8, rows),
        "weeks": chance.integers(0, 53, rows),
        "wage": (np.exp(chance.normal(6, 0.7, rows)) * (1 + education / 8)).astype(np.int64),
        "rooms": chance.integers(1, 12, rows),
    }
    return pa.table(
        {
            name: pa.array(values, mask=None if name == "id" else chance.random(rows) < missing)
            for name, values in columns.items()
        }
    )
