"""How a kernel has a program run in a room: the owner's on what is shared, the scientist's on mocks."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from duetlink.compute.operations.canonical import Program
from duetlink.compute.worker import answers, libraries
from duetlink.compute.worker.faults import Fault
from duetlink.compute.worker.limits import Limits
from duetlink.compute.worker.memory import place
from duetlink.compute.worker.process import OnEvent, Worker
from duetlink.data.values.base import Encoded

Made = tuple[Encoded, int | None]  # a value, and of how many rows each number of it is made at least

_LIBRARIES = tuple(library for library in libraries.LIBRARIES if library not in libraries.OF_FUNCTIONS)


async def opened(limits: Limits, on_event: OnEvent = lambda name, content: None) -> Worker:
    """A room for a program, to be closed by the caller. Raises WorkerUnavailable."""
    return await Worker.start(limits, desk="program", libraries=_LIBRARIES, on_event=on_event)


async def map_asset(room: Worker, name: str, revision: int, fd: int, size_bytes: int) -> None:
    """Let a room have an object that its program names. The descriptor stays the caller's. Raises as
    `Worker.call`.
    """
    header = {"name": name, "revision": revision, "size_bytes": size_bytes}
    await room.call("asset", json.dumps(header).encode(), [fd], lasting=True)


async def run(
    room: Worker, program: Program, salt: str, command: str = "run", more: dict[str, Any] | None = None
) -> Made | Fault:
    """What a program makes in a room that has its assets, or why it cannot be made. Once for each room.

    Raises:
        WorkerUnavailable: the room has ended; WorkLimit: over a limit.
        OperationFailed: `command` cannot be done.
    """
    segments = program.segments
    size_bytes = sum(map(len, segments))
    asked = {"size_bytes": size_bytes, "max_bytes": room.limits.result_bytes, "salt": salt, **(more or {})}
    fd = await asyncio.to_thread(place, segments, size_bytes)
    try:
        reply = await room.call(command, json.dumps(asked).encode(), [fd], memory=True)
    finally:
        os.close(fd)
    return answers.read_result(reply.content, reply.fds)
