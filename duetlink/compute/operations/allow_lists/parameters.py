"""The parameter names of operations, so that a positional argument is checked as the keyword of that name."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from duetlink.compute.operations.allow_lists.allowed import libraries, listed_functions, read_list

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (*_POSITIONAL, inspect.Parameter.KEYWORD_ONLY)


class Parameters(NamedTuple):
    """The names of positional parameters, starting with a method's object, and of all parameters with
    a name.
    """

    positional: Sequence[str] = ()
    named: frozenset[str] = frozenset()


def parameters(operation: str, kind: type) -> Parameters:
    """Return the parameters of an operation whose first argument is a `kind`; empty if no signature
    is known.
    """
    known = read_list("guards")["positions"].get(library_of(operation, kind), {})
    function = getattr(kind, operation[1:], None) if operation[0] == "." else _listed(operation)
    names = known.get(operation)
    if names is None and operation.count(".") > 1 and _is_ufunc(getattr(function, "__self__", None)):
        names = known.get(operation.rpartition(".")[2])
    if names is not None:
        return Parameters(tuple(names), frozenset(names))
    if function is None:
        return Parameters()
    if _is_ufunc(function):
        inputs = tuple(f"x{number + 1}" for number in range(function.nin))
        return Parameters((*inputs, *("out" for _ in range(function.nout))), frozenset({*inputs, "out"}))
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return Parameters()
    found = signature.parameters
    return Parameters(
        tuple(name for name, parameter in found.items() if parameter.kind in _POSITIONAL),
        frozenset(name for name, parameter in found.items() if parameter.kind in _NAMED),
    )


def library_of(operation: str, kind: type) -> str:
    """Return the library of an operation; for a method, the first library that defines a base of `kind`."""
    if operation[0] not in ".@":
        return operation.partition(".")[0]
    modules = (base.__module__.partition(".")[0] for base in kind.__mro__)
    return next((module for module in modules if module in libraries()), "")


def _is_ufunc(function: Any) -> bool:
    return type(function).__module__ == "numpy" and type(function).__name__ == "ufunc"


def _listed(operation: str) -> Any:
    """Return a listed function if its module is loaded. A name from a peer imports nothing."""
    if operation not in listed_functions():
        return None
    module, _, rest = operation.partition(".")
    found: Any = sys.modules.get(module)
    for step in rest.split("."):
        module = f"{module}.{step}"
        found = getattr(found, step, None) or sys.modules.get(module)
    return found
