"""What rides in a control message as JSON."""

from __future__ import annotations

import json
from typing import Any

from duetlink.errors import LimitExceeded, RemoteProtocolError

MAX_BYTES = 16 * 1024


def dump(content: object) -> bytes:
    return json.dumps(content).encode()


def load(content: bytes, what: str) -> Any:
    """The peer's `what`, of whatever shape.

    Raises:
        LimitExceeded: it is longer than MAX_BYTES.
        RemoteProtocolError: it is no JSON.
    """
    if len(content) > MAX_BYTES:
        raise LimitExceeded(f"the peer's {what} has {len(content)} bytes; at most {MAX_BYTES} are taken")
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise RemoteProtocolError(f"the peer's {what} is no JSON") from None
