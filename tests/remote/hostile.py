"""A client that is not ours: hostile steps, done in rooms here, or sent over a link.

What our own client would refuse is of no matter here: nothing of it runs.
"""

from __future__ import annotations

import functools
import json
import os
import pickle
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd
import torch

from duetlink.base.wire import schema_pb2 as pb
from duetlink.compute.operations.allow_lists.allowed import Allowed
from duetlink.compute.operations.canonical import Program
from duetlink.compute.operations.lineage import Lineage
from duetlink.compute.operations.steps import body, program
from duetlink.compute.operations.steps.effects import may_draw, worst_effect
from duetlink.compute.operations.steps.program import SEEDS
from duetlink.compute.operations.steps.trace import Trace
from duetlink.compute.worker.protocol import answers
from duetlink.compute.worker.protocol.faults import Fault
from duetlink.compute.worker.protocol.memory import map_sealed, place
from duetlink.compute.worker.room.draws import Draws
from duetlink.compute.worker.room.interpreter import Interpreter
from duetlink.compute.worker.room.program import ProgramHandler
from duetlink.compute.worker.room.progress import Progress
from duetlink.data import values
from duetlink.duet.answering.inbox import Inbox
from duetlink.duet.answering.private import Private
from duetlink.duet.duet import Duet
from duetlink.errors import RemoteProtocolError
from duetlink.testing.faults import is_run_by_policy, life_of, mapped_assets, run_inside
from tests.compute.operations.programs import step_of

Step = list[Any]
Effects = Callable[[str], str]
_UNUSED = (1 << 50) + 1  # an id that no test gives

# what the steps of the tables begin with: the owner's array, frame, text and tensor
X, FRAME, NAME, TENSOR = [1], [2], [3], [4]
OPEN: list[Step] = [[id_, "asset", [name, 1]] for id_, name in enumerate(("x", "frame", "name", "tensor"), 1)]


def secrets(number: int = 0) -> dict[str, Any]:
    """The owner's data, and the same with other values for another number: never one that is round."""
    x = np.array([7.25, 42.5, 13.75, 3.5]) + 16 * number
    frame = pd.DataFrame({"who": ["Ada", "Bob", "Cy", "Di"], "age": x, "group": ["u", "u", "v", "v"]})
    frame["who"] = [f"{who} {'Lovelace' if number == 0 else 'Byron'}" for who in frame["who"]]
    name = "Ada Lovelace" if number == 0 else "Lord Byron"
    return {"x": x, "frame": frame, "name": name, "tensor": torch.tensor(x)}


@functools.cache
def allowed() -> Allowed:
    """The real lists, of all libraries."""
    return Allowed.installed()


@dataclass(frozen=True)
class Sliced:
    """A program as it travels: its steps are numbered from 1 on."""

    target: int
    steps: list[Any]

    @property
    def assets(self) -> set[tuple[str, int]]:
        """Those that it names, which are all that its room gets."""
        opened = [step[1] for step in self.steps if step[0] == program.ASSET and len(step[1]) == 2]
        return {(name, revision) for name, revision in opened if type(name) is str and type(revision) is int}

    def to_body(self, values_: Sequence[bytes] = ()) -> bytes:
        pieces, size_bytes = body.write(self.target, body.steps_text(self.steps), values_)
        content = b"".join(pieces)
        assert len(content) == size_bytes
        return content


def asked_for(steps: Sequence[Step], result: int, effects: Effects = worst_effect) -> Program:
    """The program of a result, of steps as a scientist records them. Raises LookupError: nothing makes it;
    RemoteProtocolError: by a step that uses what there is not.
    """
    trace = Trace(effects, may_learn=False)
    trace.add(json.loads(json.dumps(steps)))
    try:
        return Program.recorded(trace, result, {})
    except RemoteProtocolError:  # it names what there is not
        raise LookupError(result) from None


def slice_of(steps: Sequence[Step], result: int, effects: Effects = worst_effect) -> Sliced:
    """The same as it travels."""
    asked = asked_for(steps, result, effects)
    return Sliced(asked.target, json.loads(asked.text))


