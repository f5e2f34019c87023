"""pandas user guide, reshaping and merging: https://pandas.pydata.org/docs/user_guide/reshaping.html and
https://pandas.pydata.org/docs/user_guide/merging.html"""

import numpy as np
import pandas as pd

np.random.seed(4)
df = pd.DataFrame({"value": range(12), "variable": ["A"] * 3 + ["B"] * 3 + ["C"] * 3 + ["D"] * 3, "date": pd.to_datetime(["2020-01-03", "2020-01-04", "2020-01-05"] * 4)})  # shared
df.pivot(index="date", columns="variable", values="value")
df["value2"] = df["value"] * 2
pivoted = df.pivot(index="date", columns="variable")
pivoted["value2"]
cheese = pd.DataFrame({"first": ["John", "Mary"], "last": ["Doe", "Bo"], "height": [5.5, 6.0], "weight": [130, 150]})  # shared
cheese.melt(id_vars=["first", "last"])
cheese.melt(id_vars=["first", "last"], var_name="quantity")
pd.melt(cheese, id_vars=["first", "last"])  # remote: PrivateValue
dft = pd.DataFrame({"A1970": {0: "a", 1: "b", 2: "c"}, "A1980": {0: "d", 1: "e", 2: "f"}, "B1970": {0: 2.5, 1: 1.2, 2: 0.7}, "B1980": {0: 3.2, 1: 1.3, 2: 0.1}, "X": {0: 0.1, 1: 1.5, 2: 2.5}, "id": {0: 0, 1: 1, 2: 2}})  # shared
pd.wide_to_long(dft, ["A", "B"], i="id", j="year")  # refused: PrivateValue
dm = pd.DataFrame({"key": list("bbacab"), "data1": range(6)})  # shared
pd.get_dummies(dm["key"])  # remote: PrivateValue
pd.get_dummies(dm["key"], prefix="key")  # remote: PrivateValue
pd.get_dummies(dm)  # remote: PrivateValue
pd.get_dummies(dm["key"]).columns  # refused: PrivateValue
values = pd.Series(np.random.randn(10))  # shared
bins = [0, 0.2, 0.4, 0.6, 0.8, 1]
pd.cut(values, bins)  # remote: PrivateValue
pd.cut(values, bins, labels=False)  # remote: PrivateValue
pd.cut(values, bins).value_counts()  # remote: PrivateValue
pd.cut(values, 3, labels=["low", "mid", "high"])  # remote: PrivateValue
pd.qcut(values, 4, labels=False)  # remote: PrivateValue
a = pd.Series(["foo", "foo", "bar", "bar", "foo", "foo"])  # shared
b = pd.Series(["one", "one", "two", "one", "two", "one"])  # shared
pd.crosstab(a, b)  # refused: PrivateValue
pd.crosstab(a, [b], rownames=["a"], colnames=["b"])  # remote: PrivateValue
labels, uniques = pd.factorize(a)  # remote: PrivateValue
uniques
df1 = pd.DataFrame({"A": ["A0", "A1", "A2", "A3"], "B": ["B0", "B1", "B2", "B3"]}, index=[0, 1, 2, 3])  # shared
df2 = pd.DataFrame({"A": ["A4", "A5", "A6", "A7"], "B": ["B4", "B5", "B6", "B7"]}, index=[4, 5, 6, 7])  # shared
frames = [df1, df2]
result = pd.concat(frames)  # remote: PrivateValue
result = pd.concat(frames, keys=["x", "y"])  # remote: PrivateValue
result.loc["y"]
pd.concat([df1, df2], axis=1, join="inner")  # remote: PrivateValue
pd.concat([df1, df2], ignore_index=True, sort=False)  # remote: PrivateValue
left = pd.DataFrame({"key1": ["K0", "K0", "K1", "K2"], "key2": ["K0", "K1", "K0", "K1"], "A": ["A0", "A1", "A2", "A3"], "B": [1.0, 2.0, 3.0, 4.0]})  # shared
right = pd.DataFrame({"key1": ["K0", "K1", "K1", "K2"], "key2": ["K0", "K0", "K0", "K0"], "C": ["C0", "C1", "C2", "C3"], "D": [5.0, 6.0, 7.0, 8.0]})  # shared
pd.merge(left, right, on=["key1", "key2"])  # remote: PrivateValue
left.merge(right, how="left", on=["key1", "key2"])
left.merge(right, how="outer", on=["key1", "key2"], indicator=True)
left.merge(right, how="outer", on="key1", suffixes=("_l", "_r"))
len(left.merge(right, on="key1"))  # refused: PrivateValue
left.merge(right, how="cross")["B"].sum()
left.set_index("key1").join(right.set_index("key1"), lsuffix="_l", rsuffix="_r")
df1.join(df2, how="outer", lsuffix="_1", rsuffix="_2")
tl = pd.DataFrame({"time": pd.to_datetime(["2016-05-25 13:30:00.023", "2016-05-25 13:30:00.038", "2016-05-25 13:30:00.048"]), "price": [51.95, 51.97, 720.77]})  # shared
tr = pd.DataFrame({"time": pd.to_datetime(["2016-05-25 13:30:00.023", "2016-05-25 13:30:00.030", "2016-05-25 13:30:00.041"]), "bid": [720.50, 51.95, 51.99]})  # shared
pd.merge_asof(tl, tr, on="time")  # remote: PrivateValue
df1.combine_first(df2)
left.compare(left.assign(B=left["B"] + 1))
cols = pd.MultiIndex.from_tuples([("A", "cat"), ("A", "dog"), ("B", "cat")], names=["exp", "animal"])
wide = pd.DataFrame(np.random.randn(4, 3), columns=cols)  # shared
wide.stack(level="animal")
wide.stack(level=["exp", "animal"])
wide["A"]["cat"]
wide.xs("cat", axis=1, level="animal")
wide.T.groupby(level="exp").mean()
