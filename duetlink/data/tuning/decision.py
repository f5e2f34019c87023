"""Records of the tuner's decisions: the plan, the time and the reason, for the user and for the peer."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Annotated, Any, Self

import msgspec
from msgspec import Meta

from duetlink.errors import RemoteProtocolError

_MAX_NAME = 1024
_MAX_WHY = 2048
_MAX_INT = (1 << 53) - 1
_MAX_FLOAT = sys.float_info.max

_Name = Annotated[str, Meta(max_length=_MAX_NAME)]
_Count = Annotated[int, Meta(ge=0, le=_MAX_INT)]
_Rate = Annotated[float, Meta(ge=0, le=_MAX_FLOAT)]


class _Wired(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    def to_wire(self) -> Any:
        """Return the fields as values that JSON can hold."""
        return msgspec.to_builtins(self)

    @classmethod
    def from_wire(cls, wire: object) -> Self:
        """Parse a value that a peer sent.

        Raises:
            RemoteProtocolError: it is not the result of `to_wire`.
        """
        try:
            return msgspec.convert(wire, cls)
        except ValueError as error:
            raise RemoteProtocolError(f"the peer's {cls.__name__.lower()} is malformed: {error}") from None


class Plan(_Wired, frozen=True):
    """The codec and level, the chunk size before encoding, and the number of encoding threads (`workers`)."""

    codec: Annotated[str, Meta(max_length=64)]
    level: Annotated[int, Meta(ge=-_MAX_INT, le=_MAX_INT)]
    chunk_bytes: _Count
    workers: _Count


class Decision(_Wired, frozen=True, rename={"before": "from", "after": "to"}):
    """One change of plan. It is recorded again, with the same `number`, when its outcome is known.

    `when_s` is on the clock that the tuner is given. `predicted` and `measured` are bytes of arrays per
    second, before encoding.
    """

    number: _Count
    when_s: Annotated[float, Meta(ge=-_MAX_FLOAT, le=_MAX_FLOAT)]
    name: _Name
    path: _Name
    before: Plan | None
    after: Plan
    why: Annotated[str, Meta(max_length=_MAX_WHY)]
    predicted: _Rate | None = None
    measured: _Rate | None = None

    def to_wire(self) -> Any:
        cut = {"name": self.name[:_MAX_NAME], "path": self.path[:_MAX_NAME], "why": self.why[:_MAX_WHY]}
        return msgspec.to_builtins(msgspec.structs.replace(self, **cut))


class History:
    """The latest decisions, oldest first. Any thread may add and read."""

    def __init__(self, limit: int = 256) -> None:
        self._limit = limit
        self._decisions: OrderedDict[int, Decision] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, decision: Decision) -> None:
        """Add a decision, or the outcome of one that has not been dropped yet."""
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
