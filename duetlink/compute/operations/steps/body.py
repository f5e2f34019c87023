"""The bytes of a program, as it is sent, and as it is mapped into the process that runs it.

    8 bytes   MAGIC
    8 bytes   length of the header, little-endian
    header    JSON {"target": t, "steps": S, "values": [[size_bytes, kind, detail], …]}
    S bytes   the steps: a JSON list, one step after the other
    values    each begins at a multiple of 64 bytes from the start; zeros are in between

A step is `[operation, arguments]`, `[operation, arguments, keywords]` or `[operation, arguments, keywords,
modes]`. The number of its result is its position, from 1 on, and an argument `[n]` names the result of an
earlier step. `asset` has `[name, revision]`, `value` has `[index]` into the values of the header; everything
else is as in `program.py`. The modes are a JSON object of

    "grad": false           torch records no gradients in this step
    "draw": [seed, k]       it is the k-th step, from 0 on, that may draw random numbers since the program
                            set this seed; null: the program has set none
    "settings": {…}         of libraries, see `settings.py`
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from duetlink.compute.operations.allow_lists.settings import Settings, settings_of
from duetlink.errors import LimitExceeded, RemoteProtocolError

MAGIC = b"duetprg2"
ALIGNMENT_BYTES = 64  # alignment of values, so that arrays can be views of them
MAX_HEADER_BYTES = 64 * 1024 * 1024
MAX_STEPS_BYTES = 256 * 1024 * 1024
MAX_STEPS = 1_000_000
MAX_VALUES = 100_000
# The most brackets and commas of a JSON text per step or value, checked before it is parsed. A training has
# some 4 of each per step. A million lists take Python's parser 0.3 s, in which no other thread has its turn.
_MOST_BRACKETS = 5
_MOST_COMMAS = 20
_COUNTED_BYTES = 1 << 20  # counted at once, so that other threads run in between
MAX_WORDS = 10_000  # characters of the description of one value
MAX_NAME = 200  # characters of an operation's or keyword's name
MAX_DRAWS = 1 << 53
_PREFIX_BYTES = len(MAGIC) + 8
_HEADER_KEYS = frozenset(("target", "steps", "values"))
_MODES = frozenset(("grad", "draw", "settings"))

Raw = list[Any]  # a step as JSON


class Words(NamedTuple):
    """The sender's description of a value. Nothing depends on it."""

    kind: str
    detail: str


class Body(NamedTuple):
    """A parsed program. Its values are views of the bytes that it was read from."""

    target: int  # the number of the requested result
    steps: list[Any]  # as JSON; `step_of` parses one
    values: list[memoryview]
    words: list[Words]  # descriptions of the values


class StepSeeds(NamedTuple):
    """The source of a step's random numbers: the last seed, and the number of draws since it was set."""

    seed: int | None
    number: int


class BodyStep(NamedTuple):
    """One parsed step. The names of its operation and arguments have not been looked up."""

    operation: str
    arguments: list[Any]
    keywords: dict[str, Any]
    records: bool  # torch records gradients
    draw: StepSeeds | None
    settings: Settings = ()


def write(
    target: int, steps: bytes, values: Sequence[memoryview | bytes] = (), words: Sequence[Words] = ()
) -> tuple[list[memoryview | bytes], int]:
    """Return a body as pieces, in order, and its size in bytes.

    `steps` comes from `steps_text`. Values are not copied; `words` describe them, and may be fewer.
    """
    sizes = [memoryview(value).nbytes for value in values]
    described = [*words, *[Words("", "")] * (len(sizes) - len(words))]
    table = [[size, *texts] for size, texts in zip(sizes, described, strict=True)]
    header = _json({"target": target, "steps": len(steps), "values": table})
    pieces: list[memoryview | bytes] = [MAGIC + len(header).to_bytes(8, "little"), header, steps]
    position = _PREFIX_BYTES + len(header) + len(steps)
    for value, size in zip(values, sizes, strict=True):
        gap = -position % ALIGNMENT_BYTES
        pieces += [bytes(gap), value]
        position += gap + size
    return pieces, position


def steps_text(steps: Sequence[Any]) -> bytes:
    """Return the canonical bytes of steps."""
    return _json(steps)


def read(body: memoryview) -> Body:
    """Parse a program; `body` must contain nothing else.

    Raises:
        LimitExceeded: it has too many steps or values, or they have too many parts.
        RemoteProtocolError: it is no program.
    """
    body = body.cast("B")
    if len(body) < _PREFIX_BYTES or body[: len(MAGIC)] != MAGIC:
        raise RemoteProtocolError("a program does not begin with the magic bytes of this version")
    header_bytes = int.from_bytes(body[len(MAGIC) : _PREFIX_BYTES], "little")
    if header_bytes > MAX_HEADER_BYTES:
        raise LimitExceeded(f"a program's header is over {MAX_HEADER_BYTES:,} bytes")
    steps_at = _PREFIX_BYTES + header_bytes
    if steps_at > len(body):
        raise RemoteProtocolError("a program ends within its header")
    header = _parsed(body[_PREFIX_BYTES:steps_at], "a program's header", MAX_VALUES)
    target, steps_bytes, table = _header(header)
    if steps_bytes > MAX_STEPS_BYTES:
        raise LimitExceeded(f"a program's steps are over {MAX_STEPS_BYTES:,} bytes")
    values, words = _values(body, steps_at + steps_bytes, table)
    steps = _parsed(body[steps_at : steps_at + steps_bytes], "a program's steps", MAX_STEPS)
    if type(steps) is not list:
        raise RemoteProtocolError("the steps of a program are not a list")
    if len(steps) > MAX_STEPS:
        raise LimitExceeded(f"a program of {len(steps):,} steps is over {MAX_STEPS:,}")
    if not 1 <= target <= len(steps):
        raise RemoteProtocolError(f"a program of {len(steps)} steps makes no result {target}")
    return Body(target, steps, values, words)


