"""The kinds of rooms, in a fixed table: the class that a room imports is never named by a peer."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

Emit = Callable[[str, bytes], None]
Answer = tuple[bytes | memoryview, Sequence[int]]


class UntrustedWork(NamedTuple):
    """Untrusted work to do before a command can be answered.

    `child.main` calls `work` once, and then `answer`. No stack frame above `work` refers to the handler or to
    the socket, so that the function cannot reach them. `work` raises nothing.
    """

    work: Callable[[], None]
    answer: Callable[[], Answer]


class CommandHandler(Protocol):
    """Carries out the commands of the kernel, one after the other, from the room's start to its end."""

    def handle(self, command: str, content: bytes, fds: Sequence[int], emit: Emit) -> Answer | UntrustedWork:
        """Carry out one command. Returns content, and descriptors that `memory.place` made during this call.

        The caller closes `fds` afterwards; mappings of them stay valid. `emit(name, content)` sends a
        progress event. It may be called from any thread, and drops events above the rate limit.
        """


class HandlerKind(NamedTuple):
    """The class that handles the commands of one kind of room."""

    module: str
    name: str
    runs_code: bool  # it runs source text that the owner has approved


HANDLERS: dict[str, HandlerKind] = {
    "program": HandlerKind("duetlink.compute.worker.room.program", "ProgramHandler", runs_code=False),
    "job": HandlerKind("duetlink.compute.worker.room.job", "JobHandler", runs_code=True),
    "mates": HandlerKind("duetlink.compute.worker.room.mates", "MatesHandler", runs_code=False),
    "decode": HandlerKind("duetlink.compute.worker.room.decoding", "DecodingHandler", runs_code=False),
}


def make(kind: HandlerKind) -> CommandHandler:
    """Import and create the handler of one kind of room."""
    handler: CommandHandler = getattr(importlib.import_module(kind.module), kind.name)()
    return handler
