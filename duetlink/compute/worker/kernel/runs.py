"""How a kernel has a program run in a room: the owner's on what is shared, the scientist's on mocks."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from duetlink.compute.operations.canonical import Program
from duetlink.compute.worker.kernel.process import OnEvent, Reply, Room
from duetlink.compute.worker.protocol import answers, libraries
from duetlink.compute.worker.protocol.faults import Fault
from duetlink.compute.worker.protocol.groups import State
from duetlink.compute.worker.protocol.limits import Limits
from duetlink.compute.worker.protocol.memory import place
from duetlink.data.values.base import Encoded

Made = tuple[Encoded, int | None]  # a value, and of how many rows each number of it is made at least

_LIBRARIES = tuple(library for library in libraries.LIBRARIES if library not in libraries.OF_FUNCTIONS)


async def opened(limits: Limits, on_event: OnEvent = lambda name, content: None) -> Room:
    """A room for a program, to be closed by the caller. Raises WorkerUnavailable."""
    return await Room.start(limits, handler="program", libraries=_LIBRARIES, on_event=on_event)


async def of_mates(limits: Limits) -> Room:
    """A room that runs programs on mates of mocks, to be closed by the caller. Raises WorkerUnavailable."""
    return await Room.start(limits, handler="mates", libraries=_LIBRARIES)


async def map_mock(room: Room, name: str, revision: int, fd: int, size_bytes: int) -> None:
    """Let the room of the mates have a mock. The descriptor stays the caller's. Raises as `Room.call`."""
    header = {"name": name, "revision": revision, "size_bytes": size_bytes}
    await room.call("mock", json.dumps(header).encode(), [fd], lasting=True)


async def ask_mates(room: Room, program: Program) -> Made | Fault:
    """What a program makes of each kind of mates of the mocks that it names; see `MatesHandler`. Raises as
    `run`.
    """
    reply = await _asked(room, program, "ask", {})
    return answers.read_result(reply.content, reply.fds)


async def map_asset(
    room: Room, name: str, revision: int, fd: int, size_bytes: int, *, again: bool = False
) -> None:
    """Let a room have an object that its program names. The descriptor stays the caller's. Raises as
    `Room.call`.

    Args:
        again: steps behind those that `begin` does open it anew, in another room: nothing is frozen if it has
            changed by then.
    """
    header = {"name": name, "revision": revision, "size_bytes": size_bytes, "again": again}
    await room.call("asset", json.dumps(header).encode(), [fd], lasting=True)


async def begin_with(room: Room, steps: int, fd: int, size_bytes: int, state: State) -> None:
    """Let a room have what the first steps of its program have made in an earlier one. The descriptor stays
    the caller's. Raises as `Room.call`.
    """
    header = {"steps": steps, "size_bytes": size_bytes, "state": state}
    await room.call("frozen", json.dumps(header).encode(), [fd])


async def begin(
    room: Room, program: Program, salt: str, steps: int, max_bytes: int, least_s: float
) -> tuple[int, int, State] | None:
    """Have a room do the first steps of a program and no others, and freeze what the last of them makes: in
    memory that is the caller's to close, of this size. None: that cannot be frozen, or took less than
    `least_s`. `end` does the rest.
    Raises WorkerUnavailable, WorkLimit.
    """
    asked = {"steps": steps, "max_bytes": max_bytes, "least_s": least_s, "salt": salt}
    reply = await _asked(room, program, "begin", asked)
    return answers.read_frozen(reply.content, reply.fds)


async def end(room: Room, timeout_s: float) -> Made | Fault:
    """What the program makes that was begun. Raises as `run`."""
    asked = json.dumps({"max_bytes": room.limits.result_bytes}).encode()
    reply = await room.call("run", asked, timeout_s=timeout_s, memory=True)
    return answers.read_result(reply.content, reply.fds)


async def run(
    room: Room, program: Program, salt: str, command: str = "run", more: dict[str, Any] | None = None
) -> Made | Fault:
    """What a program makes in a room that has its assets, or why it cannot be made. Once for each room.

    Raises:
        WorkerUnavailable: the room has ended; WorkLimit: over a limit.
        OperationFailed: `command` cannot be done.
    """
    asked = {"max_bytes": room.limits.result_bytes, "salt": salt, **(more or {})}
    reply = await _asked(room, program, command, asked)
    return answers.read_result(reply.content, reply.fds)


async def _asked(room: Room, program: Program, command: str, asked: dict[str, Any]) -> Reply:
    segments = program.segments
    size_bytes = sum(map(len, segments))
    fd = await asyncio.to_thread(place, segments, size_bytes)
    try:
        header = json.dumps(asked | {"size_bytes": size_bytes}).encode()
        return await room.call(command, header, [fd], memory=True)
    finally:
        os.close(fd)
