"""Lengths that rest on the values of the data, as analysts meet them: a pointer tells none of them.

Each expression is first tried on two data sets of one schema and one number of rows, between which its
lengths differ. What its pointer tells of one of these lengths would be the mock's, shown as the data's.
"""

# ruff: noqa: E501  # statements as analysts write them, one a line

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy
import scipy.cluster.hierarchy
import scipy.cluster.vq
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.signal
import scipy.sparse
import scipy.sparse.csgraph
import scipy.spatial
import scipy.spatial.distance
import scipy.stats
import scipy.stats.contingency
import sklearn
import sklearn.calibration
import sklearn.cluster
import sklearn.compose
import sklearn.decomposition
import sklearn.discriminant_analysis
import sklearn.ensemble
import sklearn.feature_extraction.text
import sklearn.feature_selection
import sklearn.impute
import sklearn.inspection
import sklearn.isotonic
import sklearn.linear_model
import sklearn.metrics
import sklearn.metrics.cluster
import sklearn.model_selection
import sklearn.multiclass
import sklearn.naive_bayes
import sklearn.neighbors
import sklearn.neural_network
import sklearn.pipeline
import sklearn.preprocessing
import sklearn.svm
import sklearn.tree
import sklearn.utils
import sklearn.utils.class_weight
import statsmodels.api
import statsmodels.formula.api
import statsmodels.stats.multicomp
import statsmodels.tsa.ar_model
import torch

from duetlink import errors
from tests.remote.conftest import Bench

TOWNS = ["Bonn", "Jena", "Ulm", "Kiel", "Trier", "Hof"]
FIRST = ["Ada", "Bert", "Cleo", "Dora", "Emil", "Faye", "Gus"]
LAST = ["Adler", "Brandt", "Conrad", "Dietz", "Ernst"]
WORDS = [
    "heart",
    "lung",
    "pain",
    "fever",
    "cough",
    "rest",
    "sleep",
    "good",
    "bad",
    "mild",
    "strong",
    "left",
    "right",
    "arm",
    "leg",
    "head",
]


def people_of(random: np.random.Generator, kinds: int, rows: int = 200) -> dict[str, Any]:
    """Columns of a table of people; `kinds` is how many of what there is occur."""
    names = [
        " ".join([random.choice(FIRST), *random.choice(LAST, random.integers(1, kinds - 1))])
        for _ in range(rows)
    ]
    income = random.normal(2000 + 400 * kinds, 800, rows).round(2)
    income[random.random(rows) < 0.02 * kinds] = np.nan
    town = random.choice(TOWNS[:kinds], rows).astype(object)
    town[random.random(rows) < 0.01 * kinds] = None
    return {
        "id": np.sort(random.choice(np.arange(1000, 2000), rows, replace=False)),
        "age": random.integers(18, 60 + 5 * kinds, rows),
        "income": income,
        "town": town,
        "sex": random.choice(["female", "male", "other"][: kinds - 1], rows),
        "ill": random.random(rows) < 0.1 * kinds,
        "children": random.integers(0, kinds + 1, rows),
        "joined": pd.Timestamp("2020-01-01")
        + pd.to_timedelta(random.integers(0, 200 * kinds, rows), unit="D"),
        "name": names,
        "tags": [
            ";".join(random.choice(WORDS[: 2 * kinds], random.integers(1, kinds + 1))) for _ in range(rows)
        ],
    }


def visits_of(random: np.random.Generator, kinds: int, ids: np.ndarray, rows: int = 150) -> dict[str, Any]:
    known = random.random(rows) < 0.25 * kinds - 0.1
    return {
        "id": np.where(known, random.choice(ids, rows), random.integers(3000, 4000, rows)),
        "kind": random.choice(["new", "again", "urgent", "phone", "home"][:kinds], rows),
        "cost": random.gamma(2, 30 * kinds, rows).round(2),
        "day": pd.Timestamp("2021-01-01") + pd.to_timedelta(random.integers(0, 60 * kinds, rows), unit="D"),
    }


def make_data(seed: int, kinds: int) -> dict[str, Any]:
    """All objects that the expressions name. Two of one schema differ by how many of what there is occur."""
    random = np.random.default_rng(seed)
    person = people_of(random, kinds)
    visit = visits_of(random, kinds, person["id"])
    start = pd.Timestamp("2020-01-01") + pd.Timedelta(days=5 * kinds)
    at = pd.DatetimeIndex(
        np.sort(start + pd.to_timedelta(random.integers(0, 60 * 24 * 10 * kinds, 240), unit="min")), name="at"
    )
    people = pd.DataFrame(person).astype({"town": "str", "sex": "str", "name": "str", "tags": "str"})
    people["grade"] = pd.Categorical(
        random.choice(["low", "mid", "high", "top"][:kinds], 200), categories=["low", "mid", "high", "top"]
    )
    x = random.normal(0, 1, (120, 6))
    x[:, :2] += 5 * random.integers(0, kinds, 120)[:, None]
    x[:, 5 - kinds :] *= 0.05
    y = random.integers(0, kinds, 120)
    image = np.zeros((40, 40), dtype=np.int64)
    for row, column in random.integers(0, 37, (3 * kinds, 2)):
        image[row : row + 3, column : column + 3] = random.integers(1, kinds + 3)
    gaps = random.normal(0, 1, (120, 4))
    gaps[random.random((120, 4)) < 0.03 * kinds] = np.nan
    docs = [" ".join(random.choice(WORDS[: 4 * kinds], 6)) for _ in range(80)]
    return {
        "people": people,
        "visits": pd.DataFrame(visit).astype({"kind": "str"}),
        "ts": pd.Series(random.normal(10, 3, 240).cumsum(), index=at, name="level"),
        "daily": pd.Series(
            random.normal(kinds / 4, 1, 120),
            index=pd.DatetimeIndex(start + pd.to_timedelta(np.arange(120), unit="D")),
        ),
        "sensors": pd.DataFrame(
            {
                "temp": random.normal(15 + kinds, 5, 240).round(1),
                "hum": random.uniform(20, 100, 240).round(0),
                "station": random.choice(["north", "south", "east", "west"][:kinds], 240),
            },
            index=at,
        ).astype({"station": "str"}),
        "sales": pd.DataFrame(
            {"units": random.integers(0, 10 * kinds, 100), "price": random.uniform(1, 9, 100).round(2)},
            index=pd.Index(random.choice(TOWNS[:kinds], 100), name="town", dtype="str"),
        ),
        "panel": pd.Series(
            random.normal(0, 1, 90),
            index=pd.MultiIndex.from_arrays(
                [random.choice(TOWNS[:kinds], 90), random.integers(2018, 2018 + 2 * kinds, 90)],
                names=["town", "year"],
            ),
            name="growth",
        ),
        "docs": pd.Series(docs, dtype="str", name="docs"),
        "x": x,
        "y": y,
        "v": random.normal(kinds / 2, kinds / 2, 300),
        "k": random.integers(0, 3 * kinds, 300),
        "j": random.integers(kinds, 5 * kinds, 300),
        "words": random.choice(np.array(WORDS[: 3 * kinds], dtype="U8"), 100),
        "image": image,
        "gaps": gaps,
        "wave": np.sin(np.linspace(0, 6 * kinds, 500)) + random.normal(0, 0.05, 500),
        "pf": pl.DataFrame({name: list(column) for name, column in person.items()}).with_columns(
            pl.col("joined").cast(pl.Datetime("us"))
        ),
        "pv": pl.DataFrame({name: list(column) for name, column in visit.items()}).with_columns(
            pl.col("day").cast(pl.Datetime("us"))
        ),
        "tx": torch.tensor(random.normal(kinds / 3, 1, (100, 4)), dtype=torch.float32),
        "survey": pd.DataFrame(
            {
                "answer": pd.Categorical.from_codes(
                    random.integers(0, kinds, 60), ["yes", "no", "both", "none"][:kinds]
                ),
                "weight": random.uniform(0.5, 2, 60),
                "wave": np.full(60, 2.0) if kinds == 4 else random.integers(1, 4, 60).astype(float),
                "later": np.full(60, np.nan) if kinds == 4 else random.normal(0, 1, 60),
            }
        ),
        "coefs": np.concatenate([np.zeros(5 - kinds + 2), random.integers(1, 5, kinds + 1)]).astype(float),
        "design": np.column_stack(
            [random.normal(0, 1, 30), np.ones(30) if kinds == 4 else random.normal(0, 1, 30), np.zeros(30)]
        )
        @ np.array([[1.0, 0, 1 if kinds == 3 else 0], [0, 1.0, 0], [0, 0, 1.0]]),
        "holes": np.where(
            (random.random((50, 4)) < 0.1 * kinds) & (np.arange(4) < kinds - 1) | (np.arange(4) == 4 - kinds),
            np.nan,
            random.normal(0, 1, (50, 4)),
        )
        if kinds == 4
        else np.where(
            (random.random((50, 4)) < 0.2) & (np.arange(4) < 2), np.nan, random.normal(0, 1, (50, 4))
        ),
        "nested": pl.DataFrame(
            {
                "who": list(random.choice(TOWNS[:kinds], 40)),
                "scores": [random.integers(0, 9, random.integers(1, kinds + 1)).tolist() for _ in range(40)],
            }
        ),
        "tk": torch.tensor(random.integers(0, 4 * kinds, 100)),
    }


