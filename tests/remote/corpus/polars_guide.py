"""Polars user guide, getting started and expressions: https://docs.pola.rs/user-guide/getting-started/,
https://docs.pola.rs/user-guide/expressions/"""

import datetime as dt

import numpy as np
import polars as pl

df = pl.DataFrame({"name": ["Alice Archer", "Ben Brown", "Chloe Cooper", "Daniel Donovan"], "birthdate": [dt.date(1997, 1, 10), dt.date(1985, 2, 15), dt.date(1983, 3, 22), dt.date(1981, 4, 30)], "weight": [57.9, 72.5, 53.6, 83.1], "height": [1.56, 1.77, 1.65, 1.75]})  # shared
df.shape
df.columns
df.schema
result = df.select(pl.col("name"), pl.col("birthdate").dt.year().alias("birth_year"), (pl.col("weight") / (pl.col("height") ** 2)).alias("bmi"))
df.select(pl.col("name"), (pl.col("weight", "height") * 0.95).round(2).name.suffix("-5%"))
df.with_columns(birth_year=pl.col("birthdate").dt.year(), bmi=pl.col("weight") / (pl.col("height") ** 2))
df.filter(pl.col("birthdate").dt.year() < 1990)
df.filter(pl.col("birthdate").is_between(dt.date(1982, 12, 31), dt.date(1996, 1, 1)), pl.col("height") > 1.7)
df.group_by((pl.col("birthdate").dt.year() // 10 * 10).alias("decade"), maintain_order=True).len()
df.group_by((pl.col("birthdate").dt.year() // 10 * 10).alias("decade"), maintain_order=True).agg(pl.len().alias("sample_size"), pl.col("weight").mean().round(2).alias("avg_weight"), pl.col("height").max().alias("tallest"))
df2 = pl.DataFrame({"name": ["Ben Brown", "Daniel Donovan", "Alice Archer", "Chloe Cooper"], "parent": [True, False, False, False], "siblings": [1, 2, 3, 4]})  # shared
df.join(df2, on="name", how="left")
df3 = pl.DataFrame({"name": ["Ethan Edwards", "Fiona Foster", "Grace Gibson", "Henry Harris"], "birthdate": [dt.date(1977, 5, 10), dt.date(1975, 6, 23), dt.date(1973, 7, 22), dt.date(1971, 8, 3)], "weight": [67.9, 72.5, 57.6, 93.1], "height": [1.76, 1.6, 1.66, 1.8]})  # shared
pl.concat([df, df3], how="vertical")  # remote: PrivateValue
df["weight"].mean()
df["weight"] * 2
df.head(2)
df.tail(1)
df.glimpse()  # refused: UnknownAttribute
df.describe()
df.sort("weight", descending=True)
df.sort(pl.col("height"))
df.drop("weight")
df.rename({"weight": "kg"})
df.unique(maintain_order=True)
df["name"].n_unique()
df.height
len(df.filter(pl.col("height") > 1.7))  # refused: PrivateValue
nums = pl.DataFrame({"nrs": [1, 2, 3, None, 5], "names": ["foo", "ham", "spam", "egg", "spam"], "random": [0.154163, 0.74, 0.263315, 0.533739, 0.014575], "groups": ["A", "A", "B", "A", "B"]})  # shared
nums.select((pl.col("nrs") + 5).alias("nrs + 5"), (pl.col("nrs") - 5).alias("nrs - 5"), (pl.col("nrs") * pl.col("random")).alias("nrs * random"), (pl.col("nrs") ** 2).alias("nrs ** 2"))
nums.select((pl.col("nrs") > 1).alias("nrs > 1"), (pl.col("nrs").is_null()).alias("null"))
nums.select(((~pl.col("nrs").is_null()) & (pl.col("groups") == "A")).alias("number not null and group A"))
nums.select(pl.col("names").n_unique().alias("n_unique"), pl.approx_n_unique("names").alias("approx"))
nums.select(pl.col("names").value_counts(sort=True).alias("value_counts")).height  # refused: PrivateValue
nums.select(pl.col("nrs"), pl.when(pl.col("nrs") % 2 == 1).then(3 * pl.col("nrs") + 1).otherwise(pl.col("nrs") // 2).alias("Collatz"))
nums.select(pl.col("nrs").fill_null(0))
nums.select(pl.col("nrs").fill_null(strategy="forward"))
nums.select(pl.col("nrs").fill_null(pl.col("nrs").median()))
nums.select(pl.col("nrs").interpolate())
nums.null_count()
nums.select(pl.all().is_null().sum())
nums.select(pl.col("nrs").cast(pl.Float32), pl.col("random").cast(pl.Int8))
nums.select(pl.col("names").str.len_bytes().alias("byte_count"), pl.col("names").str.to_uppercase())
nums.select(pl.col("names").str.contains("am"), pl.col("names").str.starts_with("s").alias("starts"))
nums.select(pl.col("names").str.replace("a", "o"), pl.col("names").str.slice(0, 2).alias("head"))
nums.select(pl.col("names").str.split("a").list.len())
nums.with_columns(rank=pl.col("random").rank("dense", descending=True).over("groups"))
nums.select(pl.col("nrs").sum().over("groups"))
nums.select(pl.col("random").sort_by("nrs"))
nums.select(pl.col("random").cum_sum(), pl.col("random").shift(1).alias("lag"))
nums.select(pl.col("random").rolling_mean(window_size=2))
nums.group_by("groups", maintain_order=True).agg(pl.col("nrs").sum(), pl.col("random").count().alias("count"), pl.col("random").filter(pl.col("names") == "spam").mean().name.suffix("_sum"))
nums.group_by("groups", maintain_order=True).agg(pl.col("names").first(), pl.col("random").std().alias("spread"))
nums.select(pl.col(pl.Float64).sum())
nums.select(pl.exclude("names"))
nums.select(pl.corr("nrs", "random"))
nums.select(pl.max_horizontal("nrs", "random"), pl.sum_horizontal("nrs", "random").alias("sum"))
nums.select(pl.struct("nrs", "random").alias("pair")).unnest("pair")
nums.select(pl.concat_str(["names", "groups"], separator="-"))
nums.lazy().filter(pl.col("nrs") > 1).group_by("groups", maintain_order=True).agg(pl.col("random").mean()).collect()
nums.lazy().select("nrs").collect()
nums.pivot("groups", index="names", values="random", aggregate_function="mean")
nums.unpivot(["nrs", "random"], index="names")
nums["groups"].value_counts().sort("groups")
nums["nrs"].to_numpy()
nums.to_pandas()
nums.rows()  # refused: PrivateValue
nums.to_dicts()  # refused: PrivateValue
nums.item(0, 0)
nums[0, "random"]
nums[:, "random"]
nums["random"].to_list()
nums.row(0)
nums.select(pl.col("random").map_elements(lambda x: x * 2, return_dtype=pl.Float64))  # refused: OperationRefused
nums.sql("SELECT nrs FROM self")  # refused: UnknownAttribute
nums.with_row_index()
nums.sample(2, seed=1)
nums.select("nrs", "random").mean()
nums.select("nrs").sum()
np.log(nums["random"])
days = pl.DataFrame({"day": pl.date_range(dt.date(2022, 1, 1), dt.date(2022, 2, 28), "1d", eager=True), "value": np.arange(59.0)})  # shared
days.group_by_dynamic("day", every="1w").agg(pl.col("value").sum())
days.filter(pl.col("day") > dt.date(2022, 2, 1)).select(pl.col("value").mean())
days.select(pl.col("day").dt.month().alias("month"), pl.col("day").dt.strftime("%d.%m."))
days.select(pl.col("day").dt.weekday())
days.select(pl.col("day").dt.offset_by("1mo"))
days.rolling("day", period="3d").agg(pl.sum("value"))
lists = pl.DataFrame({"student": ["Cas", "Jan"], "grades": [[1.0, 2.0], [3.0, 5.0]]})  # shared
lists.select(pl.col("grades").list.mean(), pl.col("grades").list.get(0).alias("first"))
lists.explode("grades")
lists.with_columns(pl.col("grades").list.eval(pl.element() * 2))  # refused: OperationRefused
