"""The handler of rooms that run a program on mates: three variants of every mock that the program names.

It runs on the side that records the program, with mocks only, so nothing in it is private. It is a room
because of the limits, and because it can be ended: a library may take long with unusual values.
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
from duetlink.compute.worker.room.interpreter import Interpreter, NoResult
from duetlink.compute.worker.room.program import installed
from duetlink.compute.worker.room.progress import Progress
from duetlink.data import values
from duetlink.errors import DuetError, RemoteProtocolError

_FEW_ITEMS = 50  # the items of smaller values count as constants of the program; larger values count as data

Key = tuple[str, int]  # name and revision


class _EncodedMates(NamedTuple):
    """The encoded mates of one mock, for the constants that they were last made with."""

    constants: tuple[Constant, ...]
    bodies: dict[str, bytes]  # by kind


class MatesHandler:
    """Takes mocks first, then runs one program after the other on their mates."""

    def __init__(self) -> None:
        self._allowed = installed()
        self._mocks: dict[Key, memoryview] = {}
        self._encoded: dict[Key, _EncodedMates] = {}

    def handle(self, command: str, content: bytes, fds: Sequence[int], emit: Emit) -> Answer:
        """Carry out `mock` (an encoded mock) or `ask` (a program, answered by `answers`).

        Raises RemoteProtocolError for other commands.
        """
        fields = json.loads(content)
        (fd,) = fds
        body = map_sealed(fd, fields["size_bytes"], writable_copy=True)
        if command == "mock":
            self.take((fields["name"], fields["revision"]), body)
            return b"", ()
        if command == "ask":
            pairs = self.answers(wire.read(body), emit)
            return answers.result(values.encode(pairs, plain_nan=True), EVERYBODY)
        raise RemoteProtocolError(f"the room of the mates knows no command {command!r}")

    def take(self, key: Key, mock: memoryview) -> None:
        self._mocks[key] = mock

    def answers(self, body: wire.Body, emit: Emit = lambda name, content: None) -> list[Any]:
        """Run a program on each kind of mates. Returns a fault or None, and a value, for each of KINDS."""
        constants, opened = tuple(constants_of(body)), _assets_of(body)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [
                self._run(body, kind, emit, {key: self._mate(key, kind, constants) for key in opened})
                for kind in KINDS
            ]

    def _run(self, body: wire.Body, kind: str, emit: Emit, mates: dict[Key, bytes]) -> list[Any]:
        assets = {key: memoryview(bytearray(mate)) for key, mate in mates.items()}  # copies: steps may write
        try:
            with Draws(kind) as draws, Progress(emit) as progress:
                made, _ = Interpreter(self._allowed, assets, body, draws).run(progress)
        except NoResult as failure:
            return [failure.fault.to_list(), None]
        try:
            values.summarise(made)
        except DuetError:
            return [Fault(0, faults.CANNOT_TRAVEL).to_list(), None]
        return [None, made]

    def _mate(self, key: Key, kind: str, constants: tuple[Constant, ...]) -> bytes:
        made = self._encoded.get(key)
        if made is None or made.constants != constants:
            made = self._encoded[key] = _EncodedMates(constants, {})
        if kind not in made.bodies:
            mock = values.decode(memoryview(bytearray(self._mocks[key])), gradients=False)
            encoded = values.encode(mate(mock, kind, key[0], constants), plain_nan=True)
            made.bodies[kind] = b"".join(encoded.segments)
        return made.bodies[kind]


def _assets_of(body: wire.Body) -> list[Key]:
    """Return name and revision of each asset that a program opens."""
    steps = (wire.step_of(raw) for raw in body.steps)
    return [(step.arguments[0], step.arguments[1]) for step in steps if step.operation == ASSET]


def constants_of(body: wire.Body) -> list[Constant]:
    """Return the numbers and texts in a program's steps and small values, in the order of first use."""
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
                look(_without_tags(argument))
    for value in body.values:
        with contextlib.suppress(DuetError):
            made: Any = values.decode(memoryview(bytearray(value)), gradients=False)
            size = made.numel() if hasattr(made, "numel") else getattr(made, "size", _FEW_ITEMS)
            if size < _FEW_ITEMS and hasattr(made, "tolist"):
                look(made.tolist())
            elif isinstance(made, (list, tuple, set, dict)) and len(made) < _FEW_ITEMS:
                look(made)
    return list(found)


def _without_tags(argument: Any) -> Any:
    """Return an argument of a step without the tags of its encoding and without references to results."""
    if type(argument) is not list:
        return argument
    if type(argument[0]) is int or argument[0] in ("c", "f"):
        return []
    return [_without_tags(part) for part in argument[1:]]
