"""`query` and `eval` of pointers: what pandas makes of a text, by operations of the lists."""

from __future__ import annotations

import string
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from duetlink.errors import DuetError, OperationRefused
from tests.remote.recording import pointer_to, recording


def make_frame() -> pd.DataFrame:
    random = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "a": random.integers(-5, 6, 60),
            "b": random.normal(0, 2, 60).round(1),
            "s": random.choice(["x", "y", "zz"], 60),
            "t": random.random(60) < 0.5,
            "the sum": random.integers(0, 9, 60),
            "day": pd.date_range("2024-01-01", periods=60),
            "size": random.integers(0, 3, 60),
        },
        index=pd.Index(range(100, 160), name="row"),
    )
    frame.loc[105:110, "b"] = np.nan
    frame.loc[108:113, "s"] = None
    return frame


FRAME = make_frame()
PROGRAM = recording("numpy", "pandas")
POINTER = pointer_to(PROGRAM, FRAME)
limit, names, shift = 2, ["x", "zz"], pd.Series(np.arange(60), index=FRAME.index)

QUERIES = [
    "a > 3",
    "a > 1 & b < 2",  # binds as `and` does
    "a > 1 | b < 2 & t",
    "a > 1 and b < 2 or not t",
    "not (a > 1 or t)",
    "~t",
    "not a > 1",
    "-3 < a <= 2",
    "0 <= a < 4 > b",
    "a == b",
    "b != b",
    "s == 'x'",
    "s != 'x'",
    "'x' == s",
    "s in ['x', 'y']",
    "s not in ('x', 'y')",
    "a in [1, 2, 3]",
    "a == [1, 2]",
    "a != [1, 2]",
    "a in [1, 2] and s not in ['y']",
    "a in (size, 3)",
    "a not in [size, 3]",
    "[1, 2] in a",
    "'x' in s",
    "a in size",
    "`the sum` > 4",
    "`the sum` + a > size * 2",
    "a + 1 > b * 2 - 0.5",
    "a ** 2 > 4",
    "a / 2 > 1",
    "b // 1 == 1",
    "a % 3 == 1",
    "-a > 2",
    "+b > 1",
    "a > @limit",
    "s in @names",
    "@shift > 30 and a < 0",
    "row > 130",
    "index > 130",
    "a > b.mean()",
    "a > b.fillna(0).abs()",
    "s.str.contains('z', na=False)",
    "s.str.len() == 2",
    "day > '2024-02-01'",
    "'2024-01-10' <= day < '2024-01-20'",
    "day == '2024-01-03'",
    "day.dt.month == 2",
    "b.isna()",
    "b.notna() and s.notnull()",
    "b > 1.5e-1",
    "sqrt(abs(b)) > 1",
    "exp(a) < 2 and t == True",
    "t == False",
    "s == 'x' # and this is not read",
    "s == 'a & b | `c` @d'",
    "a > 1 > 0",
    "1 < 2 < a",
    "s > 'x'",
    "(a > 1) == t",
    "a.isin([1, 2])",
    "size == 1",
]
EVALUATIONS = [
    "a + b",
    "a > 1 & b < 2",
    "c = a + b",
    "c = a + b\nd = c * 2\na = d - c",
    "\n c = a + 1 \n\n c = c * 2\n",
    "c = @limit",
    "c = 3",
    "`the sum` * 2",
    "c = s.str.upper()",
    "sin(b)",
    "arctan2(a, b)",
    "a.sum()",
    "1 + 2 * 3",
    "c = a > 1 and t",
    "b[2:5]",
    "a",
    "c = 'x'",
    "index + a",
]


@pytest.mark.parametrize("text", QUERIES)
def test_query_finds_what_pandas_finds(text: str) -> None:
    pd.testing.assert_frame_equal(POINTER.query(text).mock, FRAME.query(text, engine="python"))


@pytest.mark.parametrize("text", EVALUATIONS)
def test_eval_makes_what_pandas_makes(text: str) -> None:
    made, wanted = POINTER.eval(text), FRAME.eval(text, engine="python")
    same(getattr(made, "mock", made), wanted)