_NO_KEYWORDS: dict[str, Any] = {}


def step_of(raw: Any) -> BodyStep:
    """Parse one step of a body. Raise RemoteProtocolError if it is malformed."""
    if type(raw) is list and 2 <= len(raw) <= 4:
        operation, arguments = raw[:2]
        keywords = raw[2] if len(raw) > 2 else _NO_KEYWORDS
        if (
            type(operation) is str
            and 0 < len(operation) <= MAX_NAME
            and type(arguments) is list
            and type(keywords) is dict
            and (not keywords or max(map(len, keywords)) <= MAX_NAME)
        ):
            if len(raw) < 4:
                return BodyStep(operation, arguments, keywords, True, None)
            modes = raw[3]
            if type(modes) is dict and modes and modes.keys() <= _MODES and modes.get("grad", False) is False:
                draw = _draw(modes["draw"]) if "draw" in modes else None
                settings = settings_of(modes["settings"]) if "settings" in modes else ()
                if settings or "settings" not in modes:
                    return BodyStep(operation, arguments, keywords, "grad" not in modes, draw, settings or ())
    raise RemoteProtocolError("a step is not a list of an operation, arguments, keywords and modes")


def _draw(raw: Any) -> StepSeeds:
    if type(raw) is list and len(raw) == 2:
        seed, number = raw
        if (seed is None or (type(seed) is int and -(1 << 63) <= seed < 1 << 64)) and (
            type(number) is int and 0 <= number < MAX_DRAWS
        ):
            return StepSeeds(seed, number)
    raise RemoteProtocolError("the draw of a step is not a pair of a seed and a number")


def _header(header: Any) -> tuple[int, int, list[Any]]:
    if type(header) is not dict or header.keys() != _HEADER_KEYS:
        raise RemoteProtocolError("the header of a program is not an object of target, steps and values")
    target, steps_bytes, table = header["target"], header["steps"], header["values"]
    if type(target) is not int or type(steps_bytes) is not int or type(table) is not list or steps_bytes < 0:
        raise RemoteProtocolError("the header of a program does not have two numbers and a list of values")
    if len(table) > MAX_VALUES:
        raise LimitExceeded(f"a program of {len(table):,} values is over {MAX_VALUES:,}")
    return target, steps_bytes, table


def _values(body: memoryview, position: int, table: list[Any]) -> tuple[list[memoryview], list[Words]]:
    """Return the values, and their descriptions. They follow the steps, which end at `position`."""
    values: list[memoryview] = []
    words: list[Words] = []
    for entry in table:
        if type(entry) is not list or len(entry) != 3:
            raise RemoteProtocolError("a value is not described by its size, kind and detail")
        size, *texts = entry
        if type(size) is not int or size < 0 or any(type(text) is not str for text in texts):
            raise RemoteProtocolError("a value is not described by its size, kind and detail")
        if max(map(len, texts)) > MAX_WORDS:
            raise LimitExceeded(f"a value is described in more than {MAX_WORDS:,} characters")
        start = position + -position % ALIGNMENT_BYTES
        if start + size > len(body):
            raise RemoteProtocolError("a program ends within its values")
        if any(body[position:start]):
            raise RemoteProtocolError("the padding between two values of a program is not zero")
        values.append(body[start : start + size])
        words.append(Words(*texts))
        position = start + size
    if position != len(body):
        raise RemoteProtocolError(
            f"a program has {len(body):,} bytes, and {position:,} by its header; send it whole, and nothing "
            "else"
        )
    return values, words


def _parsed(text: memoryview, what: str, most: int) -> Any:
    """Parse JSON that holds at most `most` steps or values."""
    _check_parts(text, what, most)
    try:
        return json.loads(bytes(text))  # Python's own parser, since a constant may be infinite or NaN
    except (ValueError, RecursionError):
        raise RemoteProtocolError(f"{what}: not valid JSON") from None


def _check_parts(text: memoryview, what: str, most: int) -> None:
    """Raise LimitExceeded if the parsed text would take far more memory and time than its bytes.

    Brackets and commas within strings are counted as well; only a very large text reaches the limit by them.
    """
    brackets = commas = 0
    for start in range(0, len(text), _COUNTED_BYTES):
        part = bytes(text[start : start + _COUNTED_BYTES])
        brackets += part.count(b"[") + part.count(b"{")
        commas += part.count(b",")
        if brackets > _MOST_BRACKETS * most or commas > _MOST_COMMAS * most:
            raise LimitExceeded(
                f"{what}: over {_MOST_BRACKETS * most:,} lists or {_MOST_COMMAS * most:,} items; make arrays "
                "of long lists, or request less at once"
            )


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
