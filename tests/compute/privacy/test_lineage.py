"""Which programs lead to a private statistic. Every refusal is an attack, or would be one with other data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from duetlink import Prep
from duetlink.compute.operations.allow_lists.allowed import Allowed
from duetlink.compute.operations.steps.program import Step
from duetlink.compute.prep.frames import PREPARE
from duetlink.compute.privacy.lineage import Refusal, Route, Schemas, row_stable
from duetlink.compute.privacy.table import BOOL, FLOAT, INT, NUMPY, PANDAS, TEXT, Column, Rows
from tests.compute.privacy.programs import Const, Program, Raw, Ref

Build = Callable[[Program], Ref]


def judge(build: Build, allowed: Allowed, schemas: Schemas, **keywords: Any) -> Route | Refusal:
    program = Program()
    target = build(program)
    return row_stable(program.steps, target.id, allowed, schemas, **keywords)


def age(p: Program) -> Ref:
    return p.item(p.asset(), "age")


def adults(p: Program) -> Ref:
    people = p.asset()
    return p.item(people, p.do("operator.ge", p.item(people, "age"), 18))


FINE: dict[str, Build] = {
    "a column": age,
    "an attribute": lambda p: p.do("@age", p.asset()),
    "an array": lambda p: p.asset("array"),
    "a filter of the frame": lambda p: p.item(adults(p), "income"),
    "a filter of a column": lambda p: p.item(x := age(p), p.do("operator.gt", x, 18)),
    "a filter of a filter": lambda p: p.item(x := p.item(adults(p), "age"), p.do("operator.lt", x, 65)),
    "a filter by a text": lambda p: p.item(
        p.item(f := p.asset(), p.do("operator.eq", p.item(f, "town"), "Ulm")), "age"
    ),
    "a filter by truth values": lambda p: p.item(p.item(f := p.asset(), p.item(f, "male")), "age"),
    "two conditions": lambda p: p.item(
        p.item(
            f := p.asset(),
            p.do(
                "operator.and_",
                p.do("operator.gt", p.item(f, "age"), 18),
                p.do("operator.invert", p.item(f, "male")),
            ),
        ),
        "age",
    ),
    "some columns": lambda p: p.item(p.item(p.asset(), ["age", "town"]), "age"),
    "arithmetic": lambda p: p.do(
        "operator.truediv", p.item(f := p.asset(), "income"), p.do("operator.add", 1, p.item(f, "age"))
    ),
    "arithmetic behind a filter": lambda p: p.do(
        "operator.mul", p.item(f := adults(p), "age"), p.item(f, "income")
    ),
    "clip": lambda p: p.do(".clip", age(p), 0, 120),
    "clip by name": lambda p: p.do(".clip", age(p), upper=120),
    "astype": lambda p: p.do(".astype", p.item(p.asset(), "male"), Const("numpy.float64")),
    "astype by text": lambda p: p.do(".astype", p.item(p.asset(), "male"), "int64"),
    "missing ones left out": lambda p: p.do(".dropna", age(p)),
    "rows with missing ones left out": lambda p: p.item(p.do(".dropna", p.asset(), subset=["age"]), "age"),
    "missing ones filled in": lambda p: p.do(".fillna", age(p), 0),
    "isin": lambda p: p.item(f := age(p), p.do(".isin", f, [1, 2.5])),
    "between": lambda p: p.do(".between", age(p), 18, 65),
    "a truth value": lambda p: p.do("operator.gt", age(p), 18),
    "numpy.where": lambda p: p.do("numpy.where", p.do("operator.gt", x := age(p), 18), x, 0),
    "numpy.sqrt": lambda p: p.do("numpy.sqrt", age(p)),
    "a square": lambda p: p.do("operator.pow", age(p), 2),
    "tens": lambda p: p.do("operator.floordiv", p.item(p.asset(), "income"), 10),
    "a column of a matrix": lambda p: p.item(p.asset("matrix"), (slice(None), 1)),
    "rows of a matrix": lambda p: p.item(
        p.item(
            m := p.asset("matrix"),
            p.do("operator.gt", p.item(m, (slice(None), -3)), 0),
        ),
        (slice(None), 2),
    ),
    "rows of a tensor": lambda p: p.item(x := p.asset("tensor"), p.do("torch.isfinite", x)),
    "a tensor": lambda p: p.do(".clamp", p.do(".double", p.asset("tensor")), 0, 1),
    "polars": lambda p: p.item(
        p.do(".filter", f := p.asset("polars"), p.do("operator.gt", p.item(f, "age"), 18)), "income"
    ),
    "to_numpy": lambda p: p.do("numpy.maximum", p.do(".to_numpy", age(p)), 0),
}


@pytest.mark.parametrize("build", FINE.values(), ids=FINE)
def test_rows_by_themselves_are_accepted(build: Build, allowed: Allowed, schemas: Schemas) -> None:
    found = judge(build, allowed, schemas)
    assert isinstance(found, Route), found


ATTACKS: dict[str, tuple[Build, str]] = {
    # a step before, which mixes rows
    "divided by its own sum": (
        lambda p: p.do("operator.truediv", x := age(p), p.do(".sum", x)),
        ".sum: it computes one value from many rows",
    ),
    "minus the mean": (lambda p: p.do("operator.sub", x := age(p), p.do("numpy.mean", x)), "many rows"),
    "compared with the largest": (lambda p: p.do("operator.eq", x := age(p), p.do(".max", x)), "many rows"),
    "clipped to the smallest": (lambda p: p.do(".clip", x := age(p), p.do(".min", x), 9), "many rows"),
    "sorted": (lambda p: p.do(".sort_values", age(p)), "order"),
    "cumsum": (lambda p: p.do(".cumsum", age(p)), "from other rows"),
    "numpy.cumsum": (lambda p: p.do("numpy.cumsum", age(p)), "from other rows"),
    "shift": (lambda p: p.do(".shift", age(p), 1), "from other rows"),
    "diff": (lambda p: p.do(".diff", age(p)), "from other rows"),
    "rank": (lambda p: p.do(".rank", age(p)), "from other rows"),
    "interpolate": (lambda p: p.do(".interpolate", age(p)), "from other rows"),
    "filled from the row before": (lambda p: p.do(".ffill", age(p)), "from other rows"),
    "filled a number of times": (lambda p: p.do(".fillna", age(p), 9, limit=1), "no keywords"),
    "filled with the mean": (lambda p: p.do(".fillna", x := age(p), p.do(".mean", x)), "many rows"),
    "filled by another column": (lambda p: p.do(".fillna", age(p), age(p)), "constant"),
    "groupby": (lambda p: p.do(".groupby", p.asset(), "town"), "histogram"),
    "a group's mean on each row": (
        lambda p: p.do(".transform", p.do(".groupby", p.asset(), "town"), "mean"),
        "histogram",
    ),
    "value_counts": (lambda p: p.do(".value_counts", age(p)), "histogram"),
    "rolling": (lambda p: p.do(".mean", p.do(".rolling", age(p), 3)), "from other rows"),
    # by place or label
    "rows with the labels of others, which a preparation has numbered anew": (
        lambda p: p.do(
            "operator.sub",
            p.item(f := adults(p), "age"),
            p.item(p.do(PREPARE, f, Prep().select("age").to_json()), "age"),
        ),
        "different steps",
    ),
    "head": (lambda p: p.do(".head", age(p), 3), "position"),
    "sample": (lambda p: p.do(".sample", age(p), 3), "position"),
    "a slice": (lambda p: p.item(age(p), slice(0, 3)), "position"),
    "a slice of a frame": (lambda p: p.item(p.asset(), slice(0, 3)), "named by a text"),
    "a slice of an array": (lambda p: p.item(p.asset("array"), slice(None, None, 2)), "position"),
    "a row of an array": (lambda p: p.item(p.asset("array"), 0), "position"),
    "a row by its label": (lambda p: p.item(age(p), "alice"), "label"),
    "a row of a matrix": (lambda p: p.item(p.asset("matrix"), (0, slice(None))), "column of a matrix"),
    "some rows of a matrix": (
        lambda p: p.item(p.asset("matrix"), (slice(0, 9), 1)),
        "column of a matrix",
    ),
    "a matrix by truth": (
        lambda p: p.item(p.asset("matrix"), (slice(None), True)),
        "column of a matrix",
    ),
    "a new axis": (lambda p: p.item(p.asset("array"), (None, slice(None))), "position"),
    "iloc": (lambda p: p.item(p.do("@iloc", age(p)), 3), "no column"),
    "loc": (lambda p: p.item(p.do("@loc", p.asset()), 3), "no column"),
    "transposed": (lambda p: p.do("@T", p.asset("matrix")), "no column"),
    "drop_duplicates": (lambda p: p.do(".drop_duplicates", age(p)), "position"),
    "nlargest": (lambda p: p.do(".nlargest", age(p), 3), "position"),
    # rows many times
    "by whole numbers of its own": (lambda p: p.item(x := p.asset("whole"), x), "condition"),
    "by a list of places": (lambda p: p.item(p.asset("array"), [0, 0, 0]), "position"),
    "by truth values in a list": (lambda p: p.item(p.asset("array"), [True, False]), "position"),
    "with itself": (lambda p: p.do("numpy.concatenate", [p.asset("array")]), "argument"),
    "pandas.concat": (lambda p: p.do("pandas.concat", [p.asset()]), "argument"),
    "repeat": (lambda p: p.do("numpy.repeat", p.asset("array"), 9), "many times"),
    "tile": (lambda p: p.do("numpy.tile", p.asset("array"), 9), "many times"),
    "merge": (lambda p: p.do(".merge", p.asset(), p.asset()), "many times"),
    "explode": (lambda p: p.do(".explode", p.asset(), "town"), "many times"),
    "outer product": (lambda p: p.do("numpy.outer", x := p.asset("array"), x), "many times"),
    "reshape": (lambda p: p.do(".reshape", p.asset("matrix"), -1), "another form"),
    "ravel": (lambda p: p.do("numpy.ravel", p.asset("matrix")), "another form"),
    "broadcast": (lambda p: p.do("operator.add", p.asset("matrix"), p.asset("matrix")), "whole table"),
    "a matrix with a number": (lambda p: p.do("operator.add", p.asset("matrix"), 1), "whole table"),
    "matmul": (lambda p: p.do("operator.matmul", p.asset("matrix"), p.asset("matrix")), "another form"),
    # other rows
    "a mask from another asset": (
        lambda p: p.item(age(p), p.do("operator.gt", p.item(p.asset("others"), "age"), 18)),
        "one asset",
    ),
    "a column of another asset": (
        lambda p: p.do("operator.add", age(p), p.item(p.asset("others"), "age")),
        "one asset",
    ),
    "a column before a filter": (
        lambda p: p.do("operator.add", p.item(p.asset(), "age"), p.item(adults(p), "age")),
        "different steps",
    ),
    "the same filter twice": (
        lambda p: p.do("operator.add", p.item(adults(p), "age"), p.item(adults(p), "income")),
        "different steps",
    ),
    "a mask before a filter": (
        lambda p: p.item(p.item(adults(p), "age"), p.do("operator.gt", age(p), 3)),
        "different steps",
    ),
    "what was sent as a mask": (lambda p: p.item(age(p), p.do("value", 0)), "that you sent"),
    "what was sent as a column": (lambda p: p.do("operator.mul", age(p), p.do("value", 0)), "that you sent"),
    "numpy.where with what was sent": (
        lambda p: p.do("numpy.where", p.do("operator.gt", x := age(p), 3), x, p.do("value", 0)),
        "that you sent",
    ),
    "numpy.where as places": (
        lambda p: p.do("numpy.where", p.do("operator.gt", age(p), 3)),
        "3 arguments",
    ),
    "columns of two libraries": (
        lambda p: p.do("operator.add", x := age(p), p.do(".to_numpy", x)),
        "of pandas and of numpy",
    ),
    "made from nothing": (lambda p: p.do("operator.add", age(p), p.do("numpy.arange", 9)), "no asset"),
    "an expression of polars": (
        lambda p: p.do(".filter", p.asset("polars"), p.do("polars.col", "age")),
        "expressions",
    ),
    # in ways that tell by failing, or by another type
    "a quotient of whole numbers": (
        lambda p: p.do("operator.floordiv", x := p.item(p.asset(), "income"), x),
        "constant above 0",
    ),
    "divided by a constant 0": (lambda p: p.do("operator.mod", p.item(p.asset(), "income"), 0), "above 0"),
    "a quotient in torch": (
        lambda p: p.do("operator.mod", p.asset("tensor"), 0.5),
        "in the same way for every row",
    ),
    "NaN made whole": (lambda p: p.do(".astype", age(p), "int64"), "no whole number"),
    "a tensor made whole": (lambda p: p.do(".long", p.asset("tensor")), "whole numbers"),
    # 0 and -0 are the same but for a quotient, and which of them is the larger depends on the row's place
    "divided by the larger of two": (
        lambda p: p.do("operator.truediv", 1, p.do("torch.maximum", p.asset("tensor"), 0)),
        "divide before that",
    ),
    "divided by what was clipped": (
        lambda p: p.do("operator.truediv", x := age(p), p.do("operator.mul", p.do(".clip", x, 0, 9), 2)),
        "divide before that",
    ),
    "divided by what was clipped and filtered": (
        lambda p: p.do(
            "operator.truediv",
            1,
            p.item(x := p.do(".clip", age(p), 0, 9), p.do("operator.lt", x, 5)),
        ),
        "divide before that",
    ),
    "a power": (lambda p: p.do("operator.pow", x := age(p), x), "exact"),
    "a negative power": (lambda p: p.do("operator.pow", p.item(p.asset(), "income"), -1), "exact"),
    "whole numbers clipped to a half": (
        lambda p: p.do(".clip", p.item(p.asset(), "income"), 0.5, 9),
        "of their kind",
    ),
    "clipped the wrong way": (lambda p: p.do(".clip", age(p), 9, 0), "above"),
    "clipped by a column": (lambda p: p.do(".clip", x := age(p), lower=x), "constants"),
    "a huge constant": (lambda p: p.do("operator.add", age(p), 10**30), "too large"),
    "NaN as a constant": (lambda p: p.do("operator.add", age(p), float("nan")), "constant is NaN"),
    "text by text": (
        lambda p: p.do("operator.eq", x := p.item(p.asset(), "town"), x),
        "constant text",
    ),
    "text by number": (lambda p: p.do("operator.gt", p.item(p.asset(), "town"), 3), "not texts"),
    "a logarithm": (lambda p: p.do("numpy.log", age(p)), "not exact"),
    "isin with a column": (lambda p: p.do(".isin", x := age(p), [x]), "argument"),
    # programs in programs
    "apply": (lambda p: p.do(".apply", age(p), "sum"), "calls a function"),
    "query": (lambda p: p.do(".query", p.asset(), "age > 3"), "program"),
    "eval": (lambda p: p.do(".eval", p.asset(), "age + 1"), "program"),
    "text methods": (lambda p: p.do(".upper", p.do("@str", p.item(p.asset(), "town"))), "no column"),
    "a function as an argument": (lambda p: p.do("numpy.add", age(p), Raw(["f", "numpy.add"])), "argument"),
    "aligned with a fill value": (lambda p: p.do(".add", x := age(p), x, fill_value=0), "no keywords"),
    "out as a keyword": (lambda p: p.do("numpy.add", x := age(p), 1, out=x), "no keywords"),
    "out by its place": (lambda p: p.do("numpy.add", x := age(p), 1, x), "2 arguments"),
    "where as a keyword": (lambda p: p.do("numpy.sqrt", x := age(p), where=x), "no keywords"),
    # what is not there, or not open
    "an asset that is not open": (lambda p: p.asset("secret"), "not opened"),
    "another revision": (lambda p: p.asset("people", 2), "not opened"),
    "a revision that is True": (lambda p: p.asset("people", True), "not opened"),
    "no such column": (lambda p: p.item(p.asset(), "shoe size"), "none of this name"),
    "a column by truth": (lambda p: p.item(p.asset(), True), "none of this name"),
    "no such result": (lambda p: p.do("operator.add", age(p), Ref(99)), "no result 99"),
    "itself": (lambda p: p.do("operator.add", age(p), Ref(3)), "no result 3"),
    "a whole frame": (lambda p: p.asset(), "one column"),
    "a result in a tuple": (lambda p: p.item(p.asset("matrix"), (Ref(1), 1)), "argument"),
}


@pytest.mark.parametrize(("build", "words"), ATTACKS.values(), ids=ATTACKS)
def test_all_else_is_refused_in_words(build: Build, words: str, allowed: Allowed, schemas: Schemas) -> None:
    found = judge(build, allowed, schemas)
    assert isinstance(found, Refusal)
    assert words in found.words


def test_a_route_has_its_steps_and_no_others(allowed: Allowed, schemas: Schemas) -> None:
    p = Program()
    people = p.asset()
    p.do(".sum", p.item(people, "age"))
    income = p.item(people, "income")
    p.do("value", 0)
    target = p.do("operator.gt", income, 1_000)
    found = row_stable(p.steps, target.id, allowed, schemas)
    assert isinstance(found, Route)
    assert [step.operation for step in found.steps] == ["asset", "operator.getitem", "operator.gt"]
    assert (found.asset, found.revision, found.filters, found.target) == ("people", 1, 0, target.id)
    assert found.column == Column(PANDAS, BOOL, Rows("people", 1))


def test_a_route_knows_the_kind_of_its_column(allowed: Allowed, schemas: Schemas) -> None:
    kinds = {
        "town": lambda p: p.item(p.asset(), "town"),
        "whole": lambda p: p.do("operator.mul", p.item(p.asset(), "income"), 3),
        "half": lambda p: p.do("operator.truediv", p.item(p.asset(), "income"), 2),
        "array": lambda p: p.do("numpy.where", p.do("operator.gt", age(p), 3), 1, 0),
    }
    found = {name: judge(build, allowed, schemas) for name, build in kinds.items()}
    columns = {name: route.column for name, route in found.items() if isinstance(route, Route)}
    rows = Rows("people", 1)
    assert columns == {
        "town": Column(PANDAS, TEXT, rows),
        "whole": Column(PANDAS, INT, rows),
        "half": Column(PANDAS, FLOAT, rows),
        "array": Column(NUMPY, INT, rows),
    }


def test_a_refusal_names_the_step(allowed: Allowed, schemas: Schemas) -> None:
    p = Program()
    x = p.item(p.asset(), "age")
    total = p.do(".sum", x)
    target = p.do("operator.truediv", x, total)
    found = row_stable(p.steps, target.id, allowed, schemas)
    assert isinstance(found, Refusal)
    assert found.step == p.steps[total.id - 1]
    assert found.words == (
        "no private statistic can be made of result 4: step 3, .sum: it computes one value from many rows, "
        "so that one person changes every row that it is used with: use a number that you know, such as one "
        "that was released before"
    )


def test_a_number_that_two_results_had_is_refused(allowed: Allowed, schemas: Schemas) -> None:
    """The room keeps the first result of a number, or the last once it was dropped."""
    p = Program()
    x = p.item(p.asset(), "age")
    total = p.do(".sum", x)
    p.steps.append(Step(0, "drop", [total.id], {}))
    p.steps.append(Step(total.id, "operator.getitem", [[1], "age"], {}))
    target = p.do("operator.truediv", x, total)
    found = row_stable(p.steps, target.id, allowed, schemas)
    assert isinstance(found, Refusal)
    assert "the number 3 was given to two results" in found.words


def test_what_is_in_no_list_is_refused(schemas: Schemas) -> None:
    none = Allowed()
    p = Program()
    target = p.do("operator.add", p.item(p.asset(), "age"), 1)
    found = row_stable(p.steps, target.id, none, schemas)
    assert isinstance(found, Refusal)
    assert "may not be done to private data" in found.words


def test_what_follows_a_number_in_brackets_is_no_argument(allowed: Allowed, schemas: Schemas) -> None:
    p = Program()
    x = p.item(p.asset(), "age")
    for hidden in ([x.id, 7], [True], [x.id, [1]], [], [[x.id]], ["q", 1], {"a": 1}):
        steps = [*p.steps, Step(9, "operator.add", [hidden, [x.id]], {})]
        assert isinstance(row_stable(steps, 9, allowed, schemas), Refusal)
