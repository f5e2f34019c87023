"""A program: the steps that a peer has recorded, as JSON. See `allowed.py` for what a step may do.

A batch is a list of steps, each `[id, operation, arguments]` or `[id, operation, arguments, keywords]`. `id`
names the result from then on, or is 0 where nobody wants it. Beside the operations of the lists there are

    asset   [name, revision]      the object that the owner shares under that name
    value   [index]               the batch's value of that number, which came with it
    drop    [id, …]               these results are not needed any more
    grad    [true or false]       whether torch records gradients from here on

Arguments are JSON's own numbers, texts, `true`, `false` and `null`, or lists whose first item says what they
are:

    [7]                           the result 7
    ["t", …] ["l", …] ["d", …]    a tuple, a list, a dict as key, value, key, value, …
    ["s", start, stop, step]      a slice
    ["e"]                         an ellipsis
    ["z", real, imaginary]        a complex number
    ["c", name]                   a constant of the lists, such as numpy.float32
    ["f", name]                   a function of the lists
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from duetlink.errors import LimitExceeded, RemoteProtocolError

ASSET, VALUE, DROP, GRAD = "asset", "value", "drop", "grad"

MAX_BYTES = 8 * 1024 * 1024  # of one batch
MAX_STEPS = 20_000  # of one batch
MAX_LARGE_VALUES = 16  # that come with one batch, and are pulled
MAX_DEPTH = 20  # of an argument
_MAX_NAME = 200

Argument = Any  # JSON, as above
TAGS = frozenset("tldsezcf")


class Step(NamedTuple):
    """One step as it came."""

    id: int
    operation: str
    arguments: Sequence[Argument]
    keywords: dict[str, Argument]


def join(steps: Sequence[str]) -> bytes:
    """A batch, of steps that are written already."""
    return f"[{','.join(steps)}]".encode()


def inflate(compressed: bytes) -> bytes:
    """A batch as `write` made it, of one that came compressed.

    Raises:
        LimitExceeded: it is longer than MAX_BYTES.
        RemoteProtocolError: it is not compressed by zlib.
    """
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(compressed, MAX_BYTES)
    except zlib.error:
        raise RemoteProtocolError("a batch of steps does not decompress") from None
    if stream.unconsumed_tail:
        raise LimitExceeded(f"a batch is over {MAX_BYTES:,} bytes")
    if not stream.eof:
        raise RemoteProtocolError("a batch of steps is cut short")
    return content


def assets(content: bytes) -> list[tuple[str, int]]:
    """Name and revision of the assets that a batch opens. Raises as `read`."""
    if b'"asset"' not in content:
        return []
    found = []
    for step in read(content):
        if step.operation == ASSET and len(step.arguments) == 2:
            name, revision = step.arguments
            if type(name) is str and type(revision) is int:
                found.append((name, revision))
    return found


def read(content: bytes | memoryview) -> list[Step]:
    """The steps of a batch. What their operations and arguments name is not looked up. Raises as `parse`."""
    return [step_of(raw) for raw in parse(content)]


def parse(content: bytes | memoryview) -> list[Any]:
    """The steps of a batch as JSON; nothing is known of each.

    Raises:
        LimitExceeded: too long, too many steps.
        RemoteProtocolError: it is no batch.
    """
    if len(content) > MAX_BYTES:
        raise LimitExceeded(f"a batch of {len(content):,} bytes is over {MAX_BYTES:,}")
    try:
        steps = json.loads(bytes(content))
    except (ValueError, RecursionError):
        raise RemoteProtocolError("a batch of steps is no JSON") from None
    if type(steps) is not list:
        raise RemoteProtocolError("a batch of steps is no list")
    if len(steps) > MAX_STEPS:
        raise LimitExceeded(f"a batch of {len(steps):,} steps is over {MAX_STEPS:,}")
    return steps


_NO_KEYWORDS: dict[str, Argument] = {}


def step_of(step: Any) -> Step:
    """One step of a batch. Raises RemoteProtocolError."""
    if type(step) is list and 3 <= len(step) <= 4:
        id_, operation, arguments = step[:3]
        keywords = step[3] if len(step) == 4 else _NO_KEYWORDS
        if (
            type(id_) is int
            and 0 <= id_ < 1 << 53
            and type(operation) is str
            and 0 < len(operation) <= _MAX_NAME
            and type(arguments) is list
            and type(keywords) is dict
            and (not keywords or max(map(len, keywords)) <= _MAX_NAME)
        ):
            return Step(id_, operation, arguments, keywords)
    raise RemoteProtocolError("a step is no list of an id, an operation, its arguments, and named ones")


def references(step: Step) -> list[int]:
    """The results that a step's arguments name, in order. Raises RemoteProtocolError for what is none."""
    found: list[int] = []

    def look(argument: Argument, depth: int) -> None:
        if type(argument) is not list:
            return
        if depth > MAX_DEPTH or not argument:
            raise RemoteProtocolError(f"an argument of {step.operation} is empty, or too deep")
        if type(argument[0]) is int and len(argument) == 1:
            found.append(argument[0])
            return
        for part in argument[1:]:
            look(part, depth + 1)

    if step.operation == DROP:
        return []
    for argument in (*step.arguments, *step.keywords.values()):
        look(argument, 0)
    return found


def decode(
    argument: Argument,
    *,
    result: Callable[[int], Any],
    constant: Callable[[str], Any],
    function: Callable[[str], Any],
    depth: int = 0,
) -> Any:
    """The object that an argument stands for. The callables look up what it names, and may raise.

    Raises:
        RemoteProtocolError: it is no argument.
    """
    if type(argument) is not list:
        if type(argument) is dict:
            raise RemoteProtocolError("an argument is a JSON object")
        return argument
    if not argument or depth > MAX_DEPTH:
        raise RemoteProtocolError("an argument is empty, or too deep")
    tag, *parts = argument
    if type(tag) is int and not parts:
        return result(tag)
    try:
        if tag in ("c", "f"):
            (name,) = parts
            return (constant if tag == "c" else function)(name)
        if tag == "z":
            real, imaginary = parts
            return complex(float(real), float(imaginary))

        def deeper(part: Argument) -> Any:
            return decode(part, result=result, constant=constant, function=function, depth=depth + 1)

        if tag == "t":
            return tuple(deeper(part) for part in parts)
        if tag == "l":
            return [deeper(part) for part in parts]
        if tag == "d":
            return {deeper(key): deeper(item) for key, item in zip(parts[::2], parts[1::2], strict=True)}
        if tag == "s":
            start, stop, step = parts
            return slice(deeper(start), deeper(stop), deeper(step))
        if tag == "e" and not parts:
            return ...
    except (TypeError, ValueError) as error:
        raise RemoteProtocolError(f"an argument {tag!r} is malformed") from error
    raise RemoteProtocolError("an argument has an unknown tag")
