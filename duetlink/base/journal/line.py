"""The format of one line: canonical JSON that contains its own hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

FIRST = "0" * 64  # `previous` of the first line
_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def parse(line: bytes) -> dict[str, Any]:
    """Return the fields of a line without its newline, after checking its format and its hash.

    Raises:
        ValueError: the line is not exactly as it was written.
    """
    try:
        fields = json.loads(line.decode("ascii"))
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(fields, dict) or canonical(fields) != line:
        raise ValueError("not in the form in which entries are written")
    if type(fields.get("number")) is not int or not isinstance(fields.get("previous"), str):
        raise ValueError("no number, or no hash of the entry before it")
    stated = fields.pop("hash", None)
    if stated != hash_of(fields):
        raise ValueError("its hash is another")
    fields["hash"] = stated
    return fields


def hash_of(fields: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the canonical JSON of everything but the hash."""
    return hashlib.sha256(canonical(fields)).hexdigest()


def canonical(fields: Mapping[str, Any]) -> bytes:
    """Return JSON with sorted keys, without spaces, in ASCII: equal fields give equal bytes."""
    return _encoder.encode(fields).encode("ascii")
