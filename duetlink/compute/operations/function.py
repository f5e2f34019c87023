"""A whole function that the scientist submits to run at the owner: its checks, its display, its digest. Pure.

It is sent as source text, Python that imports what it needs and then defines the function, and as a call:
JSON, `[arguments, keywords]`, in the format of `program.py` without constants and functions; `[k]` is input
k.
"""

from __future__ import annotations

import hashlib
import json
import keyword
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from duetlink.compute.operations.printer.literal import harmless, literal, quoted
from duetlink.compute.operations.printer.names import is_identifier, usable
from duetlink.compute.operations.printer.parsing import parsed
from duetlink.compute.operations.steps import program
from duetlink.compute.operations.steps.program import MAX_DEPTH, Argument
from duetlink.errors import LimitExceeded, OperationRefused, RemoteProtocolError

MAX_SOURCE_BYTES = 256 * 1024
MAX_LINE = 500  # characters: a reader does not look for code at the end of a long line
MAX_BLANKS = 100  # columns of all gaps of a line together: more would push code out of sight
MAX_CALL_BYTES = 64 * 1024
MAX_INPUTS = 64
MAX_NAME = 100  # characters
_VERSION = "duetlink function 1"
_TAGS = frozenset("tldsez")
_BLANKS = re.compile(r"(^ +| {3,})\S")  # two blanks before a comment are usual
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


class FunctionCall(NamedTuple):
    """The arguments of a function's call, as received."""

    arguments: list[Argument]
    keywords: dict[str, Argument]


def check_source(name: str, source: str) -> None:
    """Raise OperationRefused if the source cannot be read as it stands.

    That is: it is too long, or has characters that are invisible or that move others.
    """
    if len(name) > MAX_NAME or not is_identifier(name):
        raise OperationRefused(f"{harmless(name[:MAX_NAME])!r} is not the name of a function, in ASCII")
    if len(source.encode(errors="replace")) > MAX_SOURCE_BYTES:
        raise OperationRefused(
            f"{name} has over {MAX_SOURCE_BYTES:,} bytes of source, too many to review; submit less code"
        )
    for number, line in enumerate(source.split("\n"), 1):
        if len(line) > MAX_LINE:
            raise OperationRefused(
                f"line {number} of {name} has {len(line):,} characters, over {MAX_LINE}; break it, or give "
                "the data in it as an argument"
            )
        blanks = sum(map(len, _BLANKS.findall(line.expandtabs())))
        if blanks > MAX_BLANKS:
            raise OperationRefused(
                f"line {number} of {name} has gaps of {blanks} blanks, over {MAX_BLANKS}; break it, so that "
                "the code behind them is in sight"
            )
        plain = line.replace("\t", " ")
        if harmless(plain) != plain:
            raise OperationRefused(
                f"line {number} of {name} has invisible characters, or some that move others; write them as "
                f"escapes: {harmless(plain)}"
            )


def check_letters(name: str, source: str) -> None:
    r"""Raise OperationRefused if a letter beyond ASCII is in neither a text nor a comment.

    Two names could look the same and differ, and Python normalises some of these letters: `\uff45val` is
    `eval`. May take 0.5 s for the longest sources.
    """
    if source.isascii():
        return
    # Python's own parser knows where texts and comments are, even within f-strings: a question mark is valid
    # nowhere else. So each letter is replaced by one. Up to the first misplaced one, the text has the same
    # structure as the text that is run, since texts and comments begin and end with ASCII.
    try:
        parsed(_BEYOND_ASCII.sub("?", source))
    except SyntaxError as error:
        raise OperationRefused(_misplaced(name, source, error)) from None
    except (MemoryError, RecursionError, ValueError):
        raise OperationRefused(f"{name} is too deeply nested to be read") from None


def _misplaced(name: str, source: str, error: SyntaxError) -> str:
    """Return the error message for the letter whose question mark was no valid Python."""
    row, column = error.lineno or 1, error.offset or 1
    line = (source.split("\n")[row - 1 : row] or [""])[0]
    if line.isascii():
        return f"line {row} of {name} is not valid Python, so its letters beyond ASCII cannot be checked"
    if not line[column - 1 : column] or line[column - 1 : column].isascii():
        # within an f-string, Python before 3.12 counts the column from elsewhere
        column = next(column_number for column_number, letter in enumerate(line, 1) if not letter.isascii())
    letter = line[column - 1]
    return (
        f"line {row}, column {column} of {name}: {letter!r} (U+{ord(letter):04X}, "
        f"{unicodedata.name(letter, 'without a name')}) is neither in a text nor in a comment; write "
        "names in ASCII, so that none is mistaken for another"
    )


def write_call(arguments: Sequence[Argument], keywords: dict[str, Argument]) -> bytes:
    """Return the canonical JSON of a call."""
    return json.dumps([list(arguments), keywords], separators=(",", ":")).encode()


