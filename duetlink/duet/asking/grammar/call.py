"""A tree of operations that a parser has read: done here to check it, or recorded for the owner.

What stands in a tree is looked up in the lists before it is done, on either way. A tree names nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from duetlink.compute.operations.allow_lists.allowed import Allowed
from duetlink.duet.asking.recording.program import Program, mock_of
from duetlink.errors import OperationRefused


class ParsedCall(NamedTuple):
    """One operation, as it is named on the wire, with its arguments, which may be calls themselves."""

    operation: str
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = MappingProxyType({})


def done_here(tree: Any, allowed: Allowed) -> Any:
    """What a tree makes of local objects. Raises OperationRefused: something in it is in no list."""

    def do(call: ParsedCall, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        operation = call.operation
        if operation[0] not in ".@":
            return allowed.function(operation).call(*arguments, **keywords)
        member = getattr(arguments[0], _checked(operation, arguments[0], allowed))
        return member if operation[0] == "@" else member(*arguments[1:], **keywords)

    return _walked(tree, do)


def recorded(tree: Any, program: Program) -> Any:
    """The pointer that a tree makes: each operation in it is a step of the program.

    Raises:
        OperationRefused: something in it is in no list, or may not be called with these arguments.
        Exception: what the library raises for the mocks.
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
    """The name of a method or attribute that is in the lists."""
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
