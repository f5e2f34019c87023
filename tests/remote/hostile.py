"""A client that is not ours: hostile steps, done by a desk of the worker here, or sent over a link.
link.

What our own client would refuse is of no matter here: nothing of it runs.
"""

from __future__ import annotations

import functools
import json
import os
import pickle
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from duetlink.compute.operations.log import ProgramLog
from duetlink.duet.answering.workplace import Workplace

from duetlink.base.wire import schema_pb2 as pb
from duetlink.compute.operations.allowed import Allowed
from duetlink.compute.operations.effects import worst_effect
from duetlink.compute.operations.lineage import Lineage
from duetlink.compute.worker import answers
from duetlink.compute.worker.faults import Fault
from duetlink.compute.worker.memory import map_sealed, place
from duetlink.compute.worker.program import ProgramDesk
from duetlink.data import values
from duetlink.duet.duet import Duet

Step = list[Any]

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


def packed(steps: Sequence[Step]) -> bytes:
    return zlib.compress(json.dumps(steps).encode(), 1)


class HostileDesk:
    """The worker's desk, with the real lists and guards, and the owner's log of what it was sent."""

    def __init__(self, assets: dict[str, Any] | None = None, detail: str = "type") -> None:
        self._desk = ProgramDesk(allowed(), detail)
        self._log = ProgramLog()
        self._batches = 0
        for name, asset in (secrets() if assets is None else assets).items():
            encoded = asset if isinstance(asset, values.Encoded) else values.encode(asset)
            fd = place(encoded.segments, encoded.size_bytes)
            header = {"name": name, "revision": 1, "size_bytes": encoded.size_bytes}
            self._handle("asset", json.dumps(header).encode(), [fd])
            os.close(fd)

    def run(self, *steps: Step) -> dict[int, Fault]:
        """Do a batch; what failed by its place in the batch, and what the worker says of that."""
        position = self._log.append(json.dumps(steps).encode())
        faults, failed = self.batch(self.work(steps))
        for number in failed:
            self._log.fail(position, number)
        return dict(zip(failed, (fault for _, fault in faults), strict=False))

    def work(self, steps: Sequence[Step]) -> pb.Work:
        """The next batch."""
        self._batches += 1
        return pb.Work(number=self._batches, steps=packed(steps))

    def batch(self, work: pb.Work) -> tuple[answers.Faults, list[int]]:
        """Do a batch as it came; the reply. Raises RemoteProtocolError for one that is none."""
        return answers.read_batch(self._handle("run", work.SerializeToString())[0])

    def taken(self, result: int, max_bytes: int = 1 << 30) -> tuple[Any, dict[str, Any]]:
        """What the owner's kernel gets of a result, and what it is told of it."""
        content, fds = self._take(result, max_bytes)
        told = json.loads(content)
        return self._decoded(told, fds), told

    def asked(self, result: int, max_bytes: int = 1 << 30) -> Fault | None:
        """Why the owner's kernel does not get a result; None: it does."""
        taken = answers.read_result(*self._take(result, max_bytes))
        return taken if isinstance(taken, Fault) else None

    def is_there(self, result: int) -> bool:
        """Whether a result has been made, and nothing has spoiled it."""
        return type(self._desk._objects.get(result, Fault)) is not Fault

    def not_given(self, result: int, max_bytes: int = 1 << 30) -> Fault:
        """Why the owner's kernel does not get a result."""
        fault = self.asked(result, max_bytes)
        assert fault is not None
        return fault

    def _take(self, result: int, max_bytes: int) -> tuple[bytes, Sequence[int]]:
        return self._handle("take", json.dumps({"id": result, "max_bytes": max_bytes}).encode())

    def value(self, result: int) -> Any:
        return self.taken(result)[0]

    def state(self, result: int) -> bytes:
        """All that a result holds, also of a model, which cannot be taken."""
        found = self._desk._objects[result]
        if hasattr(found, "state_dict"):
            found = {name: part.tolist() for name, part in found.state_dict().items()}
        elif hasattr(found, "get_params"):
            found = repr(vars(found))
        elif hasattr(found, "tolist"):
            found = found.tolist()
        return pickle.dumps(found)

    def group(self, result: int) -> int | None:
        found: int | None = self.taken(result)[1]["group"]
        return found

    def released(self, planned: bytes) -> dict[str, Any]:
        """A private statistic, that was planned and charged."""
        content, fds = self._handle("release", planned)
        found: dict[str, Any] = self._decoded(json.loads(content), fds)
        return found

    def lineage(self, result: int) -> Lineage:
        return self._log.lineage(result, worst_effect)

    def logged(self) -> list[bytes]:
        return [batch.content for batch in self._log.batches()]

    def _handle(self, command: str, content: bytes, fds: Sequence[int] = ()) -> tuple[bytes, Sequence[int]]:
        return self._desk.handle(command, content, fds, lambda name, content: None)

    @staticmethod
    def _decoded(told: dict[str, Any], fds: Sequence[int]) -> Any:
        try:
            return values.decode(map_sealed(fds[0], told["size_bytes"], writable_copy=True))
        finally:
            os.close(fds[0])


class Attacker:
    """The scientist's side of a link, with a program of its own. The scientist must have recorded nothing."""

    def __init__(self, owner: Duet, scientist: Duet) -> None:
        self.inbox: Inbox = owner._life.inbox
        link = scientist._life.link
        assert link is not None
        self.rpc = link.rpc
        self.thread = scientist._thread
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
            waiting = [request for request in self.inbox.pending if number in request.waiting]
            if waiting and (waiting[0].job is None or not waiting[0].job.busy):
                return pb.Answer(request_id=number, state=pb.Answer.PENDING)
            assert time.monotonic() < deadline_s, "no answer, and no end of the run"
            threading.Event().wait(0.005)
        return self._answers[number]

    def call(self, message: Any, reply: Any) -> Any:
        return self.thread.run(self.rpc.call(message, reply))

    async def _hear(self, answer: pb.Answer) -> pb.Done:
        self._note(answer)
        return pb.Done()

    def _note(self, answer: pb.Answer) -> None:
        self._answers[answer.request_id] = answer


def sent(body: bytes) -> pb.ProgramBody:
    """A program as it travels, whatever is in it."""
    return pb.ProgramBody(compressed=zlib.compress(body, 1))