def same(made: Any, wanted: Any) -> None:
    if isinstance(wanted, pd.DataFrame):
        pd.testing.assert_frame_equal(made, wanted)
    elif isinstance(wanted, pd.Series):
        pd.testing.assert_series_equal(made, wanted)
    else:
        assert made == wanted


def test_the_original_is_as_it_was() -> None:
    POINTER.eval("a = 1\nc = 2")
    pd.testing.assert_frame_equal(FRAME, make_frame())


def test_the_levels_of_an_index_are_names() -> None:
    frame = FRAME.set_index(["a", "s"])
    frame.index.names = ["first", None]
    pointer = pointer_to(PROGRAM, frame)
    for text in ["first > 2", "ilevel_1 == 'x'", "first == size"]:
        pd.testing.assert_frame_equal(pointer.query(text).mock, frame.query(text, engine="python"))


def test_a_pointer_says_that_it_has_them() -> None:
    assert {"eval", "query"} <= set(dir(POINTER))
    assert not {"eval", "query"} & set(dir(POINTER["a"]))


def test_variables_are_those_of_the_caller() -> None:
    def within(least: int) -> Any:
        return POINTER.query("a > @least").mock

    pd.testing.assert_frame_equal(within(3), FRAME[FRAME["a"] > 3])
    given_ = POINTER.query("a > @least", local_dict={"least": 1}).mock
    pd.testing.assert_frame_equal(given_, FRAME[FRAME["a"] > 1])


def test_a_variable_may_be_a_pointer() -> None:
    found = POINTER.query("b > @mean", local_dict={"mean": POINTER["b"].mean()}).mock
    pd.testing.assert_frame_equal(found, FRAME[FRAME["b"] > FRAME["b"].mean()])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("a >", "cannot be read"),
        ("nothing > 1", "@nothing"),
        ("a > @nothing", "no variable 'nothing'"),
        ("a = 3", "=="),
        ("a > 1\nb > 1", "one condition"),
        ("a.request('x') > 0", "request"),
        ("__import__('os').system('true')", "only methods of columns"),
        ("a.__class__", "taken of columns only"),
        ("a.to_csv('x')", "no list"),
        ("a.apply(lambda v: v)", "Lambda"),
        ("[v for v in a]", "ListComp"),
        ("a if t else b", "IfExp"),
        ("f'{a}' == s", "JoinedStr"),
        ("a is b", "Is"),
        ("(c := a) > 1", "NamedExpr"),
        ("a @ b", "MatMult"),
        ("sum(a) > 1", "only methods of columns"),
        ("a << 2", "LShift"),
        ("@print(a)", "only methods of columns"),
        ("@limit.real > a", "taken of columns only"),
        ("3 in a", "asked of a column"),
        ("9 ** 9 ** 9 > a", "out of range"),
        ("a > " + "9" * 30, "64 bits"),
        ("a > " + "9" * 5000, "cannot be read"),
        ("a > 'x' * 10", "none is a column"),
        ("a" + " + a" * 3000, "too large|cannot be read"),
        ("(" * 5000 + "a" + ")" * 5000, "cannot be read"),
        ("~" * 9000 + "t", "cannot be read|too large"),
        ("a > 1" + " " * 20_000, "over 20,000"),
        ("__local_limit > a", "__local_"),
        ("1 < 2", "condition on columns"),
        ("a & 3", "truth values"),
        ("a.sum", r"called: \.sum\(\)"),
        ("not`the sum` > 4", "no column"),
    ],
)
def test_what_is_refused_says_what_to_do(text: str, words: str) -> None:
    with pytest.raises((OperationRefused, AttributeError), match=words):
        POINTER.query(text)


def test_options_that_would_change_the_frame_are_refused() -> None:
    with pytest.raises(OperationRefused, match="take what eval returns"):
        POINTER.eval("c = a", inplace=True)


# -- texts that nobody has written -------------------------------------------------------------------------

