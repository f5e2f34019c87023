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
    """A preparation: a list of steps for a table, as a value that can be printed, compared and sent as JSON.

    The base class `PrepSpec` has the methods that add steps. This class runs them.
    """

    def run(self, source: Any, engine: Any = None) -> Prepared:
        """Prepare a table of pyarrow, polars, pandas, DuckDB or Spark, or Parquet or CSV files at a path.

        `engine` is "pyarrow", "polars", "duckdb", or a Spark session, classic or Connect. None chooses by the
        source: its own library for a table, Polars for files up to 1 GiB, DuckDB for larger ones. The result
        is the same on each engine. Columns of CSV files are text until they are cast. Column names and types
        are checked at once; rows are read when the result is used.

        Raises:
            PrepError: a column is missing or has another type, bounds are open, or a file cannot be read.
            SettingError: the source is no table, or the engine does not exist.
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
        """Return this preparation with bounds and categories taken from the data with differential privacy.

        Each `within=` is replaced by bounds, which are quantiles of the data with noise. Each
        `one_hot(column, unknown="ignore")` gets the categories that are not rare. With a split, only the rows
        of the train part count, wherever the split stands.

        Each open column costs an equal share of `budget`, for rows added or removed. The two quantiles of
        bounds have pure epsilon-differential privacy (OpenDP's exponential mechanism over candidates in
        `within`). Categories have (epsilon, delta)-differential privacy: counts with noise over a threshold
        (`duetlink/compute/privacy/categories.py` has the source). They need `delta`, for all columns
        together; it should be well below 1 / rows. A value that only one person has is released with a
        probability of at most `delta`. The returned preparation may be released. With a `ledger`, the budget
        of `asset` there is charged first; it counts epsilon, and notes delta.

        Raises:
            PrepError: the noise left no room between the bounds of a column, or no category (a larger budget
                may help); or like `run`.
            SettingError: nothing is open; `delta` is missing, or not needed; or the steps before, or the
                split, do not treat each row by itself (`row_stable`).
            BudgetExceeded: the ledger has less left; nothing was computed.
        """
        from duetlink.prep.engines.base import library

        library("narwhals")
        from duetlink.prep.private import fitted

        return Prep(fitted(self, source, budget, quantiles, delta, ledger, asset, engine))