def parse_call(content: bytes, inputs: int) -> FunctionCall:
    """Parse a received call, which must use each of `inputs` inputs.

    Raises:
        LimitExceeded: it is longer than MAX_CALL_BYTES.
        RemoteProtocolError: it is no call, or does not use all inputs.
    """
    if len(content) > MAX_CALL_BYTES:
        raise LimitExceeded(f"a call of {len(content):,} bytes is over {MAX_CALL_BYTES:,}")
    try:
        # Python's own parser, since an argument may be infinite or NaN
        arguments, keywords = msgspec.convert(json.loads(content), tuple[list[Any], dict[str, Any]])
    except (ValueError, RecursionError):
        raise RemoteProtocolError("the call of a function is not a list of arguments and keywords") from None
    if not all(is_identifier(name) and len(name) <= MAX_NAME for name in keywords):
        raise RemoteProtocolError("a keyword of a function's call is not an identifier")
    used: set[int] = set()
    for argument in (*arguments, *keywords.values()):
        _check(argument, inputs, used, 0)
    if len(used) != inputs:
        raise RemoteProtocolError(f"a function has {inputs} inputs, and its call uses {len(used)}")
    return FunctionCall(arguments, keywords)


def decode(argument: Argument, inputs: Callable[[int], Any]) -> Any:
    """Return the object that an argument stands for. Raise RemoteProtocolError if it is malformed."""

    def refuse(name: str) -> Any:
        raise RemoteProtocolError("an argument of a function names an object of a library")

    return program.decode(argument, result=inputs, constant=refuse, function=refuse)


def show_call(name: str, call: FunctionCall, inputs: Sequence[str]) -> str:
    """Return the call as Python, with these names for its inputs."""
    shown = [_shown(argument, inputs) for argument in call.arguments]
    shown += [f"{key}={_shown(argument, inputs)}" for key, argument in call.keywords.items()]
    return f"{name}({', '.join(shown)})"


def input_names(hints: Sequence[str], function: str) -> list[str]:
    """Return a name for each input, from its hint: all different, and none of them a name of Python's."""
    names: list[str] = []
    for number, hint in enumerate(hints):
        free = usable(hint) and not keyword.issoftkeyword(hint) and hint not in (function, *names)
        names.append(hint if free and len(hint) <= MAX_NAME else f"input_{number}")
    if len(set(names)) < len(names):  # an asset may be named `input_1`
        return [f"input_{number}" for number in range(len(hints))]
    return names


def digest_of(name: str, source: str, call: FunctionCall, inputs: Sequence[tuple[str, str]]) -> str:
    """Return the version and the SHA-256, in hexadecimal, of a function with its call and inputs.

    `inputs` are pairs of texts, the kind of an input and its identity. The digest is equal if source, call
    and inputs are equal to a person.
    """
    content = [_VERSION, name, source, write_call(call.arguments, call.keywords).decode(), inputs]
    return f"v2:{hashlib.sha256(json.dumps(content, separators=(',', ':')).encode()).hexdigest()}"


def _check(argument: Argument, inputs: int, used: set[int], depth: int) -> None:
    if type(argument) is dict:
        raise RemoteProtocolError("an argument of a function is a JSON object")
    if type(argument) is not list:
        return
    if not argument or depth > MAX_DEPTH:
        raise RemoteProtocolError("an argument of a function is empty, or too deep")
    tag, *parts = argument
    if type(tag) is int:
        if parts or not 0 <= tag < inputs:
            raise RemoteProtocolError(f"a function has no input {tag}")
        used.add(tag)
        return
    if type(tag) is not str or tag not in _TAGS:
        raise RemoteProtocolError("an argument of a function has an unknown tag")
    counts = {"s": (3,), "e": (0,), "z": (2,)}.get(tag)
    if (counts is not None and len(parts) not in counts) or (tag == "d" and len(parts) % 2):
        raise RemoteProtocolError(f"an argument {tag!r} of a function is malformed")
    if tag == "z" and not all(type(part) in (int, float) for part in parts):
        raise RemoteProtocolError("a complex argument of a function is malformed")
    for part in parts:
        _check(part, inputs, used, depth + 1)


def _shown(argument: Argument, inputs: Sequence[str]) -> str:
    if type(argument) is str:
        return quoted(argument)  # not cut, since the text may decide what the function does
    if type(argument) is not list:
        return literal(argument)
    tag, *parts = argument
    if type(tag) is int:
        return inputs[tag]
    shown = [_shown(part, inputs) for part in parts]
    if tag == "d":
        return "{" + ", ".join(map(": ".join, zip(shown[::2], shown[1::2], strict=True))) + "}"
    inner = ", ".join(shown)
    if tag == "t":
        return f"({inner},)" if len(shown) == 1 else f"({inner})"
    return {"l": f"[{inner}]", "s": f"slice({inner})", "e": "...", "z": f"complex({inner})"}[tag]
