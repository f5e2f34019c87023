"""Why a function has failed at its owner, and how much of that the one who sent it hears.

The worker that tells of it has run the function, which may say what it likes: what is not one of a few known
names, or a line of its own text, goes to the peer only where the owner lets messages out.
"""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import Any, Self

from duetlink import errors
from duetlink.compute.worker.faults import MESSAGE, SILENT

_MAX_MESSAGE = 500  # characters
_MAX_TEXT = 20_000
# so many names, that a class of the function's own tells nothing by what it is called
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
    """What is known of it."""

    kind: str = ""  # a class of errors, by a name that is known
    line: int = 0  # of the function, its `def` being line 1; 0: not in there
    message: str = ""  # may quote the data, as
    traceback: str = ""  # does
    stopped: str = ""  # instead of all that: why it did not come to an end, for the owner
    told: str = ""  # the same for the peer, in words of a closed list

    @classmethod
    def of(cls, told: Any, lines: int) -> Self:
        """Of what the worker tells of a function of so many lines. Raises WorkerUnavailable: that is none."""
        try:
            kinds = [str(kind) for kind in told["kinds"]]
            line, message, trace = int(told["line"]), str(told["message"]), str(told["traceback"])
        except (KeyError, TypeError, ValueError, OverflowError):
            raise errors.WorkerUnavailable("the worker's answer is no failure of a function") from None
        kind = next((kind for kind in kinds if kind in _KNOWN), "Exception")
        return cls(kind, line if 0 < line <= lines else 0, message[:_MAX_TEXT], trace[-_MAX_TEXT:])

    def words(self, name: str, detail: str) -> str:
        """For a peer who may have this much detail, of `settings.FAILURE_DETAILS`."""
        if detail == SILENT:
            return f"{name} failed on the real data; its owner can tell more"
        if self.stopped:
            return f"{name} did not come to its end at the owner: {self.told}"
        where = f", in line {self.line}" if self.line else ""
        words = f"{name} failed on the real data{where}: {self.kind}"
        if detail == MESSAGE and self.message:
            words += f": {self.message[:_MAX_MESSAGE]}"
        return words
