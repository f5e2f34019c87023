"""Separation of memory: results that the lists call new share no memory with the arguments.

Theory. The allow-lists say that most operations return new objects. This can be wrong in two ways. Some
operations return their argument for some inputs: `frame.clip()`, `numpy.sum(model)`. And pandas copies only
when something is written through a pandas object, and Polars never writes, so that a new frame may use the
memory of an array that later steps write into. A result would then depend on steps that its code does not
show. Both are prevented here: a result that should be new is checked, and arrays are copied whenever they
pass between a table library and another one. The arrays of a fitted tree of scikit-learn are copied as well,
because its compiled code follows them without checks.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from duetlink.errors import OperationRefused

TABLES = ("pandas", "polars")
_OTHERS = ("numpy", "scipy", "torch", "sklearn", "statsmodels")
_MODELS = ("sklearn", "statsmodels", "torch")
_CONTAINERS = (list, tuple, dict, set)


def maker_of(operation: str, arguments: Sequence[Any]) -> str:
    """Return the library that runs the operation: one of TABLES, another known one, or an empty text."""
    library = operation.partition(".")[0]
    if library in TABLES or library in _OTHERS:
        return library
    found = [_library(argument) for argument in arguments]
    for table in reversed(TABLES):
        if table in found:
            return table
    return found[0] if found and found[0] in _OTHERS else ""


def copy_arrays(argument: Any, maker: str) -> Any:
    """Return an argument with its arrays replaced by copies if `maker` is one of TABLES; else unchanged."""
    if maker not in TABLES:
        return argument
    kind, library = type(argument), _library(argument)
    if kind in (list, tuple):
        return kind(copy_arrays(part, maker) for part in argument)
    if kind is dict:
        return {copy_arrays(key, maker): copy_arrays(part, maker) for key, part in argument.items()}
    if _is_tensor(argument):
        return argument.clone()
    # Polars uses the memory of pandas objects without a copy. For pandas, objects with extension arrays are
    # copied: a bare extension array can be written to, and an index takes over that of a series
    taken = library == "pandas" and (maker == "polars" or not _is_plain(argument))
    return argument.copy() if is_array(argument) or (taken and hasattr(argument, "copy")) else argument


def gradients(arguments: list[Any], keywords: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a backward step with copies of the given gradients.

    Torch may keep a given gradient as that of a tensor, and add to it later.
    """
    copied = [argument.clone() if _is_tensor(argument) else argument for argument in arguments[1:]]
    named = {name: given.clone() if _is_tensor(given) else given for name, given in keywords.items()}
    return [*arguments[:1], *copied], named


def separate(result: Any, maker: str, given: Sequence[Any], *, fresh: bool = False) -> Any:
    """Return the result of an operation, or a copy that shares no memory with the arguments `given`.

    With `fresh`, no memory may be shared at all; otherwise none between a table library and another one.

    Raises:
        OperationRefused: a fresh result was required, and the object that was returned cannot be copied.
    """
    all_ = list(contents(given))
    across = maker in TABLES or any(_library(part) in TABLES or _is_compiled(part) for part in all_)
    return _separated(result, maker, all_, fresh, across)


def _separated(result: Any, maker: str, parts: Sequence[Any], fresh: bool, across: bool) -> Any:
    kind, library = type(result), _library(result)
    if kind in (list, tuple) and not (fresh and any(result is part for part in parts)):
        return kind(_separated(part, maker, parts, fresh, across) for part in result)
    if is_array(result):
        return result.copy() if across or (fresh and _shares_array(result, parts)) else result
    if _is_tensor(result):
        taken = maker in TABLES or (fresh and _shares_tensor(result, parts))
        return result.clone() if taken else result
    if library == "pandas" and any(_has_base(kind, name) for name in ("DataFrame", "Series", "Index")):
        return result.copy(deep=True) if fresh or maker in _OTHERS else result
    holds = isinstance(result, _CONTAINERS) or library in _MODELS
    if fresh and holds and any(result is part for part in parts):
        raise OperationRefused(f"it returns the {kind.__name__} that it was given, and makes nothing new")
    return result


def contents(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the values, and recursively the contents of lists, tuples, sets and dicts among them."""
    for value in values:
        yield value
        if type(value) in (list, tuple, set):
            yield from contents(value)
        elif type(value) is dict:
            yield from contents((*value.keys(), *value.values()))


def _shares_array(result: Any, parts: Sequence[Any]) -> bool:
    import numpy as np

    return any(is_array(part) and np.may_share_memory(result, part) for part in parts)


def _shares_tensor(result: Any, parts: Sequence[Any]) -> bool:
    memory = result.untyped_storage().data_ptr()
    return any(_is_tensor(part) and part.untyped_storage().data_ptr() == memory for part in parts)


def _is_compiled(obj: Any) -> bool:
    """True for the tree class of scikit-learn, whose compiled code trusts the arrays that it exposes."""
    kind: Any = type(obj)
    return bool(kind.__module__ == "sklearn.tree._tree")


def _library(obj: Any) -> str:
    kind: Any = type(obj)
    return _library_of(kind)


@functools.cache
def _library_of(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def is_array(obj: Any) -> bool:
    """True for exactly numpy.ndarray, not for subclasses."""
    return type(obj).__module__ == "numpy" and type(obj).__name__ == "ndarray"


def _is_plain(obj: Any) -> bool:
    """True if all its columns are NumPy arrays, or it has no columns."""
    if any(base.__name__ == "ExtensionArray" for base in type(obj).__mro__):
        return False
    kinds = getattr(obj, "dtypes", ()) if _has_base(type(obj), "DataFrame") else [getattr(obj, "dtype", None)]
    return all(kind is None or type(kind).__module__ == "numpy.dtypes" for kind in kinds)


def _is_tensor(obj: Any) -> bool:
    return _library(obj) == "torch" and hasattr(obj, "untyped_storage")


def _has_base(kind: type, name: str) -> bool:
    return any(base.__name__ == name for base in kind.__mro__)
