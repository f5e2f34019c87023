"""Air quality and bicycles by the hour, after https://pandas.pydata.org/docs/getting_started/intro_tutorials/09_timeseries.html and
https://jakevdp.github.io/PythonDataScienceHandbook/03.11-working-with-time-series.html"""

import numpy as np
import pandas as pd

rng = np.random.default_rng(7)
hours = pd.date_range("2019-05-07", periods=96, freq="h")
air = pd.DataFrame({"station_antwerp": np.where(rng.random(96) < 0.4, np.nan, rng.normal(25, 6, 96)), "station_paris": rng.normal(30, 8, 96), "station_london": np.where(rng.random(96) < 0.1, np.nan, rng.normal(24, 7, 96))}, index=hours)  # shared
air.shape
air.columns.tolist()
len(air.columns), air.ndim
air["london_mg_per_cubic"] = air["station_london"] * 1.882
air["ratio_paris_antwerp"] = air["station_paris"] / air["station_antwerp"]
air_renamed = air.rename(columns={"station_antwerp": "BETR801", "station_paris": "FR04014", "station_london": "London Westminster"})
list(air_renamed)
air.rename(columns=str.lower)  # refused: OperationRefused
air["station_paris"].max() - air["station_paris"].min()
air.resample("D").mean()
list(air.resample("D").mean().columns)
air["station_paris"].rolling(24).mean()
air["station_paris"].rolling(24, center=True).mean().shape
air["station_paris"].shift(1).isna().sum()
air["station_paris"].diff().abs().mean()
air.interpolate().isna().sum()
air.ffill().bfill()
air.dropna().shape[1]
air.dropna().shape[0]  # refused: PrivateValue
air.dropna(axis="columns").shape  # refused: PrivateValue
air.dropna(thresh=4).columns
air.between_time("08:00", "10:00")
air.at_time("09:00")
air.loc["2019-05-08"]
air.groupby(air.index.hour).mean()
air.groupby(air.index.weekday)["station_paris"].agg(["mean", "std"])
air.index.year
air["hour"] = air.index.hour
air["weekend"] = air.index.dayofweek >= 5
air.groupby("weekend")["station_paris"].mean()
air["station_paris"].autocorr(lag=1)
air["station_paris"].ewm(span=12).mean()
air["station_paris"].expanding().max()
air["station_paris"].pct_change().describe()
air["station_paris"].describe().shape
air["station_paris"].quantile([0.05, 0.5, 0.95])
len(air["station_paris"].quantile([0.05, 0.5, 0.95]))
long = air[["station_paris", "station_london"]].reset_index().melt(id_vars="index", var_name="station", value_name="no2")
long.shape
list(long.columns)
long.groupby("station")["no2"].mean()
long.pivot(index="index", columns="station", values="no2")
stations = pd.DataFrame({"station": ["station_paris", "station_london", "station_rome"], "city": ["Paris", "London", "Rome"]})  # shared
merged = long.merge(stations, on="station", how="left")
list(merged.columns)
merged.groupby("city")["no2"].median()
merged["no2"].where(merged["no2"] > 20).isna().mean()
long.merge(stations, on="station", how="right").columns
joined = air[["station_paris"]].join(air[["station_london"]])
joined.shape  # refused: PrivateValue
