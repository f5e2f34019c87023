"""Checks functions passed as arguments, and the names by which pandas would find some.

To pandas, `frame.agg("save")` means `numpy.save(frame)`, and `frame.apply("to_pickle", path=…)` calls a
method of the frame. So such a name must be in a table of `lists/guards.toml`, and a function gets no
unchecked argument.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from duetlink.compute.operations.allow_lists.allowed import IN_PLACE, libraries, read_list
from duetlink.compute.operations.allow_lists.rules import ArgumentRules
from duetlink.errors import OperationRefused

# Callable objects of these are data: modules, kernels, links, scorers, splines.
_LIBRARIES_WITH_CALLABLES = frozenset({"duetlink", "pandas", "scipy", "sklearn", "statsmodels", "torch"})
_PLAIN_TYPES = frozenset({int, float, bool, complex, str})  # classes that are used as dtypes
_MOST_DEPTH = 10


def check_functions(
    operation: str, checks: ArgumentRules, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> None:
    """Raise OperationRefused if a function, or the name of one, is passed where it is not allowed."""
    given = [*_functions(arguments, 0), *_functions(keywords, 0)]
    if (
        given
        and operation not in function_table("takers")
        and checks.library not in function_table("taker_libraries")
    ):
        raise OperationRefused(
            f"{operation} takes no function ({_display_name(given[0])}); write its steps yourself"
        )
    for function in given:
        if _display_name(function) in _changing_names():
            raise OperationRefused(
                f"{operation} takes no function that changes its arguments: {_display_name(function)}"
            )
        accepted = read_list("guards")["given"]
        known = accepted.get(operation, accepted.get(checks.library))
        if known is not None and _display_name(function) not in known and _library(function) != "sklearn":
            raise OperationRefused(
                f"{operation} does not take {_display_name(function)}; write its steps yourself"
            )
    if operation in function_table("bare") and (len(arguments) > 3 or keywords):
        raise OperationRefused(f"{operation} cannot pass further arguments to a function")
    if checks.library != "pandas":
        return
    named = {**dict(zip(checks.names, arguments, strict=False)), **keywords}
    function = named.get("func", named.get("aggfunc"))
    if operation in function_table("by_name"):
        for name in _texts(operation, function):
            _check_name(operation, name)
    if operation in function_table("hand_on"):
        if len(arguments) > len(checks.names):
            raise OperationRefused(f"{operation} cannot pass further arguments to a function")
        more = {key: value for key, value in keywords.items() if key not in checks.named}
        _check_handed_on(operation, function, more)


def is_function(value: Any) -> bool:
    """Return True for a value that is there to be called: a function, or a class that is no item type."""
    if isinstance(value, type):
        return not _is_item_type(value)
    return callable(value) and type(value).__module__.partition(".")[0] not in _LIBRARIES_WITH_CALLABLES


def _functions(argument: Any, depth: int) -> Iterator[Any]:
    """Yield the functions, and the classes that are no item types, in an argument."""
    if depth > _MOST_DEPTH:
        raise OperationRefused("an argument is nested too deeply")
    if isinstance(argument, (tuple, list)):
        for part in argument:
            yield from _functions(part, depth + 1)
    elif isinstance(argument, Mapping):
        for part in (*argument.keys(), *argument.values()):
            yield from _functions(part, depth + 1)
    elif is_function(argument):
        yield argument


def _is_item_type(class_: type) -> bool:
    if class_ in _PLAIN_TYPES or hasattr(class_, "is_numeric"):  # a dtype of Polars
        return True
    return any(base.__module__ == "numpy" and base.__name__ == "generic" for base in class_.__mro__)


def _check_name(operation: str, name: str) -> None:
    if name not in function_table("names"):
        raise OperationRefused(
            f"{operation}: the function {name!r} is in no list; mean, sum, count and first are, for example"
        )


def _check_handed_on(operation: str, function: Any, keywords: Mapping[str, Any]) -> None:
    """Check keywords that are no parameters of the operation: pandas passes them to the function that
    it calls.
    """
    for key, value in keywords.items():
        if function is None and operation in (".agg", ".aggregate"):  # agg(price=("cost", "sum"))
            found = getattr(value, "aggfunc", value[1] if type(value) is tuple and len(value) == 2 else value)
            for name in _texts(operation, found):
                _check_name(operation, name)
        elif key not in function_table("handed_on") or type(function) not in (str, list, dict):
            raise OperationRefused(
                f"{operation} cannot pass {key}= to a function; leave it out, or name the function by a text"
            )


def _texts(operation: str, function: Any) -> Iterator[str]:
    """Yield the function names in an argument that pandas takes for functions; refuse unusual forms of it."""
    kind = type(function)
    if function is None or isinstance(function, type) or is_function(function):
        return
    if isinstance(function, str):
        yield str(function)
    elif kind in (list, tuple):
        for part in function:
            yield from _texts(operation, part)
    elif kind is dict:
        for part in function.values():
            yield from _texts(operation, part)
    elif kind not in (bool, int, float):
        raise OperationRefused(
            f"{operation} takes functions by name, as a list or as a dict, not as {kind.__name__}"
        )


def _display_name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _library(function: Any) -> str:
    return str(getattr(function, "__module__", None) or type(function).__module__).partition(".")[0]


@functools.cache
def function_table(name: str) -> frozenset[str]:
    """Return a table of functions of `lists/guards.toml`."""
    return frozenset(read_list("guards")["functions"][name])


@functools.cache
def _changing_names() -> frozenset[str]:
    """Return the bare names of all functions that change an argument."""
    found: set[str] = set()
    for library in libraries():
        found.update(name.rpartition(".")[2] for name in read_list(library)["functions"].get(IN_PLACE, ()))
    return frozenset(found)
