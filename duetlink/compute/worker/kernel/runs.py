"""Functions by which a kernel has a room run a program: on assets at the owner, on mocks at the scientist."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from duetlink.base.runtime import descriptors
from duetlink.compute.operations.canonical import Program
from duetlink.compute.worker.kernel.process import OnEvent, Reply, Room
from duetlink.compute.worker.protocol import answers, libraries
from duetlink.compute.worker.protocol.faults import Fault
from duetlink.compute.worker.protocol.groups import State
from duetlink.compute.worker.protocol.limits import Limits
from duetlink.compute.worker.protocol.memory import place
from duetlink.data.values.base import Encoded

Made = tuple[Encoded, int | None]  # a value and its group; None: it contains nothing of an asset

_LIBRARIES = tuple(library for library in libraries.LIBRARIES if library not in libraries.OF_FUNCTIONS)


async def opened(limits: Limits, on_event: OnEvent = lambda name, content: None) -> Room:
    """Start a room for a program. The caller must close it. Raises WorkerUnavailable."""
    return await Room.start(limits, handler="program", libraries=_LIBRARIES, on_event=on_event)


@contextlib.asynccontextmanager
async def room_for(limits: Limits, on_event: OnEvent = lambda name, content: None) -> AsyncIterator[Room]:
    """Have a room for one program within the block. Raises WorkerUnavailable.

    It is killed at the end of the block, which does not wait until its process is gone: unmapping the
    libraries takes as long as a small program. After an error or a cancel the process is gone.
    """
    room = await opened(limits, on_event)
    try:
        yield room
    except BaseException:
        await room.close()
        raise
    room.kill("its program has ended")


async def of_mates(limits: Limits) -> Room:
    """Start a room for programs on mates of mocks. The caller must close it. Raises WorkerUnavailable."""
    return await Room.start(limits, handler="mates", libraries=_LIBRARIES)


async def map_mock(room: Room, name: str, revision: int, fd: int, size_bytes: int) -> None:
    """Give a mock to a room of mates. The caller keeps and closes the descriptor. Raises as `Room.call`."""
    header = {"name": name, "revision": revision, "size_bytes": size_bytes}
    await room.call("mock", json.dumps(header).encode(), [fd], lasting=True)


async def ask_mates(room: Room, program: Program) -> Made | Fault:
    """Run a program on each kind of mates of the mocks that it names; see `MatesHandler`. Raises as `run`."""
    reply = await _call_with_program(room, program, "ask", {})
    return answers.read_result(reply.content, reply.fds)


async def map_asset(
    room: Room, name: str, revision: int, fd: int, size_bytes: int, *, again: bool = False
) -> None:
    """Give a room an asset that its program names. The caller keeps and closes the descriptor.

    Raises as `Room.call`.

    Args:
        again: steps after those of `begin` open the asset too, which later rooms will do from its original
            bytes. So `begin` freezes nothing if its steps have changed the asset.
    """
    header = {"name": name, "revision": revision, "size_bytes": size_bytes, "again": again}
    await room.call("asset", json.dumps(header).encode(), [fd], lasting=True)


async def begin_with(room: Room, steps: int, fd: int, size_bytes: int, state: State) -> None:
    """Give a room the frozen value that an earlier room made by the first `steps` steps of the same program.

    The caller keeps and closes the descriptor. Raises as `Room.call`.
    """
    header = {"steps": steps, "size_bytes": size_bytes, "state": state}
    await room.call("frozen", json.dumps(header).encode(), [fd])


async def begin(
    room: Room, program: Program, salt: str, steps: int, max_bytes: int, least_s: float
) -> tuple[int, int, State] | None:
    """Run the first `steps` steps of a program in a room, and freeze the result of the last of them.

    Returns a descriptor of the frozen value, which the caller must close, its size, and the state of its
    groups. Returns None if the value cannot be frozen, is over `max_bytes`, or took less than `least_s`. In
    both cases `end` runs the other steps. Raises WorkerUnavailable, WorkLimit.
    """
    fields = {"steps": steps, "max_bytes": max_bytes, "least_s": least_s, "salt": salt}
    reply = await _call_with_program(room, program, "begin", fields)
    return answers.read_frozen(reply.content, reply.fds)


async def end(room: Room, timeout_s: float) -> Made | Fault:
    """Run the rest of a program that was begun, and return its result. Raises as `run`."""
    fields = json.dumps({"max_bytes": room.limits.result_bytes}).encode()
    reply = await room.call("run", fields, timeout_s=timeout_s, memory=True)
    return answers.read_result(reply.content, reply.fds)


async def run(
    room: Room, program: Program, salt: str, command: str = "run", more: dict[str, Any] | None = None
) -> Made | Fault:
    """Run a program in a room that has its assets, and return its result or a fault. Once for each room.

    Raises:
        WorkerUnavailable: the room has ended.
        WorkLimit: the room exceeded a limit, and has ended.
        OperationFailed: the command failed.
    """
    fields = {"max_bytes": room.limits.result_bytes, "salt": salt, **(more or {})}
    reply = await _call_with_program(room, program, command, fields)
    return answers.read_result(reply.content, reply.fds)


async def _call_with_program(room: Room, program: Program, command: str, fields: dict[str, Any]) -> Reply:
    segments = program.segments
    size_bytes = sum(map(len, segments))
    header = json.dumps(fields | {"size_bytes": size_bytes}).encode()
    async with descriptors.opened_by(lambda: place(segments, size_bytes)) as fd:
        return await room.call(command, header, [fd], memory=True)
