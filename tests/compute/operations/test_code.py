from __future__ import annotations

import ast
import inspect
import json
import operator
import re
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetlink.compute.operations.canonical import Program
from duetlink.compute.operations.printer import code
from duetlink.compute.operations.printer.aliases import Text
from duetlink.compute.operations.printer.all_steps import all_steps
from duetlink.compute.operations.printer.code import code_of
from duetlink.compute.operations.printer.defaults import FUNCTIONS
from duetlink.compute.operations.printer.expression import expression
from duetlink.compute.operations.printer.literal import harmless, literal
from duetlink.compute.operations.steps.slice import Slice, slice_of
from duetlink.compute.operations.steps.trace import Trace
from tests.compute.operations.programs import Ref, Writer, effects


def sliced(writer: Writer, target: Ref) -> Slice:
    trace = Trace(effects, may_learn=False)
    for start in range(0, len(writer.steps), 10_000):
        part = json.loads(json.dumps(writer.steps[start : start + 10_000]))
        trace.add(part, () if start else writer.values)
    return slice_of(trace, trace.node(target.id))


def check(writer: Writer, target: Ref, expected: str) -> None:
    code = code_of(sliced(writer, target))
    assert code == dedent(expected).strip()
    ast.parse(code)


# -- programs that people write ----------------------------------------------------------------------------


def test_basics() -> None:
    w = Writer()
    ages = w.call(".float", w.asset("ages"))
    centred = w.call("operator.sub", ages, w.call(".mean", ages))
    check(
        w,
        w.call("operator.truediv", centred, w.call(".std", ages, unbiased=False)),
        """
        ages_float = ages.float()
        (ages_float - ages_float.mean()) / ages_float.std(unbiased=False)
        """,
    )


def test_frames() -> None:
    w = Writer()
    patients = w.asset("patients")
    age = w.call("operator.getitem", patients, "age")
    mask = w.call("operator.and_", w.call("operator.ge", age, 18), w.call("operator.lt", age, 65))
    adults = w.call("operator.getitem", patients, mask)
    w.do(
        "operator.setitem",
        adults,
        "decade",
        w.call("operator.floordiv", w.call("operator.getitem", adults, "age"), 10),
    )
    grouped = w.call(".groupby", adults, ["decade", "city"], sort=False)
    income = w.call("operator.getitem", grouped, "income")
    check(
        w,
        w.call(".round", w.call(".agg", income, {"mean": "mean", "n": "count"}), 1),
        """
        age = patients["age"]
        patients_2 = patients[(age >= 18) & (age < 65)]
        patients_2["decade"] = patients_2["age"] // 10
        income = patients_2.groupby(["decade", "city"], sort=False)["income"]
        income.agg({"mean": "mean", "n": "count"}).round(1)
        """,
    )


def test_training_a_network() -> None:
    w = Writer()
    images, labels = w.asset("images"), w.asset("labels")
    weights = [w.value(f"torch.Tensor {shape} float32") for shape in ("64 x 32", "32", "32 x 10", "10")]
    for weight in weights:
        w.do(".requires_grad_", weight, True)
    for step in range(1000):
        some = slice(step % 10 * 32, step % 10 * 32 + 32)
        x = w.call("operator.getitem", images, some)
        y = w.call("operator.getitem", labels, some)
        hidden = w.call("torch.nn.functional.relu", w.call("torch.nn.functional.linear", x, *weights[:2]))
        logits = w.call("torch.nn.functional.linear", hidden, *weights[2:])
        w.do(".backward", w.call("torch.nn.functional.cross_entropy", logits, y))
        w.gradients(False)
        for weight in weights:
            w.do(".add_", weight, w.call("@grad", weight), alpha=-0.1)
        for weight in weights:
            w.do("@=grad", weight, None)
        w.gradients(True)
    hidden = w.call(
        "torch.nn.functional.relu", w.call("torch.nn.functional.linear", w.asset("tests"), *weights[:2])
    )
    logits = w.call("torch.nn.functional.linear", hidden, *weights[2:])
    check(
        w,
        w.call(".argmax", logits, dim=1),
        """
        value_1  # torch.Tensor 64 x 32 float32, sent by the peer
        value_2  # torch.Tensor 32 float32, sent by the peer
        value_3  # torch.Tensor 32 x 10 float32, sent by the peer
        value_4  # torch.Tensor 10 float32, sent by the peer
        value_1.requires_grad_(True)
        value_2.requires_grad_(True)
        value_3.requires_grad_(True)
        value_4.requires_grad_(True)
        for i in range(1000):
            relu = F.relu(F.linear(images[32 * (i % 10):32 * (i % 10) + 32], value_1, value_2))
            labels_2 = labels[32 * (i % 10):32 * (i % 10) + 32]
            F.cross_entropy(F.linear(relu, value_3, value_4), labels_2).backward()
            with torch.no_grad():
                value_1.add_(value_1.grad, alpha=-0.1)
                value_2.add_(value_2.grad, alpha=-0.1)
                value_3.add_(value_3.grad, alpha=-0.1)
                value_4.add_(value_4.grad, alpha=-0.1)
                value_1.grad = None
                value_2.grad = None
                value_3.grad = None
                value_4.grad = None
        F.linear(F.relu(F.linear(tests, value_1, value_2)), value_3, value_4).argmax(dim=1)
        """,
    )


