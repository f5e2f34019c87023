"""10 minutes to pandas: https://pandas.pydata.org/docs/user_guide/10min.html"""

import numpy as np
import pandas as pd

np.random.seed(1)
dates = pd.date_range("20130101", periods=6)
df = pd.DataFrame(np.random.randn(6, 4), index=dates, columns=list("ABCD"))  # shared
df.dtypes
df.head()
df.tail(3)
df.index
df.columns
df.to_numpy()
df.describe()
df.T
df.sort_index(axis=1, ascending=False)
df.sort_values(by="B")
df["A"]
df.A
df[["B", "A"]]
df[0:3]
df["20130102":"20130104"]
df.loc[dates[0]]
df.loc[:, ["A", "B"]]
df.loc["20130102":"20130104", ["A", "B"]]
df.loc[dates[0], "A"]
df.at[dates[0], "A"]
df.iloc[3]
df.iloc[3:5, 0:2]
df.iloc[[1, 2, 4], [0, 2]]
df.iloc[1:3, :]
df.iloc[:, 1:3]
df.iloc[1, 1]
df.iat[1, 1]
df[df["A"] > 0]
df[df > 0]
len(df[df["A"] > 0])  # refused: PrivateValue
df2 = df.copy()
df2["E"] = ["one", "one", "two", "three", "four", "three"]
df2[df2["E"].isin(["two", "four"])]
s1 = pd.Series([1, 2, 3, 4, 5, 6], index=pd.date_range("20130102", periods=6))
df["F"] = s1
df.at[dates[0], "A"] = 0
df.iat[0, 1] = 0
df.loc[:, "D"] = np.array([5] * len(df))  # refused: PrivateValue
df2 = df.copy()
df2[df2 > 0] = -df2
df1 = df.reindex(index=dates[0:4], columns=list(df.columns) + ["E"])
df1.loc[dates[0] : dates[1], "E"] = 1
df1.dropna(how="any")
df1.fillna(value=5)
pd.isna(df1)  # remote: PrivateValue
df.mean()
df.mean(axis=1)
s = pd.Series([1, 3, 5, np.nan, 6, 8], index=dates).shift(2)
df.sub(s, axis="index")
df.agg(lambda x: np.mean(x) * 5.6)  # refused: OperationRefused
df.transform(lambda x: x * 101.2)  # refused: OperationRefused
s = pd.Series(np.random.randint(0, 7, size=10))  # shared
s.value_counts()
s = pd.Series(["A", "B", "C", "Aaba", "Baca", np.nan, "CABA", "dog", "cat"])  # shared
s.str.lower()
df = pd.DataFrame(np.random.randn(10, 4))  # shared
pieces = [df[:3], df[3:7], df[7:]]
pd.concat(pieces)  # remote: PrivateValue
left = pd.DataFrame({"key": ["foo", "foo"], "lval": [1, 2]})  # shared
right = pd.DataFrame({"key": ["foo", "foo"], "rval": [4, 5]})  # shared
pd.merge(left, right, on="key")  # remote: PrivateValue
left.merge(right, on="key")
df = pd.DataFrame({"A": ["foo", "bar", "foo", "bar", "foo", "bar", "foo", "foo"], "B": ["one", "one", "two", "three", "two", "two", "one", "three"], "C": np.random.randn(8), "D": np.random.randn(8)})  # shared
df.groupby("A")[["C", "D"]].sum()
df.groupby(["A", "B"]).sum()
arrays = [["bar", "bar", "baz", "baz", "foo", "foo", "qux", "qux"], ["one", "two", "one", "two", "one", "two", "one", "two"]]
index = pd.MultiIndex.from_arrays(arrays, names=["first", "second"])
df = pd.DataFrame(np.random.randn(8, 2), index=index, columns=["A", "B"])  # shared
df2 = df[:4]
stacked = df2.stack()
stacked.unstack()
stacked.unstack(1)
stacked.unstack(0)
df = pd.DataFrame({"A": ["one", "one", "two", "three"] * 3, "B": ["A", "B", "C"] * 4, "C": ["foo", "foo", "foo", "bar", "bar", "bar"] * 2, "D": np.random.randn(12), "E": np.random.randn(12)})  # shared
pd.pivot_table(df, values="D", index=["A", "B"], columns=["C"])  # refused: PrivateValue
df.pivot_table(values="D", index=["A", "B"], columns=["C"])
rng = pd.date_range("1/1/2012", periods=100, freq="s")
ts = pd.Series(np.random.randint(0, 500, len(rng)), index=rng)  # shared
ts.resample("5Min").sum()
rng = pd.date_range("3/6/2012 00:00", periods=5, freq="D")
ts = pd.Series(np.random.randn(len(rng)), rng)  # shared
ts_utc = ts.tz_localize("UTC")
ts_utc.tz_convert("US/Eastern")
rng + pd.offsets.BusinessDay(5)
df = pd.DataFrame({"id": [1, 2, 3, 4, 5, 6], "raw_grade": ["a", "b", "b", "a", "a", "e"]})  # shared
df["grade"] = df["raw_grade"].astype("category")
new_categories = ["very good", "good", "very bad"]
df["grade"] = df["grade"].cat.rename_categories(new_categories)
df["grade"] = df["grade"].cat.set_categories(["very bad", "bad", "medium", "good", "very good"])
df["grade"]
df.sort_values(by="grade")
df.groupby("grade", observed=False).size()
ts = pd.Series(np.random.randn(1000), index=pd.date_range("1/1/2000", periods=1000))  # shared
ts = ts.cumsum()
if pd.Series([False, True, False]).any():
    total = ts.sum()
bool(ts.mean() > 0)  # refused: PrivateValue
