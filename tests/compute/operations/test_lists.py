"""The lists themselves: what they name exists, what they say fits together, and they can be read."""

from __future__ import annotations

import contextlib
import importlib
import importlib.resources
import pkgutil
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from duetlink.compute.operations.allow_lists.allowed import (
    AGGREGATE,
    BACKWARD,
    EFFECTS,
    ELEMENTWISE,
    IN_PLACE,
    LIBRARIES,
    LOCAL,
    METADATA,
    OTHER,
    Allowed,
    read_list,
)
from duetlink.compute.operations.steps.effects import may_draw, worst_effect
from duetlink.errors import OperationRefused

MODULES = {"python": "builtins"}

# The versions that the lists were written with. An older one lacks some names, which are left out then.
WRITTEN_WITH = {
    "duetlink": (0, 1),
    "numpy": (2, 4),
    "pandas": (3, 1),
    "polars": (2, 1),
    "python": (3, 12),
    "scipy": (1, 17),
    "sklearn": (1, 9),
    "statsmodels": (0, 15),
    "torch": (2, 13),
}

# Classes whose objects are of a subclass, which is what has the methods.
SUBCLASSES = {
    "pandas.core.generic.NDFrame": ("pandas.DataFrame", "pandas.Series"),
    "pandas.core.groupby.groupby.GroupBy": (
        "pandas.core.groupby.generic.DataFrameGroupBy",
        "pandas.core.groupby.generic.SeriesGroupBy",
    ),
    "pandas.core.window.rolling.BaseWindow": (
        "pandas.core.window.rolling.Rolling",
        "pandas.core.window.ewm.ExponentialMovingWindow",
    ),
    "pandas.core.indexes.datetimelike.DatetimeIndexOpsMixin": ("pandas.DatetimeIndex",),
    "pandas.core.arrays.base.ExtensionArray": ("pandas.Categorical",),
    "scipy.interpolate._bary_rational._BarycentricRational": ("scipy.interpolate.AAA",),
    "scipy.interpolate._interpolate._PPolyBase": ("scipy.interpolate.PPoly",),
    "scipy.interpolate._polyint._Interpolator1D": ("scipy.interpolate.KroghInterpolator",),
    "scipy.sparse._base._spbase": ("scipy.sparse.csr_matrix",),
    "scipy.stats._distn_infrastructure.rv_generic": (
        "scipy.stats._distn_infrastructure.rv_continuous",
        "scipy.stats._distn_infrastructure.rv_discrete",
    ),
    "scipy.stats._multivariate.multi_rv_generic": (
        "scipy.stats._multivariate.dirichlet_gen",
        "scipy.stats._multivariate.multinomial_gen",
    ),
}
# Their objects have methods that no class of theirs tells of.
FORWARDING = {
    "statsmodels.base.wrapper.ResultsWrapper",
    "statsmodels.base.model.Results",
    "statsmodels.base.model.Model",
    "statsmodels.tsa.statespace.mlemodel.PredictionResultsWrapper",
}


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    pytest.importorskip(MODULES.get(name, name))
    return name


def full_name(library: str, name: str) -> str:
    module = read_list(library)["module"]
    return f"{module}.{name}" if module else name


def listed_functions(library: str) -> Iterator[str]:
    for names in read_list(library)["functions"].values():
        yield from (full_name(library, name) for name in names)


def members(library: str) -> Iterator[tuple[str, str, str]]:
    """Class, kind, name."""
    for class_, lists in read_list(library).get("classes", {}).items():
        for kind, names in lists.items():
            for name in names:
                yield full_name(library, class_), kind, name


def found(path: str) -> Any:
    """What a dotted path leads to; None where this version has no such thing."""
    with contextlib.suppress(AttributeError, ImportError):
        return pkgutil.resolve_name(path)
    return None


# -- what they name exists --------------------------------------------------------------------------------


def test_every_function_and_constant_exists(library: str) -> None:
    names = [
        *listed_functions(library),
        *(full_name(library, name) for name in read_list(library).get("constants", ())),
    ]
    check_missing(library, [name for name in names if found(name) is None])


def test_every_method_exists(library: str) -> None:
    for name in listed_functions(library):
        found(name)  # loads its module: a class tells of the subclasses that are loaded, and of no others
    missing = []
    for class_, kind, name in members(library):
        here = found(class_)
        if here is None:
            missing.append(class_)
        elif kind in (*EFFECTS, "metadata_methods", LOCAL) and class_ not in FORWARDING:
            classes = [
                here,
                *map(found, SUBCLASSES.get(class_, ())),
                *(subclasses(here) if library == "sklearn" else ()),
            ]
            if not any(hasattr(c, name) for c in classes):
                missing.append(f"{class_}.{name}")
    check_missing(library, missing)


def check_missing(library: str, missing: list[str]) -> None:
    if library == "python":
        version: tuple[int, ...] = sys.version_info[:2]
    else:
        version = tuple(map(int, importlib.import_module(library).__version__.split(".")[:2]))
    if version >= WRITTEN_WITH[library]:
        assert missing == []
    else:
        assert len(missing) <= 60, missing


def subclasses(class_: type) -> Iterator[type]:
    subs: list[type] = class_.__subclasses__()
    for sub in subs:
        yield sub
        yield from subclasses(sub)


def test_the_lists_load_with_the_python_library_alone() -> None:
    allowed = Allowed(["python"])
    assert allowed.function("operator.add").effect == ELEMENTWISE
    assert allowed.method(str, "upper") == ELEMENTWISE
    assert allowed.method(str, "format") is None
    with pytest.raises(OperationRefused):
        allowed.function("builtins.eval")


