"""Why a step failed, in a closed vocabulary.

The worker has seen the owner's data, and a step is the peer's: any word that the worker chose freely could
carry a value. So what it says of a failure is a place in the peer's own program, a code, and the nearest
builtin class of an exception. The exact words of a library exist only where the owner has set
`failure_detail="message"`, and travel in a message of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from duetlink.base.wire import schema_pb2 as pb

SILENT, TYPE, MESSAGE = "silent", "type", "message"  # `settings.FAILURE_DETAILS`: how much the peer is told
MAX_WORDS = 2_000  # characters

_ERRORS: dict[type[BaseException], int] = {
    Exception: pb.WorkFailure.EXCEPTION,
    ArithmeticError: pb.WorkFailure.ARITHMETIC_ERROR,
    AssertionError: pb.WorkFailure.ASSERTION_ERROR,
    AttributeError: pb.WorkFailure.ATTRIBUTE_ERROR,
    BufferError: pb.WorkFailure.BUFFER_ERROR,
    FloatingPointError: pb.WorkFailure.FLOATING_POINT_ERROR,
    ImportError: pb.WorkFailure.IMPORT_ERROR,
    IndexError: pb.WorkFailure.INDEX_ERROR,
    KeyError: pb.WorkFailure.KEY_ERROR,
    LookupError: pb.WorkFailure.LOOKUP_ERROR,
    MemoryError: pb.WorkFailure.MEMORY_ERROR,
    NotImplementedError: pb.WorkFailure.NOT_IMPLEMENTED_ERROR,
    OSError: pb.WorkFailure.OS_ERROR,
    OverflowError: pb.WorkFailure.OVERFLOW_ERROR,
    RecursionError: pb.WorkFailure.RECURSION_ERROR,
    RuntimeError: pb.WorkFailure.RUNTIME_ERROR,
    TypeError: pb.WorkFailure.TYPE_ERROR,
    UnicodeError: pb.WorkFailure.UNICODE_ERROR,
    ValueError: pb.WorkFailure.VALUE_ERROR,
    ZeroDivisionError: pb.WorkFailure.ZERO_DIVISION_ERROR,
}
_NAMES = {number: error.__name__ for error, number in _ERRORS.items()}


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a step could not be done: where the step that failed first stands, and what happened there."""

    batch: int  # from 1 on; 0: it is no step that failed, but a request for a result
    position: int  # of the step in its batch, from 0 on
    code: int  # of pb.WorkFailure.Code
    error: int = pb.WorkFailure.EXCEPTION  # of pb.WorkFailure.Error, where `code` is RAISED
    words: str = ""  # may quote the data; empty unless the owner lets messages out

    def to_list(self) -> list[Any]:
        """For the owner's kernel, as JSON."""
        return [self.batch, self.position, self.code, self.error, self.words]

    @classmethod
    def from_list(cls, told: Sequence[Any]) -> Self:
        """Raises ValueError, TypeError: the worker tells of no such thing."""
        batch, position, code, error, words = told
        numbers = (batch, position, code, error)
        if any(type(number) is not int or number < 0 for number in numbers) or type(words) is not str:
            raise ValueError("a fault is four numbers and a text")
        if batch >= 1 << 63 or position >= 1 << 31:
            raise ValueError("there is no such batch or step")
        if code not in pb.WorkFailure.Code.values() or error not in pb.WorkFailure.Error.values():
            raise ValueError("a fault has a code and an error of the closed lists")
        return cls(batch, position, code, error, words[:MAX_WORDS])

    def told(self, detail: str) -> Fault:
        """What the peer may know of it, with this much detail."""
        if detail == SILENT:
            return Fault(self.batch, self.position, pb.WorkFailure.UNTOLD)
        error = self.error if self.code == pb.WorkFailure.RAISED else pb.WorkFailure.EXCEPTION
        return replace(self, error=error, words=self.words if detail == MESSAGE else "")

    def to_wire(self, result: int) -> pb.WorkFailure:
        """As the peer gets it, of the step that makes `result`, or 0. The words do not go along."""
        return pb.WorkFailure(
            result=result,
            batch=self.batch,
            position=self.position,
            code=self.code,  # type: ignore[arg-type]
            error=self.error,  # type: ignore[arg-type]
        )


def error_of(error: BaseException) -> int:
    """The nearest builtin class of an exception: a number of pb.WorkFailure.Error."""
    return next((_ERRORS[kind] for kind in type(error).__mro__ if kind in _ERRORS), pb.WorkFailure.EXCEPTION)


def error_name(number: int) -> str:
    """The name of such a class, such as `ValueError`."""
    return _NAMES.get(number, "Exception")