def test_a_model_of_scikit_learn() -> None:
    w = Writer()
    x, y = w.asset("X"), w.asset("y")
    made = w.call("sklearn.linear_model.LogisticRegression", C=0.5, max_iter=1000)
    model = w.call(
        ".fit",
        made,
        w.call("operator.getitem", x, slice(None, 800)),
        w.call("operator.getitem", y, slice(None, 800)),
    )
    guessed = w.call(".predict", model, w.call("operator.getitem", x, slice(800, None)))
    check(
        w,
        w.call("sklearn.metrics.accuracy_score", w.call("operator.getitem", y, slice(800, None)), guessed),
        """
        logistic_regression = LogisticRegression(C=0.5, max_iter=1000).fit(X[:800], y[:800])
        accuracy_score(y[800:], logistic_regression.predict(X[800:]))
        """,
    )


def test_a_loop_that_hands_on_its_results() -> None:
    w = Writer()
    x = w.asset("x")
    weight = w.call("torch.zeros", 3)
    for step in range(50):
        gradient = w.call("operator.matmul", w.call("@T", x), w.call("operator.matmul", x, weight))
        weight = w.call("operator.sub", weight, w.call("operator.mul", gradient, 0.1 * 0.9**step))
    check(
        w,
        weight,
        """
        zeros = torch.zeros(3)
        for _ in range(50):
            zeros = zeros - x.T @ (x @ zeros) * 0.1  # 0.09000000000000001, 0.08100000000000002, \
0.0729, …, 0.0005726416897022355 in place of 0.1 (50 different, 0.0005726416897022355 to 0.1)
        zeros
        """,
    )


def test_what_all_rounds_have_made() -> None:
    w = Writer()
    x = w.asset("x")
    losses = []
    for step in range(20):
        row = w.call("operator.getitem", x, step)
        losses.append(w.call(".sum", w.call("operator.mul", row, row)))
    stacked = w.call("torch.stack", losses)
    check(
        w,
        w.call("operator.sub", w.call("operator.sub", stacked, losses[3]), losses[-1]),
        """
        all_sum = []
        for i in range(20):
            x_2 = x[i]
            sum_ = (x_2 * x_2).sum()
            all_sum.append(sum_)
        torch.stack(all_sum) - all_sum[3] - sum_
        """,
    )


def test_loops_within_loops() -> None:
    w = Writer()
    x = w.call(".copy", w.asset("x"))
    for _ in range(4):
        for column in ("age", "income"):
            for _ in range(5):
                w.do(".add_", x, w.call("operator.getitem", x, column), alpha=2)
                w.do(".mul_", x, 0.5)
        w.do(".zero_", x)
    check(
        w,
        x,
        """
        x_2 = x.copy()
        for _ in range(4):
            for _ in range(10):
                x_2.add_(x_2["age"], alpha=2)  # "income" in place of "age"
                x_2.mul_(0.5)
            x_2.zero_()
        x_2
        """,
    )