def numbered(steps: Sequence[Step], result: int, taken: Sequence[int] | None = None) -> Sliced:
    """The steps at these places alone, or all of them, with the numbers, seeds and modes that they have in a
    program.
    """
    wanted = range(len(steps)) if taken is None else frozenset(taken)
    seed, drawn, records = None, 0, True
    numbers: dict[Any, int] = {}
    found: list[Any] = []
    for position, (id_, operation, arguments, *named) in enumerate(steps):
        if operation == program.GRAD:
            records = arguments[0] is True
        elif operation in SEEDS and len(arguments) == 1 and type(arguments[0]) is int:
            seed, drawn = arguments[0], 0
        elif operation != program.DROP:
            modes: dict[str, Any] = {} if records else {"grad": False}
            if may_draw(operation):
                modes["draw"] = [seed, drawn]
                drawn += 1
            if position in wanted:
                raw = [operation, [_renumbered(argument, numbers) for argument in arguments]]
                keywords = {name: _renumbered(each, numbers) for name, each in (named or [{}])[0].items()}
                if operation in (program.ASSET, program.VALUE):
                    raw[1], modes = arguments, {}
                found.append([*raw, keywords, modes] if modes else [*raw, keywords] if keywords else raw)
                if id_:
                    numbers[id_] = len(found)
    return Sliced(numbers[result], found)


def _renumbered(argument: Any, numbers: dict[Any, int]) -> Any:
    if type(argument) is not list:
        return argument
    if len(argument) == 1 and type(argument[0]) is int:
        return [numbers.get(argument[0], 0)]  # no step makes 0
    return [_renumbered(part, numbers) for part in argument]


class Room:
    """A fresh desk, with the assets that a program names and no others, that runs it."""

    def __init__(
        self,
        assets: Mapping[str, Any],
        sliced: Sliced,
        lists: Allowed | None = None,
        again: Sequence[str] = (),
    ) -> None:
        self.lists = allowed() if lists is None else lists
        self.desk = ProgramHandler(self.lists)
        self.body = sliced.to_body()
        for name, revision in sorted(sliced.assets):
            if name in assets and revision == 1:
                encoded = encoded_of(assets[name])
                header = {
                    "name": name,
                    "revision": 1,
                    "size_bytes": encoded.size_bytes,
                    "again": name in again,
                }
                fd = place(encoded.segments, encoded.size_bytes)
                self._handle("asset", header, fd)

    def run(self, max_bytes: int = 1 << 30, salt: str = "00") -> tuple[bytes, Sequence[int]]:
        """The reply to `run`."""
        return self._handle("run", {"max_bytes": max_bytes, "salt": salt} | self._sized(), self._placed())

    def begin(self, steps: int, max_bytes: int = 1 << 30) -> tuple[int, int, Any] | None:
        """What these first steps have made, frozen."""
        asked = {"steps": steps, "max_bytes": max_bytes, "least_s": 0, "salt": "00"} | self._sized()
        return answers.read_frozen(*self._handle("begin", asked, self._placed()))

    def end(self) -> tuple[bytes, Sequence[int]]:
        """The reply after the rest of what was begun, without which the seeds of the run stay in force."""
        return self.desk.handle("run", b'{"max_bytes": 1073741824}', [], lambda name, content: None)

    def release(self, asked: dict[str, Any], salt: str = "00") -> tuple[bytes, Sequence[int]]:
        return self._handle("release", asked | {"salt": salt} | self._sized(), self._placed())

    def told(self, max_bytes: int = 1 << 30, salt: str = "00") -> bytes:
        """All that comes out: what is told of a value with its bytes, or why there is none."""
        content, fds = self.run(max_bytes, salt)
        return content + b"".join(bytes(_bytes(content, fds)) for _ in fds)

    def object(self, salt: str = "00") -> Any:
        """The target itself, also one that cannot travel. Raises NoResult."""
        content = memoryview(bytearray(self.body))
        with Draws(salt) as draws, Progress(lambda name, content: None) as progress:
            run = Interpreter(self.lists, mapped_assets(self.desk), body.read(content), draws)
            return run.run(progress)[0]

    def _sized(self) -> dict[str, int]:
        return {"size_bytes": len(self.body)}

    def _placed(self) -> int:
        return place([self.body], len(self.body))

    def _handle(self, command: str, header: dict[str, Any], fd: int) -> tuple[bytes, Sequence[int]]:
        try:
            return self.desk.handle(command, json.dumps(header).encode(), [fd], lambda name, content: None)
        finally:
            os.close(fd)


