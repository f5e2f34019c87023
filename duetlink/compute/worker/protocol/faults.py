"""Faults: the reasons why a program has no result, in a closed vocabulary, with words for the owner.

A room runs the peer's steps on the owner's data. The number of the failing step, and every word of a
library's error, may therefore carry a value. So the whole fault stays in the owner's kernel until the owner,
or a policy, has decided how much of it the peer gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from duetlink.base.wire.text import harmless

MAX_WORDS = 2_000  # characters

# codes
RAISED = 1  # a library raised an error
REFUSED = 2  # the allow-lists do not permit the step for the real object
NOT_SHARED = 3  # the object is no longer shared, or has no mock
MALFORMED = 4  # the step refers to something that does not exist
CANNOT_TRAVEL = 5  # the result has a type that cannot be encoded
NOT_MADE = 6  # a limit was reached; which one would reveal something about the data
_CODES = frozenset((RAISED, REFUSED, NOT_SHARED, MALFORMED, CANNOT_TRAVEL, NOT_MADE))
MAX_STEP = 1 << 31
_MAX_TEXT = 500  # characters of a library's error

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
    """The reason why a program has no result: the step that failed first, and its failure."""

    step: int  # the number of the step, from 1; 0: all steps succeeded, and the result could not be sent
    code: int
    error: int = 0  # if `code` is RAISED: the class of the error, as a number of `error_number`
    words: str = ""  # for the owner only: they may quote the data

    def to_list(self) -> list[Any]:
        """Return the fields as a list for JSON; `from_list` reads it."""
        return [self.step, self.code, self.error, self.words]

    @classmethod
    def from_list(cls, fields: Sequence[Any]) -> Self:
        """Read the list that a room sent. Raises ValueError or TypeError if it is malformed."""
        step, code, error, words = fields
        if any(type(number) is not int for number in (step, code, error)) or type(words) is not str:
            raise ValueError("a fault must be three numbers and a text")
        if not 0 <= step < MAX_STEP:
            raise ValueError(f"the step of a fault must be from 0 to {MAX_STEP - 1}")
        if code not in _CODES or not 0 <= error < len(_ERRORS):
            raise ValueError("the code or the error class of a fault is unknown")
        return cls(step, code, error, one_line(words))


def one_line(words: str) -> str:
    """Return words of a library or a room as one harmless line of at most MAX_WORDS characters."""
    return harmless(" ".join(words[:MAX_WORDS].split()))[:MAX_WORDS]


def error_text(error: BaseException) -> str:
    """Return class and text of a library's error. The text is cut, since it may contain a whole table."""
    try:
        text = str(error)[:_MAX_TEXT]
    except Exception:  # the error's own __str__ may raise
        text = ""
    return f"{type(error).__name__}: {text}"


def error_number(error: BaseException) -> int:
    """Return the number of the nearest builtin class of an exception; 0 stands for Exception."""
    return next((_NUMBERS[kind] for kind in type(error).__mro__ if kind in _NUMBERS), 0)


def error_name(number: int) -> str:
    """Return the class name for a number of `error_number`, such as `ValueError`."""
    return _ERRORS[number].__name__ if 0 <= number < len(_ERRORS) else "Exception"