def test_values_in_a_loop() -> None:
    w = Writer()
    x = w.call(".copy", w.asset("x"))
    for step in range(8):
        w.do(".add_", x, w.value("numpy.ndarray 3 float64", f"digest {step}"))
    check(
        w,
        x,
        """
        x_2 = x.copy()
        for _ in range(8):
            value_1  # numpy.ndarray 3 float64, sent by the peer; another one in each round
            x_2.add_(value_1)
        x_2
        """,
    )


# -- how things are written --------------------------------------------------------------------------------


def written(operation: str, *arguments: object, **keywords: object) -> str:
    """An operation on x and y, which stand for "x" and "y"."""
    w = Writer()
    known = {"x": w.asset("x"), "y": w.asset("y")}

    def of(argument: object) -> object:
        if isinstance(argument, (list, tuple)):
            return type(argument)(map(of, argument))
        return known.get(argument, argument) if isinstance(argument, str) else argument

    code = w.code(
        w.call(operation, *map(of, arguments), **{name: of(value) for name, value in keywords.items()})
    )
    ast.parse(code)
    return code


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (("operator.add", "x", 2), "x + 2"),
        (("operator.sub", 2, "x"), "2 - x"),
        ((".__rsub__", "x", 2), "2 - x"),
        ((".__sub__", "x", 2), "x - 2"),
        (("operator.pow", "x", -2), "x ** -2"),
        (("operator.pow", -2, "x"), "(-2) ** x"),
        (("operator.neg", "x"), "-x"),
        (("operator.invert", "x"), "~x"),
        (("operator.abs", "x"), "abs(x)"),
        (("operator.not_", "x"), "(not x)"),
        (("operator.contains", "x", 3), "3 in x"),
        (("operator.concat", "x", "y"), "x + y"),
        (("operator.truth", "x"), "bool(x)"),
        (("operator.lt", "x", "y"), "x < y"),
        (("operator.getitem", "x", (slice(1, 5), slice(None, None, 2))), "x[1:5, ::2]"),
        (("operator.getitem", "x", (..., None, -1)), "x[..., None, -1]"),
        (("operator.getitem", "x", (0,)), "x[0,]"),
        (("operator.getitem", "x", ()), "x[()]"),
        (("operator.getitem", "x", slice(None)), "x[:]"),
        (("operator.getitem", "x", [slice(1, 2)]), "x[[slice(1, 2, None)]]"),
        (("operator.countOf", "x", 1), "operator.countOf(x, 1)"),
        (("@T", "x"), "x.T"),
        ((".__call__", "x", "y"), "x(y)"),
        ((".mean", 5), "(5).mean()"),
        ((".mean", -5), "(-5).mean()"),
        (("numpy.linalg.norm", "x", 2), "np.linalg.norm(x, 2)"),
        (("torch.nn.functional.relu", "x"), "F.relu(x)"),
        (("torch.zeros", (2, 3)), "torch.zeros((2, 3))"),
        (("pandas.concat", ["x", "y"]), "pd.concat([x, y])"),
        (("polars.col", "age"), 'pl.col("age")'),
        (("builtins.len", "x"), "len(x)"),
        ((".f", {"a": 1, 2: (3,)}), '{"a": 1, 2: (3,)}.f()'),
        ((".f", "x", float("inf"), float("nan"), None, True), 'x.f(float("inf"), float("nan"), None, True)'),
        ((".astype", "x", float), "x.astype(float)"),
        (("numpy.sum", "x", int), "np.sum(x, int)"),
    ],
)
def test_operations(step: tuple[object, ...], expected: str) -> None:
    assert written(*step) == expected  # type: ignore[arg-type]


