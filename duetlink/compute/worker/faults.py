"""Why a program did not make its result, in a closed vocabulary, with words for the owner.

A room has seen the owner's data, and the steps are the peer's: which step failed, and any word of a library,
may carry a value. So all of it stays with the owner's kernel until its owner, or a policy, has decided how
much of it leaves; `told` cuts it down to that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from duetlink.base.wire import schema_pb2 as pb
from duetlink.base.wire.text import harmless

Failure = pb.WorkFailure  # on the wire

# How much is told of a failure: that there was one; the step, the code and the class of the error; the words
SILENT, TYPE, MESSAGE = "silent", "type", "message"
MAX_WORDS = 2_000  # characters

UNTOLD = Failure.UNTOLD
RAISED = Failure.RAISED
REFUSED = Failure.REFUSED
NOT_SHARED = Failure.NOT_SHARED
MALFORMED = Failure.MALFORMED
CANNOT_TRAVEL = Failure.CANNOT_TRAVEL
NOT_MADE = Failure.TOO_LARGE  # a limit was reached, of whatever kind: which one would tell of the data
MAX_STEP = 1 << 31
_MAX_TEXT = 500  # characters of a library's error

_ERRORS: dict[type[BaseException], int] = {
    Exception: Failure.EXCEPTION,
    ArithmeticError: Failure.ARITHMETIC_ERROR,
    AssertionError: Failure.ASSERTION_ERROR,
    AttributeError: Failure.ATTRIBUTE_ERROR,
    BufferError: Failure.BUFFER_ERROR,
    FloatingPointError: Failure.FLOATING_POINT_ERROR,
    ImportError: Failure.IMPORT_ERROR,
    IndexError: Failure.INDEX_ERROR,
    KeyError: Failure.KEY_ERROR,
    LookupError: Failure.LOOKUP_ERROR,
    MemoryError: Failure.MEMORY_ERROR,
    NotImplementedError: Failure.NOT_IMPLEMENTED_ERROR,
    OSError: Failure.OS_ERROR,
    OverflowError: Failure.OVERFLOW_ERROR,
    RecursionError: Failure.RECURSION_ERROR,
    RuntimeError: Failure.RUNTIME_ERROR,
    TypeError: Failure.TYPE_ERROR,
    UnicodeError: Failure.UNICODE_ERROR,
    ValueError: Failure.VALUE_ERROR,
    ZeroDivisionError: Failure.ZERO_DIVISION_ERROR,
}
_NAMES = {number: error.__name__ for error, number in _ERRORS.items()}


@dataclass(frozen=True, slots=True)
class Fault:
    """Why there is no result: which step failed first, and what happened there."""

    step: int  # the number of the step, from 1 on; 0: all of them were done
    code: int  # of Failure.Code
    error: int = Failure.EXCEPTION  # of Failure.Error, where `code` is RAISED
    words: str = ""  # for the owner: they may quote the data

    def to_list(self) -> list[Any]:
        """For the owner's kernel, as JSON."""
        return [self.step, self.code, self.error, self.words]

    @classmethod
    def from_list(cls, told: Sequence[Any]) -> Self:
        """Raises ValueError, TypeError: the room tells of no such thing."""
        step, code, error, words = told
        if any(type(number) is not int for number in (step, code, error)) or type(words) is not str:
            raise ValueError("a fault is three numbers and a text")
        if not 0 <= step < MAX_STEP:
            raise ValueError("there is no such step")
        if code not in Failure.Code.values() or error not in Failure.Error.values():
            raise ValueError("a fault has a code and an error of the closed lists")
        return cls(step, code, error, in_one_line(words))

    def told(self, detail: str) -> Fault:
        """What the peer may know of it, with this much detail."""
        if detail not in (TYPE, MESSAGE):
            return Fault(0, UNTOLD)
        error = self.error if self.code == RAISED else Failure.EXCEPTION
        return Fault(self.step, self.code, error, self.words if detail == MESSAGE else "")


def in_one_line(words: str) -> str:
    """The words of a library, or of a room, as they may be shown."""
    return harmless(" ".join(words[:MAX_WORDS].split()))[:MAX_WORDS]


def text_of(error: BaseException) -> str:
    """What a library says, cut short: it may print a whole table."""
    try:
        text = str(error)[:_MAX_TEXT]
    except Exception:  # a library's error that cannot be printed
        text = ""
    return f"{type(error).__name__}: {text}"


def error_of(error: BaseException) -> int:
    """The nearest builtin class of an exception: a number of Failure.Error."""
    return next((_ERRORS[kind] for kind in type(error).__mro__ if kind in _ERRORS), Failure.EXCEPTION)


def error_name(number: int) -> str:
    """The name of such a class, such as `ValueError`."""
    return _NAMES.get(number, "Exception")
