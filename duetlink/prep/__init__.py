"""Prepares tables for training: one list of steps, run on the engine that the user has.

Nouns:

- preparation (`Prep`): a list of steps, as a value. Nothing is read when it is made.
- step: one change of a table, such as `scale` or `one_hot`; its definition is in `duetlink/data/prep/`.
- engine: the library that executes the steps: pyarrow, polars, duckdb or spark.
- source: the table or the files that are prepared, opened on an engine (`engines/base.py`).
- prepared table (`Prepared`): a preparation applied to a source; it reads rows when they are used.
- piece: some rows of a source that an engine in memory prepares at once.
- split: the step that divides rows into a train and a test part.
- open bounds or categories: those that `fit_private` has still to find in private data, with noise.

Example. Nothing is read before the loader needs rows, and each engine gives the same tensors:


from duetlink import Prep

prep = (
    Prep()
    .drop_missing()
    .one_hot("work", ["private", "public", "none"], unknown="ignore")
    .scale("age", bounds=(0, 100))
    .split(train=0.8, seed=1, by="id")
)
prepared = prep.run("people.parquet")
for rows, labels in prepared.train.loader(256, shuffle=1, label="income"):
    ...
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from duetlink.attributes import unknown
from duetlink.prep.prep import Prep

if TYPE_CHECKING:
    from duetlink.prep.loader import Loader
    from duetlink.prep.prepared import Prepared

__all__ = ["Loader", "Prep", "Prepared"]


def __getattr__(name: str) -> Any:
    # a preparation is a value where Narwhals, which runs it, is not installed
    if name in ("Loader", "Prepared"):
        return getattr(importlib.import_module(f"{__name__}.{name.lower()}"), name)
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise unknown(__name__, name, __all__)
