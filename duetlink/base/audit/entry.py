"""One line of the audit log: what happened, to which object, in whose words. Never what the object holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

MAX_TEXT = 2000  # characters of each text, the peer's as well
MAX_LINE_BYTES = 512 * 1024  # more than the longest texts, all of them escaped, can take

OPENED, CONNECTED, CLOSED = "opened", "connected", "closed"
SHARE, UNSHARE, GIFT = "share", "unshare", "gift"
REQUEST, WITHDRAWN, ANSWER, RELEASE = "request", "withdrawn", "answer", "release"
GROUP = "group"  # an operation of a group is about to send: which, of how many bytes, to whom
POLICY = "policy"  # one was added or removed
PORT = "port"  # a TCP service was shared, or taken back; a connection by a shared port began or ended
RUN = "run"  # an asset was opened, or a function run, for the peer, in a process of its own
RECOVERED = "recovered"  # the log was found torn or cut, and goes on from here
UNREADABLE = "unreadable"  # stands for a line that is no entry; never written

_PLACE = ("number", "when", "previous", "hash")


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
    left_bytes: int | None = None  # of it, when its transfer had ended; by a connection
    came_bytes: int | None = None  # by a connection
    connection: int | None = None  # by a port: the same number where it begins and where it ends
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

    def to_fields(self, when: str) -> dict[str, Any]:
        """What the log writes of it: overlong texts cut, without its place, which the journal adds."""
        found = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        written = {
            name: _cut(value) if isinstance(value, str) else value
            for name, value in found.items()
            if value not in ("", None) and name not in _PLACE
        }
        return written | {"when": when}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """What a line holds. Fields that this version does not know are left out: a newer one wrote them."""
        known = {field.name: field.type for field in dataclasses.fields(cls)}
        right: dict[str, Any] = {
            name: value
            for name, value in fields.items()
            if name in known and isinstance(value, str if known[name] == "str" else int)
        }
        right.setdefault("kind", UNREADABLE)
        return cls(**right)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
