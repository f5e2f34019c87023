"""A first look at the passengers of the Titanic, after the pandas tutorials, https://pandas.pydata.org/docs/getting_started/intro_tutorials/,
and notebooks such as https://www.kaggle.com/code/startupsci/titanic-data-science-solutions"""

import numpy as np
import pandas as pd

rng = np.random.default_rng(1912)
size = 60
titanic = pd.DataFrame({"PassengerId": np.arange(1, 61), "Survived": rng.integers(0, 2, 60), "Pclass": rng.integers(1, 4, 60), "Name": [f"{one}, {title}. {first}" for one, title, first in zip(rng.choice(["Braund", "Allen", "Moran", "Sandstrom"], 60), rng.choice(["Mr", "Mrs", "Miss"], 60), rng.choice(["Owen", "Anna", "John"], 60))], "Sex": rng.choice(["male", "female"], 60), "Age": np.where(rng.random(60) < 0.2, np.nan, rng.integers(1, 80, 60)), "SibSp": rng.integers(0, 4, 60), "Parch": rng.integers(0, 3, 60), "Fare": rng.gamma(2.0, 16.0, 60), "Cabin": [None if rng.random() < 0.7 else "C85" for _ in range(60)], "Embarked": rng.choice(["S", "C", "Q"], 60)})  # shared
titanic.head(8)
titanic.tail()
titanic.shape
len(titanic)
rows, columns = titanic.shape
titanic.columns.tolist()
titanic.dtypes
titanic.ndim
titanic.size
print(f"{len(titanic)} passengers, {titanic.shape[1]} columns")
titanic.isnull().sum()
titanic.isnull().sum().shape
titanic.isna().mean().sort_values(ascending=False)
titanic.isnull().any(axis=1).sum()
titanic.describe()
titanic.describe(include="all")
titanic.describe(include=["O"])
titanic.nunique()
numeric = titanic.select_dtypes(include="number")
list(numeric.columns)
numeric.shape[1]
ages = titanic["Age"]
ages.shape
ages.max()
titanic[["Age", "Fare"]].median()
titanic[["Age", "Sex"]].shape
above_35 = titanic[titanic["Age"] > 35]
above_35.columns
above_35.shape[1]
above_35.shape[0]  # refused: PrivateValue
len(titanic[titanic["Age"].notna()])  # refused: PrivateValue
titanic[titanic["Pclass"].isin([2, 3])]
titanic[(titanic["Pclass"] == 2) | (titanic["Pclass"] == 3)]
adult_names = titanic.loc[titanic["Age"] > 35, "Name"]
titanic.iloc[9:25, 2:5]
titanic.iloc[9:25, 2:5].shape
titanic.iloc[0:3, 3]
titanic["Survived"].value_counts(normalize=True)
titanic.groupby("Sex")["Age"].mean()
titanic.groupby(["Sex", "Pclass"])["Fare"].mean()
titanic[["Pclass", "Survived"]].groupby(["Pclass"], as_index=False).mean().sort_values(by="Survived", ascending=False)
list(titanic[["Pclass", "Survived"]].groupby("Pclass", as_index=False).mean().columns)
len(titanic.groupby("Embarked").size())  # refused: PrivateValue
titanic["Pclass"].value_counts()
titanic.agg({"Age": ["min", "max", "median", "skew"], "Fare": ["min", "max", "median", "mean"]})
titanic["Surname"] = titanic["Name"].str.split(",").str.get(0)
titanic["Title"] = titanic["Name"].str.extract(r" ([A-Za-z]+)\.", expand=False)
titanic["Title"] = titanic["Title"].replace(["Mlle", "Ms"], "Miss")
titanic["Title"].value_counts()
titanic.loc[titanic["Name"].str.len().idxmax(), "Name"]
titanic["Sex_short"] = titanic["Sex"].replace({"male": "M", "female": "F"})
titanic["FamilySize"] = titanic["SibSp"] + titanic["Parch"] + 1
titanic["IsAlone"] = 0
titanic.loc[titanic["FamilySize"] == 1, "IsAlone"] = 1
titanic[["IsAlone", "Survived"]].groupby("IsAlone").mean()
titanic["Age"] = titanic["Age"].fillna(titanic["Age"].median())
titanic["Age"].isna().sum()
titanic["Embarked"] = titanic["Embarked"].fillna(titanic["Embarked"].mode()[0])
titanic["Fare"] = titanic.groupby("Pclass")["Fare"].transform(lambda fare: fare.clip(upper=100))  # refused: OperationRefused
titanic = titanic.drop(columns=["Cabin", "PassengerId", "Name"])
"Cabin" in titanic.columns
len(titanic.columns)
missing = [column for column in titanic.columns if column.startswith("S")]
missing
titanic["Sex"] = titanic["Sex"].map({"female": 1, "male": 0}).astype(int)
titanic["Sex"].dtype == np.int64
titanic["FareBand"] = titanic["Fare"].rank(pct=True).mul(4).clip(upper=3.99).astype(int)
titanic[["FareBand", "Survived"]].groupby("FareBand", as_index=False).agg(["mean", "count"])
titanic.corr(numeric_only=True)["Survived"]
titanic.corr(numeric_only=True).shape[0] == titanic.select_dtypes("number").shape[1]
titanic.pivot_table(index="Pclass", columns="Embarked", values="Survived")
titanic.pivot_table(index="Pclass", columns="Embarked", values="Survived").columns  # refused: PrivateValue
titanic["AgeGroup"] = np.where(titanic["Age"] < 16, "child", "adult")
titanic.groupby("AgeGroup")["Survived"].agg(["mean", "size"])
titanic.groupby("AgeGroup")["Survived"].agg(["mean", "size"]).columns.tolist()
fares = titanic[["Fare", "Pclass"]].rename(columns={"Fare": "price"}).sort_values("price", ascending=False)
fares.shape, list(fares)
fares.head(10).shape
fares.nlargest(3, "price")
X = titanic.drop("Survived", axis=1)
y = titanic["Survived"]
X.shape[0] == y.shape[0], X.ndim, y.ndim, y.name
try:
    titanic.iloc[1000]
except IndexError:
    last = titanic.iloc[-1]
try:
    titanic["Wage"]
except KeyError:
    wages = "no such column"
