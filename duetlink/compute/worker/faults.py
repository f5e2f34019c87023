"""Why a step failed, in a closed vocabulary, for the owner's kernel.

A room has seen the owner's data, and a step is the peer's: any word that the room chose freely could carry a
value. What it says of a failure is a place in the program, a code, the nearest builtin class of an exception,
and words, which quote the data. The owner sees all of that; what the peer is told of it, and whether, the
owner decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

MAX_WORDS = 2_000  # characters

# codes
RAISED = 1  # a library raised an error
REFUSED = 2  # the lists do not allow it for the real object
NOT_SHARED = 3  # the object is not shared any more, or has no mock
MALFORMED = 4  # the step names what is not there
CANNOT_TRAVEL = 5  # what was made is no value
NOT_MADE = 6  # it takes more time or memory, or is larger, than the owner allows
_CODES = frozenset((RAISED, REFUSED, NOT_SHARED, MALFORMED, CANNOT_TRAVEL, NOT_MADE))

_ERRORS: tuple[type[BaseException], ...] = (
    Exception,
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    FloatingPointError,
    ImportError,
    IndexError,
    KeyError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    OverflowError,
    RecursionError,
    RuntimeError,
    TypeError,
    UnicodeError,
    ValueError,
    ZeroDivisionError,
)
_NUMBERS = {error: number for number, error in enumerate(_ERRORS)}


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a program was not done: the step that failed first, and what happened there."""

    step: int  # from 1 on; 0: all were done, and what was made cannot be had
    code: int
    error: int = 0  # the class, where `code` is RAISED; see `error_of`
    words: str = ""  # may quote the data

    def to_list(self) -> list[Any]:
        """For the owner's kernel, as JSON."""
        return [self.step, self.code, self.error, self.words]

    @classmethod
    def from_list(cls, told: Sequence[Any]) -> Self:
        """Raises ValueError, TypeError: the room tells of no such thing."""
        step, code, error, words = told
        numbers = (step, code, error)
        if any(type(number) is not int or number < 0 for number in numbers) or type(words) is not str:
            raise ValueError("a fault is three numbers and a text")
        if step >= 1 << 31 or code not in _CODES or error >= len(_ERRORS):
            raise ValueError("a fault has a step, a code and an error of the closed lists")
        return cls(step, code, error, words[:MAX_WORDS])


def error_of(error: BaseException) -> int:
    """The number of the nearest builtin class of an exception."""
    return next((_NUMBERS[kind] for kind in type(error).__mro__ if kind in _NUMBERS), 0)


def error_name(number: int) -> str:
    """The name of such a class, such as `ValueError`."""
    return _ERRORS[number].__name__ if 0 <= number < len(_ERRORS) else "Exception"