EXPRESSIONS = [
    # pandas: rows by a condition
    "people[people.age >= 40]",
    "people.loc[people.ill, ['age', 'income']]",
    "people.query('age > 30 and income < 4000')",
    "people[people.town.isin(['Bonn', 'Ulm'])]",
    "people[people.income.between(2000, 3000)].income",
    "people.income.dropna()",
    "people.dropna().reset_index(drop=True)",
    "people.dropna(subset=['income'])[['age', 'income']].to_numpy()",
    "people[people.tags.str.contains('heart')].reset_index(drop=True)",
    "people.drop_duplicates('town')",
    "people.drop_duplicates(subset=['town', 'sex'], keep='last')",
    "people[~people.duplicated(['age', 'children'])]",
    "people.drop(people[people.age < 30].index)",
    "people.drop(index=people.index[people.ill])",
    "people[people.income > people.income.mean()]",
    "people.age[people.age > people.age.quantile(0.9)]",
    "people.nlargest(10, 'age', keep='all')",
    "people.select_dtypes('number').dropna().corr(min_periods=5).dropna().index.union(people.age[people.ill].index)",
    "people.where(people.age > 50).dropna(how='all')",
    "people[(people.income - people.income.mean()).abs() < people.income.std()].describe().T.join(people.tags[people.ill], how='outer')",
    "people.set_index('id').loc[1200:1500]",
    "people.set_index('joined').sort_index().loc['2020-03':]",
    "people.loc[people.joined.dt.year == 2020, 'age'].values",
    "people[people.joined < '2020-06-01']",
    "people.loc[people.grade == 'mid'].age.rank().dropna()",
    "people.columns[people.nunique() > 60]",
    "people.loc[:, people.nunique() < 60 - people.children.max()]",
    "people.dropna(axis=1, thresh=188)",
    # pandas: groups
    "people.groupby('town').income.mean()",
    "people.groupby(['town', 'sex'])['age'].agg(['mean', 'max'])",
    "people.groupby('town').size()",
    "people.groupby('grade', observed=True).income.median()",
    "people.groupby('town')",
    "people.groupby('town').groups",
    "people.groupby('town').get_group('Jena')",
    "people.groupby('children').head(3)",
    "people.groupby('age').nth(0)",
    "people.groupby(people.joined.dt.to_period('M')).income.sum()",
    "people.groupby(pd.Grouper(key='joined', freq='ME')).income.sum()",
    "people.groupby('town').income.describe()",
    "people.groupby('sex').town.value_counts()",
    "people.groupby('town').age.quantile([0.25, 0.5, 0.75])",
    "people.groupby(['sex', 'town']).income.mean().unstack()",
    "people.groupby('town', dropna=False).agg(n=('id', 'count'), pay=('income', 'mean')).reset_index()",
    "people.groupby('town').income.nlargest(2)",
    "people.town.value_counts()",
    "people.town.value_counts(normalize=True, dropna=False)",
    "people[['town', 'ill']].value_counts()",
    "people.town.unique()",
    "people.name.mode()",
    "people.town.factorize()[1]",
    "people.town.astype('category').cat.categories",
    "people.grade.cat.remove_unused_categories().cat.categories",
    "people.set_index('town').index.unique()",
    # pandas: reshaping
    "people.pivot_table(index='town', columns='children', values='income', aggfunc='mean')",
    "people.pivot_table(values='age', index='sex', columns='town', aggfunc='count', margins=True)",
    "duet.remote(pd).crosstab(people.town, people.children)",
    "duet.remote(pd).get_dummies(people.town)",
    "duet.remote(pd).get_dummies(people, columns=['sex', 'children'], drop_first=True)",
    "people.tags.str.get_dummies(';')",
    "people.tags.str.split(';', expand=True)",
    "people.name.str.split(' ', expand=True)",
    "people.tags.str.split(';').explode()",
    "people.assign(tag=people.tags.str.split(';')).explode('tag')",
    "people.tags.str.extractall(r'(\\w+)')",
    "people.name.str.partition(' ')[2].str.rsplit(' ', expand=True)",
    "duet.remote(pd).melt(people, id_vars='id', value_vars=['age', 'income']).dropna()",
    "people[['income', 'age']].stack().loc[lambda s: s > 2000]",
    "duet.remote(pd).cut(people.age, [0, 30, 40, 50, 60, 100]).value_counts().loc[lambda s: s > 30]",
    "duet.remote(pd).qcut(people.children, 10, duplicates='drop').cat.categories",
    "duet.remote(pd).cut(people.age, np.arange(0, 100, 5)).cat.remove_unused_categories().cat.categories",
    "duet.remote(pd).merge(people, visits, on='id')",
    "people.merge(visits, on='id', how='left')",
    "people.merge(visits, how='outer', on='id', indicator=True)",
    "people.set_index('id').join(visits.set_index('id'), how='inner')",
    "duet.remote(pd).concat([people[people.ill], people[people.age > 50]])",
    "duet.remote(pd).concat([people.town.value_counts(), people[people.ill].town.value_counts()], axis=1)",
    "visits.pivot_table(index='id', columns='kind', values='cost', aggfunc='sum', fill_value=0)",
    "visits.groupby('id').filter(lambda d: len(d) > 1)",
    "visits[visits.id.isin(people.id)]",
    "visits.sort_values('day').drop_duplicates('id', keep='first')",
    "people.id.loc[lambda s: ~s.isin(visits.id)]",
    "duet.remote(pd).Index(people.id).intersection(duet.remote(pd).Index(visits.id))",
    "people.age.align(visits.cost[visits.cost > 90], join='inner')[0]",
    "people.income[people.ill] + people.income[people.age > 40]",
    # pandas: times
    "ts.loc['2020-02':]",
    "ts['2020-01-20':'2020-01-31']",
    "ts.loc['2020-01']",
    "ts.between_time('08:00', '12:30')",
    "ts.truncate(before='2020-01-25')",
    "ts.resample('D').mean()",
    "ts.resample('W').sum().dropna()",
    "ts[~ts.index.duplicated()].resample('h').ffill()",
    "daily.asfreq('6h').loc['2020-02-10':]",
    "ts[ts.index.month == 1]",
    "ts[ts.index.dayofweek < 5]",
    "ts.groupby(ts.index.date).max()",
    "ts.groupby([ts.index.month, ts.index.hour]).mean()",
    "ts.rolling('2D', min_periods=20).mean().dropna()",
    "ts[ts.diff() > 10]",
    "ts.to_period('D').groupby(level=0).count()",
    "ts[~ts.index.duplicated()]",
    "sensors.resample('12h').agg({'temp': 'mean', 'hum': 'max'})",
    "sensors.groupby('station').resample('D').temp.mean()",
    "sensors.between_time('22:00', '06:00').temp",
    "sensors.loc['2020-02-01':'2020-02-10', 'temp']",
    "sensors[sensors.temp > sensors.temp.rolling(24).mean()]",
    "sensors.pivot_table(index=sensors.index.date, columns='station', values='temp')",
    "sensors.at_time('12:00')",
    "daily.loc['2020-01':'2020-02-20']",
    "daily[daily.index < '2020-03-01']",
    "daily[daily > 1].resample('W').mean()",
    "daily[daily > 0].index",
    "daily.asof(daily[daily > 0].index)",
    "daily.truncate(after='2020-04-30').to_frame()",
    "daily.groupby((daily > 0).ne((daily > 0).shift()).cumsum()).size()",
    "sales.loc['Bonn']",
    "sales.drop('Jena')",
    "sales.groupby(level='town').sum()",
    "sales.groupby('town').units.apply('max')",
    "sales[~sales.index.duplicated()]",
    "sales.loc[sales.units > 10].groupby('town').price.mean()",
    "sales.filter(like='n', axis=0)",
    "sales.filter(regex='^[BJ]', axis=0)",
    "panel.loc['Ulm']",
    "panel.xs(2019, level='year')",
    "panel.groupby(level=['town', 'year']).mean().unstack('year')",
    "panel.index.get_level_values('year').unique()",
    "panel.index.levels[1]",
    "panel[panel > 0].droplevel('town')",
    # NumPy
    "v[v > 0]",
    "x[y == 1]",
    "x[x[:, 0] > 3, :2]",
    "np.unique(k)",
    "np.unique(k, return_counts=True)[1]",
    "np.unique(words)",
    "np.unique(image, axis=0)",
    "np.nonzero(v > 1)[0]",
    "np.where(v < 0)[0]",
    "np.argwhere(image)",
    "np.flatnonzero(k == 3)",
    "np.compress(v > 1, v)",
    "np.extract(k % 2 == 0, k)",
    "np.delete(v, np.where(v > 2)[0])",
    "np.histogram(v, bins='auto')[0]",
    "np.histogram_bin_edges(v, 'fd')",
    "np.bincount(k)",
    "np.union1d(k, j)",
    "np.intersect1d(k, j)",
    "np.setdiff1d(k, j)",
    "np.trim_zeros(np.where(k > 4, k, 0))",
    "np.repeat(v, k)",
    "np.arange(0, k.max())",
    "x[:, x.std(axis=0) > 1]",
    "np.split(v, np.flatnonzero(np.diff(v > 0)))",
    "gaps[~np.isnan(gaps).any(axis=1)]",
    "gaps[np.isfinite(gaps)]",
    "np.ma.masked_invalid(gaps).compressed()",
    "image.nonzero()[1]",
    "image[image.any(axis=1)][:, image.any(axis=0)]",
    "np.zeros((y.max() + 1, x.shape[1]))",
    "v[np.abs(v - np.mean(v)) < np.std(v)]",
    "np.searchsorted(np.unique(k), np.unique(j))",
    "np.concatenate([v[v > 2], v[v < 0]])",
    "np.sort(words[np.char.str_len(words) > 4])",
    # Polars
    "pf.filter(pl.col('age') > 40)",
    "pf.filter(pl.col('town').is_in(['Bonn', 'Ulm']) & pl.col('ill'))",
    "pf.drop_nulls()",
    "pf.group_by('town').agg(pl.col('income').mean())",
    "pf.group_by('town', 'sex').len()",
    "pf.unique('town')",
    "pf.unique(subset=['age', 'sex'], keep='first')",
    "pf['town'].unique()",
    "pf['town'].value_counts()",
    "pf.select(pl.col('children').unique())",
    "pf.select(pl.col('age').filter(pl.col('ill')))",
    "pf.pivot('children', index='town', values='income', aggregate_function='mean')",
    "pf.to_dummies('town')",
    "pf.join(pv, on='id')",
    "pf.join(pv, on='id', how='left')",
    "pf.join(pv, on='id', how='anti')",
    "pf.join(pv, on='id', how='semi')",
    "pf.with_columns(pl.col('tags').str.split(';')).explode('tags')",
    "pf.sort('joined').group_by_dynamic('joined', every='1mo').agg(pl.len())",
    "pf.sort('joined').upsample('joined', every='1d')",
    "pf.lazy().filter(pl.col('income') > 2500).select('id', 'income').collect()",
    "pf.partition_by('town')",
    "pf['name'].str.split(' ').explode()",
    "pf.filter(pl.col('income') > pl.col('income').mean().over('town'))",
    "pf['age'].filter(pf['ill']).to_numpy()",
    "pf['children'].arg_unique()",
    "pf['ill'].arg_true()",
    "pf.filter(pl.col('ill')).sample(fraction=0.5, seed=1)",
    "pf['income'].drop_nans()",
    "pv.group_by('kind').agg(pl.col('cost').sum()).sort('kind')",
    "pv.filter(pl.col('day').dt.month() == 2)",
    "pv['kind'].unique_counts()",
    "pv.group_by(pl.col('day').dt.truncate('1w')).agg(pl.len())",
    # scikit-learn
    "duet.remote(sklearn.preprocessing.OneHotEncoder()).fit_transform(people[['town', 'sex']])",
    "duet.remote(sklearn.preprocessing.OneHotEncoder(sparse_output=False)).fit_transform(people[['children']])",
    "duet.remote(sklearn.preprocessing.OneHotEncoder(drop='first')).fit(people[['sex', 'children']]).get_feature_names_out()",
    "duet.remote(sklearn.preprocessing.OrdinalEncoder()).fit(people[['sex']]).categories_[0]",
    "duet.remote(sklearn.preprocessing.LabelEncoder()).fit(words).classes_",
    "duet.remote(sklearn.preprocessing.LabelBinarizer()).fit_transform(y)",
    "duet.remote(sklearn.preprocessing.MultiLabelBinarizer()).fit_transform(people.tags.str.split(';'))",
    "duet.remote(sklearn.feature_extraction.text.CountVectorizer()).fit_transform(docs)",
    "duet.remote(sklearn.feature_extraction.text.CountVectorizer(ngram_range=(1, 2), min_df=3)).fit(docs).vocabulary_",
    "duet.remote(sklearn.feature_extraction.text.TfidfVectorizer(min_df=2)).fit_transform(docs).toarray()",
    "duet.remote(sklearn.feature_extraction.text.TfidfVectorizer(max_df=0.9)).fit(docs).get_feature_names_out()",
    "duet.remote(sklearn.feature_selection.VarianceThreshold(0.5)).fit_transform(x)",
    "duet.remote(sklearn.feature_selection.SelectFpr(alpha=0.3)).fit_transform(x, y)",
    "duet.remote(sklearn.feature_selection.SelectFromModel(sklearn.linear_model.Lasso(0.02))).fit_transform(x, y)",
    "duet.remote(sklearn.feature_selection.VarianceThreshold(0.5)).fit(x).get_support(indices=True)",
    "duet.remote(sklearn.decomposition.PCA(0.98)).fit_transform(x)",
    "duet.remote(sklearn.decomposition.PCA(n_components=0.98)).fit(x).explained_variance_ratio_",
    "duet.remote(sklearn.linear_model.LogisticRegression(max_iter=500)).fit(x, y).coef_",
    "duet.remote(sklearn.linear_model.LogisticRegression(max_iter=500)).fit(x, y).classes_",
    "duet.remote(sklearn.linear_model.LogisticRegression(max_iter=500)).fit(x, y).predict_proba(x)",
    "duet.remote(sklearn.naive_bayes.GaussianNB()).fit(x, y).theta_",
    "duet.remote(sklearn.tree.DecisionTreeClassifier(max_depth=3, random_state=0)).fit(x, y).predict_proba(x)",
    "duet.remote(sklearn.svm.SVC()).fit(x, y).support_vectors_",
    "duet.remote(sklearn.svm.SVC(decision_function_shape='ovo')).fit(x, y).decision_function(x)",
    "duet.remote(sklearn.cluster.DBSCAN(eps=1.5, min_samples=4)).fit(x).core_sample_indices_",
    "duet.remote(sklearn.cluster.DBSCAN(eps=1.5, min_samples=4)).fit(x).components_",
    "duet.remote(np).unique(duet.remote(sklearn.cluster.DBSCAN(eps=1.5, min_samples=4)).fit_predict(x))",
    "duet.remote(sklearn.cluster.MeanShift(bandwidth=1.5)).fit(x).cluster_centers_",
    "duet.remote(sklearn.cluster.AffinityPropagation(damping=0.8, random_state=0)).fit(x).cluster_centers_indices_",
    "x[duet.remote(sklearn.cluster.KMeans(3, n_init=1, random_state=0)).fit(x).labels_ == 0]",
    "duet.remote(sklearn.metrics).confusion_matrix(y, (x[:, 0] > 0).astype(int))",
    "duet.remote(sklearn.metrics).roc_curve(y > 0, x[:, 0])[0]",
    "duet.remote(sklearn.metrics).precision_recall_curve(y > 0, x[:, 1].round(1))[2]",
    "duet.remote(sklearn.metrics).f1_score(y, np.zeros_like(y), average=None)",
    "duet.remote(sklearn.preprocessing.KBinsDiscretizer(5, encode='onehot-dense', quantile_method='averaged_inverted_cdf')).fit_transform(np.clip(x, 0, 1))",
    "duet.remote(sklearn.preprocessing).label_binarize(y, classes=np.unique(y))",
    "duet.remote(sklearn.ensemble.IsolationForest(random_state=0, n_estimators=10)).fit_predict(x)[x[:, 1] > 4]",
    "duet.remote(sklearn.isotonic.IsotonicRegression()).fit(x[:, 0], y).X_thresholds_",
    "duet.remote(sklearn.neighbors.NearestNeighbors(radius=1.0)).fit(x).radius_neighbors_graph(x).indices",
    # SciPy
    "duet.remote(scipy.stats).mode(k, keepdims=False).mode[np.newaxis].repeat(k.max())",
    "duet.remote(scipy.signal).find_peaks(wave)[0]",
    "duet.remote(scipy.signal).find_peaks(wave, height=0.9, distance=5)[0]",
    "duet.remote(scipy.signal).argrelextrema(wave, np.greater)[0]",
    "duet.remote(scipy.ndimage).find_objects(duet.remote(scipy.ndimage).label(image)[0])",
    "np.unique(duet.remote(scipy.ndimage).label(image)[0])",
    "duet.remote(scipy.sparse).csr_matrix(image).data",
    "duet.remote(scipy.sparse).coo_matrix(image).row",
    "duet.remote(scipy.sparse).coo_array((v, (k, j)))",
    "duet.remote(scipy.sparse).find(image)[2]",
    "duet.remote(scipy.spatial).ConvexHull(x[:, :2]).vertices",
    "duet.remote(scipy.spatial).Delaunay(x[:, :2]).simplices",
    "duet.remote(scipy.spatial).cKDTree(x).query_pairs(0.8, output_type='ndarray')",
    "duet.remote(scipy.stats).ecdf(k).cdf.quantiles",
    "duet.remote(scipy.stats.contingency).crosstab(k, j).count",
    "duet.remote(scipy.stats).rankdata(v[v > 1])",
    "duet.remote(scipy.stats).sigmaclip(v, 2, 2)[0]",
    "duet.remote(scipy.stats).trimboth(v[v > 0], 0.1)",
    "duet.remote(scipy.stats).cumfreq(v[v > 0]).cumcount[:k.max()]",
    "np.unique(duet.remote(scipy.cluster.hierarchy).fcluster(duet.remote(scipy.cluster.hierarchy).linkage(x), 1.2, 'distance'))",
    # statsmodels
    "duet.remote(statsmodels.formula.api).ols('income ~ age + C(town)', data=people).fit().params",
    "duet.remote(statsmodels.formula.api).ols('income ~ age', data=people).fit().resid",
    "duet.remote(statsmodels.formula.api).ols('age ~ C(children)', data=people).fit().pvalues",
    "duet.remote(statsmodels.api).OLS(people.income, people[['age']], missing='drop').fit().fittedvalues",
    "duet.remote(statsmodels.api).nonparametric.lowess(people.income, people.age)",
    "duet.remote(statsmodels.api).MNLogit(y, x).fit(disp=0).params",
    "duet.remote(statsmodels.stats.multicomp).pairwise_tukeyhsd(people.age, people.children).pvalues",
    "duet.remote(statsmodels.api).distributions.ECDF(k[k > 3]).x",
    "duet.remote(statsmodels.api).tsa.acf(v[v > 0], nlags=290)",
    # torch
    "tx[tx[:, 0] > 0]",
    "torch.unique(tk)",
    "torch.unique(tk, return_counts=True)[1]",
    "torch.nonzero(tx > 1)",
    "torch.masked_select(tx, tx > 0.5)",
    "torch.bincount(tk)",
    "torch.nn.functional.one_hot(tk)",
    "torch.where(tk == 2)[0]",
    "tx[tk % 3 == 0].sum(dim=1)",
    "torch.repeat_interleave(tx, tk, dim=0)",
    "torch.unique_consecutive(tk)",
    # pandas: once more
    "sales.filter(regex='l$', axis='index')",
    "sales.T.filter(regex='^B')",
    "sales.T.filter(like='Bonn', axis=1)",
    "people.pivot_table(index='sex', columns='town', values='age').filter(regex='^[BK]')",
    "sales.loc[['Bonn', 'Jena']]",
    "sales.sort_index().loc['Bonn':'Jena']",
    "sales.sort_index().truncate(before='Jena')",
    "sales.set_index('units').sort_index().loc[10:20]",
    "sales.units.to_dict()",
    "people.set_index('town').age.to_dict()",
    "people.drop_duplicates('age').set_index('age').to_dict('index')",
    "people[people.ill].head(70)",
    "people[people.age > 50].tail(90)",
    "people[people.ill].to_dict('records')",
    "people[people.ill].town.tolist()",
    "people.isna().sum().loc[lambda s: s > 12]",
    "people.age.compare(people.children * 10)",
    "people[['age']].compare(people[['children']].rename(columns={'children': 'age'}) * 12)",
    "people.groupby('town').income.rolling(3).mean()",
    "people.groupby('town').income.expanding().max()",
    "people.groupby('town').tail(2)",
    "people.groupby('town').sample(n=2, random_state=1)",
    "people.groupby('town').sample(frac=0.3, random_state=1)",
    "people.groupby('town')[['age', 'income']].corr()",
    "people.groupby('town').income.agg('mean').reset_index().sort_values('income').head(4)",
    "people.groupby('town').indices",
    "people.groupby('town').age.unique()",
    "people.groupby(people.joined.dt.strftime('%Y-%m')).size()",
    "people.groupby('town').income.transform('mean').dropna()",
    "people[people.groupby('children').age.transform('count') > 40]",
    "people.resample('MS', on='joined').income.sum()",
    "people.nlargest(195, 'income').income.dropna()",
    "people.tags.str.findall('[hl][a-z]+').explode().dropna()",
    "people.name.str.extractall('([A-Z])').unstack()",
    "people.town.str.get_dummies()",
    "people.town.dropna().str.upper()",
    "people.town.sort_values().unique()",
    "people.tags.str.split(';').str.len().value_counts().sort_index()",
    "people.town.value_counts()[people.town.value_counts() > 45]",
    "people.town.value_counts().head(4)",
    "people.town.value_counts().nlargest(4).index",
    "people.town.drop_duplicates().reset_index(drop=True)",
    "people.age.sort_values().drop_duplicates()",
    "duet.remote(pd).unique(people.town)",
    "duet.remote(pd).factorize(people.town)[1]",
    "duet.remote(pd).get_dummies(people[['town']], dummy_na=True)",
    "duet.remote(pd).crosstab(people.town, [people.sex, people.ill], margins=True)",
    "duet.remote(pd).crosstab(people.sex, people.ill, normalize='index')",
    "duet.remote(pd).concat([people, duet.remote(pd).get_dummies(people.sex)], axis=1)",
    "duet.remote(pd).merge_ordered(people, visits, on='id')",
    "duet.remote(pd).lreshape(people, {'number': ['age', 'income']})",
    "duet.remote(pd).date_range(daily.index.min(), '2020-12-31')",
    "duet.remote(pd).to_numeric(people.name.str.len()).loc[lambda s: s > 12]",
    "duet.remote(pd).Categorical(people.town).categories",
    "duet.remote(pd).Series(k).value_counts()",
    "duet.remote(pd).DataFrame({'k': k, 'v': v}).groupby('k').v.mean()",
    "duet.remote(pd).Series(v[v > 0])",
    "people.reindex(range(0, 200, 2)).dropna()",
    "daily.reindex(ts.resample('D').mean().index)",
    "daily['2020-02-01':]",
    "daily.loc['2020-04-15':'2020-06-15']",
    "daily.loc[pd.Timestamp('2020-03-15'):]",
    "daily[:'2020-02-14']",
    "daily.truncate('2020-02-01', '2020-05-15')",
    "daily.resample('W').mean().loc[:'2020-03-15']",
    "daily.rolling(7).mean().dropna().loc[lambda s: s > 0]",
    "daily.between_time('00:00', '12:00').loc['2020-03':]",
    "daily.shift(5, freq='D').loc['2020-02-10':]",
    "ts.resample('D').ohlc()",
    "ts.resample('6h').count()",
    "ts.resample('D').agg(['min', 'max'])",
    "ts.resample('D').last().diff().dropna()",
    "ts.index.normalize().unique()",
    "ts.index.floor('D').drop_duplicates()",
    "ts.tz_localize('UTC').tz_convert('Europe/Berlin').between_time('00:00', '06:00')",
    "ts.index.to_period('W').unique()",
    "ts.index[ts > 100]",
    "ts.groupby(pd.Grouper(freq='2D')).max()",
    "ts.groupby(ts.index.isocalendar().week).mean()",
    "sensors.groupby(['station', pd.Grouper(freq='W')]).temp.mean().unstack(0)",
    "sensors.groupby('station').temp.rolling('2D').mean().loc[lambda s: s > 18]",
    "sensors.set_index('station', append=True).temp.groupby(level=1).size()",
    "sensors.loc[sensors.hum.gt(60) & sensors.temp.lt(20)]",
    "sensors.eval('temp * hum').loc[lambda s: s > 1000]",
    "panel.groupby('year').mean()",
    "panel.reset_index().pivot_table(index='town', columns='year', values='growth')",
    "panel.index.unique()",
    "panel.index.remove_unused_levels().levels[0]",
    "panel.sort_index().loc['Bonn':'Jena']",
    "panel[panel.index.get_level_values('town') == 'Ulm']",
    "panel.loc[panel.index.isin([2018, 2020], level='year')]",
    "panel.groupby(level=0).head(5)",
    "survey.answer.cat.categories",
    "survey.groupby('answer', observed=False).weight.sum()",
    "survey.answer.value_counts()",
    "duet.remote(pd).get_dummies(survey.answer)",
    "duet.remote(pd).crosstab(survey.answer, survey.weight > 1)",
    "survey.pivot_table(index='answer', values='weight', observed=False)",
    "survey.answer.cat.codes.unique()",
    "survey.answer.dtype.categories",
    "survey.dropna(axis=1, how='all')",
    "survey.dropna(how='any', axis='columns')",
    # NumPy: once more
    "np.roots(coefs)",
    "np.trim_zeros(coefs, 'f')",
    "np.poly1d(coefs).coeffs",
    "np.polynomial.polynomial.polyroots(coefs[::-1])",
    "np.polynomial.polynomial.polytrim(coefs[::-1])",
    "np.polymul(coefs, [1.0, -2.0])",
    "np.insert(v, np.flatnonzero(v > 3), 0.0)",
    "x[np.ix_(y == 1, [0, 1])]",
    "x.take(np.flatnonzero(y == 1), axis=0)",
    "np.take(v, np.argwhere(v > 1).ravel())",
    "np.unique(x.round(), axis=0)",
    "np.unique_values(k)",
    "np.unique_counts(k).counts",
    "np.setxor1d(k, j)",
    "np.diff(np.flatnonzero(v > 1))",
    "np.convolve(v[v > 0], np.ones(5) / 5, 'valid')",
    "np.histogram(k, bins=np.arange(0, k.max() + 2))[0]",
    "np.histogram(v, bins='fd')[1]",
    "np.histogram(v, bins='scott')[0]",
    "np.fft.rfft(v[v > 0])",
    "np.cov(x[:, x.var(axis=0) > 0.5], rowvar=False)",
    "np.vstack([x[y == 0], x[y == 2]])",
    "np.hstack((v[v > 2], v[v < 1]))",
    "np.append(v, v[v > 2])",
    "np.split(v, [int(3)])[0][v[:3] > 2]",
    "np.array_split(v[v > 0], 3)[0]",
    "np.lexsort((k[k > 2], j[k > 2]))",
    "np.argsort(v[v > 1])",
    "np.outer(np.unique(k), np.ones(3))",
    "np.transpose(np.nonzero(x > 3))",
    "np.bincount(y, weights=x[:, 0])",
    "np.add.reduceat(v, np.flatnonzero(np.diff(k)))",
    "np.ediff1d(np.unique(v.round(1)))",
    "v[np.isin(k, [1, 2, 3])]",
    "v[k.argsort()][np.sort(k) > 4]",
    "image[np.any(image, axis=1)]",
    "image[:, image.sum(axis=0) > 0]",
    "words[np.char.startswith(words, 'h')]",
    "np.unique(words, return_index=True)[1]",
    # Polars: once more
    "pf.remove(pl.col('ill'))",
    "pf.filter(pl.col('joined') >= pl.datetime(2020, 6, 1))",
    "pf.filter(pl.col('joined').is_between(pl.datetime(2020, 3, 1), pl.datetime(2020, 6, 1)))",
    "pf.filter(pl.col('name').str.contains('^A'))",
    "pf.filter(ill=True)",
    "pf.filter(pl.col('age').is_first_distinct())",
    "pf.filter(pl.len().over('town') > 45)",
    "pf.select(pl.col('income').drop_nulls().drop_nans())",
    "pf.select(pl.col('town').drop_nulls())",
    "pf.select(pl.col('town').value_counts()).unnest('town')",
    "pf.select(pl.arg_where(pl.col('age') > 50))",
    "pf.select(pl.int_range(0, pl.col('age').max()))",
    "pf.select(pl.datetime_range(pl.col('joined').min(), pl.col('joined').max(), '1w'))",
    "pf.select(pl.col('age').repeat_by('children').explode())",
    "pf.select(pl.col('tags').str.split(';').explode())",
    "pf.select(pl.col('name').str.extract_all('[A-Z]').explode())",
    "pf.select(pl.col('age').head(pl.col('ill').sum()))",
    "pf.select(pl.col('age').gather(pl.col('ill').arg_true()))",
    "pf.select(pl.col('age').sort_by('income').filter(pl.col('ill')).head(70))",
    "pf.select(pl.col('children').unique_counts())",
    "pf.select(pl.col('ill').rle()).unnest('ill')",
    "pf.group_by('town').head(2)",
    "pf.group_by('town').agg(pl.col('id')).explode('id').drop_nulls()",
    "pf.group_by('town', maintain_order=True).first()",
    "pf.group_by('sex').agg(pl.col('town').unique()).explode('town')",
    "pf.sort('joined').group_by_dynamic('joined', every='1w').agg(pl.col('income').sum())",
    "pf.group_by('town').agg(pl.col('income').top_k(2)).explode('income')",
    "pf.pivot('town', index='sex', values='age', aggregate_function='len')",
    "pf.pivot(on='sex', index='children', values='income', aggregate_function='median')",
    "pf.to_dummies(['sex', 'town'], drop_first=True)",
    "pf['town'].to_dummies()",
    "pf.join(pv, on='id', how='full')",
    "pf.join(pv.group_by('id').agg(pl.col('cost').sum()), on='id')",
    "pf.sort('joined').join_asof(pv.sort('day'), left_on='joined', right_on='day').drop_nulls('kind')",
    "duet.remote(pl).concat([pf.filter(pl.col('ill')), pf.filter(pl.col('age') > 50)])",
    "pf.partition_by('town', as_dict=True)",
    "pf.rows_by_key('town')",
    "pf.unique(['town', 'sex', 'children']).sort('town')",
    "pf.filter(pl.col('ill')).rows()",
    "pf.filter(pl.col('ill')).to_dicts()",
    "pf.filter(pl.col('ill')).to_pandas()",
    "pf.filter(pl.col('ill'))['town'].to_list()",
    "pf.filter(pl.col('ill')).head(70)",
    "pf.filter(pl.col('ill')).slice(10, 60)",
    "pf['age'].unique().sort()",
    "pf['town'].drop_nulls()",
    "pf['income'].filter(pf['income'] > 3000)",
    "pf['tags'].str.split(';').list.explode()",
    "pf['joined'].dt.truncate('1mo').unique()",
    "pf[[s for s in ['age', 'income']]].filter(pl.col('income').is_not_nan())",
    "pf.lazy().group_by('town').agg(pl.len()).collect()",
    "pf.lazy().unique('sex').collect()",
    "pf.lazy().drop_nulls().tail(190).collect()",
    "pf.unpivot(['age', 'income'], index='id').filter(pl.col('value') > 50)",
    "pf.filter(pl.col('ill')).select('age', 'children').transpose()",
    "nested.explode('scores')",
    "nested['scores'].explode()",
    "nested.select(pl.col('scores').list.explode())",
    "nested.with_columns(pl.col('scores').list.to_struct(fields=['a', 'b'])).unnest('scores').drop_nulls()",
    "nested.select(pl.col('scores').list.eval(pl.element() * 2).explode())",
    # scikit-learn: once more
    "duet.remote(sklearn.impute.SimpleImputer()).fit_transform(holes)",
    "duet.remote(sklearn.impute.KNNImputer()).fit_transform(holes)",
    "duet.remote(sklearn.impute.MissingIndicator()).fit_transform(holes)",
    "duet.remote(sklearn.impute.SimpleImputer()).fit(holes).get_feature_names_out()",
    "duet.remote(sklearn.discriminant_analysis.LinearDiscriminantAnalysis()).fit_transform(x, y)",
    "duet.remote(sklearn.discriminant_analysis.LinearDiscriminantAnalysis()).fit(x, y).means_",
    "duet.remote(sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis()).fit(x, y).priors_",
    "duet.remote(sklearn.preprocessing.TargetEncoder()).fit(people[['town']], people.children).encodings_",
    "duet.remote(sklearn.preprocessing.TargetEncoder(target_type='multiclass')).fit_transform(people[['sex']], people.children)",
    "duet.remote(sklearn.preprocessing.OneHotEncoder(min_frequency=50, handle_unknown='infrequent_if_exist')).fit_transform(people[['town', 'children']])",
    "duet.remote(sklearn.preprocessing.OneHotEncoder()).fit(people[['sex']]).transform(people[['sex']]).toarray()",
    "duet.remote(sklearn.preprocessing.LabelBinarizer()).fit(words).transform(words)",
    "duet.remote(sklearn.compose.make_column_transformer((sklearn.preprocessing.OneHotEncoder(), ['sex']), remainder='drop')).fit_transform(people)",
    "duet.remote(sklearn.pipeline.make_pipeline(sklearn.preprocessing.StandardScaler(), sklearn.linear_model.LogisticRegression())).fit(x, y).predict_proba(x)",
    "duet.remote(sklearn.feature_selection.RFECV(sklearn.linear_model.LinearRegression(), cv=3)).fit_transform(x, y)",
    "duet.remote(sklearn.linear_model).lars_path(x, y.astype(float), method='lasso', alpha_min=0.02)[0]",
    "duet.remote(sklearn.linear_model.LassoLars(alpha=0.02)).fit(x, y).active_",
    "duet.remote(sklearn.linear_model.LassoLars(alpha=0.02)).fit(x, y).alphas_",
    "duet.remote(sklearn.linear_model.BayesianRidge(compute_score=True)).fit(x, y).scores_",
    "duet.remote(sklearn.linear_model.ARDRegression(compute_score=True)).fit(x, y).scores_",
    "duet.remote(sklearn.linear_model.RidgeClassifier()).fit(x, y).coef_",
    "duet.remote(sklearn.linear_model.SGDClassifier(random_state=0)).fit(x, y).intercept_",
    "duet.remote(sklearn.linear_model.Perceptron()).fit(x, y).coef_",
    "duet.remote(sklearn.linear_model.LogisticRegression()).fit(x, y).decision_function(x)",
    "duet.remote(sklearn.svm.LinearSVC()).fit(x, y).coef_",
    "duet.remote(sklearn.svm.SVC()).fit(x, y).n_support_",
    "duet.remote(sklearn.svm.SVC()).fit(x, y).dual_coef_",
    "duet.remote(sklearn.svm.SVC()).fit(x, y).support_",
    "duet.remote(sklearn.svm.SVR(epsilon=0.5)).fit(x, y).support_vectors_",
    "duet.remote(sklearn.neural_network.MLPClassifier((4,), max_iter=20, random_state=0)).fit(x, y).predict_proba(x)",
    "duet.remote(sklearn.neural_network.MLPClassifier((4,), max_iter=20, random_state=0)).fit(x, y).intercepts_[1]",
    "duet.remote(sklearn.ensemble.GradientBoostingRegressor(n_iter_no_change=3, random_state=0)).fit(x, y).train_score_",
    "duet.remote(sklearn.ensemble.RandomForestClassifier(10, random_state=0)).fit(x, y).predict_proba(x)",
    "duet.remote(sklearn.ensemble.RandomForestClassifier(10, random_state=0)).fit(x, y).classes_",
    "duet.remote(sklearn.ensemble.HistGradientBoostingClassifier(max_iter=5)).fit(x, y).predict_proba(x)",
    "duet.remote(sklearn.tree.DecisionTreeRegressor(random_state=0)).fit(x, y).tree_.feature",
    "duet.remote(sklearn.tree.DecisionTreeClassifier(random_state=0)).fit(x, y).cost_complexity_pruning_path(x, y).ccp_alphas",
    "duet.remote(sklearn.neighbors.KNeighborsClassifier()).fit(x, y).predict_proba(x)",
    "duet.remote(sklearn.neighbors.NearestCentroid()).fit(x, y).centroids_",
    "duet.remote(sklearn.neighbors.NearestNeighbors(radius=1.0)).fit(x).radius_neighbors(x[:1])[0][0]",
    "duet.remote(sklearn.naive_bayes.GaussianNB()).fit(x, y).class_count_",
    "duet.remote(sklearn.naive_bayes.BernoulliNB()).fit(x, y).feature_log_prob_",
    "duet.remote(sklearn.naive_bayes.GaussianNB()).fit(x, y).predict_log_proba(x[:5])",
    "duet.remote(sklearn.cluster.Birch(threshold=0.8, n_clusters=None)).fit(x).subcluster_centers_",
    "duet.remote(sklearn.cluster.HDBSCAN(min_cluster_size=5, store_centers='centroid', copy=True)).fit(x).centroids_",
    "duet.remote(sklearn.metrics).precision_recall_fscore_support(y, (x[:, 0] > 2).astype(int), zero_division=0)[0]",
    "duet.remote(sklearn.metrics).recall_score(y, y, average=None)",
    "duet.remote(sklearn.metrics).multilabel_confusion_matrix(y, y)",
    "duet.remote(sklearn.metrics).classification_report(y, y, output_dict=True)",
    "duet.remote(sklearn.metrics).det_curve(y > 0, x[:, 0])[0]",
    "duet.remote(sklearn.metrics).roc_curve(y == 1, x[:, 1].round())[2]",
    "duet.remote(sklearn.metrics.cluster).contingency_matrix(y, k[:120])",
    "duet.remote(sklearn.calibration).calibration_curve(y > 0, np.clip(x[:, 1] / 20 + 0.2, 0, 1), n_bins=10)[0]",
    "duet.remote(sklearn.utils.class_weight).compute_class_weight('balanced', classes=np.unique(y), y=y)",
    "duet.remote(sklearn.model_selection).cross_val_predict(sklearn.linear_model.LogisticRegression(), x, y, method='predict_proba', cv=3)",
    "duet.remote(sklearn.model_selection).train_test_split(people[people.ill], test_size=0.25, random_state=0)[0]",
    "duet.remote(sklearn.model_selection).cross_val_score(sklearn.linear_model.LinearRegression(), x, y, groups=y, cv=sklearn.model_selection.LeaveOneGroupOut())",
    "duet.remote(sklearn.inspection).partial_dependence(sklearn.linear_model.LinearRegression().fit([[0.0], [1.0]], [0, 1]), y[:, None].astype(float), [0])['average']",
    "duet.remote(sklearn.multiclass.OneVsRestClassifier(sklearn.linear_model.LogisticRegression())).fit(x, y).classes_",
    "duet.remote(sklearn.multiclass.OneVsOneClassifier(sklearn.linear_model.LogisticRegression())).fit(x, y).decision_function(x)",
    "duet.remote(sklearn.feature_extraction.text.CountVectorizer(binary=True)).fit_transform(people.name)",
    "duet.remote(sklearn.feature_extraction.text.TfidfVectorizer(stop_words=['left', 'right'])).fit(people.tags).idf_",
    "duet.remote(sklearn.decomposition.LatentDirichletAllocation(3, max_iter=2, random_state=0)).fit(duet.remote(sklearn.feature_extraction.text.CountVectorizer()).fit_transform(docs)).components_",
    # SciPy: once more
    "duet.remote(scipy.interpolate).splrep(np.arange(500), wave, s=2)[0]",
    "duet.remote(scipy.interpolate).UnivariateSpline(np.arange(500), wave, s=2).get_knots()",
    "duet.remote(scipy.signal).peak_widths(wave, duet.remote(scipy.signal).find_peaks(wave, prominence=0.5)[0])[0]",
    "duet.remote(scipy.signal).peak_prominences(wave, duet.remote(scipy.signal).find_peaks(wave)[0])[0]",
    "duet.remote(scipy.signal).find_peaks(wave, prominence=0.3)[1]['prominences']",
    "duet.remote(scipy.signal).argrelmax(wave, order=5)[0]",
    "duet.remote(scipy.signal).find_peaks_cwt(wave, np.arange(5, 15))",
    "duet.remote(scipy.signal).detrend(wave[wave > 0])",
    "duet.remote(scipy.signal).tf2zpk(coefs, [1.0, 0.5])[0]",
    "duet.remote(scipy.ndimage).sum_labels(image, image, index=np.unique(image))",
    "duet.remote(scipy.ndimage).center_of_mass(image, duet.remote(scipy.ndimage).label(image)[0], np.unique(duet.remote(scipy.ndimage).label(image)[0]))",
    "duet.remote(scipy.cluster.vq).kmeans(x[:, :2].round(-1), 4, seed=0)[0]",
    "duet.remote(scipy.stats).gaussian_kde(v[v > 0]).dataset",
    "duet.remote(scipy.stats).zscore(v[v > 0])",
    "duet.remote(scipy.stats).zscore(people.income.dropna())",
    "duet.remote(scipy.stats).chi2_contingency(duet.remote(pd).crosstab(people.town, people.sex)).expected_freq",
    "duet.remote(scipy.stats).false_discovery_control(np.abs(v[np.abs(v) < 1]))",
    "duet.remote(scipy.stats).probplot(v[v > 0])[0][0]",
    "duet.remote(scipy.spatial.distance).pdist(x[y == 1])",
    "duet.remote(scipy.spatial.distance).cdist(x[y == 1], x[:3])",
    "duet.remote(scipy.spatial).KDTree(x).query_ball_point(x[0], 3.0)",
    "duet.remote(scipy.fft).rfft(v[v > 0])",
    "duet.remote(scipy.integrate).cumulative_trapezoid(v[v > 0])",
    # statsmodels: once more
    "duet.remote(statsmodels.api).add_constant(design)",
    "duet.remote(statsmodels.api).add_constant(survey[['weight', 'wave']])",
    "duet.remote(statsmodels.formula.api).ols('income ~ age + ill', data=people.assign(ill=people.ill.astype(float))).fit().fittedvalues",
    "duet.remote(statsmodels.formula.api).ols('income ~ age', data=people).fit().get_influence().cooks_distance[0]",
    "duet.remote(statsmodels.formula.api).ols('income ~ age', data=people).fit().model.exog",
    "duet.remote(statsmodels.formula.api).rlm('income ~ age', data=people).fit().weights",
    "duet.remote(statsmodels.api).duration.SurvfuncRight(people.age, people.ill).surv_prob",
    "duet.remote(statsmodels.api).SurvfuncRight(people.age, people.ill.astype(int)).surv_times",
    "duet.remote(statsmodels.api).MNLogit(y, x).fit(disp=0).predict(x)",
    "duet.remote(statsmodels.api).stats.Table.from_data(people[['town', 'sex']]).table",
    "duet.remote(statsmodels.api).stats.multipletests(np.abs(v[np.abs(v) < 1]))[1]",
    "duet.remote(statsmodels.tsa.ar_model).AutoReg(v[v > 0], 2).fit().fittedvalues",
    "duet.remote(statsmodels.api).tsa.seasonal_decompose(ts.resample('D').mean().ffill(), period=7).trend",
    # torch: once more
    "torch.argwhere(tx > 1)",
    "torch.unique(tx.round(), dim=0)",
    "torch.nonzero(tx > 1, as_tuple=True)[0]",
    "tx[torch.isin(tk, torch.tensor([1, 2, 3]))]",
    "torch.cat([tx[tk > 5], tx[tk < 2]])",
    "tx.relu().to_sparse().values()",
    "tx.relu().to_sparse().indices()",
    "torch.index_select(tx, 0, torch.nonzero(tk > 3).squeeze(1))",
    "torch.repeat_interleave(tk)",
    "torch.combinations(torch.unique(tk))",
    "torch.nn.utils.rnn.pack_padded_sequence(tx[:, :, None], (tk % 4).abs() + 1, batch_first=True, enforce_sorted=False).data",
    "tx[tk > 3][:, :1]",
    "torch.arange(tk.max())",
    "torch.zeros(tk.max() + 1).scatter_add(0, tk, tx[:, 0])",
    "tk.bincount(minlength=5)",
    "tx[~torch.isnan(tx.log())]",
    "torch.masked_select(tk, tk.ge(5)).float()",
    "torch.nn.functional.one_hot(tk).sum(dim=0)",
    # labels and texts by a pattern or by name
    "people.town.value_counts().filter(regex='^[BK]')",
    "people.town.value_counts().filter(like='e')",
    "people.town.value_counts().filter(items=['Bonn', 'Kiel'])",
    "people.groupby('town').income.mean().filter(regex='l$')",
    "people.groupby(['sex', 'town']).size().unstack().filter(regex='^[JK]')",
    "people.set_index('name').filter(regex='^Ada', axis=0)",
    "people.set_index('id').filter(like='15', axis=0).income",
    "people.set_index('id').age.filter(regex='0$')",
    "ts.to_frame().filter(like='2020-01-2', axis=0)",
    "sensors.filter(regex='2020-02-0[1-5]', axis=0)",
    "sales.units.filter(regex='^[BJ]')",
    "sales.price.filter(like='Ki')",
    "sales.groupby(level=0).sum().filter(items=['Bonn', 'Kiel'], axis=0)",
    "sales.T.filter(regex='^Kiel$', axis='columns')",
    "panel.droplevel('year').filter(regex='^[BK]')",
    "panel.reset_index('year').filter(like='Ulm', axis=0)",
    "duet.remote(pd).get_dummies(people.town).filter(regex='^[BK]')",
    "duet.remote(pd).get_dummies(people[['town']]).filter(like='town_')",
    "duet.remote(pd).crosstab(people.sex, people.town).filter(regex='(Kiel|Ulm)')",
    "sales.drop(index=['Jena', 'Hof'], errors='ignore')",
    "daily.drop(pd.Timestamp('2020-01-18'), errors='ignore')",
    "sales[sales.index.str.match('^[BK]')]",
    "sales.index[sales.index.str.contains('n')]",
    "sales.index.unique().difference(['Bonn'])",
    "sales.index.intersection(['Bonn', 'Kiel'])",
    "people.tags.str.findall('heart').explode()",
    "people.tags.str.split('; ?heart').explode()",
    "people.tags.str.get_dummies('g')",
    "people.name.str.extractall('(A[a-z]+)')",
    "docs.str.split('cough').explode()",
    "pf.select(pl.col('tags').str.split('lung').explode())",
    "pf.select(pl.col('tags').str.extract_all('heart').explode())",
    # one item of many: a text, a list, an array
    "people.tags.str.split(';').iloc[0]",
    "people.tags.str.split(';')[3]",
    "people.name.iloc[2]",
    "people.tags.str.cat(sep=' ')",
    "people.groupby('town').age.agg(list).iloc[0]",
    "people.groupby('town').age.unique().iloc[0]",
    "docs.str.cat()",
    "docs.iloc[0]",
    "docs.sum()",
    "pf['tags'].str.split(';')[0]",
    "pf['tags'][0]",
    "pf['name'].max()",
    "pf['town'].unique().sort().str.join(',')[0]",
    "nested['scores'][0]",
    "nested['scores'].to_list()[0]",
    "nested['scores'][1]",
    "nested.row(1)[1]",
    "nested.to_dict(as_series=False)['scores'][0]",
    "people.tags.str.split(';').to_list()[0]",
    "people.tags.str.split(';').to_numpy()[0]",
    "people.tags.str.split(';').values[1]",
    "np.array_split(v[v > 0], 3)[1]",
    "np.unique(x.round(), axis=0, return_inverse=True)[0]",
    "duet.remote(sklearn.neighbors.NearestNeighbors(radius=2.0)).fit(x).radius_neighbors(x)[1][2]",
    "duet.remote(sklearn.neighbors.NearestNeighbors(radius=2.0)).fit(x).radius_neighbors(x, return_distance=False)[0]",
    "duet.remote(sklearn.neighbors).KDTree(x).query_radius(x[:2], 1.5)[0]",
    "duet.remote(sklearn.preprocessing.MultiLabelBinarizer()).fit(people.tags.str.split(';')).inverse_transform(duet.remote(sklearn.preprocessing.MultiLabelBinarizer()).fit_transform(people.tags.str.split(';')))[0]",
    "duet.remote(sklearn.feature_extraction.text.CountVectorizer()).fit(docs).inverse_transform(duet.remote(sklearn.feature_extraction.text.CountVectorizer()).fit_transform(docs))[0]",
    "duet.remote(sklearn.tree).export_text(duet.remote(sklearn.tree.DecisionTreeClassifier(random_state=0)).fit(x, y))",
    "duet.remote(sklearn.metrics).classification_report(y, y)",
    "duet.remote(sklearn.preprocessing.OneHotEncoder()).fit(people[['sex', 'town']]).categories_[1]",
    "duet.remote(sklearn.preprocessing.OrdinalEncoder()).fit(people[['sex', 'children']]).categories_[1]",
    "duet.remote(sklearn.preprocessing.TargetEncoder()).fit(people[['town']], people.age).encodings_[0]",
    "duet.remote(sklearn.preprocessing.TargetEncoder()).fit(people[['town']], people.age).categories_[0]",
    # how many items a sparse matrix holds
    "duet.remote(sklearn.feature_extraction.text.TfidfVectorizer()).fit_transform(docs)",
    "duet.remote(sklearn.feature_extraction.text.TfidfVectorizer()).fit_transform(docs)[:10]",
    "duet.remote(sklearn.feature_extraction.text.TfidfVectorizer()).fit_transform(docs).T",
    "duet.remote(sklearn.feature_extraction.text.HashingVectorizer(n_features=64)).fit_transform(docs)",
    "duet.remote(sklearn.feature_extraction.text.HashingVectorizer(n_features=64)).fit_transform(docs).data",
    "duet.remote(sklearn.feature_extraction.text.TfidfVectorizer()).fit_transform(docs).nonzero()[0]",
    "duet.remote(sklearn.feature_extraction.text.TfidfVectorizer()).fit_transform(docs).tocoo().row",
    "duet.remote(sklearn.feature_extraction.text.TfidfTransformer()).fit_transform(duet.remote(sklearn.feature_extraction.text.CountVectorizer()).fit_transform(docs))",
    "duet.remote(sklearn.preprocessing.OneHotEncoder(drop='first')).fit_transform(people[['sex']])",
    "duet.remote(sklearn.preprocessing.OneHotEncoder(drop='if_binary')).fit_transform(people[['ill', 'town']])",
    "duet.remote(sklearn.preprocessing.LabelBinarizer(sparse_output=True)).fit_transform(y)",
    "duet.remote(sklearn.preprocessing.MultiLabelBinarizer(sparse_output=True)).fit_transform(people.tags.str.split(';'))",
    "duet.remote(sklearn.tree.DecisionTreeClassifier(random_state=0)).fit(x, y).decision_path(x)",
    "duet.remote(sklearn.ensemble.RandomForestClassifier(5, random_state=0)).fit(x, y).decision_path(x)[0]",
    "duet.remote(sklearn.ensemble.RandomTreesEmbedding(5, max_depth=3, random_state=0)).fit_transform(x)",
    "duet.remote(sklearn.neighbors.NearestNeighbors(radius=1.5)).fit(x).radius_neighbors_graph(x)",
    "duet.remote(sklearn.neighbors).radius_neighbors_graph(x, 1.5)",
    "duet.remote(sklearn.linear_model.Lasso(0.05)).fit(x, y).sparse_coef_",
    "duet.remote(sklearn.linear_model.LogisticRegression(l1_ratio=1.0, solver='saga', C=0.1)).fit(x, y).sparsify().coef_",
    "duet.remote(sklearn.preprocessing.Binarizer()).fit_transform(duet.remote(sklearn.feature_extraction.text.CountVectorizer()).fit_transform(docs))",
    "duet.remote(sklearn.compose.make_column_transformer((sklearn.preprocessing.OneHotEncoder(), ['sex', 'town', 'name']), remainder='drop', sparse_threshold=1.0)).fit_transform(people)",
    "duet.remote(sklearn.pipeline.make_pipeline(sklearn.feature_extraction.text.CountVectorizer(), sklearn.feature_extraction.text.TfidfTransformer())).fit_transform(docs)",
    # categories that are part of a type
    "survey.dtypes['answer'].categories",
    "survey.answer.cat.categories.tolist()",
    "survey.answer.cat.as_ordered().dtype.categories",
    "survey.answer.values.categories",
    "survey.answer.astype('str').astype('category').dtype.categories",
    "survey.set_index('answer').index.categories",
    "survey.set_index('answer').index.dtype.categories",
    "survey.answer.head(5).dtype.categories",
    "survey[survey.weight > 1].answer.dtype.categories",
    "people.town.astype('category').dtype.categories",
    "people.age.astype('category').dtype.categories",
    "duet.remote(pd).concat([survey, survey]).answer.dtype.categories",
    "survey.groupby('answer', observed=False).weight.sum().index.categories",
    "survey.groupby('answer', observed=False).size()",
    # what a loop goes through, and what is made of it here
    "[name for name, group in people.groupby('town')]",
    "list(people.groupby('town'))",
    "dict(list(people.groupby('sex')))",
    "list(people.town.unique())",
    "set(people.town.dropna())",
    "sorted(people.sex.unique())",
    "dict(people.town.value_counts())",
    "list(people.town.value_counts().index)",
    "list(people[people.ill].iterrows())",
    "list(people[people.ill].itertuples())",
    "[column for column in duet.remote(pd).get_dummies(people.town)]",
    "list(duet.remote(pd).get_dummies(people.town).columns)",
    "list(people.pivot_table(index='sex', columns='town', values='age').items())",
    "list(people.groupby('town').groups)",
    "[value for value in np.unique(k)]",
    "list(v[v > 1])",
    "np.unique(k).tolist()",
    "list(enumerate(np.unique(words)))",
    "pf.partition_by('sex')[0]",
    "list(pf.group_by('town'))",
    "list(pf['town'].unique())",
    "pf['town'].unique().to_list()",
    "[frame for frame in pf.partition_by('town')]",
    "pf.to_dummies('town').columns",
    "pf.to_dummies('town').dtypes",
    "pf.to_dummies('town').schema",
    "pf.pivot('sex', index='children', values='age', aggregate_function='mean').schema",
    "pf.pivot('sex', index='children', values='age', aggregate_function='mean').get_columns()",
    "pf.lazy().select('age', 'ill').collect().filter(pl.col('ill')).to_series()",
    "duet.remote(pd).get_dummies(people.town).dtypes",
    "duet.remote(pd).get_dummies(people.town).axes[1]",
    "people.pivot_table(index='sex', columns='town', values='age').keys()",
    "people.pivot_table(index='sex', columns='town', values='age').columns.names[0:] + people.sex.unique().tolist()",
    "list(torch.unique(tk))",
    "torch.unique(tk).tolist()",
    "list(duet.remote(sklearn.feature_extraction.text.CountVectorizer()).fit(docs).vocabulary_)",
    "duet.remote(sklearn.multiclass.OneVsRestClassifier(sklearn.linear_model.LogisticRegression())).fit(x, y).estimators_",
    "duet.remote(sklearn.multiclass.OneVsOneClassifier(sklearn.linear_model.LogisticRegression())).fit(x, y).estimators_",
    "duet.remote(sklearn.ensemble.AdaBoostRegressor(n_estimators=50, random_state=0)).fit(x[:, :1], x[:, 0]).estimators_",
    "duet.remote(sklearn.ensemble.GradientBoostingRegressor(n_iter_no_change=3, random_state=0)).fit(x, y).estimators_",
    "duet.remote(sklearn.linear_model.LogisticRegressionCV(cv=3)).fit(x, y).coef_",
    "duet.remote(sklearn.preprocessing.OneHotEncoder(sparse_output=False).set_output(transform='pandas')).fit_transform(people[['sex', 'town']])",
    "duet.remote(sklearn.preprocessing.OneHotEncoder(min_frequency=60, handle_unknown='infrequent_if_exist')).fit(people[['town']]).infrequent_categories_[0]",
    "duet.remote(sklearn.impute.MissingIndicator()).fit(holes).features_",
    "duet.remote(pd).DataFrame(people.tags.str.split(';').tolist())",
    "duet.remote(pd).DataFrame(np.unique(k, return_counts=True))",
    "duet.remote(pd).DataFrame({'k': np.unique(k)})",
    "people[people.ill].to_records()",
    "words[1]",
    "words[words != 'x'][3]",
    "np.char.upper(words)[1]",
    "people.town.to_numpy()[0]",
    "people.groupby('town').age.agg(list).tolist()[0]",
    "people.groupby('town').income.unique().tolist()[1]",
    "people.groupby('town').age.unique().to_numpy()[1]",
    "people.groupby('sex').town.unique().iloc[0]",
    "people.groupby('town').agg({'age': 'unique'}).iloc[0, 0]",
    "pf.group_by('town').agg('age').sort('town')['age'][0]",
    "pf['tags'].str.split(';')[7]",
    "pf['tags'].str.extract_all('heart|lung')[0]",
    "pf.select(pl.col('tags').str.split(';')).to_series()[7]",
    "pf.select(pl.col('tags').str.split(';').list.unique()).item(3, 0)",
    "nested['scores'][2]",
    "nested['scores'].list.unique()[0]",
    "nested['scores'].list.sort()[2]",
    "nested.item(2, 'scores')",
    "nested.select(pl.col('scores').first()).to_series()[0]",
    "nested.sort('who')['scores'].first()",
    "nested.head(3)['scores'][2]",
    "duet.remote(pd).qcut(people.children, 6, duplicates='drop').dtype.categories",
    "duet.remote(pd).qcut(people.children, 6, duplicates='drop').cat.categories",
    "duet.remote(pd).cut(people.age, np.arange(0, 100, 5)).cat.remove_unused_categories().dtype.categories",
    "duet.remote(sklearn.preprocessing.KBinsDiscretizer(4, quantile_method='averaged_inverted_cdf')).fit(people[['children']]).bin_edges_[0]",
    "duet.remote(sklearn.preprocessing.KBinsDiscretizer(8, encode='onehot', quantile_method='averaged_inverted_cdf')).fit_transform(people[['children']])",
    "duet.remote(sklearn.ensemble.RandomForestClassifier(3, random_state=0)).fit(x, y).estimators_[0].tree_.feature",
]

