"""pandas user guide, indexing and selecting data: https://pandas.pydata.org/docs/user_guide/indexing.html"""

import numpy as np
import pandas as pd

np.random.seed(2)
dates = pd.date_range("1/1/2000", periods=8)
df = pd.DataFrame(np.random.randn(8, 4), index=dates, columns=["A", "B", "C", "D"])  # shared
s = df["A"]
s[dates[5]]
df[["B", "A"]] = df[["A", "B"]]
df.loc[:, ["B", "A"]] = df[["A", "B"]].to_numpy()
sa = pd.Series([1, 2, 3], index=list("abc"))  # shared
dfa = df.copy()
sa.b  # refused: UnknownAttribute
dfa.A
sa.a = 5  # refused: OperationRefused
dfa["A"] = list(range(len(dfa.index)))
x = pd.DataFrame({"x": [1, 2, 3], "y": [3, 4, 5]})  # shared
x.iloc[1] = {"x": 9, "y": 99}
s[:5]
s[::2]
s[::-1]
s2 = s.copy()
s2[:5] = 0
df[:3]
df[::-1]
df1 = pd.DataFrame(np.random.randn(6, 4), index=list("abcdef"), columns=list("ABCD"))  # shared
df1.loc[["a", "b", "d"], :]
df1.loc["d":, "A":"C"]
df1.loc["a"]
df1.loc["a"] > 0
df1.loc[:, df1.loc["a"] > 0]
df1.loc["a", "A"]
df1.loc[lambda d: d["A"] > 0, :]
df1.iloc[[1, 3, 5], [1, 3]]
df1.iloc[1:5, 2:4]
df1.iloc[:, 8:10]
df1.iloc[1]
s = pd.Series(np.random.randint(0, 9, 10))  # shared
s[s > 3]
s[(s < 2) | (s > 6)]
s[~(s < 3)]
s.isin([2, 4, 6])
s[s.isin([2, 4, 6])]
s[s.index.isin([2, 4, 6])]
df2 = pd.DataFrame({"a": ["one", "one", "two", "three", "two", "one", "six"], "b": ["x", "y", "y", "x", "y", "x", "x"], "c": np.random.randn(7)})  # shared
criterion = df2["a"].map(lambda x: x.startswith("t"))  # refused: OperationRefused
df2[df2["a"].str.startswith("t")]
df2[df2["a"].str.startswith("t") & (df2["b"] == "x")]
df2.loc[df2["a"].str.startswith("t") & (df2["b"] == "x"), "b":"c"]
df2[[x.startswith("t") for x in df2["a"]]]
values = {"a": ["one", "two"], "b": ["x"]}
df2.isin(values)
df2[df2[["a", "b"]].isin(values).all(axis=1)]
s.where(s > 3)
df1.where(df1 < 0, -df1)
df1.mask(df1 >= 0)
s2 = s.copy()
s2[s2 < 3] = 0
df = pd.DataFrame(np.random.rand(10, 3), columns=list("abc"))  # shared
df[(df["a"] < df["b"]) & (df["b"] < df["c"])]
df.query("(a < b) & (b < c)")
df.query("a < b and b < c")
df.eval("d = a + b")
df["color"] = np.where(df["a"] > 0.5, "green", "red")
conditions = [(df["a"] > 0.5) & (df["b"] < 0.5), df["c"] > 0.7]
df["pick"] = np.select(conditions, ["yellow", "blue"], default="black")
df2.duplicated("a")
df2.drop_duplicates("a")
df2.drop_duplicates("a", keep="last")
df2.drop_duplicates(["a", "b"]).shape  # refused: PrivateValue
s = pd.Series([1, 2, 3], index=["a", "b", "c"])  # shared
s.get("a")
s.get("x", default=-1)  # refused: PrivateValue
data = pd.DataFrame({"a": ["bar", "bar", "foo", "foo"], "b": ["one", "two", "one", "two"], "c": ["z", "y", "x", "w"], "d": [1.0, 2.0, 3, 4]})  # shared
indexed1 = data.set_index("c")
indexed2 = data.set_index(["a", "b"])
frame = data.set_index("c", drop=False)
frame = frame.set_index(["a", "b"], append=True)
data.set_index("c", inplace=True)  # refused: OperationRefused
data.reset_index()
frame.reset_index(level=1)
df1.sample(n=3)  # random
df1.sample(n=3, random_state=2)
del df["color"]
df["a"].nlargest(3)
df.idxmax()
