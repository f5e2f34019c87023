"""pandas user guide, group by: https://pandas.pydata.org/docs/user_guide/groupby.html"""

import numpy as np
import pandas as pd

np.random.seed(3)
speeds = pd.DataFrame([("bird", "Falconiformes", 389.0), ("bird", "Psittaciformes", 24.0), ("mammal", "Carnivora", 80.2), ("mammal", "Primates", np.nan), ("mammal", "Carnivora", 58)], index=["falcon", "parrot", "lion", "monkey", "leopard"], columns=("class", "order", "max_speed"))  # shared
grouped = speeds.groupby("class")
grouped = speeds.groupby(["class", "order"])
grouped.sum()
df = pd.DataFrame({"A": ["foo", "bar", "foo", "bar", "foo", "bar", "foo", "foo"], "B": ["one", "one", "two", "three", "two", "two", "one", "three"], "C": np.random.randn(8), "D": np.random.randn(8)})  # shared
grouped = df.groupby("A")
grouped["C"].sum()
df.groupby("A").groups
len(df.groupby(["A", "B"]))  # refused: PrivateValue
df.groupby("A").get_group("bar")
df.groupby("A", sort=False)["C"].mean()
df.groupby(["A", "B"]).get_group(("bar", "one"))
for name, group in grouped:
    print(name)  # refused: PrivateValue
grouped[["C", "D"]].sum()
grouped = df.groupby(["A", "B"])
grouped[["C", "D"]].agg("sum")
df.groupby(["A", "B"], as_index=False)[["C", "D"]].sum()
grouped.size()
grouped.ngroups  # refused: PrivateValue
df.groupby("A")[["C", "D"]].describe()
df.groupby("A")["B"].nunique()
df.groupby("A")["C"].agg(["sum", "mean", "std"])
df.groupby("A")[["C", "D"]].agg(["sum", "mean", "std"])
df.groupby("A")["C"].agg(["sum", "mean", "std"]).rename(columns={"sum": "foo", "mean": "bar", "std": "baz"})
animals = pd.DataFrame({"kind": ["cat", "dog", "cat", "dog"], "height": [9.1, 6.0, 9.5, 34.0], "weight": [7.9, 7.5, 9.9, 198.0]})  # shared
animals.groupby("kind").agg(min_height=pd.NamedAgg(column="height", aggfunc="min"), max_height=pd.NamedAgg(column="height", aggfunc="max"), average_weight=pd.NamedAgg(column="weight", aggfunc="mean"))
animals.groupby("kind").agg(min_height=("height", "min"), max_height=("height", "max"), average_weight=("weight", "mean"))
animals.groupby("kind").height.agg(min_height="min", max_height="max")
animals.groupby("kind")[["height"]].agg(lambda x: set(x))  # refused: OperationRefused
df.groupby("A").agg({"C": "sum", "D": lambda x: np.std(x, ddof=1)})  # refused: OperationRefused
df.groupby("A").agg({"C": "sum", "D": "std"})
df.groupby("A")["C"].transform("mean")
df.groupby("A")["C"].cumsum()
df.groupby("A")["C"].transform(lambda x: (x - x.mean()) / x.std())  # refused: OperationRefused
df.groupby("A")["D"].diff()
df.groupby("A")["C"].rank()
df_re = pd.DataFrame({"A": [1] * 10 + [5] * 10, "B": np.arange(20)})  # shared
df_re.groupby("A").rolling(4).B.mean()
df_re.groupby("A").expanding().sum()
sf = pd.Series([1, 1, 2, 3, 3, 3])  # shared
sf.groupby(sf).filter(lambda x: x.sum() > 2)  # refused: OperationRefused
dff = pd.DataFrame({"A": np.arange(8), "B": list("aabbbbcc")})  # shared
dff.groupby("B").filter(lambda x: len(x) > 2)  # refused: OperationRefused
df.groupby("A").head(1)
df.groupby("A").nth(1)
df.groupby("A")["C"].apply(lambda x: x.describe())  # refused: OperationRefused
df.groupby("A").ngroup()
df.groupby("A").cumcount()
df.groupby("A")["C"].quantile(0.5)
factor = pd.qcut(df["C"], [0, 0.25, 0.5, 0.75, 1.0])  # remote: PrivateValue
df.groupby(df["C"] > 0)["D"].mean()
df.groupby([df["B"].str.len(), "A"])["D"].max()
df.groupby("A")["C"].first()
df.groupby("A")[["C", "D"]].corr()
df.groupby("A").pipe(lambda grp: grp["C"].max() - grp["D"].min())
df.groupby("A")["C"].idxmax()
