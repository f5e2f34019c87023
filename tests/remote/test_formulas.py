"""Formulas of statsmodels: matrices as patsy makes them, and models as they are here."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pandas as pd
import patsy
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink import Mock, errors
from duetlink.compute.operations.sizes.mask import PUBLIC
from duetlink.duet.answering.requests import Request
from duetlink.duet.asking.grammar import formula_text
from duetlink.duet.asking.grammar.formula_design import Design
from duetlink.duet.asking.grammar.formula_text import constraints
from duetlink.errors import DuetError, OperationRefused
from tests.remote.conftest import Bench
from tests.remote.recording import pointer_to, recording

TOWNS = ["Ulm", "Bonn", "Jena"]


def make_frame() -> pd.DataFrame:
    draw = np.random.default_rng(1)
    rows = 90
    frame = pd.DataFrame(
        {
            "y": draw.normal(size=rows),
            "x": draw.normal(size=rows) ** 2 + 0.1,
            "z": draw.integers(1, 9, rows),
            "town": draw.choice(TOWNS, rows),
            "kind": pd.Categorical(draw.choice(["p", "q", "r"], rows), categories=["q", "p", "r"]),
            "ill": draw.random(rows) < 0.4,
            "year": draw.choice([2019, 2020, 2021], rows),
            "the sum": draw.normal(size=rows),
            "w": draw.random(rows) + 0.5,
        },
        index=draw.permutation(rows),
    )
    frame["sick"] = (draw.random(rows) < 1 / (1 + np.exp(frame["x"] - 1))).astype(int)
    frame.loc[frame.index[3:6], "x"] = np.nan
    frame.loc[frame.index[8], "town"] = None
    frame.loc[frame.index[10], "kind"] = None
    return frame


FRAME = make_frame()
PLAIN = FRAME.assign(town=FRAME["town"].astype(object))  # patsy knows no other texts
PROGRAM = recording("numpy", "pandas")
POINTER = pointer_to(PROGRAM, FRAME.assign(whole=FRAME["z"].astype("Int64")))

FORMULAS = [
    "y ~ 1",
    "y ~ x",
    "y ~ x - 1",
    "y ~ 0 + kind",
    "y ~ ill",
    "ill ~ x",
    "y + z ~ x",
    "np.log(x + 3) ~ kind * ill",
    "y ~ x + np.log(x) + C(town, levels=TOWNS):x - 1",
    "y ~ C(town, Treatment('Bonn'), levels=['Ulm', 'Bonn', 'Jena'])",
    "y ~ C(town, levels=TOWNS) * x",
    "y ~ C(kind, Treatment(reference='r')) + C(year, levels=[2021, 2019, 2020])",
    "y ~ C(kind, Sum)",
    "y ~ 0 + C(kind, Sum) + ill",
    "y ~ C(kind, Poly)",
    "y ~ C(kind, Poly([1, 2, 10])):x",
    "y ~ C(kind, Helmert) + C(ill)",
    "y ~ C(kind, Diff):x - 1",
    "y ~ 0 + C(kind, Diff)",
    "y ~ kind:ill",
    "y ~ x:kind:ill + ill",
    "y ~ center(z) + standardize(z) + scale(z, ddof=1)",
    "y ~ Q('the sum') + I(x**2)",
    "y ~ I(x > 1) + np.where(z > 3, 1, 0)",
    "y ~ (x + z + w)**2 - x:z",
    "y ~ pow(x, 2) + abs(w)",
    "y ~ x / kind + z",
    "y ~ kind / x",
    "y ~ np.power(x, 2) + np.sqrt(z) + z // 2 + x.shift(1)",
]


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_matrices_are_those_of_patsy(formula: str) -> None:
    same(formula)


def same(formula: str) -> None:
    left, right = patsy.dmatrices(formula, PLAIN, return_type="dataframe")
    made = Design(PROGRAM, formula, globals()).matrices(POINTER)
    pd.testing.assert_frame_equal(made.left.mock, pd.DataFrame(left))
    pd.testing.assert_frame_equal(made.right.mock, pd.DataFrame(right), rtol=1e-9)


FACTORS = ["x", "z", "kind", "ill", "C(town, levels=TOWNS)", "np.log(z)", "C(kind, Sum)", "I(z*x)", "1"]


@given(st.lists(st.sampled_from(FACTORS), min_size=1, max_size=4), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_any_formula_makes_the_matrices_of_patsy(factors: list[str], draw: random.Random) -> None:
    formula = f"y ~ {factors[0]}"
    for factor in factors[1:]:
        formula += f" {draw.choice('+:*/-')} {factor}"
    try:
        none = patsy.dmatrices(formula, PLAIN)[1].shape[1] == 0
    except patsy.PatsyError:
        none = True
    if not none:
        same(formula)
        return
    with pytest.raises(OperationRefused):
        Design(PROGRAM, formula, globals()).matrices(POINTER)


# -- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ " + "(" * 3000 + "x" + ")" * 3000,
        "y ~ " + "+".join(f"x{number}" for number in range(2000)),
        "y ~ " + "-" * 4000 + "1",
        "y ~ (a+b+c+d+e+f+g+h+i+j+k+l+m)**12",
        "y ~ (a+b+c+d+e+f+g+h+i+j+k+l+m)**" + "9" * 4000,
        "y ~ " + "*".join(f"x{number}" for number in range(11)),
        "y ~ x # note",
        "y ~ 'x",
        "y ~ x ~ z",
        "y ~ \0",
        "y ~ 3",
        "y ~ -x",
        "y ~ x **",
        "y ~ )(",
    ],
)
def test_what_is_no_formula_or_too_large_is_refused(formula: str) -> None:
    with pytest.raises(OperationRefused):
        formula_text.parsed(formula)


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("y ~ town", r"C\(town, levels="),
        ("y ~ C(z)", r"C\(z, levels="),
        ("y ~ C(town, levels=['Ulm', 'Ulm'])", "each once"),
        ("y ~ C(kind, Treatment('s'))", "'s' not found"),
        ("y ~ C(kind, 3)", "contrasts are"),
        ("y ~ nothing", "no column"),
        ("y ~ whole", "astype"),
        ("y ~ bs(x, df=3)", "make it a column before"),
        ("y ~ make_frame()", "in no list"),
        ("y ~ __import__('os').system('true')", "no column"),
        ("y ~ np.ctypeslib.load_library('x', 'y')", "in no list"),
        ("y ~ np.__dict__", "columns and modules only"),
        ("y ~ x.request('why')", "request"),
        ("y ~ x.to_csv('f')", "no list"),
        ("y ~ I(9 ** 9 ** 9)", "out of range"),
        ("y ~ I(lambda: 1)", "Lambda"),
        ("y ~ I(" + "~" * 200 + "ill)", "too large|cannot be read"),
        ("y ~ I(x if ill else z)", "IfExp"),
        ("y ~ I(0 < x < 1)", "compare once"),
        ("y ~ I(x + ~3)", "invert is done with columns"),
        ("y ~ I(not ill)", "Not"),
        ("y ~ I('a' * 99)", "none is a column"),
        ("y ~ I(3)", "an item for each row"),
        ("y ~ 0", "no column"),
        ("y ~ center()", "center"),
    ],
)
def test_what_is_refused_says_what_to_do(formula: str, words: str) -> None:
    with pytest.raises((DuetError, AttributeError), match=words):
        Design(PROGRAM, formula, globals()).matrices(POINTER)


NAMES = ["Intercept", "x", "z", "C(k)[T.b]"]


@pytest.mark.parametrize(
    ("texts", "matrix", "amounts"),
    [
        (["x"], [[0, 1, 0, 0]], [0]),
        (["x = z = 2"], [[0, 1, -1, 0], [0, 0, 1, 0]], [0, 2]),
        (["2*x - z/4 = 1, C(k)[T.b] + 1e2 = -(3 - x)"], [[0, 2, -0.25, 0], [0, -1, 0, 1]], [1, -103]),
        (["(x = 1), z"], [[0, 1, 0, 0], [0, 0, 1, 0]], [1, 0]),
        (["Intercept", "x = 1"], [[1, 0, 0, 0], [0, 1, 0, 0]], [0, 1]),
    ],
)
def test_hypotheses_are_rows_and_amounts(texts: list[str], matrix: Any, amounts: Any) -> None:
    made = constraints(texts, NAMES)
    assert sorted(made[0].tolist()) == sorted(matrix)
    order = [made[0].tolist().index(row) for row in matrix]
    assert made[1][order].tolist() == amounts


@pytest.mark.parametrize(
    "text",
    [
        *("", "q = 1", "x * z", "1 / x", "x / 0", "1 = 1", "x = 1e999", "x x", ")("),
        *("-" * 4000 + "x", ",".join(["x"] * 4000), "x" * 10_001),
    ],
)
def test_what_is_no_hypothesis_or_too_large_is_refused(text: str) -> None:
    with pytest.raises(OperationRefused, match="hypothes"):
        constraints([text], NAMES)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_formula_without_an_owner_is_refused() -> None:
    pointer = PROGRAM.wrap(FRAME, PROGRAM.next_id(), PUBLIC)  # as that of an asset
    with pytest.raises(OperationRefused, match=r"duet\.remote\(statsmodels\.formula\.api\)"):
        smf.ols("y ~ x", data=pointer)


# -- with an owner -----------------------------------------------------------------------------------------


@pytest.fixture
def frame(bench: Bench) -> Any:
    if "frame" not in bench.owner.store:
        bench.share(
            FRAME,
            "frame",
            mock=Mock(bounds={"x": (0.1, 4), "z": (1, 8), "w": (0.5, 1.5)}, categories=CATEGORIES),
        )
    return bench.scientist.wait_object("frame", 10)


CATEGORIES: dict[str, list[object]] = {"kind": ["q", "p", "r"], "sick": [0, 1]}

MODELS = {
    "ols": lambda smf, d: smf.ols("y ~ x * kind + np.log(z)", data=d).fit(),
    "robust errors": lambda smf, d: smf.ols("y ~ x + ill", d).fit(cov_type="HC1"),
    "a subset": lambda smf, d: smf.ols("y ~ x", data=d, subset=d["z"] > 3).fit(),
    "levels": lambda smf, d: smf.ols("y ~ C(town, levels=TOWNS) + C(kind, Sum)", data=d).fit(),
    "wls": lambda smf, d: smf.wls("y ~ x", data=d, weights=d["w"]).fit(),
    "weights of one's own": lambda smf, d: smf.wls("y ~ x", data=d, weights=np.arange(1.0, 91.0)).fit(),
    "glm": lambda smf, d: smf.glm("sick ~ x + kind", data=d, family=sm.families.Binomial()).fit(),
    "logit": lambda smf, d: smf.logit("sick ~ x + center(z)", data=d).fit(disp=0),
    "poisson": lambda smf, d: smf.poisson("z ~ x", data=d).fit(disp=0),
    "quantile": lambda smf, d: smf.quantreg("y ~ x", data=d).fit(q=0.5),
    "mixed": lambda smf, d: smf.mixedlm("z ~ x", d.dropna(), groups="year").fit(),
    "mixed slopes": lambda smf, d: smf.mixedlm("y ~ w", d, groups=d["year"], re_formula="~w").fit(),
    "gee": lambda smf, d: smf.gee("y ~ w", "year", data=d).fit(),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore")
def test_a_model_is_what_it_is_here(bench: Bench, frame: Any, name: str) -> None:
    remote = bench.scientist.remote(smf)
    made = bench.scientist.fetch(
        {part: getattr(MODELS[name](remote, frame), part) for part in ("params", "bse")}
    )
    here = MODELS[name](smf, PLAIN)
    for part, got in made.items():
        wanted = getattr(here, part)
        assert list(got.index) == list(wanted.index)
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-7)


def test_other_data_go_the_way_of_the_formula(bench: Bench, frame: Any) -> None:
    formula = "y ~ center(z) + x + kind"
    fitted = bench.scientist.remote(sm).formula.ols(formula, frame).fit()
    here = smf.ols(formula, PLAIN).fit()
    pd.testing.assert_series_equal(fitted.predict(frame).get(), here.predict(PLAIN))
    new = pd.DataFrame({"x": [1.0, 2.0], "z": [3, 8], "kind": pd.Categorical(["p", "r"], ["q", "p", "r"])})
    pd.testing.assert_series_equal(fitted.predict(new).get(), here.predict(new))
    assert str(here.summary().tables[1]) == fitted.summary().tables[1].as_text().get()


def test_hypotheses_and_matrices_are_read_here(bench: Bench, frame: Any) -> None:
    fitted, here = (
        bench.scientist.remote(smf).ols("y ~ x + z", frame).fit(),
        smf.ols("y ~ x + z", PLAIN).fit(),
    )
    np.testing.assert_allclose(fitted.f_test("x = z = 0").fvalue.get(), here.f_test("x = z = 0").fvalue)
    np.testing.assert_allclose(fitted.t_test(["x = 1"]).tvalue.get(), here.t_test("x = 1").tvalue)
    left, right = bench.scientist.remote(patsy).dmatrices("y ~ x + kind", frame)
    made = bench.scientist.remote(sm).OLS(left, right).fit().params.get()
    pd.testing.assert_series_equal(made, smf.ols("y ~ x + kind", PLAIN).fit().params)


def test_a_level_that_nobody_named_fails_at_the_owner(bench: Bench, frame: Any) -> None:
    fitted = bench.scientist.remote(smf).ols("y ~ C(town, levels=['Ulm', 'Bonn'])", frame).fit()
    with pytest.raises(errors.OperationFailed, match="KeyError"):
        fitted.params.get()
    # a model that was never made has changed nothing: the frame is as it was
    other = bench.scientist.remote(smf).ols("y ~ x", frame).fit()
    pd.testing.assert_series_equal(other.params.get(), smf.ols("y ~ x", PLAIN).fit().params)


def test_the_owner_reads_operations(bench: Bench, frame: Any) -> None:
    codes = []

    def answer(request: Request) -> None:
        codes.append(str(request.code))
        request.approve()

    bench.answer = answer
    bench.scientist.remote(smf).ols("y ~ np.log(z)", frame).fit().params.get()
    (code,) = codes
    assert "np.log(" in code
    assert "sm.OLS(" in code
    assert "~ np" not in code


def test_a_truth_value_on_the_left_says_what_to_do(bench: Bench, frame: Any) -> None:
    with pytest.raises(OperationRefused, match="astype"):
        bench.scientist.remote(smf).logit("ill ~ x", frame)
