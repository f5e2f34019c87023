"""The bytes of a program: how it travels, and how a room has it in its memory.

    8 bytes   `duetprg2`
    8 bytes   the length of the header, little-endian
    header    JSON: {"target": number, "steps": length, "values": [[length, kind, detail], …]}
    steps     JSON, see `program.py`
    values    each as `data/values` encodes it; each begins at a multiple of 64 bytes

`target` is the place of the step whose result is asked for. Kind and detail are words of the side that made
the value, for a person; nobody checks them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from duetlink.errors import LimitExceeded, RemoteProtocolError

MAX_STEPS = 1_000_000
MAX_TEXT_BYTES = 256 * 1024 * 1024
MAX_VALUES = 1_000_000
MAX_WORDS = 200  # characters, of a kind and of a detail
_MAGIC = b"duetprg2"
_MAX_HEADER_BYTES = 64 * 1024 * 1024
_ALIGNMENT_BYTES = 64


class Body(NamedTuple):
    """A program as it was written. Nothing is known of its steps."""

    target: int
    steps: list[Any]
    values: list[memoryview]
    words: list[tuple[str, str]]  # of the values


def write(
    target: int, steps: bytes, values: Sequence[tuple[memoryview | bytes, str, str]]
) -> list[memoryview]:
    """The pieces of a program, whose steps are written already. A value has its bytes, kind and detail."""
    told = [[len(content), kind[:MAX_WORDS], detail[:MAX_WORDS]] for content, kind, detail in values]
    header = json.dumps(
        {"target": target, "steps": len(steps), "values": told}, separators=(",", ":")
    ).encode()
    pieces = [memoryview(b"".join((_MAGIC, len(header).to_bytes(8, "little"), header))), memoryview(steps)]
    size_bytes = len(pieces[0]) + len(steps)
    for content, _, _ in values:
        padding = -size_bytes % _ALIGNMENT_BYTES
        if padding:
            pieces.append(memoryview(bytes(padding)))
        pieces.append(memoryview(content).cast("B"))
        size_bytes += padding + len(content)
    return pieces


def read(body: memoryview) -> Body:
    """A program as `write` has written it. The values are parts of `body`.

    Raises:
        RemoteProtocolError: it is none.
        LimitExceeded: it is too long.
    """
    size_bytes = len(body)
    if size_bytes < 16 or bytes(body[:8]) != _MAGIC:
        raise RemoteProtocolError("a program does not begin like one")
    header_bytes = int.from_bytes(body[8:16], "little")
    if header_bytes > _MAX_HEADER_BYTES:
        raise LimitExceeded(f"the header of a program has {header_bytes:,} bytes, over {_MAX_HEADER_BYTES:,}")
    position = 16 + header_bytes
    target, steps_bytes, told = _header(_json(body[16:position], "header"))
    if steps_bytes > MAX_TEXT_BYTES:
        raise LimitExceeded(f"a program of {steps_bytes:,} bytes is over {MAX_TEXT_BYTES:,}")
    end = position + steps_bytes
    if end > size_bytes:
        raise RemoteProtocolError("a program is cut short")
    steps = _json(body[position:end], "list of steps")
    if type(steps) is not list:
        raise RemoteProtocolError("the steps of a program are no list")
    if len(steps) > MAX_STEPS:
        raise LimitExceeded(f"a program of {len(steps):,} steps is over {MAX_STEPS:,}")
    if not 0 < target <= len(steps):
        raise RemoteProtocolError(f"a program of {len(steps):,} steps has no step {target}")
    values = []
    for value_bytes, _, _ in told:
        start = end + -end % _ALIGNMENT_BYTES
        end = start + value_bytes
        values.append(body[start:end])
    if end != size_bytes:
        raise RemoteProtocolError(f"a program has {size_bytes:,} bytes, and says that it has {end:,}")
    return Body(target, steps, values, [(kind, detail) for _, kind, detail in told])


def _json(text: memoryview, what: str) -> Any:
    try:
        return json.loads(bytes(text))
    except (ValueError, RecursionError):
        raise RemoteProtocolError(f"the {what} of a program is no JSON") from None


def _header(told: Any) -> tuple[int, int, list[tuple[int, str, str]]]:
    try:
        target, steps, values = told["target"], told["steps"], told["values"]
    except (TypeError, KeyError, IndexError):
        raise RemoteProtocolError("the header of a program does not say what is in it") from None
    if (
        len(told) != 3
        or type(target) is not int
        or type(steps) is not int
        or type(values) is not list
        or steps < 0
    ):
        raise RemoteProtocolError("the header of a program does not say what is in it")
    if len(values) > MAX_VALUES:
        raise LimitExceeded(f"a program has {len(values):,} values, over {MAX_VALUES:,}")
    found = []
    for value in values:
        if type(value) is not list or list(map(type, value)) != [int, str, str]:
            raise RemoteProtocolError("a value of a program is no length, kind and detail")
        size_bytes, kind, detail = value
        if size_bytes < 0 or len(kind) > MAX_WORDS or len(detail) > MAX_WORDS:
            raise RemoteProtocolError("a value of a program has no such length, or too many words")
        found.append((size_bytes, kind, detail))
    return target, steps, found
