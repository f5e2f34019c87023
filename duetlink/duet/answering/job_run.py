"""One run of a program or function in a room of its own. The result that the room returns is not trusted."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import AsyncIterator, Sequence

from duetlink.base.runtime import descriptors
from duetlink.compute.operations import function
from duetlink.compute.operations.canonical import Program
from duetlink.compute.operations.printer.literal import harmless
from duetlink.compute.worker.kernel.process import OnEvent, Room
from duetlink.compute.worker.kernel.runs import Made
from duetlink.compute.worker.protocol import answers, faults
from duetlink.compute.worker.protocol.faults import Fault, error_name
from duetlink.compute.worker.protocol.limits import Limits
from duetlink.compute.worker.protocol.memory import place
from duetlink.data import values
from duetlink.data.values.base import Encoded
from duetlink.duet.answering.failure import Failure
from duetlink.duet.answering.job import FunctionJob, Input, Job, ProgramJob
from duetlink.duet.answering.private import Private
from duetlink.duet.answering.programs import Programs
from duetlink.duet.objects.decoding import Decoding
from duetlink.errors import DuetError, OperationFailed, RemoteProtocolError, WorkerUnavailable

_MOST_DECODED_BYTES = 64 * 1024 * 1024  # up to this size, this side decodes a result to describe it


async def run(job: Job, limits: Limits, on_event: OnEvent, decoding: Decoding, programs: Programs) -> Made:
    """Run the job; return the encoded result and the least number of rows that it is made of. Its room has
    ended when this returns, and is gone when this is cancelled.

    Raises:
        OperationFailed: the run failed; `job.failure` has the reason.
        WorkerUnavailable: no room can be started here.
        AssetNotFound, AssetChanged, NoMock: an asset can no longer be worked on.
    """
    if isinstance(job, ProgramJob):
        return await _run_job_program(job, limits, on_event, programs)
    assert isinstance(job, FunctionJob)
    async with contextlib.AsyncExitStack() as stack:
        inputs = [
            await stack.enter_async_context(_in_memory(job, input_, limits, programs))
            for input_ in job.inputs
        ]
        room = await Room.start(limits, handler="job", libraries=job.libraries, on_event=on_event)
        job.memory_bytes = room.memory_bytes
        try:
            return await _run_function(room, job, inputs, decoding), 1 if job.info.group else None
        except WorkerUnavailable as error:  # the text is this side's, not the room's
            job.failure = Failure(stopped=str(error), traceback=room.last_words)
            raise OperationFailed(job.failure.owner_words(job.name)) from None
        except DuetError as error:
            if job.failure is None:  # the text is the room's, which has run the function
                job.failure = Failure(type(error).__name__, message=str(error))
            raise OperationFailed(job.failure.owner_words(job.name)) from None
        finally:
            await room.close()


async def _run_job_program(job: ProgramJob, limits: Limits, on_event: OnEvent, programs: Programs) -> Made:
    if not job.is_check:
        if job.statistic and job.private is None:
            job.private = await programs.planned(job.program, job.statistic)
            job.program = job.private.program
        return await _run_program(job, job.program, limits, programs, on_event, job.private)
    try:
        await _run_program(job, job.program, limits, programs, on_event)
    except OperationFailed:
        return values.encode(False), None
    return values.encode(True), None


async def _run_program(
    job: Job,
    program: Program,
    limits: Limits,
    programs: Programs,
    on_event: OnEvent = lambda name, content: None,
    private: Private | None = None,
) -> Made:
    rooms: list[Room] = []

    def watch(room: Room) -> None:
        rooms.append(room)
        job.memory_bytes = room.memory_bytes

    try:
        made = await programs.run(program, limits, on_event, private, watch)
    except WorkerUnavailable as error:
        if not rooms:  # no room could be started, so the program has not been tried
            raise
        made = None
        job.failure = Failure(stopped=str(error), traceback=rooms[0].last_words)
    if isinstance(made, Fault):
        job.failure = _failure(made, program)
    if made is None or isinstance(made, Fault):
        assert job.failure is not None
        raise OperationFailed(job.failure.owner_words(job.name))
    return made


def _failure(fault: Fault, program: Program) -> Failure:
    if fault.code == faults.NOT_MADE:
        return Failure(stopped=fault.words)
    kind = _KINDS.get(fault.code) or error_name(fault.error)
    return Failure.of_step(fault.step, harmless(program.operation(fault.step)), kind, fault.words)


_KINDS = {
    faults.REFUSED: "OperationRefused",
    faults.NOT_SHARED: "AssetNotFound",
    faults.MALFORMED: "RemoteProtocolError",
    faults.CANNOT_TRAVEL: "UnsupportedValue",
}


@contextlib.asynccontextmanager
async def _in_memory(
    job: Job, input_: Input, limits: Limits, programs: Programs
) -> AsyncIterator[tuple[int, int]]:
    """Have an input in shared memory within the block: its descriptor and its size in bytes."""
    if input_.asset is not None:
        async with programs.placed(input_.asset.name, input_.asset.revision) as placed:
            yield placed
        return
    pieces: list[memoryview | bytes]
    if input_.program is not None:
        encoded, _ = await _run_program(job, input_.program, limits, programs)
        pieces, size_bytes = list(encoded.segments), encoded.size_bytes
    else:
        pieces, size_bytes = [input_.body], len(input_.body)
    async with descriptors.opened_by(lambda: place(pieces, size_bytes)) as fd:
        yield fd, size_bytes


async def _run_function(
    room: Room, job: FunctionJob, inputs: Sequence[tuple[int, int]], decoding: Decoding
) -> Encoded:
    for number, (fd, size_bytes) in enumerate(inputs):
        header = json.dumps({"number": number, "size_bytes": size_bytes})
        await room.call("input", header.encode(), [fd])
    asked = {
        "name": job.function,
        "source": job.source,
        "call": function.write_call(job.call.arguments, job.call.keywords).decode(),
        "max_bytes": room.limits.result_bytes,
        "claim": None if job.claim is None else [job.claim.epsilon, job.claim.delta],
    }
    reply = await room.call("run", json.dumps(asked).encode(), memory=True)
    outcome = answers.read_outcome(reply.content, reply.fds)
    if not isinstance(outcome, Encoded):
        job.failure = Failure.of(outcome, job.source.count("\n") + 1)
        raise OperationFailed(job.failure.owner_words(job.name))
    return await _described(outcome, decoding)


async def _described(encoded: Encoded, decoding: Decoding) -> Encoded:
    """Replace the room's description of the result by one that this side has made, since policies use it. A
    result over 64 MiB, or of a library that is not installed here, keeps the room's, without the number of
    elements.

    Raises:
        WorkerUnavailable: the result is not a valid value.
    """
    summary = dataclasses.replace(encoded.summary, elements=None)
    if encoded.size_bytes <= _MOST_DECODED_BYTES:
        try:
            value = await decoding.decode(encoded.segments[0], values.DecodeBudget(_MOST_DECODED_BYTES))
            found = await asyncio.to_thread(values.summarise, value)
            summary = dataclasses.replace(found, size_bytes=encoded.size_bytes)
        except RemoteProtocolError as error:
            raise WorkerUnavailable(f"the result of the function is not a valid value: {error}") from None
        except DuetError:  # the library is not installed here
            pass
    return dataclasses.replace(encoded, summary=summary)