def test_precedence() -> None:
    w = Writer()
    x, y = w.asset("x"), w.asset("y")

    def code(outer: str, inner: str, *, right: bool = False) -> str:
        part = w.call(f"operator.{inner}", x, y)
        return w.code(w.call(f"operator.{outer}", *((x, part) if right else (part, x))))

    assert code("mul", "add") == "(x + y) * x"
    assert code("add", "mul") == "x * y + x"
    assert code("sub", "sub") == "x - y - x"
    assert code("sub", "sub", right=True) == "x - (x - y)"
    assert code("pow", "pow") == "(x ** y) ** x"
    assert (
        code("pow", "pow", right=True) == "x ** (x ** y)" or code("pow", "pow", right=True) == "x ** x ** y"
    )
    assert code("lt", "lt") == "(x < y) < x"
    assert code("and_", "lt", right=True) == "x & (x < y)"
    assert code("matmul", "matmul", right=True) == "x @ (x @ y)"
    minus = w.call("operator.neg", x)
    assert w.code(w.call("operator.pow", minus, 2)) == "(-x) ** 2"
    assert w.code(w.call(".abs", minus)) == "(-x).abs()"
    assert w.code(w.call("operator.getitem", w.call("operator.add", x, y), 0)) == "(x + y)[0]"


def test_statements() -> None:
    w = Writer()
    x, y = w.call(".copy", w.asset("x")), w.asset("y")
    w.do("operator.setitem", w.call("@loc", x), (w.call("operator.lt", y, 0), "age"), 0)
    w.do("operator.delitem", x, "name")
    w.do("@=columns", x, ["a", "b"])
    w.do(".__iadd__", x, y)
    check(
        w,
        x,
        """
        x_2 = x.copy()
        x_2.loc[y < 0, "age"] = 0
        del x_2["name"]
        x_2.columns = ["a", "b"]
        x_2 += y
        x_2
        """,
    )


def test_augmented_assignment_only_where_it_is_true() -> None:
    w = Writer()
    x, noise = w.call(".sum", w.asset("x")), w.asset("noise")
    more = w.call("operator.iadd", x, noise)
    check(
        w,
        w.call(".item", more),
        "sum_x = x.sum()".replace("sum_x", "x_sum") + "\nx_sum += noise\nx_sum.item()",
    )
    w = Writer()
    x, noise = w.call(".sum", w.asset("x")), w.asset("noise")
    w.do("operator.iadd", x, noise)  # does nothing to a number
    check(w, x, "x_sum = x.sum()\noperator.iadd(x_sum, noise)\nx_sum")


def test_nothing_is_moved_past_a_change() -> None:
    w = Writer()
    x = w.call(".copy", w.asset("x"))
    before = w.call(".sum", x)
    w.do(".zero_", x)
    check(
        w,
        w.call("operator.add", before, w.call(".sum", x)),
        """
        x_2 = x.copy()
        x_sum = x_2.sum()
        x_2.zero_()
        x_sum + x_2.sum()
        """,
    )


def test_what_is_the_default_anyway_is_left_out() -> None:
    assert written("torch.nn.functional.relu", "x", inplace=False) == "F.relu(x)"
    assert written(
        "torch.nn.functional.cross_entropy", "x", "y", weight=None, reduction="sum", reduce=None
    ) == ('F.cross_entropy(x, y, reduction="sum")')
    assert written(".std", "x", unbiased=False, inplace=False) == "x.std(unbiased=False, inplace=False)"


def test_the_defaults_are_those_of_torch() -> None:
    functional = pytest.importorskip("torch.nn.functional")
    for name in (
        "relu",
        "leaky_relu",
        "max_pool2d",
        "avg_pool2d",
        "conv2d",
        "cross_entropy",
        "mse_loss",
        "nll_loss",
    ):
        function = getattr(functional, name)
        try:
            parameters = inspect.signature(function).parameters
        except ValueError:  # it is written in C
            continue
        for parameter in parameters.values():
            if parameter.name in FUNCTIONS and parameter.default is not parameter.empty:
                assert parameter.default == FUNCTIONS[parameter.name], f"{name} {parameter}"


def test_a_default_in_some_rounds_only_is_shown() -> None:
    w = Writer()
    x = w.call(".copy", w.asset("x"))
    for step in range(8):
        w.do(".add_", x, w.call("torch.nn.functional.cross_entropy", x, 1, label_smoothing=step % 3 * 0.25))
    check(
        w,
        x,
        """
        x_2 = x.copy()
        for _ in range(8):
            x_2.add_(F.cross_entropy(x_2, 1, label_smoothing=0.0))  # 0.25, 0.5 in place of 0.0
        x_2
        """,
    )


