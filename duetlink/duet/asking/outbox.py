"""Loop side of a program: sends its steps in batches, hears how the owner's worker gets on.

Batches go out a moment after the first step, or at once when there are many, or when somebody waits. Only so
many may be on their way: a loop that records faster than the owner works is slowed down.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import zlib
from typing import TypeVar

from duetlink.base.wire import schema_pb2 as pb
from duetlink.compute.operations import program as wire
from duetlink.compute.operations.allowed import Allowed
from duetlink.compute.worker import endings
from duetlink.duet.asking.program import MOST_STEPS, Ask, MakeResult, Program, Value
from duetlink.duet.asking.wording import failure_words
from duetlink.errors import LinkClosed, OperationFailed, RemoteProtocolError
from duetlink.net.flight.body import Outgoing
from duetlink.net.link.link import Link

BATCH_DELAY_S = 0.025  # about what a step of training takes; whoever waits for a result does not wait for it
BATCH_STEPS = 5_000
MOST_UNDONE = 64  # batches that the owner has not reported
INLINE_BYTES = 32 * 1024  # of one value; a larger one is pulled by the owner
_DROPPED = 64  # results that are let go together, while what they held is still in the owner's caches
_BATCH_BYTES = 1024 * 1024  # of values in one message
_MOST_FAILURES = 1_000
_MAX_TEXT = 2_000

Key = TypeVar("Key")


class Outbox:
    """Sends the steps of one program. Methods belong to the loop thread, if not said otherwise."""

    def __init__(self, link: Link, epoch: int, allowed: Allowed, ask: Ask, result: MakeResult) -> None:
        self._link = link
        self._loop = asyncio.get_running_loop()
        self.epoch = epoch
        self.program = Program(allowed, self.wake, self.wait_room, ask, result)
        self._wanted, self._urgent, self._reported = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._sending = asyncio.Lock()
        self._room = threading.Event()
        self._sent = self._done = 0
        self._unreported: dict[int, bytes] = {}  # compressed steps, by the number of their batch
        self._operations: dict[tuple[int, int], str] = {}  # of steps that failed, by batch and position
        self._library_words: dict[tuple[int, int, int], str] = {}  # by result, batch and position
        self._failed: dict[int, str] = {}  # why a result is not there
        self._unread = ""  # the first of these since `done` has told of one

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
        """Return when all that is recorded by now is on its way. If cancelled, it goes out all the same: what
        has been taken from the program is nowhere else. Raises LinkClosed.
        """
        await asyncio.shield(asyncio.ensure_future(self._flush()))

    async def _flush(self) -> None:
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
        self._unreported[self._sent] = work.steps

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
        if self._unread:
            first, self._unread = self._unread, ""
            raise OperationFailed(first)

    def why_failed(self, result: int) -> str:
        """Why the owner has not made a result; empty: nothing is known of that."""
        return self._failed.get(result, "")

    def report(self, report: pb.WorkReport) -> None:
        """The owner has done some batches. Raises RemoteProtocolError."""
        if not self._done <= report.done <= self._sent:
            raise RemoteProtocolError("the peer reports work that it was not given")
        for failure in report.failures[:_MOST_FAILURES]:
            self._note(failure)
        for number in range(self._done + 1, report.done + 1):
            self._unreported.pop(number, None)
        self._done = report.done
        self._library_words.clear()
        if report.HasField("ended"):
            self.end(endings.words(report.ended))
        self._reported.set()

    def hear_words(self, words: pb.WorkWords) -> None:
        """What the libraries say of the failures in the next report; its owner lets that out."""
        for step in words.steps[:_MOST_FAILURES]:
            self._library_words[step.result, step.batch, step.position] = step.text[:_MAX_TEXT]

    def _note(self, failure: pb.WorkFailure) -> None:
        place = failure.batch, failure.position
        if place not in self._operations and failure.batch in self._unreported:
            operation = _operation(self._unreported[failure.batch], failure.position)
            _remember(self._operations, place, operation)
        words = self._library_words.get((failure.result, *place))
        words = words or failure_words(failure, self._operations.get(place, ""))
        if failure.batch and (not failure.result or failure.result not in self._failed):
            self._unread = self._unread or words
        _remember(self._failed, failure.result, words)

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


def _remember(table: dict[Key, str], key: Key, text: str) -> None:
    """Keep a text, and let the oldest go where there are too many."""
    table[key] = text
    if len(table) > _MOST_FAILURES:
        del table[next(iter(table))]


def _operation(steps: bytes, position: int) -> str:
    """The operation of a step in a batch of this side's; empty: there is no such step."""
    batch = wire.read(wire.inflate(steps))
    return batch[position].operation if position < len(batch) else ""


def _drop(ids: list[int]) -> str:
    return f'[0,"{wire.DROP}",{ids}]'
