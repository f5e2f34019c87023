from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from duetlink.compute.operations.lineage import operation_name
from duetlink.compute.operations.steps.trace import LoggedValue
from tests.compute.operations.programs import Writer, asked, effects, lineage, traced


def test_a_mean_of_ages() -> None:
    w = Writer()
    ages = w.asset("ages", 3)
    labels = w.asset("labels")
    mean = w.call(".mean", w.call(".float", ages))
    w.call(".mean", labels)
    found = w.lineage(mean)
    assert found.assets == (("ages", 3),)
    assert found.operations == ("float", "mean")
    assert found.steps == 2
    assert found.code == found.expression == "ages.float().mean()"


def test_an_asset_itself() -> None:
    w = Writer()
    found = w.lineage(w.asset("ages"))
    assert (found.assets, found.operations, found.steps) == ((("ages", 1),), (), 0)
    assert found.expression == "ages"


def test_names_of_operations() -> None:
    names = {
        ".mean": "mean",
        "@T": "T",
        "@=grad": "grad=",
        "operator.getitem": "getitem",
        "operator.and_": "and_",
        "builtins.len": "len",
        "numpy.linalg.norm": "numpy.linalg.norm",
        ".a\nb": "a\\x0ab",
    }
    assert {operation: operation_name(operation) for operation in names} == names


def test_a_function_that_is_given_is_an_operation() -> None:
    w = Writer()
    x, frame = w.asset("x"), w.asset("frame")
    largest: list[Any] = [w.id(), "numpy.apply_along_axis", [["f", "numpy.max"], 0, [x.id]]]
    several: list[Any] = [w.id(), ".agg", [[frame.id], ["d", "a", ["l", "min", "sum"]]]]
    named: list[Any] = [w.id(), "pandas.crosstab", [[x.id], [x.id]], {"values": [x.id], "aggfunc": "median"}]
    hidden: list[Any] = [w.id(), ".agg", [[frame.id], ["l", ["f", "os.system"]]]]
    w.steps += [largest, several, named, hidden]
    trace = traced(w.steps, may_learn=False)
    assert [lineage(trace, step[0]).operations for step in (largest, several, named, hidden)] == [
        ("numpy.apply_along_axis", "numpy.max"),
        ("agg", "min", "sum"),
        ("median", "pandas.crosstab"),
        ("agg", "unknown"),
    ]


def test_a_text_is_an_operation_where_it_is_looked_up_alone() -> None:
    w = Writer()
    column = w.call("operator.getitem", w.asset("frame"), "max")
    assert w.lineage(w.call(".agg", column, "no such function")).operations == ("agg", "getitem")


def test_a_long_expression_is_told_in_words() -> None:
    w = Writer()
    total = w.asset("ages")
    for name in ("heights_of_all_patients", "weights_of_all_patients", "labels"):
        total = w.call("operator.add", total, w.asset(name))
    expression = w.lineage(total).expression
    assert expression == "result of 3 steps on ages, heights_of_all_patients, weights…"
    assert len(expression) <= 60
    assert w.lineage(w.call("torch.zeros", 3, *range(60))).expression == "result of 1 step on no asset"


# -- what is written in place ------------------------------------------------------------------------------


def test_what_is_written_into_a_view() -> None:
    w = Writer()
    x, y = w.call(".copy", w.asset("x")), w.asset("y")
    view = w.call(".view", x, -1)
    w.do(".mul_", view, 0)
    w.do("operator.setitem", view, 0, w.call("operator.getitem", y, 5))
    found = w.lineage(w.call(".mean", x))
    assert found.assets == (("x", 1), ("y", 1))
    assert found.code.splitlines() == [
        "x_2 = x.copy()",
        "x_view = x_2.view(-1)",
        "x_view.mul_(0)",
        "x_view[0] = y[5]",
        "x_2.mean()",
    ]


def test_what_is_written_afterwards_does_not_count() -> None:
    w = Writer()
    x, y = w.call(".copy", w.asset("x")), w.asset("y")
    view = w.call(".view", x, -1)
    mean = w.call(".mean", x)
    w.do("operator.setitem", view, 0, y)
    assert w.lineage(mean).assets == (("x", 1),)
    assert w.lineage(x).assets == (("x", 1), ("y", 1))