def _bytes(content: bytes, fds: Sequence[int]) -> memoryview:
    try:
        return map_sealed(fds[0], json.loads(content)["size_bytes"], writable_copy=True)
    finally:
        os.close(fds[0])


def encoded_of(asset: Any) -> values.Encoded:
    return asset if isinstance(asset, values.Encoded) else values.encode(asset)


class Told(Mapping[int, Fault]):
    """Which of some steps fail, by their place among them, and why. Found out when somebody looks."""

    def __init__(self, desk: HostileDesk, first: int, count: int) -> None:
        self._desk, self._first, self._count = desk, first, count

    @functools.cached_property
    def _faults(self) -> dict[int, Fault]:
        found = {place: self._desk.fault_at(self._first + place) for place in range(self._count)}
        return {place: fault for place, fault in found.items() if fault is not None}

    def __getitem__(self, place: int) -> Fault:
        return self._faults[place]

    def __iter__(self) -> Iterator[int]:
        return iter(self._faults)

    def __len__(self) -> int:
        return len(self._faults)

    def __repr__(self) -> str:
        return repr(self._faults)


class HostileDesk:
    """What a scientist records, with whatever ids; and the owner, who runs the program of each result that is
    asked for in a room of its own, with the real lists and guards.
    """

    def __init__(self, assets: Mapping[str, Any] | None = None) -> None:
        shared = secrets() if assets is None else assets
        self.assets = {name: encoded_of(asset) for name, asset in shared.items()}
        self.steps: list[Step] = []

    def run(self, *steps: Step) -> Told:
        """Record steps; which of them fail where somebody asks for what they make. Raises RemoteProtocolError
        for what is no step.
        """
        for step in steps:
            step_of(step)
        told = Told(self, len(self.steps), len(steps))
        self.steps += steps
        return told

    def sliced(self, result: int) -> Sliced:
        return slice_of(self.steps, result)

    def whole(self, result: int) -> Sliced:
        """All steps, with those that the result does not need: what no owner runs."""
        return numbered(self.steps, result)

    def room(self, result: int) -> Room:
        return Room(self.assets, self.sliced(result))

    def fault_at(self, place: int) -> Fault | None:
        """Why a step fails in a room that has what it needs; None: it does not. A step without a result is
        asked for as if it had one.
        """
        step = self.steps[place]
        if step[1] in (program.DROP, program.GRAD) or (step[1] in SEEDS and type(step[2][0]) is int):
            return None
        steps = [*self.steps[:place], [_UNUSED, *step[1:]]]
        try:
            sliced = slice_of(steps, _UNUSED)
        except (LookupError, RemoteProtocolError):  # it is in no slice, as it is malformed
            sliced = numbered(steps, _UNUSED)
        fault = _fault(Room(self.assets, sliced).run())
        return fault if fault is not None and fault.step else None

    def taken(self, result: int, max_bytes: int = 1 << 30) -> tuple[Any, dict[str, Any]]:
        """What the owner's kernel gets of a result, and what it is told of it."""
        content, fds = self.room(result).run(max_bytes)
        return values.decode(_bytes(content, fds)), json.loads(content)

    def asked(self, result: int, max_bytes: int = 1 << 30) -> Fault | None:
        """Why the owner's kernel does not get a result; None: it does."""
        return _fault(self.room(result).run(max_bytes))

    def is_there(self, result: int) -> bool:
        """Whether a result is made, though it may not travel."""
        fault = self.asked(result)
        return fault is None or not fault.step

    def no_result(self, result: int, max_bytes: int = 1 << 30) -> Fault:
        """Why the owner's kernel does not get a result."""
        fault = self.asked(result, max_bytes)
        assert fault is not None
        return fault

    def value(self, result: int) -> Any:
        return self.taken(result)[0]

    def state(self, result: int) -> bytes:
        """All that a result holds, also of a model, which cannot be taken."""
        return state_of(self.room(result))

    def group(self, result: int) -> int | None:
        found: int | None = self.taken(result)[1]["group"]
        return found

    def released(self, private: Private) -> dict[str, Any]:
        """A private statistic, that was planned and charged."""
        route = Sliced(private.program.target, json.loads(private.program.text))
        content, fds = Room(self.assets, route).release(json.loads(private.to_json()))
        return cast(dict[str, Any], values.decode(_bytes(content, fds)))

    def lineage(self, result: int) -> Lineage:
        return asked_for(self.steps, result).lineage


