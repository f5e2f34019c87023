"""What a room may be started to do, by a fixed table: nothing is imported by a name from elsewhere."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

Emit = Callable[[str, bytes], None]
Answer = tuple[bytes | memoryview, Sequence[int]]


class Outside(NamedTuple):
    """What a desk lets somebody else do before it answers: to call `work`, once, which raises nothing. It is
    called from frames in which nothing of the room is.
    """

    work: Callable[[], None]
    answer: Callable[[], Answer]


class CommandHandler(Protocol):
    """Does the commands of the kernel, one after the other, from the room's start to its end."""

    def handle(self, command: str, content: bytes, fds: Sequence[int], emit: Emit) -> Answer | Outside:
        """Returns content and descriptors of memory that `memory.place` has made during this call.

        The descriptors that came are closed afterwards; mappings of them stay. `emit(name, content)` tells
        the kernel of progress; it may be called from any thread, and drops what is too much.
        """


class Kind(NamedTuple):
    """One kind of desk."""

    module: str
    name: str
    runs_code: bool  # whether it runs source text that a person has approved


HANDLERS: dict[str, Kind] = {
    "program": Kind("duetlink.compute.worker.room.program", "ProgramHandler", runs_code=False),
    "job": Kind("duetlink.compute.worker.room.job", "JobHandler", runs_code=True),
    "mates": Kind("duetlink.compute.worker.room.mates", "MatesHandler", runs_code=False),
    "decode": Kind("duetlink.compute.worker.room.decoding", "DecodingHandler", runs_code=False),
}


def make(kind: Kind) -> CommandHandler:
    """A desk, with all that it imports."""
    handler: CommandHandler = getattr(importlib.import_module(kind.module), kind.name)()
    return handler
