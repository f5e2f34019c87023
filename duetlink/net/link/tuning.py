"""The tuner that chooses codecs for what this side sends, and the messages about it to the peer."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import OrderedDict
from collections.abc import Collection

from duetlink.base.events import CodecChosen, CompressionChanged, Sink, Word
from duetlink.base.runtime import cpu
from duetlink.base.wire import json_
from duetlink.base.wire import schema_pb2 as pb
from duetlink.data.tuning import Compression, Decision, History, RateCap, Tuner
from duetlink.errors import RemoteProtocolError
from duetlink.net.peer.rpc import Rpc

_HISTORY = 256


class Tuning:
    """Methods belong to the loop thread; the tuner itself and the histories may be used on any thread."""

    def __init__(
        self,
        rpc: Rpc,
        available: frozenset[str],
        sink: Sink,
        *,
        paths: Collection[str],
        workers: int,
        together: bool,
    ) -> None:
        """`available`: names of the codecs that both sides have.

        `paths`: paths whose speed the peer may report. `workers`: threads that encode. `together`: the peer
        is on this machine.
        """
        self.mine = History(_HISTORY)
        self._theirs = History(_HISTORY)
        self._arrived_s: OrderedDict[int, float] = OrderedDict()  # by number: when the decision first arrived
        self.rate_cap = RateCap()
        self._sink = sink
        self._rpc = rpc
        self._paths = paths
        self._loop = asyncio.get_running_loop()
        self.tuner = Tuner(
            Compression(),
            available,
            cpu.count(),
            self._record,
            cpu.work_clock,
            workers=workers,
            together=together,
            wanted=self._request_codec,
        )
        rpc.notice(pb.TunerDecision, self._on_peer_decision)
        rpc.notice(pb.PathSpeed, self._on_path_speed)
        rpc.notice(pb.CodecWanted, lambda wanted: self.tuner.load_for_peer(wanted.name))

    def apply(self, compression: Compression) -> None:
        """Put settings into effect on which both sides have agreed."""
        self.tuner.compression = compression
        self.rate_cap.set_rate(compression.rate_cap_bytes_per_s, time.monotonic())
        self._sink.emit(CompressionChanged(compression.version))
        self._sink.changed()

    def _record(self, decision: Decision) -> None:
        """Store and send one decision of the tuner. Called on the thread on which the tuner decides."""
        self.mine.add(decision)
        after = decision.after
        self._sink.emit(
            CodecChosen(
                decision.number,
                Word(decision.path),
                Word(after.codec),
                decision.predicted,
                decision.measured,
            )
        )
        content = json_.dump(decision.to_wire())
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._send_decision, pb.TunerDecision(content=content))

    def _request_codec(self, codec: str) -> None:
        """Ask the peer to load a codec. Called on the thread that loads it here."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._rpc.tell_nowait, pb.CodecWanted(name=codec))

    def _send_decision(self, decision: pb.TunerDecision) -> None:
        self._rpc.tell_nowait(decision)
        self._sink.changed()

    def _on_path_speed(self, speed: pb.PathSpeed) -> None:
        if speed.path not in self._paths or not 0 < speed.bytes_per_s < math.inf:
            raise RemoteProtocolError(
                f"the peer reported {speed.bytes_per_s} bytes/s for the path {speed.path[:40]!r}"
            )
        self.tuner.goodput[speed.path] = speed.bytes_per_s

    def _on_peer_decision(self, message: pb.TunerDecision) -> None:
        decision = Decision.from_wire(json_.load(message.content, "decision"))
        self._theirs.add(decision)
        self._arrived_s.setdefault(decision.number, time.monotonic())
        while len(self._arrived_s) > 2 * _HISTORY:
            self._arrived_s.popitem(last=False)
        self._sink.changed()

    def theirs(self) -> list[tuple[Decision, float]]:
        """Return the peer's decisions, each with the monotonic time at which it first arrived here."""
        return [
            (decision, self._arrived_s.get(decision.number, time.monotonic())) for decision in self._theirs
        ]
