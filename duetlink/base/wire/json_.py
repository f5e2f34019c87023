"""Read JSON from a peer, a room or a file as exactly one type.

msgspec checks while it reads: every field must be present and of its type, and a `msgspec.Struct` that
forbids unknown fields has no other. NaN, numbers out of range and halves of surrogate pairs are refused; if a
key is repeated, the last one counts.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeVar

import msgspec

from duetlink.errors import LimitExceeded, RemoteProtocolError

MAX_BYTES = 16 * 1024

T = TypeVar("T")
Whole = Annotated[int, msgspec.Meta(ge=0)]


def dump(content: object) -> bytes:
    return json.dumps(content).encode()


def read(content: bytes | bytearray | memoryview | str, kind: type[T]) -> T:
    """Return the value of this type in JSON text. Raises ValueError."""
    try:
        return msgspec.json.decode(content, type=kind)
    except RecursionError:
        raise ValueError("nested too deep") from None


def load(content: bytes, what: str) -> Any:
    """Return the peer's `what`, of any type.

    Raises:
        LimitExceeded: it is longer than MAX_BYTES.
        RemoteProtocolError: it is not JSON.
    """
    if len(content) > MAX_BYTES:
        raise LimitExceeded(f"the peer's {what} has {len(content)} bytes; at most {MAX_BYTES} are taken")
    try:
        return read(content, Any)
    except ValueError:
        raise RemoteProtocolError(f"the peer's {what} is not valid JSON") from None