NUMBERS = st.sampled_from(["0", "1", "-2", "2.5", "1e2", "@limit", "True"])
COLUMNS = st.sampled_from(["a", "b", "`the sum`", "size", "row", "index", "b * 2", "-a", "(a + size)"])
VALUES = st.recursive(
    COLUMNS | NUMBERS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/"]), inner).map(" ".join),
        inner.map("({})".format),
        inner.map("-{}".format),
    ),
    max_leaves=4,
)
CONDITIONS = st.recursive(
    st.one_of(
        st.tuples(COLUMNS, st.sampled_from(["<", "<=", "==", "!=", ">"]), VALUES).map(" ".join),
        st.tuples(VALUES, st.just("<"), COLUMNS, st.just("<="), VALUES).map(" ".join),
        st.tuples(
            st.just("s"),
            st.sampled_from(["==", "!=", "in", "not in"]),
            st.sampled_from(["'x'", "['x', 'y']"]),
        ).map(" ".join),
        st.tuples(st.just("a"), st.sampled_from(["in", "not in", "=="]), st.just("[1, 2, -3]")).map(" ".join),
        st.sampled_from(["t", "~t", "t == False", "b.isna()", "s.str.len() > 1"]),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or", "&", "|", "=="]), inner).map(" ".join),
        inner.map("not {}".format),
        inner.map("({})".format),
    ),
    max_leaves=5,
)


@given(CONDITIONS)
@example("s == 'x' == (-0) < a <= a")
@settings(max_examples=60, deadline=None)
def test_any_condition_is_that_of_pandas(text: str) -> None:
    try:
        wanted = FRAME.eval(text, engine="python")
    except Exception:  # whatever pandas makes of it
        return
    try:
        made = POINTER.eval(text)
    except OperationRefused as refused:  # a chain has a text or a list beside a number
        if "of two values, of which none is a column" not in str(refused):
            raise
        return
    same(getattr(made, "mock", made), wanted)


PIECES = [
    "a",
    "b",
    "s",
    "t",
    "`the sum`",
    "@limit",
    "@names",
    "'x'",
    "1",
    "2.5",
    "(",
    ")",
    "[",
    "]",
    ",",
    ".",
    "+",
]
PIECES += [
    "-",
    "*",
    "/",
    "**",
    "%",
    "<",
    "==",
    "=",
    "&",
    "|",
    "~",
    "and",
    "or",
    "not",
    "in",
    "if",
    "lambda",
    ":",
]
PIECES += [
    "`",
    "@",
    "'",
    '"',
    "\\",
    "#",
    "\n",
    "\0",
    "é",
    "\uff10",
    "9" * 20,
    "str",
    "__class__",
    "mean()",
    "f'{a}'",
]


def changed(parts: tuple[str, int, int, list[str]]) -> str:
    """A text with some of it taken out, and something put in its place."""
    text, first, count, put = parts
    at = first % (len(text) + 1)
    return text[:at] + " ".join(put) + text[at + count :]


MUTATED = st.tuples(
    st.sampled_from([*QUERIES, *EVALUATIONS]),
    st.integers(0, 100),
    st.integers(0, 8),
    st.lists(st.sampled_from(PIECES), max_size=3),
).map(changed)


@given(st.one_of(MUTATED, st.text(max_size=20), st.lists(st.sampled_from(PIECES), max_size=10).map(" ".join)))
@settings(max_examples=300, deadline=2000)
def test_any_text_is_what_pandas_makes_of_it_or_an_error(text: str) -> None:
    try:
        made = POINTER.eval(text)
    except (DuetError, TypeError, ValueError, AttributeError, KeyError, NotImplementedError):
        return
    try:
        wanted = FRAME.eval(text, engine="python")
    except Exception as error:
        raise AssertionError(f"pandas refuses {text!r}") from error
    same(getattr(made, "mock", made), wanted)


@pytest.mark.parametrize("dtype", ["string", "object", "category"])
def test_missing_texts_are_compared_as_pandas_does(dtype: str) -> None:
    frame = FRAME.assign(s=FRAME["s"].astype(dtype), a=FRAME["a"].astype("Int64").where(FRAME["a"] != 1))
    pointer = pointer_to(PROGRAM, frame)
    for text in ["s == 'x'", "not s == 'x'", "s != 'x' and a > 0", "not a > 0 or t"]:
        pd.testing.assert_series_equal(pointer.eval(text).mock, frame.eval(text, engine="python"))


def test_letters_alone_are_names() -> None:
    for name in string.ascii_lowercase:
        if name not in FRAME.columns:
            with pytest.raises(OperationRefused, match="no column"):
                POINTER.eval(name)