def test_long_lines_are_parted() -> None:
    w = Writer()
    parts = [w.call(".quantile", w.asset(f"column_number_{number}"), 0.25) for number in range(5)]
    total = parts[0]
    for part in parts[1:]:
        total = w.call("operator.add", total, part)
    code = w.code(total)
    assert all(len(line) <= 100 for line in code.splitlines())
    assert len(code.splitlines()) == 4


def test_names_of_assets() -> None:
    w = Writer()
    names = ["patient ages", "np", "class", "x\u202ey", "i", "äge", "sum"]
    total = w.asset("ages", 1)
    for ref in (w.asset("ages", 2), *map(w.asset, names)):
        total = w.call("operator.add", total, ref)
    check(
        w,
        total,
        r"""
        ages = asset("ages", revision=1)
        ages_2 = asset("ages", revision=2)
        patient_ages = asset("patient ages")
        np_2 = asset("np")
        class_ = asset("class")
        x_y = asset("x\u202ey")
        i_2 = asset("i")
        ge = asset("äge")
        sum_ = asset("sum")
        ages + ages_2 + patient_ages + np_2 + class_ + x_y + i_2 + ge + sum_
        """,
    )


# -- hostile texts -----------------------------------------------------------------------------------------

HOSTILE = [
    '"\nimport os  # ',
    "\r\n\x00\x1b[2J",
    "\u202e\u2066\u200b\ufeff",
    "\u2028\u2029\x85\u00a0",
    "\ud800",
    "א, 1",
    '\'"\\\\\'"""',
    "{0.__class__}",
    "\u0336x\u0336",
    "\u3164\u2800",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_stay_texts(text: str) -> None:
    w = Writer()
    x = w.asset("x")
    code = w.code(w.call(".f", x, text, {text: text}, a=text))
    assert len(code.splitlines()) == 1
    assert code.isprintable()
    (statement,) = ast.parse(code).body
    assert isinstance(statement, ast.Expr)
    call = statement.value
    assert isinstance(call, ast.Call)
    assert ast.literal_eval(call.args[0]) == text
    assert ast.literal_eval(call.keywords[0].value) == text


def test_how_hostile_texts_look() -> None:
    shown = [
        r'"\"\nimport os  # "',
        r'"\r\n\x00\x1b[2J"',
        r'"\u202e\u2066\u200b\ufeff"',
        r'"\u2028\u2029\x85\xa0"',
        r'"\ud800"',
        r'"\u05d0, 1"',
        r'''"'\"\\\\'\"\"\""''',
        '"{0.__class__}"',
        r'"\u0336x\u0336"',
        r'"\u3164\u2800"',
    ]
    assert [literal(text) for text in HOSTILE] == shown


def test_letters_of_all_languages_stay() -> None:
    for text in ("Größe", "年龄", "возраст", "ηλικία", "été", "naïve – “ok” ×"):
        assert literal(text) == f'"{text}"'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\u0430ge", r"\u0430ge"),  # Cyrillic, beside Latin
        ("\u0430\u0441\u0435", r"\u0430\u0441\u0435"),  # Cyrillic only, and reads as ace
        (
            "\u0436\u0430b\u0430",
            r"\u0436\u0430b\u0430",
        ),  # a plainly Cyrillic letter does not vouch for Latin ones
        ("\u0436\u03bf\u0431\u0430", r"\u0436\u03bf\u0431\u0430"),  # nor for a Greek one
        ("\uff41ge", r"\uff41ge"),  # a wide form
        ("a\u0131", r"a\u0131"),  # without its dot
        ("\u212a", r"\u212a"),  # the sign of Kelvin
        ("e\u0301", r"e\u0301"),
        ("age\ufe0f", r"age\ufe0f"),
        ("\u4e2d\u302a", "\u4e2d\\u302a"),  # a wide mark
        ("a\uff0cb", r"a\uff0cb"),  # a wide comma
        ("\U0001d41a", r"\U0001d41a"),  # a bold letter of mathematics
    ],
)
def test_letters_that_may_be_taken_for_others_are_shown_as_codes(text: str, shown: str) -> None:
    assert literal(text) == f'"{shown}"'
    assert ast.literal_eval(literal(text)) == text


