"""One line of the audit log: what happened, to which object, in whose words. Never what the object holds."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

FIRST = "0" * 64  # what the first entry has as the hash of the one before it
MAX_TEXT = 2000  # characters of each text, the peer's as well
MAX_LINE_BYTES = 512 * 1024  # more than the longest texts, all of them escaped, can take

OPENED, CONNECTED, CLOSED = "opened", "connected", "closed"
SHARE, UNSHARE, GIFT = "share", "unshare", "gift"
REQUEST, WITHDRAWN, ANSWER, RELEASE = "request", "withdrawn", "answer", "release"
POLICY = "policy"  # one was added or removed
RUN = "run"  # an asset was opened, or a function run, for the peer, in a process of its own
RECOVERED = "recovered"  # the log was found torn or cut, and goes on from here
UNREADABLE = "unreadable"  # stands for a line that is no entry; never written


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What the log says of one event. Fields that do not apply are empty, and not written."""

    kind: str
    number: int = -1  # 0, 1, 2, … from the beginning of the log; given by the log, as the next one
    when: str = ""  # UTC, ISO 8601
    session: str = ""  # random, one for each duet on each side
    peer: str = ""  # as it called itself
    request: int | None = None  # its number in `duet.requests`
    transfer: int | None = None  # its number in `duet.transfers`
    name: str = ""
    revision: int | None = None
    value_kind: str = ""
    size_bytes: int | None = None  # of the whole object
    left_bytes: int | None = None  # of it, when its transfer had ended
    fingerprint: str = ""
    reason: str = ""  # in the words of whoever caused it
    state: str = ""  # `approved`, `denied`; `begun`, `complete`, `cancelled`, `failed`; `added`, `removed`
    answer_reason: str = ""
    by: str = ""  # `person`, or `policy NAME`
    path: str = ""
    verifier: str = ""
    lineage: str = ""  # how it came from what the owner holds, where it is not just that
    previous: str = ""  # the hash of the entry before it
    hash: str = ""

    def sealed(self, number: int, when: str, previous: str) -> Self:
        """As the log takes it: with its place, overlong texts cut, and the hash over all of it."""
        fields: dict[str, Any] = {
            name: _cut(value) if isinstance(value, str) else value for name, value in self._fields().items()
        }
        fields |= {"number": number, "when": when, "previous": previous}
        placed = type(self)(**fields)
        return dataclasses.replace(placed, hash=hash_of(placed._fields()))

    def line(self) -> bytes:
        """The line of a sealed entry."""
        return canonical(self._fields() | {"hash": self.hash}) + b"\n"

    def _fields(self) -> dict[str, Any]:
        found = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in found.items() if value not in ("", None) and name != "hash"}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """What `parse` found. Fields that this version does not know are left out: a newer one wrote them."""
        known = {field.name: field.type for field in dataclasses.fields(cls)}
        right: dict[str, Any] = {
            name: value
            for name, value in fields.items()
            if name in known and isinstance(value, str if known[name] == "str" else int)
        }
        right.setdefault("kind", UNREADABLE)
        return cls(**right)


def parse(line: bytes) -> dict[str, Any]:
    """The fields of a line without its newline, when it is just as it was written: its hash is right.

    Raises:
        ValueError: it is not.
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
    """SHA-256 over the canonical JSON of everything but the hash."""
    return hashlib.sha256(canonical(fields)).hexdigest()


def canonical(fields: Mapping[str, Any]) -> bytes:
    """JSON with sorted keys, without spaces, in ASCII: one way to write the same fields."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
