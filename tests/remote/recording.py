"""A program without a room: what is recorded is kept, and mocks are all that there is."""

from __future__ import annotations

from typing import Any

from duetlink.compute.operations.allow_lists.allowed import Allowed
from duetlink.compute.operations.sizes.mask import LABELS, trimmed
from duetlink.duet.asking.pointers.remote import Result
from duetlink.duet.asking.recording.program import Program


def recording(*libraries: str) -> Program:
    """A program that may use the lists of these libraries. Nobody takes its steps."""

    def ask(*asked: Any) -> Any:
        raise AssertionError(f"asked for {asked}")

    return Program(Allowed(("python", *libraries)), ask, Result)


def pointer_to(program: Program, mock: object) -> Any:
    """A pointer that behaves as an object of the owner's: its sizes are known, its row labels are not."""
    return program.wrap(mock, program.next_id(), trimmed(LABELS, mock))
