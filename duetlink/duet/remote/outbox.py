"""Loop side of a program: sends its steps in batches, hears how the owner's worker gets on.

Batches go out a moment after the first step, or at once when there are many, or when somebody waits. Only so
many may be on their way: a loop that records faster than the owner works is slowed down.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import zlib

from duetlink.duet.remote.program import MOST_STEPS, Ask, Program, Value
from duetlink.errors import LinkClosed, OperationFailed, RemoteProtocolError
from duetlink.flight.body import Outgoing
from duetlink.link.link import Link
from duetlink.operations import program as wire
from duetlink.operations.allowed import Allowed
from duetlink.wire import schema_pb2 as pb

BATCH_DELAY_S = 0.025  # about what a step of training takes; whoever waits for a result does not wait for it
BATCH_STEPS = 5_000
MOST_UNDONE = 64  # batches that the owner has not reported
INLINE_BYTES = 32 * 1024  # of one value; a larger one is pulled by the owner
_DROPPED = 64  # results that are let go together, while what they held is still in the owner's caches
_BATCH_BYTES = 1024 * 1024  # of values in one message
_MOST_FAILURES = 1_000
_MAX_TEXT = 2_000


class Outbox:
    """Sends the steps of one program. Methods belong to the loop thread, if not said otherwise."""

    def __init__(self, link: Link, epoch: int, allowed: Allowed, ask: Ask) -> None:
        self._link = link
        self._loop = asyncio.get_running_loop()
        self.epoch = epoch
        self.program = Program(allowed, self.wake, self.wait_room, ask)
        self._wanted, self._urgent, self._reported = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._sending = asyncio.Lock()
        self._room = threading.Event()
        self._sent = self._done = 0
        self.failures: dict[int, str] = {}

    # -- from any thread -------------------------------------------------------------------------------------

    def wake(self, urgent: bool) -> None:
        """Steps are there. Raises LinkClosed."""
        try:
            self._loop.call_soon_threadsafe(self._wake, urgent)
        except RuntimeError:
            raise LinkClosed("this duet is closed; launch or join a new one") from None

    def wait_room(self) -> None:
        """Return when fewer steps wait. Can be interrupted."""
        program = self.program
        while not program.ended and len(program.steps) >= MOST_STEPS:
            self._room.clear()
            self.wake(True)
            self._room.wait(0.1)

    # -- the loop thread -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send what is recorded, for as long as the program lives."""
        while not self.program.ended:
            await self._wanted.wait()
            self._wanted.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BATCH_DELAY_S):
                    await self._urgent.wait()
            self._urgent.clear()
            await self.flush()

    async def flush(self) -> None:
        """Return when all that is recorded by now is on its way. Raises LinkClosed."""
        program = self.program
        async with self._sending:  # batches leave in the order in which they were taken
            while program.steps and not program.ended:
                steps: list[str] = []
                dropped: list[int] = []
                work = self._next()
                for step in program.take(BATCH_STEPS):
                    if isinstance(step, str):
                        steps.append(step)
                        continue
                    if isinstance(step, int):
                        dropped.append(step)
                        if len(dropped) == _DROPPED:
                            steps.append(_drop(dropped))
                            dropped.clear()
                        continue
                    steps.append(await self._packed(step, work))
                    large = sum(value.HasField("offer") for value in work.values)
                    if work.ByteSize() > _BATCH_BYTES or large == wire.MAX_LARGE_VALUES:
                        await self._send(work, steps)
                        steps, work = [], self._next()
                if dropped:
                    steps.append(_drop(dropped))
                await self._send(work, steps)
                self._room.set()

    def _next(self) -> pb.Work:
        return pb.Work(epoch=self.epoch, number=self._sent + 1)

    async def _send(self, work: pb.Work, steps: list[str]) -> None:
        if not steps:
            return
        await self._wait_window()
        work.steps = zlib.compress(wire.join(steps), 1)
        self._link.rpc.tell_nowait(work)
        self._sent += 1

    async def done(self) -> None:
        """Return when the owner has done all that is recorded by now.

        Raises:
            OperationFailed: some of it failed there; the message names the first.
            WorkerUnavailable: the process that did it has ended.
            LinkClosed.
        """
        await self.flush()
        upto = self._sent
        while self._done < upto and not self.program.ended:
            self._reported.clear()
            self._link.rpc.tell_nowait(pb.WorkQuery(epoch=self.epoch))
            await self._reported.wait()
        self.program.check_open()
        if self.failures:
            failures, self.failures = self.failures, {}
            raise OperationFailed(next(iter(failures.values())))

    def report(self, report: pb.WorkReport) -> None:
        """The owner has done some batches. Raises RemoteProtocolError."""
        if not self._done <= report.done <= self._sent:
            raise RemoteProtocolError("the peer reports work that it was not given")
        self._done = report.done
        for failure in report.failures[:_MOST_FAILURES]:
            if len(self.failures) < _MOST_FAILURES:
                self.failures[failure.result] = failure.text[:_MAX_TEXT]
        if report.ended:
            self.end(report.ended[:_MAX_TEXT])
        self._reported.set()

    def end(self, why: str) -> None:
        """The worker, or the link, has ended: nothing more is recorded."""
        if not self.program.ended:
            self.program.end(why)
        self._room.set()
        self._reported.set()
        self._wake(True)

    def _wake(self, urgent: bool) -> None:
        self._wanted.set()
        if urgent:
            self._urgent.set()

    async def _wait_window(self) -> None:
        while self._sent - self._done >= MOST_UNDONE and not self.program.ended:
            self._reported.clear()
            self._link.rpc.tell_nowait(pb.WorkQuery(epoch=self.epoch))
            await self._reported.wait()

    async def _packed(self, step: Value, work: pb.Work) -> str:
        value = work.values.add(kind=step.summary.kind, detail=step.summary.detail)
        if len(step.body) <= INLINE_BYTES:
            value.body = step.body
        else:
            outgoing = await asyncio.to_thread(Outgoing, [memoryview(step.body)], len(step.body))
            best = self._link.ladder.best
            offer = await self._link.exports.offer("argument", outgoing, best.name if best else "")
            value.offer.CopyFrom(offer)
        return f'[{step.id},"{wire.VALUE}",[{len(work.values) - 1}]]'


def _drop(ids: list[int]) -> str:
    return f'[0,"{wire.DROP}",{ids}]'