def test_what_is_written_before_they_share_memory_does_not_count() -> None:
    w = Writer()
    x, y, z = w.call(".copy", w.asset("x")), w.call(".copy", w.asset("y")), w.asset("z")
    w.do("operator.setitem", y, 0, z)
    w.call("builtins.list", [x, y])
    assert w.lineage(w.call(".mean", x)).assets == (("x", 1),)
    w.do("operator.setitem", y, 0, z)
    assert w.lineage(w.call(".mean", x)).assets == (("x", 1), ("y", 1), ("z", 1))


def test_what_is_written_through_a_container() -> None:
    w = Writer()
    x, y = w.call(".copy", w.asset("x")), w.asset("y")
    box = w.call("builtins.list", [])
    w.do(".append", box, x)
    w.do(".copy_", w.call("operator.getitem", box, 0), y)
    assert w.lineage(w.call(".mean", x)).assets == (("x", 1), ("y", 1))


def test_an_asset_opened_twice_is_one_object() -> None:
    w = Writer()
    first, second, y = w.asset("x"), w.asset("x"), w.asset("y")
    w.do("operator.setitem", w.call("operator.getitem", first, slice(None)), 0, y)
    assert w.lineage(w.call(".mean", second)).assets == (("x", 1), ("y", 1))


def test_a_value_opened_twice_is_one_object() -> None:
    steps = [
        [1, "value", [0]],
        [2, "value", [-1]],
        [3, "asset", ["y", 1]],
        [0, ".copy_", [[1], [3]]],
        [4, ".sum", [[2]]],
    ]
    assert lineage(traced(steps, [LoggedValue("float64", "")]), 4).assets == (("y", 1),)


def test_an_attribute_that_is_set() -> None:
    w = Writer()
    x, y = w.call(".copy", w.asset("x")), w.asset("y")
    w.do("@=data", x, y)
    found = w.lineage(w.call(".sum", x))
    assert found.assets == (("x", 1), ("y", 1))
    assert found.operations == ("copy", "data=", "sum")


@pytest.mark.parametrize("keyword", ["out", "inplace"])
def test_keywords_that_write(keyword: str) -> None:
    w = Writer()
    x, y = w.call(".copy", w.asset("x")), w.asset("y")
    w.do("numpy.exp", y, **{keyword: x})
    assert w.lineage(w.call(".sum", x)).assets == (("x", 1), ("y", 1))


def test_a_keyword_that_does_not_write() -> None:
    w = Writer()
    x = w.call(".copy", w.asset("x"))
    w.call("torch.nn.functional.relu", x, inplace=False)
    assert w.lineage(w.call(".sum", x)).operations == ("copy", "sum")


def test_an_operation_in_no_list_may_change_anything() -> None:
    w = Writer()
    x, y = w.call(".copy", w.asset("x")), w.asset("y")
    w.do("numpy.unheard_of", y, x)
    found = w.lineage(w.call(".sum", x), lambda name: "in_place" if "unheard" in name else effects(name))
    assert found.assets == (("x", 1), ("y", 1))


def test_a_seed_belongs_to_what_is_drawn_after_it() -> None:
    w = Writer()
    w.do("torch.manual_seed", 7)
    x = w.asset("x")
    assert w.lineage(w.call(".mean", x)).code == "x.mean()"
    assert w.lineage(w.call(".bernoulli", x)).code == "# seed 7\nx.bernoulli()"


# -- hostile programs ----------------------------------------------------------------------------------------


def test_an_id_defined_twice_stands_for_both() -> None:
    steps = [
        [1, "asset", ["secret", 1]],
        [2, "asset", ["public", 1]],
        [3, ".sum", [[1]]],
        [3, ".sum", [[2]]],
    ]
    found = lineage(traced(steps), 3)
    assert found.assets == (("secret", 1), ("public", 1))
    assert found.code.splitlines() == [
        "secret_sum = secret.sum()  # one of several steps that claim to make this",
        "secret_sum = public.sum()  # one of several steps that claim to make this",
        "secret_sum",
    ]


def test_an_id_used_anew_after_it_was_dropped_is_another_result() -> None:
    steps = [
        [1, "asset", ["secret", 1]],
        [2, "asset", ["public", 1]],
        [3, ".sum", [[1]]],
        [0, "drop", [3, "x", None]],
        [3, ".sum", [[2]]],
    ]
    assert lineage(traced(steps), 3).assets == (("public", 1),)


