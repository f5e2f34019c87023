"""Plain Polars expressions, read into operations of the lists: the same one comes out, or a refusal."""

from __future__ import annotations

import operator
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.compute.operations.allow_lists.allowed import Allowed
from duetlink.duet.asking.grammar.call import ParsedCall, run_here
from duetlink.duet.asking.grammar.polars_expression import parsed, parsed_type
from duetlink.errors import OperationRefused
from tests.duet.polars_samples import KNOWN

ALLOWED = Allowed(["python", "polars"])


def same(left: pl.Expr, right: pl.Expr) -> bool:
    return left.meta.serialize(format="binary") == right.meta.serialize(format="binary")


def test_each_sample_comes_out_as_it_was() -> None:
    assert len(KNOWN) > 400
    changed = [
        str(sample) for sample in KNOWN if not same(run_here(parsed(sample, ALLOWED), ALLOWED), sample)
    ]
    assert changed == []


def test_a_comparison_is_these_operations() -> None:
    assert parsed(pl.col("a") > 3, ALLOWED) == ParsedCall(
        "operator.gt", (ParsedCall("polars.col", ("a",)), ParsedCall("polars.lit", (3,)))
    )


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_lacks_are_told_apart(number: float) -> None:
    tree = parsed(pl.col("a").fill_null(number), ALLOWED)
    assert repr(tree.arguments[1].arguments[0]) == repr(number)


def _own(value: Any) -> Any:
    return value


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (pl.col("a").map_elements(_own, pl.Int64), "@duet.remote"),
        (pl.col("a").map_batches(_own), "@duet.remote"),
        (pl.fold(0, lambda left, right: left + right, [pl.col("a")]), "@duet.remote"),
        (pl.col("a").name.map(_own), "@duet.remote"),
        (pl.col("a").rolling_map(sum, 2), "@duet.remote"),
        (pl.col("l").list.eval(pl.element() * 2), "list.agg"),
        (pl.col("a").hash(), "Hash.*duet.remote"),
        (pl.col("a").to_physical(), "in no list"),
        (pl.lit(float("nan")) + pl.lit(float("inf")), "duet.remote"),
        (pl.lit(1).sum() + sum(pl.col(f"c{number}") for number in range(300)), "several steps"),
    ],
)
def test_what_is_refused_says_what_to_do(expression: pl.Expr, words: str) -> None:
    with pytest.raises(OperationRefused, match=words):
        parsed(expression, ALLOWED)


class Written:
    """Stands for an expression of another version of Polars, that writes something else."""

    def __init__(self, text: str) -> None:
        self.meta = self
        self.text = text

    def serialize(self, **how: str) -> Any:
        return self.text if how["format"] == "json" else self.text.encode()


@pytest.mark.parametrize(
    "text",
    [
        '{"Frobnicate":{"input":1}}',
        '{"Agg":{"Frobnicate":{"Column":"a"}}}',
        '{"Function":{"input":[{"Column":"a"}],"function":"Serialize"}}',
        '{"Function":{"input":[{"Column":"a"}],"function":{"Frobnicate":[1,2]}}}',
        '{"Function":{"input":[],"function":"Abs"}}',
        '{"BinaryExpr":{"left":{"Column":"a"},"op":"Frob","right":{"Column":"a"}}}',
        '{"BinaryExpr":{"left":{"Column":"a"},"op":"Plus"}}',
        '{"Cast":{"expr":{"Column":"a"},"dtype":{"Literal":"__class__"},"options":"Strict"}}',
        '{"Cast":{"expr":{"Column":"a"},"dtype":{"Literal":"Config"},"options":"Strict"}}',
        '{"Literal":{"Scalar":{"List":[1,2,3]}}}',
        '{"Column":"a"}',  # as is, but not what it is equal to
        '{"Alias":' * 600 + "1" + "}" * 600,
        "[" * 100_000,
        "null",
        "",
        '{"Literal":{"Dyn":{"Int":' + "9" * 5000 + "}}}",
    ],
)
def test_what_another_version_would_write_is_refused(text: str) -> None:
    with pytest.raises(OperationRefused):
        parsed(Written(text), ALLOWED)


OPERATORS = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.gt,
    operator.le,
    operator.eq,
]
METHODS = [
    lambda e: -e,
    lambda e: ~e,
    lambda e: e.sum().over("g"),
    lambda e: e.cast(pl.Float32).round(2),
    lambda e: e.shift(1, fill_value=0),
    lambda e: e.rolling_mean(3, min_samples=1),
    lambda e: e.str.slice(1, 2).str.contains("x|y"),
    lambda e: e.dt.truncate("1h").dt.hour(),
    lambda e: e.is_in([1, None, 3]),
    lambda e: e.sort_by(e, descending=True).head(3),
    lambda e: pl.when(e > 1).then(e).otherwise(None),
    lambda e: pl.struct(e.alias("p"), q=e).struct.field("q"),
    lambda e: e.fill_null(strategy="forward", limit=2),
    lambda e: e.list.agg(pl.element().max()),
]
LEAVES = st.one_of(
    st.text(max_size=4).map(lambda name: pl.col(name)),  # pl.col has any attribute
    st.integers(-(2**63), 2**63 - 1).map(pl.lit),
    st.floats(allow_nan=False, allow_infinity=False).map(pl.lit),
    st.text(max_size=6).map(pl.lit),
    st.sampled_from([True, None]).map(pl.lit),
    st.datetimes().map(pl.lit),
    st.timedeltas().map(pl.lit),
)
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(OPERATORS), inner, inner).map(lambda part: part[0](part[1], part[2])),
        st.tuples(st.sampled_from(METHODS), inner).map(lambda part: part[0](part[1])),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS)
@settings(max_examples=150, deadline=None)
def test_any_expression_comes_out_as_it_was_or_is_refused(expression: pl.Expr) -> None:
    try:
        tree = parsed(expression, ALLOWED)
    except OperationRefused:
        return
    assert same(run_here(tree, ALLOWED), expression)


@pytest.mark.parametrize(
    "dtype",
    [
        pl.List(pl.Int8),
        pl.Array(pl.Float32, 3),
        pl.Datetime("ms", "Europe/Berlin"),
        pl.Duration("ns"),
        pl.Decimal(12, 3),
        pl.Enum(["a", "b"]),
        pl.Struct({"a": pl.Int8, "b": pl.List(pl.String)}),
    ],
)
def test_types_come_out_as_they_were(dtype: pl.DataType) -> None:
    assert run_here(parsed_type(dtype, ALLOWED), ALLOWED) == dtype
