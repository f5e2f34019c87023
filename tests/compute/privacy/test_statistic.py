"""A statistic is what it says, or it is none: it comes from a hostile peer."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetlink.compute.privacy.statistic import KINDS, MAX_BYTES, MAX_ITEMS, Statistic
from duetlink.errors import LimitExceeded, RemoteProtocolError, SettingError

WORDS = {
    "count, epsilon 0.5": Statistic("count", 0.5),
    "sum, epsilon 1, bounds -1.5 to 2": Statistic("sum", 1, (-1.5, 2)),
    "mean, epsilon 0.5, bounds 0 to 120": Statistic("mean", 0.5, (0, 120)),
    "variance, epsilon 1e-06, bounds 0 to 120": Statistic("variance", 1e-6, (0, 120)),
    "quantile 0.9, epsilon 0.1": Statistic("quantile", 0.1, q=0.9),
    "quantile 0.5, epsilon 0.1, 3 candidates 0 to 10": Statistic(
        "quantile", 0.1, q=0.5, candidates=(0, 5, 10)
    ),
    "histogram, epsilon 1, 2 bins 0 to 10": Statistic("histogram", 1, bins=(0, 5, 10)),
    "histogram, epsilon 1, 2 categories 'Ulm', 'a\\nb'": Statistic(
        "histogram", 1, categories=("Ulm", "a\nb")
    ),
    "histogram, epsilon 1, 4 categories 1, 2, 3, …": Statistic("histogram", 1, categories=(1, 2, 3, 4)),
}


@pytest.mark.parametrize("words", WORDS)
def test_words_say_all_that_counts(words: str) -> None:
    assert WORDS[words].words() == words


@pytest.mark.parametrize("statistic", WORDS.values(), ids=WORDS)
def test_it_travels_as_json(statistic: Statistic) -> None:
    assert Statistic.from_json(statistic.to_json()) == statistic


def test_it_is_known_before_which_columns_it_can_be_made_of() -> None:
    fine = {
        Statistic("count", 1): {"bool", "int", "narrow", "float", "text"},
        Statistic("mean", 1, (0, 1)): {"bool", "int", "narrow", "float"},
        Statistic("histogram", 1, bins=(0, 1)): {"bool", "int", "narrow", "float"},
        Statistic("histogram", 1, categories=(0, 1)): {"bool", "int", "narrow", "float"},
        Statistic("histogram", 1, categories=("a",)): {"text"},
    }
    for statistic, kinds in fine.items():
        for kind in ("bool", "int", "narrow", "float", "text", "other"):
            if kind in kinds:
                statistic.check_kind(kind)
            else:
                with pytest.raises(SettingError):
                    statistic.check_kind(kind)


def test_it_costs_what_is_written() -> None:
    assert Statistic("count", 0.1).cost == Decimal("0.1")
    assert Statistic("count", 3).cost == Decimal("3.0")


WRONG: dict[str, dict[str, Any]] = {
    "no kind": {"kind": "median", "epsilon": 1},
    "a kind that is no text": {"kind": ["count"], "epsilon": 1},
    "epsilon 0": {"kind": "count", "epsilon": 0},
    "epsilon below 0": {"kind": "count", "epsilon": -1},
    "epsilon too small": {"kind": "count", "epsilon": 1e-7},
    "epsilon too large": {"kind": "count", "epsilon": 101},
    "epsilon beyond floats": {"kind": "count", "epsilon": 10**400},
    "epsilon NaN": {"kind": "count", "epsilon": float("nan")},
    "epsilon infinite": {"kind": "count", "epsilon": float("inf")},
    "epsilon True": {"kind": "count", "epsilon": True},
    "epsilon a text": {"kind": "count", "epsilon": "1"},
    "bounds of a count": {"kind": "count", "epsilon": 1, "bounds": [0, 1]},
    "one bound": {"kind": "mean", "epsilon": 1, "bounds": [0]},
    "bounds the wrong way": {"kind": "mean", "epsilon": 1, "bounds": [1, 0]},
    "bounds without room": {"kind": "mean", "epsilon": 1, "bounds": [1, 1]},
    "bounds almost without room": {"kind": "mean", "epsilon": 1, "bounds": [1, 1 + 1e-15]},
    "bounds NaN": {"kind": "mean", "epsilon": 1, "bounds": [0, float("nan")]},
    "bounds infinite": {"kind": "mean", "epsilon": 1, "bounds": [0, float("inf")]},
    "bounds too large": {"kind": "mean", "epsilon": 1, "bounds": [0, 1e101]},
    "bounds a text": {"kind": "mean", "epsilon": 1, "bounds": "01"},
    "no q": {"kind": "quantile", "epsilon": 1},
    "q above 1": {"kind": "quantile", "epsilon": 1, "q": 1.5},
    "q of a mean": {"kind": "mean", "epsilon": 1, "q": 0.5},
    "one candidate": {"kind": "quantile", "epsilon": 1, "q": 0.5, "candidates": [1]},
    "candidates that fall": {"kind": "quantile", "epsilon": 1, "q": 0.5, "candidates": [2, 1]},
    "a candidate twice": {"kind": "quantile", "epsilon": 1, "q": 0.5, "candidates": [1, 1]},
    "too many candidates": {"kind": "quantile", "epsilon": 1, "q": 0.5, "candidates": list(range(1_002))},
    "neither bins nor categories": {"kind": "histogram", "epsilon": 1},
    "bins and categories": {"kind": "histogram", "epsilon": 1, "bins": [0, 1], "categories": [1]},
    "no categories": {"kind": "histogram", "epsilon": 1, "categories": []},
    "a category twice": {"kind": "histogram", "epsilon": 1, "categories": ["a", "a"]},
    "categories of two kinds": {"kind": "histogram", "epsilon": 1, "categories": ["a", 1]},
    "a truth value as a category": {"kind": "histogram", "epsilon": 1, "categories": [True]},
    "a category that is too long": {"kind": "histogram", "epsilon": 1, "categories": ["a" * 201]},
    "categories that are too long": {
        "kind": "histogram",
        "epsilon": 1,
        "categories": [f"{n:021}" for n in range(1000)],
    },
    "categories a text": {"kind": "histogram", "epsilon": 1, "categories": "ab"},
    "categories a dict": {"kind": "histogram", "epsilon": 1, "categories": {"a": 1}},
}


@pytest.mark.parametrize("fields", WRONG.values(), ids=WRONG)
def test_what_cannot_be_made_is_refused_on_both_sides(fields: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        Statistic(**fields)
    with pytest.raises(RemoteProtocolError):
        Statistic.from_json(json.dumps(fields).encode())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b'"count"',
        b"{}",
        b'{"kind":"count"}',
        b'{"epsilon":1}',
        b'{"kind":"count","epsilon":1,"more":1}',
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"kind":"count","epsilon":' + b"9" * 5_000 + b"}",
    ],
)
def test_what_is_no_statistic_is_refused(content: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        Statistic.from_json(content)


def test_what_is_too_long_is_not_looked_at() -> None:
    with pytest.raises(LimitExceeded):
        Statistic.from_json(b" " * (MAX_BYTES + 1))


def test_the_largest_ones_fit() -> None:
    texts = tuple(f"{number:03}".rjust(20, "\U0001f600") for number in range(MAX_ITEMS))
    largest = Statistic("histogram", 1, categories=texts)
    assert Statistic.from_json(largest.to_json()) == largest
    numbers = tuple(-1.1234567890123456e-99 * (MAX_ITEMS + 1 - number) for number in range(MAX_ITEMS + 1))
    largest = Statistic("histogram", 1, bins=numbers)
    assert Statistic.from_json(largest.to_json()) == largest


numbers = st.floats(-1e6, 1e6)
ascending = st.lists(numbers, min_size=2, max_size=20, unique=True).map(lambda items: tuple(sorted(items)))
bounds = st.tuples(st.floats(-1e6, 0), st.floats(1, 1e6))
statistics = st.one_of(
    st.builds(Statistic, st.just("count"), st.floats(1e-6, 100)),
    st.builds(Statistic, st.sampled_from(("sum", "mean", "variance")), st.floats(1e-6, 100), bounds),
    st.builds(
        Statistic,
        st.just("quantile"),
        st.floats(1e-6, 100),
        st.none() | bounds,
        st.floats(0, 1),
        candidates=st.none() | ascending,
    ),
    st.builds(Statistic, st.just("histogram"), st.floats(1e-6, 100), bins=ascending),
    st.builds(
        Statistic,
        st.just("histogram"),
        st.floats(1e-6, 100),
        categories=st.lists(st.text(max_size=20), min_size=1, max_size=9, unique=True).map(tuple),
    ),
)


@given(statistics)
def test_all_of_them_travel(statistic: Statistic) -> None:
    assert Statistic.from_json(statistic.to_json()) == statistic
    assert statistic.words().isprintable()


json_ = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)
fields = st.fixed_dictionaries(
    {"kind": st.sampled_from((*KINDS, "x")) | json_, "epsilon": st.floats() | json_},
    optional=dict.fromkeys(("bounds", "q", "bins", "categories", "candidates", "else"), json_),
)


@given(fields)
def test_anything_is_a_statistic_or_refused(content: dict[str, Any]) -> None:
    try:
        found = Statistic.from_json(json.dumps(content).encode())
    except RemoteProtocolError:
        return
    assert found == Statistic.from_json(found.to_json())


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(content: bytes) -> None:
    try:
        Statistic.from_json(content)
    except RemoteProtocolError:
        return
    raise AssertionError
