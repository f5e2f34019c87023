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

from duetlink.prep.loader import Loader
from duetlink.prep.prep import Prep
from duetlink.prep.prepared import Prepared

__all__ = ["Loader", "Prep", "Prepared"]
