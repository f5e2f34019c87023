"""From a table to tensors: one preparation, on the engine that is there.

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
