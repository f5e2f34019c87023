"""One run of a function: a worker of its own, and what that gives, which is not trusted."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os

from duetlink.compute.operations import function
from duetlink.compute.worker import answers
from duetlink.compute.worker.limits import Limits
from duetlink.compute.worker.process import OnEvent, Worker
from duetlink.data import values
from duetlink.data.values.base import Encoded
from duetlink.duet.answering.failure import Failure
from duetlink.duet.answering.job import Job
from duetlink.duet.objects.decoding import Decoding
from duetlink.errors import DuetError, OperationFailed, RemoteProtocolError, WorkerUnavailable

_LOOKED_AT_BYTES = 64 * 1024 * 1024  # of a result: what it is, this side finds out itself


async def run(job: Job, limits: Limits, on_event: OnEvent, decoding: Decoding) -> Encoded:
    """What the function makes. The worker is gone when this returns, or was cancelled.

    Raises:
        OperationFailed: it has failed; `job.failure` tells why.
        WorkerUnavailable: no worker can be started here.
    """
    worker = await Worker.start(limits, desk="job", libraries=job.libraries, on_event=on_event)
    job.memory_bytes = worker.memory_bytes
    try:
        return await _work(worker, job, decoding)
    except WorkerUnavailable as error:  # in words of this side
        job.failure = Failure(stopped=str(error), traceback=worker.last_words)
        raise OperationFailed(job.failure.owner_words(job.name)) from None
    except DuetError as error:
        if job.failure is None:  # in the worker's, which has run the function
            job.failure = Failure(type(error).__name__, message=str(error))
        raise OperationFailed(job.failure.owner_words(job.name)) from None
    finally:
        await worker.close()


async def _work(worker: Worker, job: Job, decoding: Decoding) -> Encoded:
    for number, input_ in enumerate(job.inputs):
        fd, size_bytes = await input_.place()
        header = json.dumps({"number": number, "size_bytes": size_bytes})
        try:
            await worker.call("input", header.encode(), [fd])
        finally:
            os.close(fd)
    asked = {
        "name": job.name,
        "source": job.source,
        "call": function.write_call(job.call.arguments, job.call.keywords).decode(),
        "max_bytes": worker.limits.result_bytes,
        "claim": None if job.claim is None else [job.claim.epsilon, job.claim.delta],
    }
    reply = await worker.call("run", json.dumps(asked).encode(), memory=True)
    outcome = answers.read_outcome(reply.content, reply.fds)
    if not isinstance(outcome, Encoded):
        job.failure = Failure.of(outcome, job.source.count("\n") + 1)
        raise OperationFailed(job.failure.owner_words(job.name))
    return await _looked_at(outcome, decoding)


async def _looked_at(encoded: Encoded, decoding: Decoding) -> Encoded:
    """With what this side finds that it is, where it is not too large, since policies go by that; else nobody
    counts its elements.

    Raises:
        WorkerUnavailable: it is no value.
    """
    summary = dataclasses.replace(encoded.summary, elements=None)
    if encoded.size_bytes <= _LOOKED_AT_BYTES:
        try:
            value = await decoding.decode(encoded.segments[0], values.Room(_LOOKED_AT_BYTES))
            found = await asyncio.to_thread(values.summarise, value)
            summary = dataclasses.replace(found, size_bytes=encoded.size_bytes)
        except RemoteProtocolError as error:
            raise WorkerUnavailable(f"what the function gave is no value: {error}") from None
        except DuetError:  # its library is not installed here
            pass
    return dataclasses.replace(encoded, summary=summary)
