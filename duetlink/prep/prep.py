"""`Prep`: a preparation that can be run here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duetlink.data.prep.spec import PrepSpec

if TYPE_CHECKING:
    from decimal import Decimal

    from duetlink.compute.privacy.ledger import Ledger
    from duetlink.duet.objects.budget import Budget
    from duetlink.prep.prepared import Prepared


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Prep(PrepSpec):
    """What is done to a table, step by step: a value, that a person can read, compare, and send as JSON.

    `PrepSpec` has the steps; here is what runs them.
    """

    def run(self, source: Any, engine: Any = None) -> Prepared:
        """Prepare a table: of pyarrow, polars, pandas, DuckDB or Spark, or a path to Parquet or CSV files.

        `engine`: "pyarrow", "polars", "duckdb", or a Spark session, classic or Connect; None chooses by the
        source: its own library; for files Polars, and DuckDB from 1 GiB on. The result is the same on each. A
        column of CSV is text until it is cast. Columns and types are checked at once; rows are read when the
        result is wanted.

        Raises:
            PrepError: a column is not there or of another type, bounds are open, a file cannot be read.
            SettingError: nothing can be made of the source, or there is no such engine.
            MissingLibrary: the engine is not installed.
        """
        from duetlink.prep.engines.base import library

        library("narwhals")
        from duetlink.prep.engines.choice import opened
        from duetlink.prep.prepared import Prepared

        return Prepared(self, opened(source, engine))

    def fit_private(
        self,
        source: Any,
        budget: Budget | Decimal | float | str,
        *,
        quantiles: tuple[float, float] = (0.01, 0.99),
        delta: float | None = None,
        ledger: Ledger | None = None,
        asset: str = "",
        engine: Any = None,
    ) -> Prep:
        """This preparation with bounds in place of each `within=`, quantiles of the data with noise; and with
        categories for each `one_hot(column, unknown="ignore")`, those that are not rare. With a split they
        are those of the rows to train with, wherever it stands.

        Each open column costs an equal share of `budget`, for rows added or removed. The two quantiles of
        bounds have pure epsilon-differential privacy (OpenDP's exponential mechanism over candidates in
        `within`). Categories have (epsilon, delta)-differential privacy: counts with noise over a threshold
        (`duetlink/compute/privacy/categories.py` has the source). `delta` is needed for them, well below 1
        over the rows; it is that of all columns together. A value of one person alone is released with a
        probability of at most `delta`. What comes of it may be released. With a `ledger` the budget of
        `asset` there is charged first; it counts epsilon, and notes delta.

        Raises:
            PrepError: the noise left no room between the bounds of a column, or no category; a larger budget
            may. Or as `run`. SettingError: nothing is open; `delta` is missing, or not needed; or the steps
            before, or the split, are not row by row (`row_stable`).
            BudgetExceeded: the ledger has less left; nothing was computed.
        """
        from duetlink.prep.engines.base import library

        library("narwhals")
        from duetlink.prep.private import fitted

        return Prep(fitted(self, source, budget, quantiles, delta, ledger, asset, engine))
