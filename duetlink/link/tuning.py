"""The tuner of what this side sends, and what is told of it to the other side."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import OrderedDict

from duetlink.errors import LimitExceeded, RemoteProtocolError
from duetlink.link.agreement import Agreement
from duetlink.peer.rpc import Rpc
from duetlink.settings import PATHS
from duetlink.tuning import Compression, Decision, History, RateCap, Tuner
from duetlink.wire import schema_pb2 as pb

_MAX_DECISION_BYTES = 16 * 1024
_HISTORY = 256


class Tuning:
    """Methods belong to the loop thread; the tuner itself and the histories are for any."""

    def __init__(self, rpc: Rpc, agreement: Agreement, workers: int) -> None:
        self.mine = History(_HISTORY)
        self._theirs = History(_HISTORY)
        self._arrived_s: OrderedDict[int, float] = OrderedDict()  # by number: when the peer told it
        self.rate_cap = RateCap()
        self._rpc = rpc
        self._loop = asyncio.get_running_loop()
        self.tuner = Tuner(agreement.compression, agreement.available, workers, self._record, time.monotonic)
        agreement.on_change = self._changed
        rpc.notice(pb.TunerDecision, self._told)
        rpc.notice(pb.PathSpeed, self._measured)

    def _changed(self, compression: Compression) -> None:
        self.tuner.set_compression(compression)
        self.rate_cap.set_rate(compression.rate_cap_bytes_per_s, time.monotonic())

    def _record(self, decision: Decision) -> None:
        """Called on whichever thread the tuner decides."""
        self.mine.add(decision)
        content = json.dumps(decision.to_wire()).encode()
        self._loop.call_soon_threadsafe(self._rpc.tell_nowait, pb.TunerDecision(content=content))

    def _measured(self, speed: pb.PathSpeed) -> None:
        if speed.path not in PATHS or not 0 < speed.bytes_per_s < math.inf:
            raise RemoteProtocolError("the peer has measured a speed that cannot be, or of no path")
        self.tuner.path_speed(speed.path, speed.bytes_per_s)

    def _told(self, message: pb.TunerDecision) -> None:
        if len(message.content) > _MAX_DECISION_BYTES:
            raise LimitExceeded(f"the peer explains a decision in {len(message.content)} bytes")
        try:
            content = json.loads(message.content)
        except (ValueError, RecursionError):
            raise RemoteProtocolError("the peer's decision is no JSON") from None
        decision = Decision.from_wire(content)
        self._theirs.add(decision)
        self._arrived_s.setdefault(decision.number, time.monotonic())
        while len(self._arrived_s) > 2 * _HISTORY:
            self._arrived_s.popitem(last=False)

    def theirs(self) -> list[tuple[Decision, float]]:
        """The peer's decisions, each with the time at which it was first told here."""
        return [
            (decision, self._arrived_s.get(decision.number, time.monotonic())) for decision in self._theirs
        ]