@pytest.mark.parametrize("reference", [[1], [1.0], [True], [1, "and more"]])
def test_references_that_the_worker_might_take(reference: list[object]) -> None:
    steps = [[1, "asset", ["secret", 1]], [2, "operator.add", [reference, 1]]]
    assert lineage(traced(steps), 2).assets == (("secret", 1),)


@pytest.mark.parametrize("revision", [1, 1.0, True])
def test_revisions_that_the_worker_might_take(revision: object) -> None:
    assert lineage(traced([[1, "asset", ["secret", revision]]]), 1).assets == (("secret", 1),)


def test_results_under_0_and_under_enormous_ids() -> None:
    steps = [[0, "asset", ["secret", 1]], [1 << 60, ".sum", [[0]]]]
    assert lineage(traced(steps), 1 << 60).assets == (("secret", 1),)


def test_references_to_nothing() -> None:
    w = Writer()
    x = w.asset("x")
    w.steps.append([7, "operator.add", [[99], [x.id]]])
    found = lineage(traced(w.steps), 7)
    assert found.code == "undefined + x"


@pytest.mark.parametrize(
    "step",
    [
        [],
        5,
        None,
        [2],
        [2, ".sum"],
        ["2", ".sum", [[1]]],
        [2, "", [[1]]],
        [2, ".sum", {"x": 1}],
        [2, ".sum", [[1]], [1]],
        [2, ".sum", [[1]], {}, 0, 5],
        [2, ".sum", [[]]],
        [2, ".sum", [[[1]]]],
        [2, "asset", ["x"]],
        [2, "asset", ["x", "1"]],
        [2, "asset", ["x", float("nan")]],
        [2, "asset", ["x", float("inf")]],
        [2, "asset", [["x"], 1]],
        [2, "value", [0]],
        [2, "value", ["0"]],
        [2, "value", [[0]]],
    ],
)
def test_steps_that_are_refused(step: Any) -> None:
    trace = traced([[1, "asset", ["x", 1]], step, [3, ".mean", [[1]]]])
    assert lineage(trace, 3).code == "x.mean()"
    with pytest.raises(LookupError):
        lineage(trace, 2)


def nested(depth: int) -> object:
    argument: object = [1]
    for _ in range(depth):
        argument = ["l", argument]
    return argument


def test_deep_arguments() -> None:
    assert lineage(traced([[1, "asset", ["x", 1]], [2, ".f", [nested(19)]]]), 2).assets == (("x", 1),)
    with pytest.raises(LookupError):
        lineage(traced([[1, "asset", ["x", 1]], [2, ".f", [nested(25)]]]), 2)


def test_a_chain_of_very_many_steps() -> None:
    steps: list[list[object]] = [[1, "asset", ["x", 1]]]
    steps += [[id_, "operator.add" if id_ % 7 else ".exp", [[id_ - 1]]] for id_ in range(2, 15_000)]
    assert lineage(traced(steps), 14_999).steps == 14_998


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 9)
    | st.floats()
    | st.sampled_from(["t", "l", "d", "s", "c", "z", "x"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "out"]), inner, max_size=2)
    ),
    max_leaves=12,
)
OPERATIONS = """
    .sum operator.add operator.setitem operator.getitem @=x @x .__iadd__ é.x asset value drop grad .backward
    numpy.where torch.nn.Linear notaname . @ @= operator. builtins. .__.__ sklearn. numpy.. torch.manual_seed
"""
STEPS = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.sampled_from(OPERATIONS.split()),
        st.lists(JSON, max_size=3),
        st.dictionaries(st.sampled_from(["a", "inplace", "not a name", "requires_grad"]), JSON, max_size=2),
    )
    | JSON,
    max_size=12,
)


@settings(max_examples=120, deadline=None)
@given(STEPS)
@example([[0, ".__iadd__", [None, None]]])
@example([[0, ".__iadd__", [[], None]]])
def test_whatever_comes_there_is_a_lineage_or_none(steps: list[object]) -> None:
    trace = traced([[1, "asset", ["x", 1]], *steps], [LoggedValue("float64\n", "")])  # type: ignore[list-item]
    compile(lineage(trace, 1).code, "lineage", "exec")
    try:
        found = lineage(trace, 5)
    except LookupError:
        return
    compile(found.code, "lineage", "exec")


# -- the digest ----------------------------------------------------------------------------------------------