# Told all the same: a length of the mock, shown as the data's. Found with the mock that is named.
LENGTHS: dict[str, Callable[[Any], Any]] = {
    "len": len,
    "shape[0]": lambda value: value.shape[0],
    "shape[1]": lambda value: value.shape[1],
    "size": lambda value: value.size,
    "nnz": lambda value: value.nnz,
    "ngroups": lambda value: value.ngroups,
    "height": lambda value: value.height,
    "width": lambda value: value.width,
    "index": lambda value: len(value.index),
    "columns": lambda value: len(value.columns),
}


class Local:
    """What takes the place of a duet where the objects themselves are here."""

    @staticmethod
    def remote(obj: Any) -> Any:
        return obj


def evaluated(expression: str, duet: Any, objects: dict[str, Any]) -> Any:
    libraries = {
        "np": np,
        "pd": pd,
        "pl": pl,
        "torch": torch,
        "sklearn": sklearn,
        "scipy": scipy,
        "statsmodels": statsmodels,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(expression, {**libraries, **objects, "duet": duet})


def lengths(value: Any) -> dict[str, int]:
    """What lengths it has, by how they are asked for; none that is a method or a pointer."""
    found = {}
    for way, length in LENGTHS.items():
        try:
            number = length(value)
        except (AttributeError, IndexError, TypeError, NotImplementedError, errors.DuetError):
            continue
        if isinstance(number, int | np.integer):
            found[way] = int(number)
    return found


def differing(expression: str) -> dict[str, int]:
    """The lengths that are not the same for both data sets: those of the first."""
    one, other = (lengths(evaluated(expression, Local, data)) for data in (DATA, OTHER))
    return {way: number for way, number in one.items() if number != other.get(way)}


DATA = make_data(1, 4)
OTHER = make_data(5, 3)
GOOD = make_data(7, 4)  # what somebody makes by hand who knows what such data look like


@pytest.fixture(scope="module")
def private() -> dict[str, dict[str, int]]:
    """By expression, what must not be told."""
    return {expression: differing(expression) for expression in EXPRESSIONS}


def test_each_has_a_length_that_the_data_decide(private: dict[str, dict[str, int]]) -> None:
    assert len(private) >= 150
    assert [expression for expression, real in private.items() if not real] == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mocks", ["auto", "good"])
def test_none_is_told(bench: Bench, private: dict[str, dict[str, int]], mocks: str) -> None:
    pointers = {
        name: bench.share(obj, f"{name}_{mocks}", "auto" if mocks == "auto" else GOOD[name])
        for name, obj in DATA.items()
    }
    told = {}
    for expression, real in private.items():
        try:
            result = evaluated(expression, bench.scientist, pointers)
        except Exception:
            continue  # refused, or the mock cannot do it: nothing is told
        found = {way: number for way, number in lengths(result).items() if way in real}
        if found:
            told[expression] = (real, found)
    assert told == {}
