"""Each step of a preparation is whole in one file: its types, its lowering, its source, and its blame."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from duetlink.data.prep.base import Step
from duetlink.data.prep.cast import Cast
from duetlink.data.prep.clip import Clip
from duetlink.data.prep.drop_missing import DropMissing
from duetlink.data.prep.fields import Field
from duetlink.data.prep.missing import Missing
from duetlink.data.prep.one_hot import OneHot
from duetlink.data.prep.scale import Scale
from duetlink.data.prep.select import Select
from duetlink.data.prep.spec import STEPS, PrepSpec
from duetlink.data.prep.split import Split

FIELDS = {"a": Field("int64"), "b": Field("text"), "c": Field("float32")}
# for each step: one of it, its source, what it reads and changes of FIELDS, and the types after it
EXAMPLES: dict[type[Step], tuple[Step, str, set[str], set[str], dict[str, str]]] = {
    Missing: (Missing(("NA",)), ".missing('NA')", set(), set(), {"a": "int64", "b": "text", "c": "float32"}),
    DropMissing: (
        DropMissing(),
        ".drop_missing()",
        {"a", "b", "c"},
        set(),
        {"a": "int64", "b": "text", "c": "float32"},
    ),
    Cast: (
        Cast((("a", "int8"), ("b", "date"))),
        ".cast({'a': 'int8', 'b': 'date'})",
        {"a", "b"},
        {"a", "b"},
        {"a": "int8", "b": "date", "c": "float32"},
    ),
    Select: (Select(("c", "a")), ".select('c', 'a')", {"a", "c"}, set(), {"c": "float32", "a": "int64"}),
    OneHot: (
        OneHot("b", ("x", "y")),
        ".one_hot('b', ['x', 'y'])",
        {"b"},
        {"b"},
        {"a": "int64", "b=x": "int8", "b=y": "int8", "c": "float32"},
    ),
    Scale: (
        Scale("a", (0, 9)),
        ".scale('a', bounds=(0, 9))",
        {"a"},
        {"a"},
        {"a": "float64", "b": "text", "c": "float32"},
    ),
    Clip: (
        Clip("c", (0, 0.5)),
        ".clip('c', bounds=(0, 0.5))",
        {"c"},
        {"c"},
        {"a": "int64", "b": "text", "c": "float32"},
    ),
    Split: (
        Split(0.5, 1, "a"),
        ".split(train=0.5, seed=1, by='a')",
        {"a"},
        set(),
        {"a": "int64", "b": "text", "c": "float32"},
    ),
}


def test_every_step_is_here_and_has_a_file_of_its_own() -> None:
    assert set(EXAMPLES) == set(STEPS)
    assert len({kind.__module__ for kind in STEPS}) == len(STEPS)
    assert [kind.__module__ for kind in STEPS] == [f"duetlink.data.prep.{kind.name}" for kind in STEPS]


@pytest.mark.parametrize("kind", STEPS, ids=lambda kind: kind.name)
def test_a_step_has_each_of_its_parts(kind: type[Step]) -> None:
    assert not inspect.isabstract(kind)
    step, source, reads, changes, types = EXAMPLES[kind]
    spec = PrepSpec((step,))
    assert callable(getattr(PrepSpec, kind.name))  # by which a person adds it
    assert spec.code() == f"Prep(){source}"
    assert eval(spec.code(), {"Prep": PrepSpec}) == spec
    assert PrepSpec.from_json(spec.to_json()) == spec
    assert set(step.reads(FIELDS)) == reads
    assert set(step.changes) == changes
    assert {name: field.type for name, field in step.after(FIELDS, "here").items()} == types
    if step.strict:
        assert step.blame(1)[0] in changes
    assert not step.open_column


@pytest.mark.parametrize("kind", STEPS, ids=lambda kind: kind.name)
def test_a_step_that_checks_items_says_so(kind: type[Step]) -> None:
    """A strict step names a column; the lowering of any other makes no column of what does not fit."""
    from duetlink.data.prep.lowering import lowered

    step = EXAMPLES[kind][0]
    assert lowered(PrepSpec((step,)), FIELDS, "here", row=True).strict is step.strict


def test_a_preparation_is_a_value_without_narwhals_and_says_what_runs_it() -> None:
    program = """
import sys
sys.modules["narwhals"] = None
from duetlink import Prep
from duetlink.errors import MissingLibrary
assert Prep.from_json(Prep().select("a").to_json()).code() == "Prep().select('a')"
for run in (Prep().run, lambda source: Prep().fit_private(source, 1)):
    try:
        run("people.parquet")
    except MissingLibrary as error:
        assert "pip install 'duetlink[prep]'" in str(error)
    else:
        raise SystemExit("it ran")
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
