"""The reason of a failed run, and how much of it the peer is told.

The peer is told nothing before a person or a policy says how much. The report comes from a room that has run
the peer's code, so its text may be chosen by the peer. Unless the owner releases messages, the peer only gets
an error class from a fixed list and a place in its own text.
"""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import Any, Self

from duetlink import errors

# How much the peer is told: that it failed; also the place and the error class; also the message, which may
# quote the data.
THAT, TYPE, MESSAGE = FAILURES = ("that", "type", "message")

_MAX_MESSAGE = 500  # characters
_MAX_TEXT = 20_000
_LIMITS = ("LimitExceeded", "MemoryError", "OutOfMemoryError")  # by a library, or for the size of the result
# error classes whose names may be sent: the name of a class that the function defines could carry data
_KNOWN = frozenset(
    name
    for module in (builtins, errors)
    for name, found in vars(module).items()
    if isinstance(found, type) and issubclass(found, BaseException)
) | frozenset(
    [
        "AxisError",
        "ComputeError",
        "ColumnNotFoundError",
        "ConvergenceWarning",
        "DuplicateError",
        "IntCastingNaNError",
        "InvalidIndexError",
        "InvalidOperationError",
        "LinAlgError",
        "MergeError",
        "NotFittedError",
        "OutOfBoundsDatetime",
        "OutOfBoundsError",
        "OutOfMemoryError",
        "ParserError",
        "PerformanceWarning",
        "SchemaError",
        "ShapeError",
        "StructFieldNotFoundError",
        "UFuncTypeError",
        "UndefinedVariableError",
    ]
)


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason of one failed run."""

    kind: str = ""  # the error class, one of `_KNOWN`
    line: int = 0  # of the function, whose `def` is line 1; 0: not in the function
    message: str = ""  # may quote the data
    traceback: str = ""  # may quote the data
    stopped: str = ""  # why the run was stopped, for the owner; then only `traceback` may be set too
    step: int = 0  # the first step of a program that failed, from 1; 0: not known, or a function
    operation: str = ""  # the operation of that step, as this side names it

    @classmethod
    def of(cls, report: Any, lines: int) -> Self:
        """Read what the room reports of a failed function with this many lines. Raises WorkerUnavailable: the
        report is malformed.
        """
        try:
            kinds = [str(kind) for kind in report["kinds"]]
            line, message, trace = int(report["line"]), str(report["message"]), str(report["traceback"])
        except (KeyError, TypeError, ValueError, OverflowError):
            raise errors.WorkerUnavailable("the room's report of a failed function is malformed") from None
        kind = next((kind for kind in kinds if kind in _KNOWN), "Exception")
        return cls(kind, line if 0 < line <= lines else 0, message[:_MAX_TEXT], trace[-_MAX_TEXT:])

    @classmethod
    def of_step(cls, step: int, operation: str, kind: str, message: str = "") -> Self:
        """Return the failure of a program's step by an error of class `kind`; a class that is not known
        becomes `Exception`.
        """
        return cls(
            kind if kind in _KNOWN else "Exception",
            message=message[:_MAX_TEXT],
            traceback=message[:_MAX_TEXT],
            step=step,
            operation=operation,
        )

    @property
    def is_limit(self) -> bool:
        """True if time, memory or the result's size ended the run. The peer is not told which of them."""
        return bool(self.stopped) or self.kind in _LIMITS

    @property
    def where(self) -> str:
        """The place in the peer's own text, in words; empty if it is not known."""
        if self.step:
            return f"in step {self.step}" + (f", {self.operation}" if self.operation else "")
        return f"in line {self.line}" if self.line else ""

    @property
    def summary(self) -> str:
        """The place and the error class, for the owner. Does not quote the data."""
        if self.stopped:
            return self.stopped
        return f"{self.kind} {self.where}".rstrip()

    def words(self, name: str, tell: str) -> str:
        """Return the text for the peer; `tell` is one of `FAILURES`."""
        if tell == THAT:
            return f"{name} failed on the real data; its owner can tell more"
        if self.is_limit:
            return f"{name} was not made at the owner: it came to a limit of time, memory or size"
        return self._words(name, with_message=tell == MESSAGE)

    def owner_words(self, name: str) -> str:
        """Return the text for the owner, including the message."""
        if self.stopped:
            return f"{name} did not come to its end: {self.stopped}"
        return self._words(name, with_message=True)

    def _words(self, name: str, *, with_message: bool) -> str:
        where = f", {self.where}" if self.where else ""
        words = f"{name} failed on the real data{where}: {self.kind}"
        if with_message and self.message:
            words += f": {self.message[:_MAX_MESSAGE]}"
        return words