def test_words_about_values_stay_words() -> None:
    w = Writer()
    value = w.value("numpy.ndarray\nimport os\u202e")
    check(
        w,
        w.call(".sum", value),
        r"""
        value_1  # numpy.ndarray\x0aimport os\u202e, sent by the peer
        value_1.sum()
        """,
    )


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("os.system", 'operation("os.system")(x, "ls")'),
        ("ages.mean", 'operation("ages.mean")(x, "ls")'),
        ("print", 'print(x, "ls")'),
        ("frobnicate", 'operation("frobnicate")(x, "ls")'),
        ("numpy.a b", 'operation("numpy.a b")(x, "ls")'),
        ("numpy.import", 'operation("numpy.import")(x, "ls")'),
        ("numpy.mean\n", 'operation("numpy.mean\\n")(x, "ls")'),
        (".a b", 'getattr(x, "a b")("ls")'),
        (".me\u0430n", 'getattr(x, "me\\u0430n")("ls")'),  # a Cyrillic letter
        ("@a b", '# texts that are not shown below: "ls"\ngetattr(x, "a b")'),
        (".", 'getattr(x, "")("ls")'),
    ],
)
def test_operations_that_there_are_not(operation: str, expected: str) -> None:
    assert written(operation, "x", "ls") == expected


def test_names_of_keywords() -> None:
    assert written(".f", "x", **{"a b": 1, "c": 3, "if": 2}) == 'x.f(**{"a b": 1}, c=3, **{"if": 2})'


def test_keywords_are_in_the_order_in_which_they_are_given() -> None:
    assert written(".f", "x", b=1, c=2, a=3) == "x.f(b=1, c=2, a=3)"
    assert written(".f", "x", b="y", a="z") == 'x.f(b=y, a="z")'


def test_long_literals_are_cut() -> None:
    assert literal("x" * 1_294) == f'"{"x" * 60}" + characters(1_234)'
    assert literal(10**50) == f'int("{10**50}")'
    assert written(".f", list(range(1000))) == "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, *items(988), 998, 999].f()"
    assert written(".f", dict.fromkeys(range(20), 0)) == (
        "{0: 0, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 6: 0, 7: 0, 8: 0, 9: 0, **items(8), 18: 0, 19: 0}.f()"
    )


@given(st.text())
def test_any_text_is_one_literal(text: str) -> None:
    shown = literal(text[:60])
    assert ast.literal_eval(shown) == text[:60]
    assert shown.isprintable()
    assert harmless(text).isprintable()


# -- length ------------------------------------------------------------------------------------------------


def test_what_is_too_long_says_so() -> None:
    w = Writer()
    x = w.call(".copy", w.asset("x"))
    for step in range(1000):
        w.do(f".do_{step % 7}_{step % 11}_{step % 13}", x, step)
    found = sliced(w, x)
    effectively = code_of(found)
    assert effectively == "x.copy()"  # unknown methods only look
    w = Writer()
    people = w.asset("people")
    x = w.call(".copy", people)
    for step in range(1000):
        w.do("operator.setitem", x, f"column {step * step % 991}", w.call(f".do_{step * step % 997}", x))
    w.do("operator.iadd", x, w.call("operator.getitem", people, "ssn"))
    lines = code_of(sliced(w, x)).splitlines()
    assert lines[:4] == [
        f"# … {4 + len(lines) - 8} lines, which end with …",
        '#   step_2003 = step_1["ssn"]',
        "#   operator.iadd(step_2, step_2003)",
        "#   step_2",
    ]
    assert lines[-22] == "# 1,204 further steps are not shown; request.steps has all, which end with"
    assert lines[4].startswith('# texts that are not shown below: "column ')
    missing = {f"column {step * step % 991}" for step in range(1000)}
    assert all(f'"{text}"' in "\n".join(lines) for text in missing)
    assert lines[-3:] == [
        'step_2003 = step_1["ssn"]',
        "operator.iadd(step_2, step_2003)",
        "step_2",
    ]
    texts = [line for line in lines if line.startswith(("# texts", '#   "'))]
    assert len(lines) == 4 + len(texts) + 400 + 1 + 20 + 1