# -- what they say fits together --------------------------------------------------------------------------

KINDS = {*EFFECTS, LOCAL, "metadata_methods", "attributes", METADATA, "settable", "random"}


def test_the_lists_have_known_parts_only(library: str) -> None:
    listed = read_list(library)
    assert set(listed) <= {"module", "constants", "functions", "classes", "random", "changes", "learnt"}
    assert set(listed["functions"]) <= {*EFFECTS, METADATA}
    for lists in listed.get("classes", {}).values():
        assert set(lists) <= KINDS
    functions = [name for names in listed["functions"].values() for name in names]
    assert len(functions) == len(set(functions))
    assert set(listed.get("random", ())) <= set(functions)
    assert set(listed.get("changes", ())) <= set(listed["functions"].get(IN_PLACE, ()))
    for class_, lists in listed.get("classes", {}).items():
        names = [
            name for kind, found in lists.items() if kind not in ("random", "settable") for name in found
        ]
        assert len(names) == len(set(names)), class_
        assert set(lists.get("random", ())) <= set(names), class_


def test_what_is_called_in_place_is_in_place() -> None:
    listed = read_list("torch")
    for effect in (ELEMENTWISE, AGGREGATE, OTHER, METADATA):
        assert [name for name in listed["functions"].get(effect, ()) if name.endswith("_")] == []
        assert [
            name for name in listed["classes"]["Tensor"].get(effect, ()) if re.search(r"[a-z0-9]_$", name)
        ] == []


def test_a_name_that_changes_in_place_does_so_in_every_class() -> None:
    # who reads the steps has names only, and takes the worst
    effects: dict[str, set[str]] = {}
    for library in LIBRARIES:
        for _, kind, name in members(library):
            if kind in EFFECTS:
                effects.setdefault(name, set()).add(kind)
    assert [name for name, kinds in effects.items() if IN_PLACE in kinds and len(kinds) > 1] == []


NEW = """
    abs add all any astype cast ceil clip clone copy count describe div eq exp floor ge gt isna le
    log lt max mean median min mul ne neg nunique pow prod quantile std sub sqrt sum var where
"""


def test_names_that_make_something_new_do_so_in_every_class() -> None:
    assert {worst_effect(f".{name}") for name in NEW.split()} == {ELEMENTWISE, AGGREGATE}


def test_a_constant_is_named_by_itself_and_by_its_dtype() -> None:
    np = pytest.importorskip("numpy")
    allowed = Allowed(["python", "numpy"])
    assert allowed.constant_name(np.float32) == "numpy.float32"
    assert allowed.constant_name(np.dtype("float32")) == "numpy.float32"
    assert allowed.constant_name(np.dtype("float64")) == "numpy.float64"
    assert allowed.constant_name(np.dtype("int64")) == "numpy.int64"
    assert allowed.constant_name(np.dtype("datetime64[ns]")) is None
    assert allowed.constant_name(np.dtype(object)) is None
    assert allowed.constant_name(float) == "builtins.float"


def test_completion_shows_what_there_is() -> None:
    np = pytest.importorskip("numpy")
    names = Allowed(["numpy"]).names(np.ndarray)
    assert {"mean", "T", "shape", "reshape"} <= set(names)
    assert not any(name.startswith("__") for name in names)


def test_random_operations_are_marked() -> None:
    functions = ("torch.nn.functional.dropout", "torch.nn.Linear", "numpy.random.default_rng")
    assert all(map(may_draw, (*functions, ".bernoulli_", ".sample")))
    assert not any(map(may_draw, ("torch.nn.functional.relu", ".mean", "numpy.mean")))


def test_arguments_that_are_changed_are_marked() -> None:
    pytest.importorskip("torch")
    allowed = Allowed(["torch"])
    assert allowed.function("torch.nn.functional.batch_norm").changes == (1, 2)
    assert allowed.function("torch.relu_").changes == (0,)
    assert allowed.function("torch.relu").changes == ()


# -- they can be read -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*LIBRARIES, "guards", "averages"])
def test_a_list_can_be_read(name: str) -> None:
    text = (importlib.resources.files("duetlink.compute.operations") / "lists" / f"{name}.toml").read_text(
        "utf-8"
    )
    lines = text.splitlines()
    assert max(map(len, lines)) <= 118
    assert lines[0].startswith("# ")
    assert name in ("guards", "averages") or "# Left out, and why:" in lines
    assert text == text.rstrip("\n") + "\n"


def test_what_averages_is_an_aggregate_of_the_lists() -> None:
    operations = [name for table in read_list("averages")["averages"] for name in table["operations"]]
    assert len(operations) == len(set(operations))
    effects = {name: worst_effect(name) for name in operations}
    # of GroupBy it is OTHER, and has no group of its own
    assert effects == dict.fromkeys(operations, AGGREGATE) | {".value_counts": "other"}
    for alone in (".max", ".median", ".any", ".prod", "numpy.maximum.reduce", "sklearn.metrics.max_error"):
        assert alone not in operations


def test_names_in_a_list_are_in_order() -> None:
    for library in (*LIBRARIES, "averages"):
        text = (
            importlib.resources.files("duetlink.compute.operations") / "lists" / f"{library}.toml"
        ).read_text("utf-8")
        for block in re.split(r"\n\s*#[^\n]*\n|\[|\]", text):
            names = re.findall(r'"([^"]+)"', block)
            assert names == sorted(names, key=lambda name: (name.lower(), name)), (library, names[:5])


def test_every_effect_is_one() -> None:
    assert set(EFFECTS) == {ELEMENTWISE, AGGREGATE, OTHER, IN_PLACE, BACKWARD}
