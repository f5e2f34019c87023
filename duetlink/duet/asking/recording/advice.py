"""Finds out which function of a library wants plain values, and suggests what to write instead.

The function is found from the Python frames of the library; the outermost one is what the notebook has
called.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any

from duetlink.compute.operations.allow_lists.allowed import Allowed, libraries
from duetlink.compute.operations.fitted import fitted
from duetlink.duet.asking.recording.recipe import recipe_of
from duetlink.errors import OperationRefused

_NUMPY = (
    "give it to NumPy's functions as it is; call those that make an array of whatever they are given at the "
    "owner, as duet.remote(numpy).asarray(x) or duet.remote(numpy).ascontiguousarray(x); and take generators "
    "from duet.remote(numpy).random, such as .default_rng(0)"
)
_EXPRESSIONS = frozenset({"ChainedThen", "ChainedWhen", "Expr", "Then", "When"})
_REVIEWED = "have a function that calls it reviewed, @duet.remote"
# objects of NumPy that are used by x[…] or x(…) and are in no allow-list
_OTHER_WORDS = {
    "RClass": "take numpy.concatenate([x, y]) in place of numpy.r_",
    "CClass": "take numpy.column_stack([x, y]) in place of numpy.c_",
    "vectorize": f"write what it does with NumPy's functions, or {_REVIEWED}",
}


def advice_for(frames: Sequence[FrameType], allowed: Allowed) -> str:
    """Suggest what to write instead of the call that these frames of a library belong to.

    The outermost frame comes first. No frames mean a function of NumPy that is not written in Python.
    """
    if not frames:
        return _NUMPY
    for frame in frames:  # the outermost may be wrappers of decorators, which are local functions
        listed = _name_of(frame, allowed)
        if listed is not None:
            return _by_remote(listed)
        if "<locals>" not in frame.f_code.co_qualname:
            break
    else:
        frame = frames[0]
    code = frame.f_code
    name = code.co_name
    first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    kind = first if isinstance(first, type) else type(first)
    if code.co_qualname.endswith(f".{name}") and hasattr(kind, name):
        return _of_method(first, kind, name, allowed)
    return _unlisted(f"{frame.f_globals.get('__name__', '')}.{name}")


def _of_method(first: Any, kind: type, name: str, allowed: Allowed) -> str:
    library = kind.__module__.partition(".")[0]
    if library == "numpy" and kind.__name__ in _OTHER_WORDS:
        return _OTHER_WORDS[kind.__name__]
    made = name in ("__init__", "__new__")
    if made or isinstance(first, type):
        listed = allowed.name_of(kind if made else getattr(kind, name))
        return _by_remote(listed) if listed is not None else _unlisted(f"{library}.{kind.__name__}")
    if library == "polars" and kind.__name__ in _EXPRESSIONS:
        return (
            "a plain expression cannot hold a pointer, so make it with pl = duet.remote(polars), as in "
            'pl.col("a") > x'
        )
    if library == "statsmodels" and hasattr(first, "params"):
        return (
            f"what this {kind.__name__} has learnt here does not travel, so compute with its numbers, as in "
            "x @ results.params for a linear model, or let one learn at the owner by way of "
            "duet.remote(statsmodels.api)"
        )
    if hasattr(kind, "get_params"):
        return _of_estimator(first, kind, name, allowed)
    if allowed.names(kind):
        return f"place the {kind.__name__} whose method {name} this is: duet.remote(obj)"
    return _unlisted(f"{library}.{kind.__name__}.{name}")


def _of_estimator(estimator: Any, kind: type, name: str, allowed: Allowed) -> str:
    if allowed.name_of(kind) is None or allowed.method(kind, name) is None:
        return _unlisted(f"{kind.__name__}.{name}")
    by_learning = f"place it before it learns: duet.remote({kind.__name__}(…)).{name}(…)"
    if name.startswith("fit"):
        return by_learning
    try:
        recipe = recipe_of(estimator)
    except OperationRefused as refused:
        return str(refused)
    except Exception:  # the estimator does not follow scikit-learn's convention for parameters
        recipe = None
    if recipe is None or recipe.make is not fitted:
        return by_learning
    return f"place it with what it has learnt: duet.remote(model).{name}(…), model being this {kind.__name__}"


def _name_of(frame: FrameType, allowed: Allowed) -> str | None:
    """Return the name in the allow-lists of the function that this frame runs, or of one that it wraps."""
    held = [frame.f_locals.get(name) for name in frame.f_code.co_freevars]  # what a wrapper wraps
    codes = {_code(part) for part in held} - {None} | {frame.f_code}
    names = (function.name for function in allowed.functions() if _code(function.call) in codes)
    return next(names, None)


def _code(function: Any) -> CodeType | None:
    """Return the code of a function beneath its decorators; None if it is not written in Python."""
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    return code if isinstance(code, CodeType) else None


def _by_remote(listed: str) -> str:
    """Say how to call a function of the allow-lists at the owner."""
    module = listed
    while module not in sys.modules:
        module = module.rpartition(".")[0]
    return f"call it by way of duet.remote({module}){listed.removeprefix(module)}(…)"


def _unlisted(called: str) -> str:
    library = called.partition(".")[0]
    if library in libraries():
        return (
            f"{called} is in no list of what may be done with private data, so take what dir(duet.remote("
            f"{library})) has, or {_REVIEWED}"
        )
    return f"there is no list for {library or 'it'}, so {_REVIEWED}"
