"""From a table to a model: https://scikit-learn.org/stable/auto_examples/compose/plot_column_transformer_mixed_types.html,
https://www.statsmodels.org/stable/gettingstarted.html, and masks as in https://jakevdp.github.io/PythonDataScienceHandbook/02.06-boolean-arrays-and-masks.html"""

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

rain = np.random.default_rng(2014).gamma(0.4, 9.0, 365)  # shared
rain.shape
len(rain)
inches = rain / 254.0
inches.ndim, inches.dtype
rainy = inches > 0
summer = (np.arange(365) - 172 < 90) & (np.arange(365) - 172 > 0)
np.median(inches[rainy])
np.max(inches[summer])
inches[summer].shape
inches[rainy].shape  # refused: PrivateValue
np.sum((inches > 0.5) & (inches < 1))
np.count_nonzero(inches > 0.5)
np.where(rainy, inches, 0).shape
monthly = rain[:360].reshape(12, 30)
monthly.shape
monthly.mean(axis=1).shape
monthly.sum(axis=0).size
try:
    monthly @ np.ones(12)
except ValueError:
    days_by_month = monthly.T @ np.ones(12)
wettest = monthly.sum(axis=1).argmax()
days, months = monthly.T.shape
np.percentile(rain, [25, 50, 75]).shape
first, *rest = np.split(rain[:360], 4)
len(rest), first.shape
rng = np.random.default_rng(5)
customers = pd.DataFrame({"age": np.where(rng.random(80) < 0.15, np.nan, rng.normal(40, 12, 80)), "fare": rng.gamma(2, 20, 80), "sex": rng.choice(["male", "female"], 80), "pclass": rng.integers(1, 4, 80), "survived": rng.integers(0, 2, 80)})  # shared
X = customers.drop("survived", axis=1)
y = customers["survived"]
numeric_features = ["age", "fare"]
numeric_transformer = Pipeline(steps=[("imputer", SimpleImputer(strategy="median")), ("scaler", StandardScaler())])
preprocessor = ColumnTransformer(transformers=[("num", numeric_transformer, numeric_features), ("cat", OneHotEncoder(handle_unknown="ignore"), ["sex"])])
clf = Pipeline(steps=[("preprocessor", preprocessor), ("classifier", LogisticRegression())])
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=0)
len(X_train), len(X_test)
X_train.shape, y_test.shape
list(X_train.columns)
clf.fit(X_train, y_train)
clf.score(X_test, y_test)
clf.predict(X_test).shape
cross_val_score(clf, X, y, cv=3).mean()
guerry = pd.DataFrame({"Lottery": rng.integers(1, 87, 70), "Literacy": rng.integers(12, 75, 70), "Wealth": rng.integers(1, 87, 70), "Region": rng.choice(["C", "E", "N", "S", "W"], 70)})  # shared
guerry.dropna().columns
df = guerry[["Lottery", "Literacy", "Wealth", "Region"]]
df.shape
mod = smf.ols("Lottery ~ Literacy + np.log(Wealth)", data=df).fit()
mod.params
mod.params.shape  # refused: PrivateValue
mod.rsquared
mod.nobs
print(mod.summary())
exog = sm.add_constant(df[["Literacy", "Wealth"]])
exog.shape  # refused: PrivateValue
res = sm.OLS(df["Lottery"], exog).fit()
res.params.shape, res.resid.shape  # refused: PrivateValue
sm.stats.linear_rainbow(res)
res.conf_int()
