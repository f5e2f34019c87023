"""Tracks which packets are in flight, arrived or lost, after RFC 9002 and RFC 8985 (RACK), with arrays.

Every transmission has a new packet number, so an acknowledgement is never ambiguous (RFC 9002 §4.2). The sent
packets are rows of a ring of columns, indexed by packet number; an acknowledgement takes a few array
operations.

**Loss** (RFC 9002 §6.1, RFC 8985 §6.2): a packet that was sent before one that has arrived is lost if that
one is `threshold` packets later, or if it should have arrived a reordering window ago. When packets that were
declared lost arrive after all, the path reorders: threshold and window grow. They shrink again when all
losses were real for sixteen round trips.

**Probe timeout**: if no answer arrives, the oldest bytes are sent again. The back-off ends at 0.3 s, not at
minutes: after an outage the stream must not wait longer than that, and three small packets a second do no
harm.

**Delivery rate**: bytes delivered between the sending of the newest acknowledged packet and now, divided by
the longer of the times in which they were sent and acknowledged
(draft-cheng-iccrg-delivery-rate-estimation-02).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duetlink.net.tunnel.acknowledgement import MAX_SPAN_PACKETS, Acknowledgement
from duetlink.net.tunnel.controller import AckSample

_SLOTS = 2 * MAX_SPAN_PACKETS  # lost packets are remembered for a while, to detect late arrivals
_MASK = _SLOTS - 1
_NONE, _IN_FLIGHT, _LOST = 0, 1, 2

_MIN_THRESHOLD_PACKETS = 3  # RFC 9002 §6.1.1
_MAX_THRESHOLD_PACKETS = 1024
_PATIENT_ROUNDS = 16  # RFC 8985 §6.2, step 4
_GRANULARITY_S = 0.001
# A receiver collects datagrams for half a millisecond; a busy machine wakes later.
_MAX_ACK_DELAY_S = 0.025
_FIRST_PTO_S = 0.2
_LONGEST_PTO_S = 0.3

_Numbers = NDArray[np.int64]


@dataclass(slots=True)
class Ranges:
    """Parts of the stream, as they were sent. A position below 0 means a packet without stream bytes."""

    positions: _Numbers
    sizes_bytes: _Numbers  # of the payload
    datagram_bytes: _Numbers


@dataclass(slots=True)
class AckOutcome:
    sample: AckSample
    lost: Ranges
    late: Ranges  # were declared lost, and have arrived
    largest_datagram_bytes: int  # the largest that arrived; 0 if none did


class Recovery:
    """The sender's side of one attempt. Reads no clock: every call passes the time in."""

    def __init__(self, now_s: float) -> None:
        self.next_number = 0
        self.floor = 0  # no packet below it is in flight
        self.inflight_bytes = 0
        self.delivered_bytes = 0
        self.lost_packets = 0
        self.sent_packets = 0
        self.smoothed_rtt_s: float | None = None
        self.min_rtt_s = math.inf
        self.latest_rtt_s = 0.0
        self.threshold_packets = _MIN_THRESHOLD_PACKETS
        self.probes = 0  # timeouts in a row
        self.last_sent_s = now_s
        self.loss_deadline_s = math.inf
        self._rtt_variation_s = 0.0
        self._largest_acked = -1
        self._window_quarters = 1  # the reordering window, in quarters of the smallest round trip
        self._adapted_s = -math.inf
        self._calm_rounds = 0
        self._loss_round_s = -math.inf
        self._delivered_s = now_s
        self._first_sent_s = now_s
        self._limited_until_bytes = 0
        self._old_floor, self._new_floor, self._floor_s = 0, 0, now_s

        self._state = np.zeros(_SLOTS, np.uint8)
        self._sent_s = np.zeros(_SLOTS)
        self._position = np.zeros(_SLOTS, np.int64)
        self._size = np.zeros(_SLOTS, np.int64)
        self._datagram = np.zeros(_SLOTS, np.int64)
        self._delivered = np.zeros(_SLOTS, np.int64)
        self._delivered_at_s = np.zeros(_SLOTS)
        self._first_at_s = np.zeros(_SLOTS)
        self._limited = np.zeros(_SLOTS, np.bool_)

    # -- sending -------------------------------------------------------------------------------------------

    @property
    def room_packets(self) -> int:
        """The number of packets that may still be sent so that one acknowledgement can cover all in
        flight.
        """
        return MAX_SPAN_PACKETS - (self.next_number - self.floor)

    def announced_floor(self, now_s: float) -> int:
        """Return the floor of one to two round trips ago: below it, not even late arrivals matter."""
        if now_s - self._floor_s > (self.smoothed_rtt_s or _FIRST_PTO_S):
            self._old_floor, self._new_floor, self._floor_s = self._new_floor, self.floor, now_s
        return self._old_floor

    def on_sent(
        self,
        now_s: float,
        count: int,
        datagram_bytes: int,
        positions: _Numbers | int = -1,
        size_bytes: int = 0,
    ) -> None:
        """Note that the next `count` packet numbers were sent now and must be acknowledged."""
        if (
            not self.inflight_bytes
        ):  # nothing was in flight: the time since then does not count as sending time
            self._first_sent_s = self._delivered_s = now_s
            self.floor = self.next_number
        slots = np.arange(self.next_number, self.next_number + count) & _MASK
        self._state[slots] = _IN_FLIGHT
        self._sent_s[slots] = now_s
        self._position[slots] = positions
        self._size[slots] = size_bytes
        self._datagram[slots] = datagram_bytes
        self._delivered[slots] = self.delivered_bytes
        self._delivered_at_s[slots] = self._delivered_s
        self._first_at_s[slots] = self._first_sent_s
        self._limited[slots] = self._limited_until_bytes > self.delivered_bytes
        self.next_number += count
        self.inflight_bytes += count * datagram_bytes
        self.sent_packets += count
        self.last_sent_s = now_s

    def on_skipped(self, count: int) -> Ranges:
        """Note that the next `count` packet numbers were used for packets that are not acknowledged, or not
        used.

        Return the packets that become too old for any acknowledgement, and count as lost.
        """
        self._state[np.arange(self.next_number, self.next_number + count) & _MASK] = _NONE
        self.next_number += count
        if not self.inflight_bytes:
            self.floor = self.next_number
        if self.room_packets >= 0:
            return self._ranges(np.empty(0, np.int64))
        slots = np.arange(self.floor, self.next_number - MAX_SPAN_PACKETS) & _MASK
        self.floor = self.next_number - MAX_SPAN_PACKETS
        return self._lose(slots[self._state[slots] == _IN_FLIGHT])

    def on_application_limited(self) -> None:
        """Note that there is no more data to send: until the packets in flight are acknowledged, rates say
        little.
        """
        self._limited_until_bytes = self.delivered_bytes + max(self.inflight_bytes, 1)

    # -- acknowledgements and loss -------------------------------------------------------------------------

    def on_ack(self, now_s: float, ack: Acknowledgement) -> AckOutcome | None:
        """Process an acknowledgement; None if it covers packets that were never sent."""
        if ack.largest >= self.next_number:
            return None
        start = max(ack.base, self.next_number - _SLOTS)
        numbers = np.flatnonzero(ack.received[start - ack.base :]) + start
        states = self._state[numbers & _MASK]
        acked = numbers[states == _IN_FLIGHT]
        slots, late = acked & _MASK, numbers[states == _LOST] & _MASK
        prior_inflight_bytes = self.inflight_bytes
        acked_bytes = int(self._datagram[slots].sum())
        self.inflight_bytes -= acked_bytes
        self.delivered_bytes += acked_bytes + int(self._datagram[late].sum())
        self._state[slots] = self._state[late] = _NONE

        sample = self._sample(now_s, acked_bytes, prior_inflight_bytes)
        if len(acked):
            self._delivered_s = now_s
            self.probes = 0
            self._measure(now_s, int(acked[-1]), ack, sample)
        if len(late):
            self._tolerate_reordering(now_s)
        largest_bytes = int(self._datagram[slots].max(initial=0))
        return self._outcome(sample, self._ranges(late), largest_bytes)

    def on_loss_deadline(self, now_s: float) -> AckOutcome:
        """Return the packets that are lost because of the time that has passed."""
        sample = self._sample(now_s, 0, self.inflight_bytes)
        return self._outcome(sample, self._ranges(np.empty(0, np.int64)), 0)

    def _outcome(self, sample: AckSample, late: Ranges, largest_datagram_bytes: int) -> AckOutcome:
        lost = self._detect(sample.now_s)
        self._advance_floor()
        sample.lost_bytes = int(lost.datagram_bytes.sum())
        sample.lost_packets = len(lost.positions)
        sample.inflight_bytes = self.inflight_bytes
        return AckOutcome(sample, lost, late, largest_datagram_bytes)

    def _sample(self, now_s: float, acked_bytes: int, prior_inflight_bytes: int) -> AckSample:
        return AckSample(
            now_s=now_s,
            acked_bytes=acked_bytes,
            lost_bytes=0,
            lost_packets=0,
            inflight_bytes=self.inflight_bytes,
            prior_inflight_bytes=prior_inflight_bytes,
            delivered_bytes=self.delivered_bytes,
            prior_delivered_bytes=0,
            rtt_s=None,
            delivery_rate_bytes_per_s=None,
            is_app_limited=False,
        )

    def _measure(self, now_s: float, newest: int, ack: Acknowledgement, sample: AckSample) -> None:
        slot = newest & _MASK
        sent_s = float(self._sent_s[slot])
        if newest > self._largest_acked:
            self._largest_acked = newest
            sample.rtt_s = self._update_rtt(now_s - sent_s, ack.delay_s if newest == ack.largest else 0.0)
        sample.prior_delivered_bytes = int(self._delivered[slot])
        sample.is_app_limited = bool(self._limited[slot])
        interval_s = max(sent_s - float(self._first_at_s[slot]), now_s - float(self._delivered_at_s[slot]))
        if interval_s >= self.min_rtt_s or interval_s > _GRANULARITY_S:
            delivered_bytes = self.delivered_bytes - sample.prior_delivered_bytes
            sample.delivery_rate_bytes_per_s = delivered_bytes / interval_s
        self._first_sent_s = sent_s

    def _update_rtt(self, rtt_s: float, delay_s: float) -> float:
        """Update the estimates of RFC 9002 §5.3; return the sample without the receiver's delay."""
        rtt_s = max(rtt_s, 1e-6)
        self.min_rtt_s = min(self.min_rtt_s, rtt_s)
        rtt_s = max(rtt_s - min(delay_s, _MAX_ACK_DELAY_S), self.min_rtt_s)
        self.latest_rtt_s = rtt_s
        if self.smoothed_rtt_s is None:
            self.smoothed_rtt_s, self._rtt_variation_s = rtt_s, rtt_s / 2
        else:
            self._rtt_variation_s += (abs(self.smoothed_rtt_s - rtt_s) - self._rtt_variation_s) / 4
            self.smoothed_rtt_s += (rtt_s - self.smoothed_rtt_s) / 8
        return rtt_s

    def _detect(self, now_s: float) -> Ranges:
        self.loss_deadline_s = math.inf
        numbers = np.arange(self.floor, max(self._largest_acked, self.floor))
        slots = numbers & _MASK
        in_flight = self._state[slots] == _IN_FLIGHT
        if not in_flight.any():
            return self._ranges(slots[:0])
        numbers, slots = numbers[in_flight], slots[in_flight]
        window_s = min(self._window_quarters * self.min_rtt_s / 4, self.smoothed_rtt_s or 0.0)
        wait_s = max(self.smoothed_rtt_s or 0.0, self.latest_rtt_s) + max(window_s, _GRANULARITY_S)
        sent_s = self._sent_s[slots]
        lost = (numbers <= self._largest_acked - self.threshold_packets) | (sent_s + wait_s <= now_s)
        if not lost.all():
            self.loss_deadline_s = float((sent_s[~lost] + wait_s).min())
        if lost.any():
            self._count_calm_round(now_s)
        return self._lose(slots[lost])

    def _lose(self, slots: _Numbers) -> Ranges:
        self._state[slots] = _LOST
        self.inflight_bytes -= int(self._datagram[slots].sum())
        self.lost_packets += len(slots)
        return self._ranges(slots)

    def _advance_floor(self) -> None:
        stop = max(self._largest_acked + 1, self.floor)
        in_flight = np.flatnonzero(self._state[np.arange(self.floor, stop) & _MASK] == _IN_FLIGHT)
        self.floor = self.floor + int(in_flight[0]) if len(in_flight) else stop

    def _tolerate_reordering(self, now_s: float) -> None:
        self._calm_rounds = 0
        if now_s - self._adapted_s < (self.smoothed_rtt_s or 0.0):
            return
        self._adapted_s = now_s
        self.threshold_packets = min(2 * self.threshold_packets, _MAX_THRESHOLD_PACKETS)
        self._window_quarters += 1

    def _count_calm_round(self, now_s: float) -> None:
        if now_s - self._loss_round_s < (self.smoothed_rtt_s or 0.0):
            return
        self._loss_round_s = now_s
        self._calm_rounds += 1
        if self._calm_rounds >= _PATIENT_ROUNDS:
            self._calm_rounds = 0
            self.threshold_packets = max(self.threshold_packets // 2, _MIN_THRESHOLD_PACKETS)
            self._window_quarters = max(self._window_quarters // 2, 1)

    def _ranges(self, slots: _Numbers) -> Ranges:
        return Ranges(self._position[slots], self._size[slots], self._datagram[slots])

    # -- probe timeout -------------------------------------------------------------------------------------

    @property
    def probe_timeout_s(self) -> float:
        if self.smoothed_rtt_s is None:
            return _FIRST_PTO_S
        return self.smoothed_rtt_s + max(4 * self._rtt_variation_s, _GRANULARITY_S) + _MAX_ACK_DELAY_S

    @property
    def probe_deadline_s(self) -> float:
        """The time at which to send a probe; infinity while nothing is in flight."""
        if not self.inflight_bytes:
            return math.inf
        timeout_s = self.probe_timeout_s
        return self.last_sent_s + min(timeout_s * (1 << min(self.probes, 8)), max(_LONGEST_PTO_S, timeout_s))

    def on_probe_timeout(self, most: int) -> Ranges:
        """Return the oldest parts of the stream in flight, at most `most`, to be sent again."""
        self.probes += 1
        slots = np.arange(self.floor, self.next_number) & _MASK
        slots = slots[(self._state[slots] == _IN_FLIGHT) & (self._position[slots] >= 0)]
        return self._ranges(slots[:most])
