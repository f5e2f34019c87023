"""One line of the audit log: the event, the object's name and the reasons given, never the object's
content."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

MAX_TEXT = 2000  # characters of each text, including the peer's
MAX_LINE_BYTES = 512 * 1024  # more than the longest texts, all of them escaped, can take

OPENED, CONNECTED, CLOSED = "opened", "connected", "closed"
SHARE, UNSHARE, GIFT = "share", "unshare", "gift"
REQUEST, WITHDRAWN, ANSWER, RELEASE = "request", "withdrawn", "answer", "release"
GROUP = "group"  # an operation of a group is about to send: its name, size and receivers
POLICY = "policy"  # a policy was added or removed
PORT = "port"  # a TCP service was shared or withdrawn; a connection through a shared port began or ended
RUN = "run"  # an asset was opened, or a function run, for the peer, in a process of its own
RECOVERED = "recovered"  # the log was found torn or cut, and goes on from here
UNREADABLE = "unreadable"  # the kind of a line that is no valid entry; never written

_ADDED_BY_JOURNAL = ("number", "when", "previous", "hash")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One event. Fields that do not apply are empty, and are not written."""

    kind: str
    number: int = -1  # 0, 1, 2, … from the beginning of the log; assigned when it is appended
    when: str = ""  # UTC, ISO 8601
    session: str = ""  # random, one for each duet on each side
    peer: str = ""  # the name that the peer gave itself
    request: int | None = None  # its number in `duet.requests`
    transfer: int | None = None  # its number in `duet.transfers`
    name: str = ""
    revision: int | None = None
    value_kind: str = ""
    size_bytes: int | None = None  # size of the whole object
    left_bytes: int | None = None  # sent when the transfer had ended, or by a connection
    came_bytes: int | None = None  # received by a connection
    connection: int | None = None  # number of a connection through a port, the same at its start and its end
    fingerprint: str = ""
    reason: str = ""  # in the words of the person who caused the event
    state: str = ""  # `approved`, `denied`; `begun`, `complete`, `cancelled`, `failed`; `added`, `removed`
    answer_reason: str = ""
    by: str = ""  # `person`, or `policy NAME`
    path: str = ""
    verifier: str = ""
    lineage: str = ""  # how a result was computed from the owner's objects; empty for an object itself
    previous: str = ""  # the hash of the entry before it
    hash: str = ""

    def to_fields(self, when: str) -> dict[str, Any]:
        """Return the fields to write, with long texts cut, without those that the journal adds."""
        written: dict[str, Any] = {"when": when}
        for name in _WRITTEN:
            value = getattr(self, name)
            if value not in ("", None):
                written[name] = _cut(value) if isinstance(value, str) else value
        return written

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Return the entry of a line. Fields unknown to this version are ignored: a newer one wrote them."""
        known = {field.name: field.type for field in dataclasses.fields(cls)}
        right: dict[str, Any] = {
            name: value
            for name, value in fields.items()
            if name in known and isinstance(value, str if known[name] == "str" else int)
        }
        right.setdefault("kind", UNREADABLE)
        return cls(**right)


_WRITTEN = tuple(field.name for field in dataclasses.fields(Entry) if field.name not in _ADDED_BY_JOURNAL)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
