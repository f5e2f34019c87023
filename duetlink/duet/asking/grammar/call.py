"""Trees of operations that a parser has made; they are run on local objects or recorded as steps.

Both look up each operation in the allow-lists before they run it. Example: `pl.col("a") + 1` is the tree
`ParsedCall("operator.add", (ParsedCall("polars.col", ("a",)), ParsedCall("polars.lit", (1,))))`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from duetlink.compute.operations.allow_lists.allowed import Allowed
from duetlink.duet.asking.recording.program import Program, mock_of
from duetlink.errors import OperationRefused


class ParsedCall(NamedTuple):
    """One operation, by the name that steps use, with its arguments. These may be calls themselves."""

    operation: str
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = MappingProxyType({})


def run_here(tree: Any, allowed: Allowed) -> Any:
    """Run a tree on local objects, and return its result.

    Raises:
        OperationRefused: one of its operations is in no allow-list.
        Exception: whatever the library raises.
    """

    def do(call: ParsedCall, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        operation = call.operation
        if operation[0] not in ".@":
            return allowed.function(operation).call(*arguments, **keywords)
        member = getattr(arguments[0], _checked(operation, arguments[0], allowed))
        return member if operation[0] == "@" else member(*arguments[1:], **keywords)

    return _walked(tree, do)


def recorded(tree: Any, program: Program) -> Any:
    """Record each operation of a tree as a step, and return the pointer to its result.

    Raises:
        OperationRefused: an operation is in no allow-list, or may not be called with these arguments.
        Exception: whatever the library raises for the mocks.
    """

    def do(call: ParsedCall, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        operation = call.operation
        if operation[0] not in ".@":
            return program.call(operation, program.allowed.function(operation).call, arguments, keywords)
        mock = mock_of(arguments[0])
        name = _checked(operation, mock, program.allowed)
        if operation[0] == "@":
            return type(arguments[0]).__getattr__(arguments[0], name)
        return program.call(
            operation,
            lambda target, *rest, **more: getattr(target, name)(*rest, **more),
            arguments,
            keywords,
        )

    return _walked(tree, do)


def _checked(operation: str, target: Any, allowed: Allowed) -> str:
    """Return the bare name of a method or attribute. Raises OperationRefused if it is in no list."""
    name = operation[1:]
    find = allowed.attribute if operation[0] == "@" else allowed.method
    if find(type(target), name) is None:
        raise OperationRefused(
            f"{name!r} of a {type(target).__name__} is in no list of what may be done with private data"
        )
    return name


def _walked(tree: Any, do: Callable[[ParsedCall, tuple[Any, ...], Mapping[str, Any]], Any]) -> Any:
    if isinstance(tree, ParsedCall):
        arguments = tuple(_walked(argument, do) for argument in tree.arguments)
        keywords = {name: _walked(argument, do) for name, argument in tree.keywords.items()}
        return do(tree, arguments, keywords)
    if type(tree) in (list, tuple):
        return type(tree)(_walked(part, do) for part in tree)
    if type(tree) is dict:
        return {key: _walked(part, do) for key, part in tree.items()}
    return tree
