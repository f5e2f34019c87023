"""Finds the call that makes an equal of an object that holds only parameters.

The arguments in `series.astype(pandas.Int64Dtype())` and `cross_val_score(LogisticRegression(C=2), X, y)`
include objects of a library that are no data. Such an object does not travel. Its parameters are read here
and become a recorded call (a `Recipe`) that makes an equal object at the owner. To the owner this is a step
like any other: it parses nothing new, and its allow-lists decide.

Each recipe is tried here first. If the object that it makes differs from the original, the original has no
recipe.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, NamedTuple

from duetlink.compute.operations.allow_lists.allowed import libraries
from duetlink.compute.operations.fitted import fitted
from duetlink.duet.asking.recording.learnt import learnt_of
from duetlink.duet.asking.recording.same import is_same
from duetlink.errors import OperationRefused

_NUMBERS_DTYPES = re.compile(r"U?Int(8|16|32|64)Dtype|Float(32|64)Dtype|BooleanDtype")
_BY_SIGNATURE = (  # modules whose objects keep each parameter as an attribute of its name
    "sklearn.compose._column_transformer",
    "sklearn.model_selection._split",
    "statsmodels.genmod.cov_struct",
    "statsmodels.genmod.families",
    "statsmodels.robust.norms",
)
_GROUPER = ("key", "level", "sort", "dropna", "closed", "label", "convention", "origin", "offset")


class Recipe(NamedTuple):
    """The call `make(*arguments, **keywords)` that makes an object."""

    make: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = {}


def recipe_of(obj: Any) -> Recipe | None:
    """Return the call that makes an equal of `obj`; None if it is data or holds more than parameters.

    Raises:
        OperationRefused: it is a fitted estimator, and something that it has learnt does not travel.
    """
    kind: Any = type(obj)
    read = _reader_of(kind)
    return read(obj) if read is not None else None


def library_of(class_: type) -> str:
    """Return the library with an allow-list that a class comes from; an empty text if there is none."""
    root = class_.__module__.partition(".")[0]
    return root if root in libraries() and root != "python" else ""


@functools.lru_cache(maxsize=1024)
def _reader_of(kind: type) -> Callable[[Any], Recipe | None] | None:
    """Return the function that finds the recipe of objects of this class; None if they have none."""
    module, root = kind.__module__, kind.__module__.partition(".")[0]
    if kind is re.Pattern:
        return _pattern
    if root == "pandas":
        return _pandas_reader(kind)
    if hasattr(kind, "get_params"):
        return _estimator
    if module.startswith(_BY_SIGNATURE):
        return _by_signature
    return None


def _estimator(obj: Any) -> Recipe:
    """Return the recipe of an estimator, with all that it has learnt. Raises OperationRefused."""
    recipe = Recipe(type(obj), (), obj.get_params(deep=False))
    has_learnt = vars(obj).keys() - vars(recipe.make(**recipe.keywords)).keys()
    return Recipe(fitted, learnt_of(obj, has_learnt)) if has_learnt else recipe


def _pattern(obj: re.Pattern[Any]) -> Recipe:
    return Recipe(re.compile, (obj.pattern, obj.flags))


# -- pandas ------------------------------------------------------------------------------------------------


def _pandas_reader(kind: type) -> Callable[[Any], Recipe | None] | None:
    bases = {base.__name__ for base in kind.__mro__}
    if kind.__name__ in _PANDAS:
        return _equal(_PANDAS[kind.__name__])
    if "ExtensionDtype" in bases:
        return _equal(lambda obj: Recipe(type(obj)) if _NUMBERS_DTYPES.fullmatch(kind.__name__) else None)
    if "BaseOffset" in bases:
        return _equal(_offset)
    return _grouper if "Grouper" in bases else None


def _equal(read: Callable[[Any], Recipe | None]) -> Callable[[Any], Recipe | None]:
    """Wrap `read` so that a recipe counts only if the object that it makes `==` the original."""

    def checked(obj: Any) -> Recipe | None:
        recipe = read(obj)
        if recipe is None or recipe.make(*recipe.arguments, **recipe.keywords) != obj:
            return None
        return recipe

    return checked


def _categorical(obj: Any) -> Recipe:
    return Recipe(type(obj), (), {"categories": obj.categories, "ordered": obj.ordered})


def _string(obj: Any) -> Recipe:
    missing = getattr(obj, "na_value", None)  # NaN, or pandas.NA, which is what the class assumes
    more = {"na_value": missing} if isinstance(missing, float) else {}
    return Recipe(type(obj), (obj.storage,), more)


def _period(obj: Any) -> Recipe:
    return Recipe(type(obj), (), {"ordinal": obj.ordinal, "freq": obj.freqstr})


def _named_aggregate(obj: Any) -> Recipe:
    return Recipe(
        type(obj), (obj.column, obj.aggfunc, *getattr(obj, "args", ())), dict(getattr(obj, "kwargs", {}))
    )


_PANDAS: dict[str, Callable[[Any], Recipe | None]] = {
    "CategoricalDtype": _categorical,
    "DatetimeTZDtype": lambda obj: Recipe(type(obj), (obj.unit, str(obj.tz))),
    "Interval": lambda obj: Recipe(type(obj), (obj.left, obj.right, obj.closed)),
    "IntervalDtype": lambda obj: Recipe(type(obj), (str(obj.subtype), obj.closed)),
    "NamedAgg": _named_aggregate,
    "Period": _period,
    "PeriodDtype": lambda obj: Recipe(type(obj), (obj.freq.freqstr,)),
    "SparseDtype": lambda obj: Recipe(type(obj), (str(obj.subtype), obj.fill_value)),
    "StringDtype": _string,
}


def _offset(obj: Any) -> Recipe:
    # the calendar was made from the weekmask and the holidays, which are parameters as well
    more = {name: value for name, value in obj.kwds.items() if name != "calendar"}
    return Recipe(type(obj), (obj.n,), {**more, "normalize": True} if obj.normalize else more)


def _grouper(obj: Any) -> Recipe | None:
    import pandas as pd

    keywords = {name: value for name in _GROUPER if (value := getattr(obj, name, None)) is not None}
    if obj.freq is not None:
        keywords["freq"] = obj.freq.freqstr
    made = pd.Grouper(**keywords)
    same = type(made) is type(obj) and is_same(vars(made), vars(obj))
    return Recipe(pd.Grouper, (), keywords) if same else None


# -- by signature ------------------------------------------------------------------------------------------


def _by_signature(obj: Any) -> Recipe | None:
    """Return the recipe of an object that keeps its parameters as attributes or in its `cvargs`."""
    keywords: dict[str, Any] = {}
    within = {**getattr(obj, "cvargs", {}), **vars(obj)}
    for name, parameter in inspect.signature(type(obj)).parameters.items():
        value = within.get(name, within.get(f"_{name}", parameter.default))
        local = isinstance(value, FunctionType) and "<locals>" in value.__qualname__
        if local or value is parameter.default:  # a local function was made by the object itself
            continue
        keywords[name] = value
    try:
        made = type(obj)(**keywords)
    except Exception:  # the object was made in another way
        return None
    return Recipe(type(obj), (), keywords) if is_same(made, obj) else None


# -- what has none ---------------------------------------------------------------------------------------


def remedy(obj: Any, listed: str | None) -> str:
    """Say what to write instead of passing `obj`; `listed` is the name of its class in the allow-lists."""
    kind = type(obj)
    if kind.__module__.startswith("numpy.random"):
        return "give its seed, such as random_state=0, or use duet.remote(numpy.random).default_rng(0)"
    if listed is None:
        return ""
    module, _, name = listed.rpartition(".")
    return f"make it at the owner: duet.remote({module}).{name}(…)"


def refuse(obj: Any, why: str, listed: str | None) -> OperationRefused:
    """Return the error that says why `obj` cannot be an argument, and what to do instead."""
    return OperationRefused(f"{type(obj).__name__} cannot be an argument: {remedy(obj, listed) or why}")