def test_a_long_step_at_the_end_of_what_is_too_long_says_how_much_of_it_is_missing() -> None:
    w = Writer()
    x = w.asset("x")
    w.do("operator.setitem", x, "a", 1)
    w.do("operator.setitem", x, "b", list(range(1_000)))
    lines = code_of(sliced(w, x), max_lines=1).splitlines()
    assert len(lines[-2]) < 600
    assert re.search(r"  # \u2026 [34],\d{3} further characters$", lines[-2])


def test_all_steps_leave_out_no_item_no_text_and_no_round() -> None:
    w = Writer()
    x = w.asset("x")
    columns = [f"c{number}" for number in range(20)]
    columns[12] = "ssn"
    means = [w.call(".mean", w.call("operator.getitem", x, column)) for column in columns]
    kept = w.call(".isin", x, [*columns, "t" * 100])
    found = sliced(w, w.call("numpy.stack", [*means, kept]))
    lines = code_of(found).splitlines()
    assert lines[0] == (
        '# texts that are not shown below: "c10" "c11" "ssn" "c13" "c14" "c15" "c16" "c17" "c18"'
    )
    lines = list(all_steps(found))
    assert lines[0] == 'step_1 = asset("x", revision=1)'
    assert 'step_26 = step_1["ssn"]' in lines
    assert f'"{"t" * 100}"' in next(line for line in lines if ".isin(" in line)
    assert len(lines) == 1 + 40 + 1 + 1 + 1
    assert lines[-1] == "step_43"


@pytest.mark.parametrize("make", [list, lambda items: dict(enumerate(items))], ids=["lists", "dicts"])
def test_containers_within_each_other_make_no_endless_line(make: Any) -> None:
    nested: Any = "t" * 60
    for _ in range(4):
        nested = make([nested] * 16)
    w = Writer()
    people = w.asset("people")
    code = w.code(w.call("operator.getitem", people, w.call(".isin", people, nested)))
    assert len(code) < 25_000
    assert "items(16)" in code
    assert code.endswith("]")
    assert code.count(nested_text := "t" * 60) <= 300
    assert nested_text in code


def test_of_very_many_texts_it_is_said_how_many_are_not_listed() -> None:
    w = Writer()
    found = sliced(w, w.call(".isin", w.asset("x"), [f"t{number}" for number in range(1_000)]))
    lines = code_of(found).splitlines()
    assert lines[0].startswith('# texts that are not shown below: "t10" "t11" ')
    assert "#   and up to 490 further ones; request.steps has all" in lines


def test_a_step_of_many_long_parts_is_written_in_few_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = []

    def counted(*arguments: Any, **keywords: Any) -> Text:
        turns.append(1)
        return expression(*arguments, **keywords)

    monkeypatch.setattr(code, "expression", counted)
    w = Writer()
    x = w.asset("x")
    parts = [w.call(f".a_method_with_a_long_name_{number:03}", x) for number in range(300)]
    lines = code_of(sliced(w, w.call("numpy.stack", parts))).splitlines()
    assert len(turns) < 301 + 10
    assert lines[4] == "a_method_with_a_long_nam = x.a_method_with_a_long_name_000()"
    assert len(lines) == 4 + 301


def test_a_step_in_what_is_left_out_of_a_list_has_a_line() -> None:
    w = Writer()
    x, secret = w.asset("x"), w.asset("secret")
    shown = ["neg", "invert", "neg", "neg", "invert", "invert", "neg", "invert", "neg", "neg"]
    items = [w.call(f"operator.{name}", x) for name in shown]
    items += [w.call(".first", secret), w.call(".second", secret), w.call(".third", secret), *[x] * 4]
    lines = w.code(w.call("numpy.stack", items)).splitlines()
    assert {line.partition(" = ")[2] for line in lines} > {
        "secret.first()",
        "secret.second()",
        "secret.third()",
    }
    assert lines[-1].endswith("*items(5), x, x])")


def test_no_more_lines_are_written_for_the_parts_of_one_step_than_for_many_steps() -> None:
    w = Writer()
    x = w.asset("x")
    parts = [w.call(f".a_method_with_a_long_name_{number:03}", x) for number in range(600)]
    lines = code_of(sliced(w, w.call("numpy.stack", parts))).splitlines()
    assert lines[404].startswith("# 201 further steps are not shown; ")
    assert lines[-2].startswith("step_602 = np.stack([step_2, step_3, ")


