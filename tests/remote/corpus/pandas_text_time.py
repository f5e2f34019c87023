"""pandas user guide, working with text data, missing data, categorical data and time series:
https://pandas.pydata.org/docs/user_guide/text.html, missing_data.html, categorical.html, timeseries.html"""

import numpy as np
import pandas as pd

np.random.seed(5)
s = pd.Series(["A", "B", "C", "Aaba", "Baca", np.nan, "CABA", "dog", "cat"])  # shared
s.str.count("a")
s.str.lower()
s.str.upper()
s.str.len()
idx = pd.Series([" jack", "jill ", " jesse ", "frank"])  # shared
idx.str.strip()
idx.str.lstrip()
s2 = pd.Series(["a_b_c", "c_d_e", np.nan, "f_g_h"])  # shared
s2.str.split("_")
s2.str.split("_").str.get(1)
s2.str.split("_").str[1]
s2.str.split("_", expand=True)
s2.str.rsplit("_", expand=True, n=1)
s3 = pd.Series(["A", "B", "C", "Aaba", "Baca", "", np.nan, "CABA", "dog", "cat"])  # shared
s3.str.replace("^.a|dog", "XX-XX ", case=False, regex=True)
dollars = pd.Series(["12", "-$10", "$10,000"])  # shared
dollars.str.replace("$", "", regex=False)
dollars.str.replace(r"-\$", "-", regex=True)
s3.str.replace(r"[a-z]+", lambda m: m.group(0)[::-1], regex=True)  # refused: OperationRefused
s3.str.cat(sep=",")
s3.str.cat(sep=",", na_rep="-")
s3.str[0]
digits = pd.Series(["a1", "b2", "c3"])  # shared
digits.str.extract(r"([ab])(\d)", expand=True)
digits.str.extract(r"(?P<letter>[ab])(?P<digit>\d)", expand=True)
digits.str.contains(r"[0-9][a-z]")
digits.str.match(r"[a-z][0-9]")
digits.str.get_dummies(sep="|")
s3.str.isalpha()
s3.str.zfill(5)
float_col = pd.Series([1.5, np.nan, 3.5, np.nan, 5.0])  # shared
float_col.isna()
float_col.fillna(0)
float_col.notna()
float_col.ffill()
float_col.bfill(limit=1)
float_col.interpolate()
float_col.dropna()
float_col.dropna().shape  # refused: PrivateValue
float_col.sum()
float_col.cumsum(skipna=False)
float_col.mean() == float_col.mean()
float_col.replace(1.5, 2.5)
float_col.convert_dtypes()
frame = pd.DataFrame({"np": [1.0, np.nan, np.nan, 2], "arrow": [np.nan, 2.0, 3.0, 4.0]})  # shared
frame.fillna(frame.mean())
frame.isna().sum()
frame.count()
frame.dropna(thresh=1)
frame.dropna(axis=1)
frame.interpolate(method="linear")
cat = pd.Series(["a", "b", "c", "a"], dtype="category")  # shared
cat.cat.categories
cat.cat.codes
cat.describe()
cat.value_counts()
cat.cat.add_categories(["d"])
cat.cat.remove_unused_categories()
cat.cat.reorder_categories(["c", "b", "a"], ordered=True).min()
cat.astype(str)
cat == "a"
cat.astype(pd.CategoricalDtype(["a", "b", "c", "d"], ordered=True)).max()
stamps = pd.Series(["2018-10-26 12:00:00", "2018-10-26 13:00:15", "2018-12-01 06:30:00"])  # shared
pd.to_datetime(stamps)  # remote: PrivateValue
pd.to_datetime(stamps, format="%Y-%m-%d %H:%M:%S")  # remote: PrivateValue
when = pd.Series(pd.to_datetime(["2018-10-26 12:00:00", "2018-10-26 13:00:15", "2018-12-01 06:30:00"]))  # shared
when.dt.year
when.dt.day_name()
when.dt.strftime("%Y/%m")
when.dt.floor("h")
when.dt.tz_localize("UTC").dt.tz_convert("US/Pacific")
when + pd.Timedelta(days=2)
when + pd.offsets.MonthEnd()
when.diff()
when.max() - when.min()
(when - when.min()).dt.total_seconds()
when.dt.isocalendar()
ts = pd.Series(np.random.randn(60), index=pd.date_range("2012-01-01", periods=60, freq="D"))  # shared
ts["2012-02"]
ts["2012-01-15":"2012-01-20"]
ts.truncate(before="2012-01-10", after="2012-01-15")
ts.shift(1)
ts.shift(2, freq="D")
ts.asfreq("2D")
ts.resample("ME").mean()
ts.resample("W").agg(["sum", "mean", "std"])
ts.resample("10D").ohlc()
ts.resample("W").apply(lambda x: x.max() - x.min())  # refused: UnknownAttribute
ts.rolling(7).mean()
ts.rolling("7D").sum()
ts.rolling(window=5, center=True).std()
ts.expanding().max()
ts.ewm(span=10).mean()
ts.rolling(3).apply(np.mean)  # refused: UnknownAttribute
ts.pct_change()
ts.to_period("M").groupby(level=0).sum()
ts.index.month
ts.groupby(ts.index.month).mean()
ts.between_time("00:00", "01:00").count()
ts.autocorr(lag=1)
ts.describe(percentiles=[0.1, 0.9])
ts.index[0]
ts.sort_values().iloc[0]
ts.items()  # refused: PrivateValue
ts.plot  # refused: MockUsed
