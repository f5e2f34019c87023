"""Programs to trace: written down step by step, and done by an interpreter that stands for the worker."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from duetlink.compute.operations.canonical import Program, Value
from duetlink.compute.operations.lineage import Lineage
from duetlink.compute.operations.lineage import lineage as shown
from duetlink.compute.operations.steps import program
from duetlink.compute.operations.steps.slice import slice_of
from duetlink.compute.operations.steps.trace import LoggedValue, Trace
from duetlink.errors import RemoteProtocolError

_MAX_NAME = 200  # characters


def step_of(step: Any) -> program.Step:
    """A recorded step. Raises RemoteProtocolError."""
    if type(step) is list and 3 <= len(step) <= 4:
        id_, operation, arguments = step[:3]
        keywords = step[3] if len(step) == 4 else {}
        if (
            type(id_) is int
            and 0 <= id_ < 1 << 53
            and type(operation) is str
            and 0 < len(operation) <= _MAX_NAME
            and type(arguments) is list
            and type(keywords) is dict
            and (not keywords or max(map(len, keywords)) <= _MAX_NAME)
        ):
            return program.Step(id_, operation, arguments, keywords)
    raise RemoteProtocolError("a step is no list of an id, an operation, its arguments, and named ones")


EFFECTS = {
    "elementwise": """
        operator.add operator.sub operator.mul operator.truediv operator.lt operator.ge operator.eq
        operator.pow operator.and_ operator.neg operator.invert operator.abs numpy.where numpy.exp numpy.add
        torch.relu torch.zeros torch.nn.functional.linear torch.nn.functional.relu .exp .copy .clone .predict
    """,
    "aggregate": """
        numpy.mean .mean .sum .max numpy.sum torch.nn.functional.cross_entropy torch.nn.functional.mse_loss
        builtins.len sklearn.metrics.accuracy_score
    """,
    "in_place": """
        operator.setitem operator.delitem operator.iadd operator.isub numpy.copyto torch.manual_seed
        .fill .sort .fit .normal .append .step .zero_grad .__iadd__
        .add_ .sub_ .mul_ .zero_ .copy_ .requires_grad_
    """,
    "backward": ".backward torch.autograd.backward",
}
_EFFECTS = {name: effect for effect, names in EFFECTS.items() for name in names.split()}


def effects(operation: str) -> str:
    """What the operations of these tests do; those that are not named may do anything to their results."""
    return _EFFECTS.get(operation, "in_place" if operation.startswith("@=") else "other")


class Ref:
    """A result by its id."""

    def __init__(self, id_: int) -> None:
        self.id = id_


class Writer:
    """Writes a program as a recorder would."""

    def __init__(self) -> None:
        self.steps: list[list[Any]] = []
        self.values: list[LoggedValue] = []
        self._next = 1

    def id(self) -> int:
        self._next += 1
        return self._next - 1

    def asset(self, name: str, revision: int = 1) -> Ref:
        made = Ref(self.id())
        self.steps.append([made.id, "asset", [name, revision]])
        return made

    def value(self, description: str, digest: str = "") -> Ref:
        made = Ref(self.id())
        self.steps.append([made.id, "value", [len(self.values)]])
        self.values.append(LoggedValue(description, digest or f"digest {len(self.values)}"))
        return made

    def call(self, operation: str, *arguments: Any, **keywords: Any) -> Ref:
        """A step that makes something."""
        made = Ref(self.id())
        self._put(made.id, operation, arguments, keywords)
        return made

    def do(self, operation: str, *arguments: Any, **keywords: Any) -> None:
        """A step of which only the effect is wanted."""
        self._put(0, operation, arguments, keywords)

    def gradients(self, recorded: bool) -> None:
        self.steps.append([0, "grad", [recorded]])

    def _put(self, id_: int, operation: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        step: list[Any] = [id_, operation, [encoded(argument) for argument in arguments]]
        if keywords:
            step.append({name: encoded(argument) for name, argument in keywords.items()})
        self.steps.append(step)

    def lineage(self, target: Ref, effects: Callable[[str], str] = effects, **options: Any) -> Lineage:
        return lineage(traced(self.steps, self.values, effects=effects, **options), target.id)

    def asked(self, target: Ref) -> Program:
        return asked(traced(self.steps, self.values, may_learn=False), target.id)

    def code(self, target: Ref) -> str:
        return self.lineage(target, may_learn=False).code


def encoded(argument: Any) -> Any:
    """An argument as it is on the wire."""
    if isinstance(argument, Ref):
        return [argument.id]
    if isinstance(argument, (list, tuple)):
        return ["l" if isinstance(argument, list) else "t", *map(encoded, argument)]
    if isinstance(argument, dict):
        return ["d", *(encoded(part) for pair in argument.items() for part in pair)]
    if isinstance(argument, slice):
        return ["s", encoded(argument.start), encoded(argument.stop), encoded(argument.step)]
    if argument is ...:
        return ["e"]
    if isinstance(argument, type) or callable(argument):
        return ["c", f"{argument.__module__}.{argument.__qualname__}"]
    return argument


def traced(
    steps: Sequence[Sequence[Any]],
    values: Sequence[LoggedValue] = (),
    *,
    batch: int = 0,
    may_learn: bool = True,
    effects: Callable[[str], str] = effects,
) -> Trace:
    """A trace of these steps, in one batch or in batches of so many steps; values come with the first."""
    trace = Trace(effects, may_learn=may_learn)
    for start in range(0, len(steps), batch or max(len(steps), 1)):
        part = steps[start : start + (batch or len(steps))]
        trace.add(json.loads(json.dumps(part)), values if not start else ())
    return trace


def lineage(trace: Trace, id_: int) -> Lineage:
    """How the result of that id was made, by one slice. Raises LookupError."""
    return shown(slice_of(trace, trace.node(id_)), "")


def asked(trace: Trace, id_: int) -> Program:
    """The program that makes the result of that id; values are what their digests say. Raises LookupError."""
    bodies = {value.digest: Value(value.digest.encode(), "", "") for value in trace.values.values()}
    return Program.recorded(trace, id_, bodies)


class Worker:
    """Does steps with real objects, as the worker does: what is refused or fails makes nothing."""

    def __init__(self, assets: Mapping[str, Any], call: Callable[[str], Callable[..., Any]]) -> None:
        self._assets = dict(assets)
        self._call = call
        self.objects: dict[int, Any] = {}

    def run(self, steps: Sequence[Sequence[Any]]) -> list[int]:
        """Do them; returns which of them failed."""
        failed = []
        for position, raw in enumerate(steps):
            step = step_of(list(raw))
            if step.id in self.objects:
                failed.append(position)
                continue
            try:
                made = self._made(step)
            except Exception:
                made = _FAILED
                failed.append(position)
            if step.id and step.operation not in ("drop", "grad"):
                self.objects[step.id] = made
        return failed

    def _made(self, step: program.Step) -> Any:
        if step.operation == "asset":
            return self._assets[step.arguments[0]]
        if step.operation == "drop":
            for id_ in step.arguments:
                self.objects.pop(id_, None)
            return None
        decode: dict[str, Any] = {
            "result": self._result,
            "constant": lambda name: resolved(name),
            "function": lambda name: resolved(name),
        }
        arguments = [program.decode(argument, **decode) for argument in step.arguments]
        keywords = {name: program.decode(argument, **decode) for name, argument in step.keywords.items()}
        writes = effects(step.operation) == "in_place"
        if writes and any(_memory(arguments[0]) & _reached(argument) for argument in arguments[1:]):
            raise ValueError("it would hold itself, and NumPy crashes when it computes with such an array")
        return self._call(step.operation)(*arguments, **keywords)

    def _result(self, id_: int) -> Any:
        if self.objects[id_] is _FAILED:
            raise LookupError
        return self.objects[id_]


_FAILED = object()


def _memory(obj: Any) -> set[int]:
    """What holds other objects by reference: a list, or what an array of objects shares with its views."""
    while isinstance(obj, np.ndarray) and isinstance(obj.base, np.ndarray):
        obj = obj.base
    holds = isinstance(obj, list) or (isinstance(obj, np.ndarray) and obj.dtype == object)
    return {id(obj)} if holds else set()


def _reached(obj: Any) -> set[int]:
    """All such memory that an object leads to."""
    found = _memory(obj)
    if isinstance(obj, (list, tuple)) or (isinstance(obj, np.ndarray) and obj.dtype == object):
        parts = obj.ravel() if isinstance(obj, np.ndarray) else obj
        found.update(*map(_reached, parts))
    return found


def resolved(name: str) -> Any:
    """A function or method by its name on the wire."""
    if name.startswith("@="):
        return lambda target, value: setattr(target, name[2:], value)
    if name.startswith("@"):
        return lambda target: getattr(target, name[1:])
    if name.startswith("."):
        return lambda target, *rest, **more: getattr(target, name[1:])(*rest, **more)
    library, _, rest = name.partition(".")
    found: Any = {"numpy": np, "operator": operator, "builtins": __builtins__}.get(library)
    if library == "torch":
        import torch

        found = torch
    if isinstance(found, dict):
        return found[rest]
    for part in rest.split("."):
        found = getattr(found, part)
    return found
