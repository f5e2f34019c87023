"""Flights by Polars, after https://kevinheavey.github.io/modern-polars/ and https://docs.pola.rs/user-guide/concepts/"""

import numpy as np
import polars as pl

rng = np.random.default_rng(3)
flights = pl.DataFrame({"dest": rng.choice(["LAX", "JFK", "ORD", "ATL"], 48), "carrier": rng.choice(["AA", "DL", "UA"], 48), "dep_delay": np.where(rng.random(48) < 0.2, 0.0, rng.normal(8, 20, 48)), "distance": rng.integers(200, 2600, 48), "cancelled": rng.random(48) < 0.1})  # shared
flights.shape
flights.height, flights.width
flights.columns
len(flights.columns)
flights.schema
flights.dtypes
flights["dest"].dtype == pl.String
flights.null_count().shape
flights.describe()
flights.head(3).height
flights.select("dest", "carrier").columns
flights.select(pl.col("dep_delay", "distance").mean()).shape  # refused: PrivateValue
flights.select(pl.all().n_unique()).width
late = flights.filter(pl.col("dep_delay") > 10)
late.columns
late.width
late.height  # refused: PrivateValue
late.is_empty()
flights.with_columns(pl.col("distance").cast(pl.Float64), speed=pl.col("distance") / (pl.col("dep_delay") + 60)).shape
flights.with_columns((pl.col("dep_delay") > 15).alias("late")).group_by("carrier").agg(pl.col("late").mean()).sort("carrier")
per_carrier = flights.group_by("carrier").agg(pl.len().alias("n"), pl.col("dep_delay").mean().alias("mean_delay")).sort("carrier")
per_carrier.columns
per_carrier.shape[1]
per_carrier.height  # refused: PrivateValue
flights.sort("dep_delay", descending=True).select("dest").head(5).shape
flights.with_columns(pl.col("dep_delay").rank().over("dest").alias("rank")).columns
flights.select(pl.when(pl.col("dep_delay") < 0).then(pl.lit("early")).otherwise(pl.lit("late")).alias("kind")).columns
flights.select(pl.col("dep_delay").quantile(0.9)).columns
flights.select(pl.col("dep_delay").fill_null(0).clip(0, 60)).width
flights.select(pl.col("distance").sum().over("carrier")).columns
airports = pl.DataFrame({"dest": ["LAX", "JFK", "ORD", "ATL"], "city": ["Los Angeles", "New York", "Chicago", "Atlanta"]})  # shared
named = flights.join(airports, on="dest", how="left")
named.columns
named.group_by("city").agg(pl.col("distance").max()).sort("city")
flights.join(airports, on="dest", how="anti").columns
flights.unpivot(["dep_delay", "distance"], index="carrier").columns
flights.rename({"dest": "to"}).columns
flights.drop("cancelled").width
flights.lazy().filter(pl.col("cancelled")).select("dest").collect().width
flights.to_dummies("carrier").width  # refused: PrivateValue
flights.partition_by("carrier")
try:
    flights.select("destination")
except pl.exceptions.ColumnNotFoundError:
    destination = None
flights["dep_delay"].len()
flights["dep_delay"].to_numpy().shape
flights["dep_delay"].max()
flights.with_row_index("row").columns
