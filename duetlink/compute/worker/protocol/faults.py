"""Why a program did not make its result, in a closed vocabulary, with words for the owner.

A room has seen the owner's data, and the steps are the peer's: which step failed, and any word of a library,
may carry a value. So all of it stays with the owner's kernel until its owner, or a policy, has decided how
much of it leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from duetlink.base.wire.text import harmless

MAX_WORDS = 2_000  # characters

# codes
RAISED = 1  # a library raised an error
REFUSED = 2  # the lists do not allow it for the real object
NOT_SHARED = 3  # the object is not shared any more, or has no mock
MALFORMED = 4  # the step names what is not there
CANNOT_TRAVEL = 5  # what was made is no value
NOT_MADE = 6  # a limit was reached, of whatever kind: which one would tell of the data
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
    """Why there is no result: which step failed first, and what happened there."""

    step: int  # the number of the step, from 1 on; 0: all of them were done
    code: int
    error: int = 0  # the class, where `code` is RAISED; see `error_of`
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
        if code not in _CODES or not 0 <= error < len(_ERRORS):
            raise ValueError("a fault has a code and an error of the closed lists")
        return cls(step, code, error, in_one_line(words))


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
    """The number of the nearest builtin class of an exception."""
    return next((_NUMBERS[kind] for kind in type(error).__mro__ if kind in _NUMBERS), 0)


def error_name(number: int) -> str:
    """The name of such a class, such as `ValueError`."""
    return _ERRORS[number].__name__ if 0 <= number < len(_ERRORS) else "Exception"
