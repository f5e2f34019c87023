"""What the tuner decided, when and why: for a person to read, and to be told to the peer."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeGuard

from duetlink.errors import RemoteProtocolError

_MAX_NAME = 1024
_MAX_WHY = 2048
_MAX_INT = (1 << 53) - 1
_PLAN_FIELDS = {"codec", "level", "chunk_bytes", "workers"}
_FIELDS = {"number", "when_s", "name", "path", "from", "to", "why", "predicted", "measured"}


@dataclass(frozen=True, slots=True)
class Plan:
    """How chunks are sent: by which codec and level, how large, and by how many threads that encode."""

    codec: str
    level: int
    chunk_bytes: int
    workers: int

    def to_wire(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_wire(cls, wire: object) -> Plan:
        """Raises RemoteProtocolError."""
        if not isinstance(wire, dict) or set(wire) != _PLAN_FIELDS or not _is_text(wire["codec"], 64):
            raise RemoteProtocolError("the peer's plan does not have the fields it should")
        if not all(_is_count(wire[name]) for name in ("chunk_bytes", "workers")):
            raise RemoteProtocolError("the peer's plan has counts that cannot be")
        if not _is_whole(wire["level"]):
            raise RemoteProtocolError("the peer's plan has a level that cannot be")
        return cls(**wire)


@dataclass(frozen=True, slots=True)
class Decision:
    """One change of plan. A decision comes again with the same `number` when its outcome is known.

    `when_s` is on the clock that the tuner is given; `predicted` and `measured` are bytes of arrays per
    second, before encoding.
    """

    number: int
    when_s: float
    name: str
    path: str
    before: Plan | None
    after: Plan
    why: str
    predicted: float | None = None
    measured: float | None = None

    def to_wire(self) -> dict[str, Any]:
        """As values that JSON knows."""
        return {
            "number": self.number,
            "when_s": self.when_s,
            "name": self.name[:_MAX_NAME],
            "path": self.path[:_MAX_NAME],
            "from": None if self.before is None else self.before.to_wire(),
            "to": self.after.to_wire(),
            "why": self.why[:_MAX_WHY],
            "predicted": self.predicted,
            "measured": self.measured,
        }

    @classmethod
    def from_wire(cls, wire: object) -> Decision:
        """What a peer sent.

        Raises:
            RemoteProtocolError: it is not what `to_wire` makes.
        """
        if not isinstance(wire, dict) or set(wire) != _FIELDS:
            raise RemoteProtocolError("the peer's decision does not have the fields it should")
        texts = _is_text(wire["name"], _MAX_NAME) and _is_text(wire["path"], _MAX_NAME)
        if not texts or not _is_text(wire["why"], _MAX_WHY):
            raise RemoteProtocolError("the peer's decision has texts that are none, or too long")
        if not _is_count(wire["number"]) or not _is_number(wire["when_s"]):
            raise RemoteProtocolError("the peer's decision has a number or a time that cannot be")
        for rate in (wire["predicted"], wire["measured"]):
            if rate is not None and not (_is_number(rate) and rate >= 0):
                raise RemoteProtocolError("the peer's decision has a rate that cannot be")
        return cls(
            wire["number"],
            wire["when_s"],
            wire["name"],
            wire["path"],
            None if wire["from"] is None else Plan.from_wire(wire["from"]),
            Plan.from_wire(wire["to"]),
            wire["why"],
            wire["predicted"],
            wire["measured"],
        )


class History:
    """The latest decisions, oldest first; any thread may add and read."""

    def __init__(self, limit: int = 256) -> None:
        self._limit = limit
        self._decisions: OrderedDict[int, Decision] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, decision: Decision) -> None:
        """A decision, or the outcome of one that is still here."""
        with self._lock:
            if decision.measured is not None and decision.number not in self._decisions:
                return
            self._decisions[decision.number] = decision
            while len(self._decisions) > self._limit:
                self._decisions.popitem(last=False)

    def __iter__(self) -> Iterator[Decision]:
        with self._lock:
            return iter(tuple(self._decisions.values()))

    def __len__(self) -> int:
        return len(self._decisions)


def _is_text(value: object, limit: int) -> bool:
    return isinstance(value, str) and len(value) <= limit


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MAX_INT


def _is_count(value: object) -> bool:
    return _is_whole(value) and value >= 0


def _is_number(value: object) -> bool:
    if _is_whole(value):
        return True
    return isinstance(value, float) and math.isfinite(value)
