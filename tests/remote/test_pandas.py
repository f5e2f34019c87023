"""Pointers to frames and series, estimators of scikit-learn, and whole libraries at the owner."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from duetlink import Mock, errors
from duetlink.duet.answering.requests import Request
from duetlink.duet.asking.pointers.remote import Remote, Result
from tests.remote.conftest import Bench


def make_people() -> pd.DataFrame:
    random = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "age": random.integers(18, 90, 200),
            "income": random.normal(3000, 800, 200).round(2),
            "town": random.choice(["Ulm", "Bonn", "Jena"], 200),
            "ill": random.random(200) < 0.3,
        }
    )


@pytest.fixture(scope="module")
def real() -> pd.DataFrame:
    return make_people()


@pytest.fixture
def people(bench: Bench, real: pd.DataFrame) -> Any:
    if "people" not in bench.owner.store:
        mock = Mock(bounds={"age": (18, 90)}, categories={"town": ["Ulm", "Bonn", "Jena"]})
        bench.share(real, "people", mock=mock)
    return bench.scientist.wait_object("people", 10)


OPERATIONS = {
    "a column": lambda d: d["age"] + 1,
    "a column as an attribute": lambda d: d.age * 2,
    "columns": lambda d: d[["age", "income"]],
    "rows": lambda d: d[d["age"] > 40],
    "several conditions": lambda d: d[(d.age > 40) & d.ill & ~(d.town == "Ulm")],
    "loc": lambda d: d.loc[d.ill, "income"],
    "iloc": lambda d: d.iloc[3:9, :2],
    "statistics": lambda d: d[["age", "income"]].describe(),
    "groups": lambda d: d.groupby("town")["income"].mean(),
    "several aggregates": lambda d: d.groupby(["town", "ill"]).agg({"age": ["mean", "max"], "income": "sum"}),
    "a new column": lambda d: d.assign(rich=d.income > 3000).groupby("rich").size(),
    "texts": lambda d: d.town.str.upper().value_counts(),
    "sorting": lambda d: d.sort_values(["town", "age"]).reset_index(drop=True).head(7),
    "a pivot": lambda d: d.pivot_table(index="town", columns="ill", values="age", aggfunc="mean"),
    "missing": lambda d: d.income.where(d.age > 30).fillna(0).sum(),
    "numpy on a series": lambda d: np.log(d.income.clip(lower=1)),
    "rolling": lambda d: d.income.rolling(5).mean().dropna(),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_gives_at_the_owner_what_it_gives_here(
    people: Any, real: pd.DataFrame, name: str
) -> None:
    result = OPERATIONS[name](people)
    assert isinstance(result, Result)
    assert type(result.mock) is type(OPERATIONS[name](real))
    value, expected = result.get(reason=name), OPERATIONS[name](real)
    if isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(value, expected)
    elif isinstance(expected, pd.Series):
        pd.testing.assert_series_equal(value, expected)
    else:
        assert value == expected


def test_a_frame_that_was_copied_can_be_changed(people: Any, real: pd.DataFrame) -> None:
    own = people.copy()
    own["double"] = own["age"] * 2
    expected = real.copy()
    expected["double"] = expected["age"] * 2
    pd.testing.assert_frame_equal(own.get(), expected)
    assert "double" in own.columns
    assert "double" not in people.columns
    with pytest.raises(errors.OperationRefused, match="its owner's"):
        people["double"] = 1


def test_a_library_without_a_protocol_is_had_at_the_owner(
    bench: Bench, people: Any, real: pd.DataFrame
) -> None:
    far = bench.scientist.remote(pd)
    both = far.concat([people[people.ill], people[~people.ill]]).sort_index()
    pd.testing.assert_frame_equal(both.get(), real)
    cut = far.cut(people.age, [0, 40, 100], labels=["young", "old"])
    assert list(cut.astype(str).get()) == list(
        pd.cut(real.age, [0, 40, 100], labels=["young", "old"]).astype(str)
    )
    with pytest.raises(errors.OperationRefused, match=r"read_csv is in no list"):
        far.read_csv("/etc/passwd")
    assert "concat" in dir(far)
    assert "read_csv" not in dir(far)


def test_names_of_columns_are_no_secret(people: Any) -> None:
    assert list(people) == ["age", "income", "town", "ill"]
    assert "age" in people
    assert len(people) == 200


def test_what_writes_or_evaluates_is_not_there(people: Any) -> None:
    for name in ("to_csv", "to_pickle", "to_sql"):
        with pytest.raises(AttributeError, match="is in no list"):
            getattr(people, name)
    for hidden in ("to_csv", "to_pickle"):
        with pytest.raises((errors.OperationRefused, AttributeError)):
            people.agg(hidden)
    with pytest.raises(errors.OperationRefused, match=r"@duet.remote"):
        people.apply(lambda row: row)


def test_an_estimator_is_fitted_at_the_owner(bench: Bench, people: Any, real: pd.DataFrame) -> None:
    def fit(frame: Any, model: Any) -> Any:
        return model.fit(frame[["age", "income"]], frame["ill"])

    local = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    far = bench.scientist.remote(make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)))
    fit(real, local)
    fit(people, far)
    predicted = far.predict(people[["age", "income"]])
    np.testing.assert_array_equal(predicted.get(), local.predict(real[["age", "income"]]))
    simple = bench.scientist.remote(LogisticRegression(max_iter=300))
    fit(people, simple)
    expected = fit(real, LogisticRegression(max_iter=300))
    np.testing.assert_allclose(simple.coef_.get(), expected.coef_, rtol=1e-6)
    asked = len(bench.owner.requests)
    with pytest.raises(
        errors.UnsupportedValue, match="a LogisticRegression cannot travel, so it was not asked"
    ):
        simple.get()
    assert len(bench.owner.requests) == asked


def test_several_pointers_in_one_request(bench: Bench, people: Any, real: pd.DataFrame) -> None:
    asked = len(bench.owner.requests)
    found = bench.scientist.fetch({"oldest": people.age.max(), "mean": [people.income.mean()]}, reason="both")
    assert found == {"oldest": real.age.max(), "mean": [real.income.mean()]}
    assert len(bench.owner.requests) == asked + 1


def test_a_plain_object_on_the_left_leaves_the_operator_to_the_pointer(bench: Bench) -> None:
    plain = pd.Series([1.0, 2.0, 3.0])
    x = bench.share(pd.Series([10.0, 20.0, 30.0]), "on_the_right")
    for made in (plain + x, plain * x, plain - x, plain == x):
        assert isinstance(made, Remote)
    pd.testing.assert_series_equal((plain + x).get(), plain + pd.Series([10.0, 20.0, 30.0]))
    pd.testing.assert_series_equal((plain - x).get(), plain - pd.Series([10.0, 20.0, 30.0]))


def test_the_owner_reads_operations_of_a_query(bench: Bench, people: Any, real: pd.DataFrame) -> None:
    codes = []

    def answer(request: Request) -> None:
        codes.append(str(request.code))
        request.approve()

    bench.answer = answer
    least = 40
    found = people.query("age > @least and town in ['Ulm']").get()
    pd.testing.assert_frame_equal(found, real[(real["age"] > least) & real["town"].isin(["Ulm"])])
    pd.testing.assert_frame_equal(people.eval("c = age + income").get(), real.eval("c = age + income"))
    assert codes == [
        'people[(people["age"] > 40) & people["town"].isin(["Ulm"])]',
        'people.assign(c=people["age"] + people["income"])',
    ]


JOINS = {
    "concat": lambda d: pd.concat([d, d]),
    "merge": lambda d: pd.merge(d, d, on="age"),
    "merge_asof": lambda d: pd.merge_asof(d, d, on="age"),
    "melt": lambda d: pd.melt(d, id_vars=["town"]),
    "crosstab": lambda d: pd.crosstab(d.town, d.ill),
    "factorize": lambda d: pd.factorize(d.town),
    "pivot_table": lambda d: pd.pivot_table(d, values="age", index="town"),
}


@pytest.mark.parametrize("name", JOINS)
def test_a_function_that_joins_or_reshapes_says_what_to_call_instead(people: Any, name: str) -> None:
    for frame in (people, people.copy()):
        with pytest.raises((errors.PrivateValue, errors.OperationRefused)):
            JOINS[name](frame)
    assert isinstance(people.age + pd.Series([1.0] * 200), Result)
    assert isinstance(pd.Series([1.0] * 200) + people.age, Result)


def test_what_the_owner_will_not_call_is_not_called_here(bench: Bench) -> None:
    rows = pd.MultiIndex.from_tuples([("a", 1), ("b", 1), ("b", 2)])
    frame = bench.share(pd.DataFrame({"x": [1.0, 2.0, 3.0]}, index=rows), "by two names").copy()
    with pytest.raises(errors.OperationRefused, match="a _LocIndexer may not be called at the owner"):
        frame.loc(axis=0)[:, [1]] = -10.0
    assert frame["x"].get(reason="as it was").tolist() == [1.0, 2.0, 3.0]
