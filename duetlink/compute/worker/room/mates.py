"""What the room of the mates does: it runs each program on three mates of every mock that it names.

It works with mocks, on the side of whoever records the program, so that nothing in it is private. It is a
room for its limits, and for its end: what a library does with values that it was not made for can take long.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

from duetlink.compute.mocks.mates import KINDS, Constant, mate
from duetlink.compute.operations.steps import body as wire
from duetlink.compute.operations.steps.program import ASSET, VALUE
from duetlink.compute.worker.protocol import answers, faults
from duetlink.compute.worker.protocol.faults import Fault
from duetlink.compute.worker.protocol.groups import EVERYBODY
from duetlink.compute.worker.protocol.handlers import Answer, Emit
from duetlink.compute.worker.protocol.memory import map_sealed
from duetlink.compute.worker.room.draws import Draws
from duetlink.compute.worker.room.interpreter import Interpreter, Unmade
from duetlink.compute.worker.room.program import installed
from duetlink.compute.worker.room.progress import Progress
from duetlink.data import values
from duetlink.errors import DuetError, RemoteProtocolError

_FEW_ITEMS = 50  # of a value whose items count as constants of the program; what is larger is data

Key = tuple[str, int]  # name and revision


class _Made(NamedTuple):
    """The mates of one mock that were made last, encoded."""

    constants: tuple[Constant, ...]
    bodies: dict[str, bytes]  # by kind


class MatesHandler:
    """Commands of the kernel: mocks first, then one program after the other."""

    def __init__(self) -> None:
        self._allowed = installed()
        self._mocks: dict[Key, memoryview] = {}
        self._made: dict[Key, _Made] = {}

    def handle(self, command: str, content: bytes, fds: Sequence[int], emit: Emit) -> Answer:
        """`mock`: the memory of one. `ask`: what `answers` says. Raises RemoteProtocolError, …"""
        asked = json.loads(content)
        (fd,) = fds
        body = map_sealed(fd, asked["size_bytes"], writable_copy=True)
        if command == "mock":
            self.take((asked["name"], asked["revision"]), body)
            return b"", ()
        if command == "ask":
            told = self.answers(wire.read(body), emit)
            return answers.result(values.encode(told, plain_nan=True), EVERYBODY)
        raise RemoteProtocolError(f"the room of the mates knows no command {command!r}")

    def take(self, key: Key, mock: memoryview) -> None:
        """A mock, encoded."""
        self._mocks[key] = mock

    def answers(self, body: wire.Body, emit: Emit = lambda name, content: None) -> list[Any]:
        """What a program makes of each kind of mates: a list of pairs, one for each of KINDS, of a fault, or
        None, and a value.
        """
        constants, opened = tuple(constants_of(body)), _opened(body)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [
                self._run(body, kind, emit, {key: self._mate(key, kind, constants) for key in opened})
                for kind in KINDS
            ]

    def _run(self, body: wire.Body, kind: str, emit: Emit, mates: dict[Key, bytes]) -> list[Any]:
        assets = {key: memoryview(bytearray(mate)) for key, mate in mates.items()}  # it may write to them
        try:
            with Draws(kind) as draws, Progress(emit) as progress:
                made, _ = Interpreter(self._allowed, assets, body, draws).run(progress)
        except Unmade as unmade:
            return [unmade.fault.to_list(), None]
        try:
            values.summarise(made)
        except DuetError:
            return [Fault(0, faults.CANNOT_TRAVEL).to_list(), None]
        return [None, made]

    def _mate(self, key: Key, kind: str, constants: tuple[Constant, ...]) -> bytes:
        made = self._made.get(key)
        if made is None or made.constants != constants:
            made = self._made[key] = _Made(constants, {})
        if kind not in made.bodies:
            mock = values.decode(memoryview(bytearray(self._mocks[key])), gradients=False)
            encoded = values.encode(mate(mock, kind, key[0], constants), plain_nan=True)
            made.bodies[kind] = b"".join(encoded.segments)
        return made.bodies[kind]


def _opened(body: wire.Body) -> list[Key]:
    """The objects that a program names."""
    steps = (wire.step_of(raw) for raw in body.steps)
    return [(step.arguments[0], step.arguments[1]) for step in steps if step.operation == ASSET]


def constants_of(body: wire.Body) -> list[Constant]:
    """The numbers and texts that a program has, by first use, in its steps and in small values."""
    found: dict[Constant, None] = {}

    def look(argument: Any) -> None:
        if type(argument) in (int, float, str):
            found[argument] = None
        elif isinstance(argument, dict):
            look(list(argument.values()))
        elif isinstance(argument, (list, tuple, set, frozenset)):
            for part in argument:
                look(part)

    for raw in body.steps:
        step = wire.step_of(raw)
        if step.operation not in (ASSET, VALUE):
            for argument in (*step.arguments, *step.keywords.values()):
                look(_without_marks(argument))
    for value in body.values:
        with contextlib.suppress(DuetError):
            made: Any = values.decode(memoryview(bytearray(value)), gradients=False)
            size = made.numel() if hasattr(made, "numel") else getattr(made, "size", _FEW_ITEMS)
            if size < _FEW_ITEMS and hasattr(made, "tolist"):
                look(made.tolist())
            elif isinstance(made, (list, tuple, set, dict)) and len(made) < _FEW_ITEMS:
                look(made)
    return list(found)


def _without_marks(argument: Any) -> Any:
    """An argument of a step, without the marks that say what its lists are, and without results."""
    if type(argument) is not list:
        return argument
    if type(argument[0]) is int or argument[0] in ("c", "f"):
        return []
    return [_without_marks(part) for part in argument[1:]]
