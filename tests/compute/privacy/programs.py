"""Programs as a scientist's pointers record them, and a plain machine that runs them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from duetlink.compute.operations.steps.program import Step


class Ref(NamedTuple):
    """A result, by its number."""

    id: int


class Const(NamedTuple):
    """A constant of the lists."""

    name: str


class Raw(NamedTuple):
    """An argument as it is on the wire."""

    argument: Any


class Program:
    """Steps, in order."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def do(self, operation: str, *arguments: Any, **keywords: Any) -> Ref:
        id_ = len(self.steps) + 1
        wired = {name: encode(value) for name, value in keywords.items()}
        self.steps.append(Step(id_, operation, [encode(argument) for argument in arguments], wired))
        return Ref(id_)

    def asset(self, name: str = "people", revision: int = 1) -> Ref:
        return self.do("asset", name, revision)

    def item(self, of: Ref, key: Any) -> Ref:
        return self.do("operator.getitem", of, key)


def encode(argument: Any) -> Any:
    """As `program.py` says."""
    if isinstance(argument, Ref):
        return [argument.id]
    if isinstance(argument, Raw):
        return argument.argument
    if isinstance(argument, Const):
        return ["c", argument.name]
    if isinstance(argument, tuple):
        return ["t", *map(encode, argument)]
    if isinstance(argument, list):
        return ["l", *map(encode, argument)]
    if isinstance(argument, slice):
        return ["s", *map(encode, (argument.start, argument.stop, argument.step))]
    return argument


def run(steps: Sequence[Step], assets: Mapping[str, Any]) -> dict[int, Any]:
    """All results, by their numbers. Checks nothing."""
    results: dict[int, Any] = {}
    for step in steps:
        if step.operation == "asset":
            results[step.id] = assets[step.arguments[0]]
            continue
        arguments = [_decode(argument, results) for argument in step.arguments]
        keywords = {name: _decode(value, results) for name, value in step.keywords.items()}
        if step.operation.startswith("."):
            results[step.id] = getattr(arguments[0], step.operation[1:])(*arguments[1:], **keywords)
        elif step.operation.startswith("@"):
            results[step.id] = getattr(arguments[0], step.operation[1:])
        else:
            results[step.id] = _named(step.operation)(*arguments, **keywords)
    return results


def _decode(argument: Any, results: Mapping[int, Any]) -> Any:
    if type(argument) is not list:
        return argument
    tag, *parts = argument
    if type(tag) is int:
        return results[tag]
    if tag == "c":
        return _named(parts[0])
    decoded = [_decode(part, results) for part in parts]
    return slice(*decoded) if tag == "s" else {"t": tuple, "l": list}[tag](decoded)


def _named(path: str) -> Any:
    module, _, name = path.partition(".")
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found
