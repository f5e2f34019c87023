"""Memory that results share with nobody who writes, where the lists say so.

Theory. The lists say that most operations make something new. There are two ways for that to be wrong. Some
give back what they got, for some arguments: `frame.clip()`, `numpy.sum(model)`. And Pandas copies only when
something is written through an object of its own, and Polars never writes: so a new frame may look at the
very memory of an array that it was made from, which others write into. No step would tell, and a result
would have a past that its code does not show. Both are prevented here: what should be new is looked at, and
at the border between frames and arrays the arrays are copied. So are those of which compiled code says how a
tree is walked: it does not look at them again.
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
    """The library whose code does it, where that matters: one of TABLES or another; empty: none."""
    library = operation.partition(".")[0]
    if library in TABLES or library in _OTHERS:
        return library
    found = [_library(argument) for argument in arguments]
    for table in reversed(TABLES):
        if table in found:
            return table
    return found[0] if found and found[0] in _OTHERS else ""


def own(argument: Any, maker: str) -> Any:
    """An argument with copies in place of arrays, if `maker` is one of TABLES."""
    if maker not in TABLES:
        return argument
    kind, library = type(argument), _library(argument)
    if kind in (list, tuple):
        return kind(own(part, maker) for part in argument)
    if kind is dict:
        return {own(key, maker): own(part, maker) for key, part in argument.items()}
    if _is_tensor(argument):
        return argument.clone()
    # Polars takes all that Pandas has as it is. A bare column is written to by whom it pleases, and that of a
    # series becomes one of an index as it is
    taken = library == "pandas" and (maker == "polars" or not _is_plain(argument))
    return argument.copy() if is_array(argument) or (taken and hasattr(argument, "copy")) else argument


def gradients(arguments: list[Any], keywords: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of a backward step, with copies of the gradients that it is given: torch may keep them as
    those of a tensor, and add to them later.
    """
    copied = [argument.clone() if _is_tensor(argument) else argument for argument in arguments[1:]]
    named = {name: given.clone() if _is_tensor(given) else given for name, given in keywords.items()}
    return [*arguments[:1], *copied], named


def apart(result: Any, maker: str, given: Sequence[Any], *, fresh: bool = False) -> Any:
    """What an operation has made of what it was given. If it is to be `fresh`, it shares no memory with that;
    else it shares none across the border.

    Raises:
        OperationRefused: it should be fresh, and is not.
    """
    all_ = list(parts(given))
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
        raise OperationRefused(f"it makes nothing new of a {kind.__name__}")
    return result


def parts(values: Iterable[Any]) -> Iterator[Any]:
    """What is in containers, which are a few deep, and they themselves."""
    for value in values:
        yield value
        if type(value) in (list, tuple, set):
            yield from parts(value)
        elif type(value) is dict:
            yield from parts((*value.keys(), *value.values()))


def _shares_array(result: Any, parts: Sequence[Any]) -> bool:
    import numpy as np

    return any(is_array(part) and np.may_share_memory(result, part) for part in parts)


def _shares_tensor(result: Any, parts: Sequence[Any]) -> bool:
    memory = result.untyped_storage().data_ptr()
    return any(_is_tensor(part) and part.untyped_storage().data_ptr() == memory for part in parts)


def _is_compiled(obj: Any) -> bool:
    """Whether compiled code trusts the arrays that this object shows of itself."""
    kind: Any = type(obj)
    return bool(kind.__module__ == "sklearn.tree._tree")


def _library(obj: Any) -> str:
    kind: Any = type(obj)
    return _library_of(kind)


@functools.cache
def _library_of(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def is_array(obj: Any) -> bool:
    """Whether it is exactly an array of NumPy's."""
    return type(obj).__module__ == "numpy" and type(obj).__name__ == "ndarray"


def _is_plain(obj: Any) -> bool:
    """Whether its columns are arrays of NumPy, or it has none."""
    if any(base.__name__ == "ExtensionArray" for base in type(obj).__mro__):
        return False
    kinds = getattr(obj, "dtypes", ()) if _has_base(type(obj), "DataFrame") else [getattr(obj, "dtype", None)]
    return all(kind is None or type(kind).__module__ == "numpy.dtypes" for kind in kinds)


def _is_tensor(obj: Any) -> bool:
    return _library(obj) == "torch" and hasattr(obj, "untyped_storage")


def _has_base(kind: type, name: str) -> bool:
    return any(base.__name__ == name for base in kind.__mro__)
