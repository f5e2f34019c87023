"""Separates a step from its literals: rounds of a loop have the same outline and may have different
literals.
"""

from __future__ import annotations

from typing import Any

from duetlink.compute.operations.steps.trace import Shape


def outline(shape: Shape) -> str:
    """Return a step without its numbers and texts. Steps with the same outline may be rounds of a loop."""
    return repr(
        (
            shape.operation,
            [_outlined(argument) for argument in shape.arguments],
            {name: _outlined(argument) for name, argument in shape.keywords.items()},
            shape.gradients,
            shape.kind,
            shape.settings,
        )
    )


def literals(shape: Shape) -> list[Any]:
    """Return a step's numbers, texts and names of constants, in order. The outline determines how many."""
    found: list[Any] = []
    for argument in (*shape.arguments, *shape.keywords.values()):
        _collect(argument, found)
    return found


def references_in(argument: Any) -> int:
    """Count the results that an argument names."""
    if type(argument) is not list or not argument:
        return 0
    return 1 if type(argument[0]) is int else sum(map(references_in, argument[1:]))


def _outlined(argument: Any) -> Any:
    if type(argument) is list:
        if argument and argument[0] in ("c", "f"):
            return argument
        return [argument[0] if argument else None, *map(_outlined, argument[1:])]
    if isinstance(argument, (int, float)) and not isinstance(argument, bool):
        return 0
    return "" if isinstance(argument, str) else argument


def _collect(argument: Any, found: list[Any]) -> None:
    if type(argument) is not list:
        found.append(argument)
    elif argument and type(argument[0]) is not int:
        for part in argument[1:]:
            _collect(part, found)