def digest(*steps: list[object], target: int, values: tuple[LoggedValue, ...] = (), batch: int = 0) -> str:
    return asked(traced(steps, values, batch=batch), target).digest


def test_ids_and_batches_are_of_no_matter() -> None:
    one = digest([1, "asset", ["x", 1]], [2, ".mean", [[1]]], target=2)
    other = digest([70, "asset", ["y", 1]], [7, "asset", ["x", 1]], [5, ".mean", [[7]]], target=5, batch=1)
    assert one == other == "v2:3a42702a3bba178b0c43ae3bd7d72789cceccec5677aa4915ffc170e92453ae3"


def test_the_order_of_keywords_counts() -> None:
    # columns of a frame are in the order in which .agg(b=…, a=…) names them
    one = digest([1, "asset", ["x", 1]], [2, ".agg", [[1]], {"b": "max", "a": "min"}], target=2)
    assert one == digest([4, "asset", ["x", 1]], [7, ".agg", [[4]], {"b": "max", "a": "min"}], target=7)
    assert one != digest([1, "asset", ["x", 1]], [2, ".agg", [[1]], {"a": "min", "b": "max"}], target=2)


@pytest.mark.parametrize(
    "step",
    [
        [2, ".median", [[1]]],
        [2, ".mean", [[1], 0]],
        [2, ".mean", [[1], 1]],
        [2, ".mean", [[1], 1.0]],
        [2, ".mean", [[1], True]],
        [2, ".mean", [[1], "1"]],
        [2, ".mean", [[1], ["c", "1"]]],
        [2, ".mean", [[1]], {"axis": 0}],
        [2, ".mean", [[1], [1]]],
        [2, ".mean", [["l", [1]]]],
        [2, ".mean", [["t", [1]]]],
    ],
)
def test_all_else_is_of_matter(step: list[object]) -> None:
    known = [
        digest([1, "asset", ["x", 1]], other, target=2)
        for other in ([2, ".mean", [[1]]], [2, ".mean", [[1], None]])
    ]
    assert digest([1, "asset", ["x", 1]], step, target=2) not in known
    assert digest([1, "asset", ["x", 2]], [2, ".mean", [[1]]], target=2) not in known


def test_values_count_by_their_content() -> None:
    steps: list[list[object]] = [[1, "value", [0]], [2, "value", [1]], [3, "operator.sub", [[1], [2]]]]

    def of(*digests: str) -> str:
        return digest(*steps, target=3, values=tuple(LoggedValue("", digest) for digest in digests))

    assert of("a", "b") == of("a", "b")
    assert len({of("a", "b"), of("b", "a"), of("a", "a"), of("a", "c")}) == 4


def test_one_value_is_not_two_of_the_same_content() -> None:
    values = (LoggedValue("", "a"), LoggedValue("", "a"))
    one = digest(
        [1, "value", [0]], [2, "value", [0]], [3, "operator.sub", [[1], [2]]], target=3, values=values
    )
    two = digest(
        [1, "value", [0]], [2, "value", [1]], [3, "operator.sub", [[1], [2]]], target=3, values=values
    )
    assert one != two


def test_long_literals_count_as_a_whole() -> None:
    one, other = "x" * 10_000 + "a", "x" * 10_000 + "b"
    found = [asked(traced([[1, ".f", [text]]]), 1) for text in (one, other)]
    assert found[0].lineage.code == found[1].lineage.code
    assert found[0].digest != found[1].digest


def test_many_steps_in_little_time() -> None:
    """40,000 of them, which take a few tenths of a second. What were quadratic would not end."""
    w = Writer()
    x, weight = w.asset("x"), w.call("torch.zeros", 3, requires_grad=True)
    for _ in range(4_000):
        loss = w.call(".sum", w.call("operator.mul", w.call("operator.getitem", x, slice(0, 9)), weight))
        w.do(".backward", loss)
        gradient = w.call("@grad", weight)
        w.do(".add_", weight, gradient, alpha=-0.1)
        w.do(".zero_", gradient)
        w.call("operator.add", x, 1)
        w.call("operator.add", x, 2)
        w.call("operator.add", x, 3)
    trace = traced(w.steps, batch=10_000, may_learn=False)
    found = lineage(trace, weight.id)
    assert found.steps == 1 + 4_000 * 7
    assert len(found.code.splitlines()) < 20