# -- the code makes what the steps make --------------------------------------------------------------------

_STEPS = ("numpy.zeros", "operator.iadd", "operator.mul", "operator.sub", ".copy", ".sum", "view")


def _made_by_steps(steps: list[list[Any]], ages: np.ndarray) -> Any:
    results: list[Any] = []
    for operation, arguments, *_ in steps:
        given = [
            results[part[0] - 1] if type(part) is list and type(part[0]) is int else part
            for part in arguments
        ]
        if operation == "asset":
            results.append(ages)
        elif operation == "numpy.zeros":
            results.append(np.zeros(*given))
        elif operation == "operator.getitem":
            results.append(given[0][: given[1][2]])
        elif operation[0] == ".":
            results.append(getattr(given[0], operation[1:])())
        else:
            results.append(getattr(operator, operation.partition(".")[2])(*given))
    return results[-1]


def _made_by_code(code: str, ages: np.ndarray) -> Any:
    *lines, last = code.split("\n")
    names: dict[str, Any] = {"np": np, "operator": operator, "ages": ages}
    exec("\n".join([*lines, f"result = {last}"]), names)
    return names["result"]


@st.composite
def _programs(draw: st.DrawFn) -> list[list[Any]]:
    """Steps on arrays of six numbers: an asset, zeros, views, copies, sums, and what writes in place."""
    steps: list[list[Any]] = [["asset", ["ages", 1]], ["numpy.zeros", [6]]]
    arrays, numbers = [1, 2], list[int]()
    for _ in range(draw(st.integers(3, 14))):
        operation, place = draw(st.sampled_from(_STEPS)), len(steps) + 1
        one = [draw(st.sampled_from(arrays))]
        other = [draw(st.sampled_from(arrays + numbers))]
        if operation == "numpy.zeros":
            steps.append([operation, [6]])
        elif operation == "operator.iadd":
            steps.append([operation, [[draw(st.sampled_from([2, *arrays[1:]]))], other]])
        elif operation == "view":
            steps.append(["operator.getitem", [one, ["s", None, 6, None]]])
        elif operation[0] == ".":
            steps.append([operation, [one]])
        else:
            steps.append([operation, [one, other]])
        (numbers if operation == ".sum" else arrays).append(place)
    steps.append(["operator.add", [[len(steps)], [draw(st.sampled_from(arrays + numbers))]]])
    return steps


@given(_programs())
def test_the_code_makes_what_the_steps_make(steps: list[list[Any]]) -> None:
    ages = np.array([31.0, 45, 62, 27, 58, 49])
    expected = _made_by_steps(steps, ages.copy())
    code = Program.of_steps(steps, len(steps)).lineage.code
    assert np.array_equal(_made_by_code(code, ages.copy()), expected), code


def test_a_write_is_shown_where_it_happens_also_within_an_expression() -> None:
    steps = [
        ["asset", ["ages", 1]],
        ["numpy.zeros", [6]],
        ["operator.iadd", [[2], [1]]],
        [".mean", [[3]]],  # holds the write
        ["operator.mul", [[2], 1]],  # reads what was written
        ["operator.mul", [[5], [5]]],
        ["operator.sub", [[6], [5]]],
        ["operator.add", [[7], [4]]],
    ]
    ages = np.array([31.0, 45, 62, 27, 58, 49])
    code = Program.of_steps(steps, 8).lineage.code
    assert _made_by_code(code, ages.copy()).tolist() == (ages * ages - ages + ages.mean()).tolist()


def test_draws_that_get_the_same_random_numbers_are_shown() -> None:
    def written_with(second: int) -> str:
        draws = [["torch.randn", [6], {}, {"draw": [None, number]}] for number in (0, second)]
        return Program.of_steps([*draws, ["operator.sub", [[1], [2]]]], 3).lineage.code

    assert written_with(1) == "torch.randn(6) - torch.randn(6)"
    assert written_with(0) == (
        "# 1 of 2 draws get the random numbers of another one again\ntorch.randn(6) - torch.randn(6)"
    )
