"""Whether anything in a program may have changed, in place, what a column was made from.

Arrays, tensors and frames share memory with views of them, and containers hold others. Results are put into
groups: those in one may be views of each other, or parts. An operation makes a group of its own only where
the lists say that what it makes is new, and its arguments give it nowhere else to write. Whatever writes,
writes to all groups that it mentions. The order of steps does not matter: who wrote later wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from duetlink.compute.operations.allowed import AGGREGATE, ELEMENTWISE, OTHER, Allowed
from duetlink.compute.operations.effects import worst_effect
from duetlink.compute.operations.program import ASSET, DROP, GRAD, VALUE, Step
from duetlink.errors import OperationRefused

# Keywords by which a function is told to write into what it was given.
_OUTPUTS = frozenset({"out", "inplace", "copy", "copy_X", "overwrite_input", "where"})
# What may return its argument itself, in some library and for some arguments, whatever the lists say.
_SAME = frozenset(
    [
        "to",
        "double",
        "float",
        "long",
        "int",
        "bool",
        "half",
        "type",
        "astype",
        "detach",
        "contiguous",
        "cpu",
        "view",
        "reshape",
        "round",
        "clip",
        "positive",
        "pos",
        "asarray",
        "fillna",
        "dropna",
        "fill_null",
        "fill_nan",
        "cast",
        "drop_nulls",
        "real",
        "squeeze",
        "ravel",
    ]
)


def first_write(
    steps: Sequence[Step],
    route: Collection[int],
    allowed: Allowed,
    effect: Callable[[str], str] | None = None,
) -> int | None:
    """The place of a step that may have written to something on the route; None: there is none."""
    effect_of = worst_effect if effect is None else effect
    groups = _Groups()
    writing: list[tuple[int, list[Any]]] = []
    on_route = set(route)
    for place, step in enumerate(steps):
        if step.operation in (DROP, GRAD, VALUE):
            continue
        if step.operation == ASSET:
            # one body is behind all that open an asset, and behind its other revisions perhaps
            groups.join([step.id, ("asset", repr(step.arguments[:1]))])
            continue
        touched: list[Any] = mentioned(step)
        if not touched:
            continue
        does = effect_of(step.operation)
        if place not in on_route:
            if not _is_new(step, does, allowed):
                groups.join([*touched, step.id] if step.id else touched)
            if does not in (ELEMENTWISE, AGGREGATE, OTHER) or _may_write(step, does, allowed):
                writing.append((place, touched))
        elif not _is_new(step, does, allowed):
            groups.join([*touched, step.id])
    reached = {groups.of(steps[place].id) for place in route}
    return next((place for place, ids in writing if any(groups.of(id_) in reached for id_ in ids)), None)


def mentioned(step: Step) -> list[int]:
    """The results that a step's arguments name, however they are wrapped."""
    found: list[int] = []
    waiting = [*step.arguments, *step.keywords.values()] if step.operation != DROP else []
    while waiting:
        argument = waiting.pop()
        if type(argument) is list and argument:
            if type(argument[0]) is int:
                found.append(argument[0])  # whatever follows it
            waiting += argument[1:]
        elif type(argument) is dict:
            waiting += argument.values()
    return found


def _is_new(step: Step, does: str, allowed: Allowed) -> bool:
    name = step.operation.rpartition(".")[2]
    return does in (ELEMENTWISE, AGGREGATE) and name not in _SAME and not _may_write(step, does, allowed)


def _may_write(step: Step, does: str, allowed: Allowed) -> bool:
    """Whether an operation that does not change its first argument may write into another one."""
    if step.operation.endswith("_") and step.operation[0] == ".":  # torch's way to say in place
        return True
    if _OUTPUTS & set(step.keywords) or any(_mentions(argument) for argument in step.keywords.values()):
        return True
    if _mentions_function((*step.arguments, *step.keywords.values())):
        return True
    if does == OTHER:
        return False
    inputs = _inputs(step.operation, allowed)
    return any(
        type(argument) is bool or (place >= inputs and _mentions(argument))
        for place, argument in enumerate(step.arguments)
        if place
    )


def _inputs(operation: str, allowed: Allowed) -> int:
    """How many arguments are surely read only; those that follow may be written to."""
    if operation.startswith("."):
        return 2
    if operation.startswith(("operator.", "builtins.", "math.")):
        return 3
    if operation.startswith("torch."):  # out= is a keyword there
        return 100
    try:
        return int(getattr(allowed.function(operation).call, "nin", 1))
    except OperationRefused:
        return 0


def _mentions(argument: Any) -> bool:
    return bool(mentioned(Step(0, "", [argument], {})))


def _mentions_function(arguments: Sequence[Any]) -> bool:
    waiting = list(arguments)
    while waiting:
        argument = waiting.pop()
        if type(argument) is list and argument:
            if argument[0] == "f":
                return True
            waiting += argument[1:]
    return False


class _Groups:
    """Sets that are joined: union by path halving."""

    def __init__(self) -> None:
        self._above: dict[Any, Any] = {}

    def of(self, item: Any) -> Any:
        above = self._above
        above.setdefault(item, item)
        while above[item] != item:
            above[item] = above[above[item]]
            item = above[item]
        return item

    def join(self, items: Sequence[Any]) -> None:
        first = self.of(items[0])
        for item in items[1:]:
            self._above[self.of(item)] = first
