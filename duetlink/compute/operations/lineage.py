"""The lineage of a result: its assets and operations, as code for a person, and as a digest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from duetlink.compute.operations.allow_lists.callbacks import function_table
from duetlink.compute.operations.printer.code import code_of
from duetlink.compute.operations.printer.literal import harmless
from duetlink.compute.operations.steps.effects import is_listed
from duetlink.compute.operations.steps.preparations import preparations_of
from duetlink.compute.operations.steps.program import ASSET, VALUE
from duetlink.compute.operations.steps.slice import Slice

_MAX_EXPRESSION = 60  # characters
_MAX_OPERATIONS = 1_000  # more than any real program has
# Stands among the names of operations if the program names an operation in no list, or more than
# _MAX_OPERATIONS. No list has an operation of this name.
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Lineage:
    """A superset of everything that a result may depend on."""

    assets: tuple[tuple[str, int], ...]  # name and revision, in the order of first use
    # names of operations called or passed as arguments (see `operation_name`); and UNKNOWN
    operations: tuple[str, ...]
    steps: int  # number of operations, repeated ones counted each time
    code: str  # Python; its last line is the result
    digest: str  # equal for equal steps with equal literals and values
    expression: str  # a name for the result, one line of at most 60 characters
    # digests of the preparations that its assets went through, and UNPREPARED
    preparations: tuple[str, ...] = ()


def lineage(found: Slice, digest: str) -> Lineage:
    """Return the lineage of the program that has this digest."""
    assets = dict.fromkeys(
        (shape.arguments[0], shape.arguments[1]) for shape in found.shapes if shape.operation == ASSET
    )
    steps = sum(1 for number in found.steps if found.shapes[number].operation not in (ASSET, VALUE))
    code = code_of(found)
    return Lineage(
        tuple(assets),
        _operations(found),
        steps,
        code,
        digest,
        _expression(code, steps, [name for name, _ in assets]),
        preparations_of(found),
    )


def _operations(found: Slice) -> tuple[str, ...]:
    """Return the sorted names of all operations, including functions passed as arguments.

    The peer may name an operation by any text. Only names that a list has are returned; all others become
    UNKNOWN.
    """
    asked = {shape.operation for shape in found.shapes} - {ASSET, VALUE}
    by_name: set[str] = set()
    for shape in found.shapes:
        if shape.operation in (ASSET, VALUE):
            continue
        given = (*shape.arguments, *shape.keywords.values())
        asked.update(_named_functions(given))
        if shape.operation in function_table("by_name"):
            by_name |= function_table("names").intersection(_texts(given))
    known = {operation_name(operation) for operation in asked if operation and is_listed(operation)}
    listed = sorted(known | by_name)
    if len(listed) > _MAX_OPERATIONS or not all(map(is_listed, asked)):
        return (*listed[:_MAX_OPERATIONS], UNKNOWN)
    return tuple(listed)


def _named_functions(arguments: Iterable[Any]) -> Iterator[str]:
    for argument in arguments:
        if type(argument) is list:
            if len(argument) == 2 and argument[0] == "f" and type(argument[1]) is str:
                yield argument[1]
            else:
                yield from _named_functions(argument)


def _texts(arguments: Iterable[Any]) -> Iterator[str]:
    """Yield all texts, even those that name no function, such as column names: so more operations may
    be reported.
    """
    for argument in arguments:
        if type(argument) is list:
            yield from _texts(argument)
        elif type(argument) is str:
            yield argument


def operation_name(operation: str) -> str:
    """Return an operation as a person, and a pattern of a policy, names it.

    Methods and attributes have their bare name (`mean`, `T`; `grad=` if it is set), as have Python's own
    functions (`getitem`, `add`, `len`); a library's function has its path, such as `numpy.mean`. Invisible
    characters are escaped.
    """
    if operation.startswith("@="):
        operation = f"{operation[2:]}="
    elif operation[0] in ".@":
        operation = operation[1:]
    else:
        operation = operation.removeprefix("operator.").removeprefix("builtins.")
    return harmless(operation)


def _expression(code: str, steps: int, assets: list[str]) -> str:
    if "\n" not in code and "#" not in code and len(code) <= _MAX_EXPRESSION:
        return code
    prefix = f"result of {steps:,} step{'s' if steps != 1 else ''} on "
    names = ", ".join(map(harmless, assets)) or "no asset"
    width_left = _MAX_EXPRESSION - len(prefix)
    return prefix + (names if len(names) <= width_left else names[: width_left - 1] + "…")
