"""The records of a state: JSON texts under a kind and a key. All are ASCII, whatever characters a
name has.
"""

from __future__ import annotations

import json
from typing import Any

Key = tuple[str, str]  # the kind, and a JSON array that identifies the object

ASSET = "asset"  # by name
POLICY = "policy"  # by name; with its usage
ORDER = "order"  # the order of the policies; one record
REQUEST = "request"  # by number
GRANT = "grant"  # by peer, name and revision; holds the number of the granted request


def key(kind: str, *about: str | int) -> Key:
    return kind, dump(about)


def dump(content: object) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def load(text: str) -> Any:
    """Parse a record. Raises ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