def state_of(room: Room) -> bytes:
    """All that the target of a room holds."""
    found = room.object()
    if hasattr(found, "state_dict"):
        found = {name: part.tolist() for name, part in found.state_dict().items()}
    elif hasattr(found, "get_params"):
        found = repr(vars(found))
    elif hasattr(found, "tolist"):
        found = found.tolist()
    return pickle.dumps(found)


def _fault(reply: tuple[bytes, Sequence[int]]) -> Fault | None:
    taken = answers.read_result(*reply)
    return taken if isinstance(taken, Fault) else None


class Attacker:
    """The scientist's side of a link, with a program of its own. The scientist must have recorded nothing."""

    def __init__(self, owner: Duet, scientist: Duet) -> None:
        self.inbox: Inbox = life_of(owner).inbox
        link = life_of(scientist).link
        assert link is not None
        self.rpc = link.rpc
        self.scientist = scientist
        self._trace = Trace(worst_effect, may_learn=False)
        self._answers: dict[bytes, pb.Answer] = {}
        self.rpc.handle(pb.Answer, self._hear)
        self.rpc.notice(pb.Answer, self._note)

    def record(self, *steps: Step) -> None:
        """Have steps, with whatever numbers, for programs to come."""
        self._trace.add(json.loads(json.dumps(steps)))

    def body(self, result: int) -> pb.ProgramBody:
        """The program that makes a result of the recorded steps."""
        return sent(b"".join(Program.recorded(self._trace, result, {}).segments))

    def ask(self, result: int = 0, **fields: Any) -> pb.Answer:
        """Ask for something, past our client; the answer, `PENDING` where a person is to give it. Raises the
        failure that the owner answers with.
        """
        if result:
            fields["program"] = self.body(result)
        ask = pb.Ask(request_id=os.urandom(16), **fields)
        answer: pb.Answer = self.call(ask, pb.Answer)
        return self.settled(ask.request_id) if answer.state == pb.Answer.PENDING else answer

    def settled(self, number: bytes) -> pb.Answer:
        """What is answered by the time that nothing is run for a question any more."""
        deadline_s = time.monotonic() + 60
        while number not in self._answers:
            if run_inside(self.scientist, self._waits_for_a_person(number)):
                return pb.Answer(request_id=number, state=pb.Answer.PENDING)
            assert time.monotonic() < deadline_s, "no answer, and no end of the run"
            threading.Event().wait(0.005)
        return self._answers[number]

    async def _waits_for_a_person(self, number: bytes) -> bool:
        for request in self.inbox.pending:
            if number in request.waiting:
                busy = request.job is not None and request.job.busy
                return not busy and not is_run_by_policy(self.inbox, request)
        return False

    def call(self, message: Any, reply: Any) -> Any:
        return run_inside(self.scientist, self.rpc.call(message, reply))

    async def _hear(self, answer: pb.Answer) -> pb.Done:
        self._note(answer)
        return pb.Done()

    def _note(self, answer: pb.Answer) -> None:
        self._answers[answer.request_id] = answer


def sent(body: bytes) -> pb.ProgramBody:
    """A program as it travels, whatever is in it."""
    return pb.ProgramBody(compressed=zlib.compress(body, 1))
