"""The sending half of a tunnel: decides what is sent when, and what is sent again."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from duetlink.net.tunnel.acknowledgement import Acknowledgement
from duetlink.net.tunnel.controller import Controller
from duetlink.net.tunnel.datagram import HEADER_BYTES, DatagramKind, DatagramSealer
from duetlink.net.tunnel.datagram_port import DatagramPort
from duetlink.net.tunnel.mtu import LARGEST_BYTES, MtuSearch
from duetlink.net.tunnel.recovery import AckOutcome, Ranges, Recovery
from duetlink.net.tunnel.send_buffer import SendBuffer

_QUANTUM_S = 0.001  # a batch holds what the pacing rate allows in this time, and at least
_MIN_QUANTUM = 2  # datagrams
# After a timer that fired late, the sender catches up, with a burst of at most so many bytes that most queues
# hold.
_CATCH_UP_BYTES = 64 << 10
_CATCH_UP_S = (0.002, 0.01)
_LONGEST_PACE_S = 0.25  # the longest pause between batches, for a rate that was too low for a moment
_KEEPALIVE_S = 5.0
_PERSIST_S = 0.3
_PROBE_DATAGRAMS = 2  # RFC 9002 §6.2.4


class Sender:
    """Reads no clock and has no timer: its owner calls `send_batch` and `on_deadline` in time."""

    def __init__(
        self,
        port: DatagramPort,
        sealer: DatagramSealer,
        controller: Controller,
        acknowledge: Callable[[float], bytes],
        capacity_bytes: int,
        start: int,
        now_s: float,
    ) -> None:
        """`acknowledge` returns the payload of an ACK for what has arrived, which a FIN carries too.

        So a side that has both ends of the stream may leave: the peer cannot have missed that its own end has
        arrived.
        """
        self.outgoing = SendBuffer(capacity_bytes, LARGEST_BYTES, start)
        self.recovery = Recovery(now_s)
        self.mtu = MtuSearch()
        self.controller = controller
        self.port_is_full = False  # reset by the owner when the port has room again
        self.is_finishing = False
        self.is_finished = False  # the peer has the whole stream and knows its end
        self._port = port
        self._sealer = sealer
        self._acknowledge = acknowledge
        self._fin_due = False  # must be sent, for the first time or after a loss
        self._fin_sent = False  # at least once
        self._limit = (
            start + capacity_bytes
        )  # from the peer's acknowledgements; at first its capacity, which is the same as ours
        self._next_send_s = now_s
        self._has_answered = False

    @property
    def all_but_the_end_arrived(self) -> bool:
        return self.is_finishing and self.outgoing.acknowledged == self.outgoing.end

    def finish(self) -> None:
        """End the stream after what was written."""
        if not self.is_finishing:
            self.is_finishing = self._fin_due = True

    # -- sending --------------------------------------------------------------------------------------

    def wait_s(self, now_s: float) -> float | None:
        """Return how long pacing delays the next batch; None while another event must happen first."""
        if self.port_is_full or not self._has_something():
            return None
        if self.recovery.inflight_bytes:
            room_bytes = self.controller.window_bytes - self.recovery.inflight_bytes
            if room_bytes < self.mtu.datagram_bytes or self.recovery.room_packets <= 0:
                return None
        return self._next_send_s - now_s

    def send_batch(self, now_s: float) -> None:
        """Send one batch, when `wait_s` allows it."""
        recovery = self.recovery
        if not recovery.inflight_bytes and now_s - recovery.last_sent_s > recovery.probe_timeout_s:
            self.controller.on_idle_restart(now_s)
        size = self.mtu.datagram_bytes
        quantum = int(self.controller.pacing_rate_bytes_per_s * _QUANTUM_S) // size
        room = int(self.controller.window_bytes - recovery.inflight_bytes) // size
        most = min(max(quantum, _MIN_QUANTUM), self._port.batch_datagrams, room, recovery.room_packets)
        self._send_stream(now_s, max(most, 1))

    def _has_something(self) -> bool:
        outgoing = self.outgoing
        if outgoing.has_lost:
            return True
        available = min(outgoing.available_bytes, self._limit - outgoing.sent)
        held_up = available < outgoing.unsent_bytes
        if available > 0:
            # while flow control holds the stream up, wait for room for a full datagram
            full = available >= self.mtu.datagram_bytes - HEADER_BYTES
            return full or not held_up or not self.recovery.inflight_bytes
        if held_up:
            return False
        if not self._fin_due:
            self.recovery.on_application_limited()
        return self._fin_due

    def _send_stream(self, now_s: float, most_rows: int) -> None:
        outgoing = self.outgoing
        payload_bytes = self.mtu.datagram_bytes - HEADER_BYTES
        if outgoing.has_lost:
            positions, payloads = outgoing.again(payload_bytes, most_rows)
            sent = self._send(now_s, DatagramKind.DATA, payloads, positions)
            for position in positions[sent:].tolist():
                outgoing.lose(position, payloads.shape[1])
            return
        payloads = outgoing.fresh(payload_bytes, most_rows, self._limit)
        if payloads.size:
            size = payloads.shape[1]
            positions = np.arange(outgoing.sent, outgoing.sent + payloads.size, size)
            outgoing.advance(self._send(now_s, DatagramKind.DATA, payloads, positions) * size)
        elif self._fin_due:
            end = np.array([outgoing.end])
            word = np.frombuffer(self._acknowledge(now_s), np.uint8).reshape(1, -1)
            if self._send(now_s, DatagramKind.FIN, word, end):
                self._fin_due, self._fin_sent = False, True

    def _send(
        self, now_s: float, kind: DatagramKind, payloads: NDArray[np.uint8], positions: NDArray[np.int64]
    ) -> int:
        """Send datagrams that must be acknowledged; return how many the port took."""
        recovery = self.recovery
        floor = recovery.announced_floor(now_s)
        rows = self._sealer.seal(kind, payloads, np.maximum(positions, 0), floor=floor)
        sent = self._port.send(rows)
        datagram_bytes = HEADER_BYTES + payloads.shape[1]
        if sent:
            size_bytes = payloads.shape[1] if kind == DatagramKind.DATA else 0
            recovery.on_sent(now_s, sent, datagram_bytes, positions[:sent], size_bytes)
            self.controller.on_sent(now_s, sent * datagram_bytes, recovery.inflight_bytes)
            rate_bytes_per_s = self.controller.pacing_rate_bytes_per_s
            late_s = min(max(_CATCH_UP_BYTES / rate_bytes_per_s, _CATCH_UP_S[0]), _CATCH_UP_S[1])
            taken_s = min(sent * datagram_bytes / rate_bytes_per_s, _LONGEST_PACE_S)
            self._next_send_s = max(self._next_send_s, now_s - late_s) + taken_s
        if sent < len(rows):
            self.port_is_full = True
            self._send_again(recovery.on_skipped(len(rows) - sent))
        return sent

    def send_alone(self, now_s: float, kind: DatagramKind, payload: bytes) -> bool:
        """Send one datagram that is not acknowledged; return False if the port did not take it."""
        payloads = np.frombuffer(payload, np.uint8).reshape(1, -1)
        rows = self._sealer.seal(kind, payloads, floor=self.recovery.announced_floor(now_s))
        self._send_again(self.recovery.on_skipped(1))
        if self._port.send(rows):
            return True
        self.port_is_full = True
        return False

    def ping(self, now_s: float) -> None:
        """Send a datagram that the peer must acknowledge."""
        self._send(now_s, DatagramKind.PING, np.empty((1, 0), np.uint8), np.array([-1]))

    # -- answers -------------------------------------------------------------------------------------------

    def on_ack(self, now_s: float, ack: Acknowledgement) -> bool:
        """Process an acknowledgement; return False if it covers what was never sent."""
        outgoing = self.outgoing
        if ack.complete > outgoing.sent + self._fin_sent:
            return False
        outcome = self.recovery.on_ack(now_s, ack)
        if outcome is None:
            return False
        if not self._has_answered:
            self._has_answered = True
            self.mtu.begin(now_s)
        self._limit = max(self._limit, ack.limit)
        self.is_finished = self.is_finished or ack.complete > outgoing.sent
        outgoing.release(min(ack.complete, outgoing.sent))
        if self.mtu.on_ack(ack):
            self.controller.datagram_bytes = self.mtu.datagram_bytes
        self._settle(now_s, outcome)
        return True

    def _settle(self, now_s: float, outcome: AckOutcome) -> None:
        for position, size in zip(outcome.late.positions, outcome.late.sizes_bytes, strict=True):
            self.outgoing.found(int(position), int(size))
        self._send_again(outcome.lost)
        self.controller.on_ack(outcome.sample)
        lost_full = np.count_nonzero(outcome.lost.datagram_bytes >= self.mtu.datagram_bytes)
        self.mtu.on_traffic(outcome.largest_datagram_bytes, int(lost_full))
        self._check_black_hole(now_s)

    def _send_again(self, ranges: Ranges) -> None:
        for position, size in zip(ranges.positions.tolist(), ranges.sizes_bytes.tolist(), strict=True):
            if size:
                self.outgoing.lose(position, size)
            elif position >= 0:
                self._fin_due = not self.is_finished

    # -- time ----------------------------------------------------------------------------------------------

    @property
    def deadline_s(self) -> float:
        """The time at which to call `on_deadline`; infinity while nothing can be sent."""
        recovery = self.recovery
        if self.port_is_full:
            return math.inf
        return min(recovery.loss_deadline_s, recovery.probe_deadline_s, self.mtu.deadline_s, self._ping_at_s)

    @property
    def _ping_at_s(self) -> float:
        # the acknowledgement with the peer's new limit may have been lost
        held_up = self.outgoing.unsent_bytes and not self.recovery.inflight_bytes
        return self.recovery.last_sent_s + (_PERSIST_S if held_up else _KEEPALIVE_S)

    def on_deadline(self, now_s: float) -> None:
        recovery = self.recovery
        if now_s >= recovery.loss_deadline_s:
            self._settle(now_s, recovery.on_loss_deadline(now_s))
        if now_s >= recovery.probe_deadline_s:
            self._probe(now_s)
        for size in self.mtu.due(now_s, recovery.probe_timeout_s):
            self.mtu.on_probe(self._sealer.next_packet_number, size)
            self.send_alone(now_s, DatagramKind.PING, bytes(size - HEADER_BYTES))
        if now_s >= self._ping_at_s:
            self.ping(now_s)

    def _probe(self, now_s: float) -> None:
        oldest = self.recovery.on_probe_timeout(_PROBE_DATAGRAMS)
        if self.recovery.probes > 1:
            self.controller.on_timeout(now_s)
        self._check_black_hole(now_s)
        self._send_again(oldest)
        before = self.recovery.next_number
        self._send_stream(now_s, _PROBE_DATAGRAMS)
        if self.recovery.next_number == before:  # the oldest bytes have arrived with another datagram
            self.ping(now_s)

    def _check_black_hole(self, now_s: float) -> None:
        if self.mtu.is_black_hole(self.recovery.probes):
            self.mtu.fall_back(now_s, self.recovery.probe_timeout_s)
            self.controller.datagram_bytes = self.mtu.datagram_bytes
