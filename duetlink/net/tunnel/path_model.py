"""The sender's estimates of its path: bottleneck rate, base round trip, queue, ordinary loss.

All are computed from acknowledgements, round by round. A round ends when a packet is acknowledged that was
sent after it began.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

# A queue counts as empty while a round trip is at most this much longer than the base.
QUEUE_SLACK = 0.125
QUEUE_SLACK_S = 0.0015  # for pacing, batching and scheduling at both ends
CONFIRMED = 1.02  # a round trip of at most this multiple of the base confirms it
MOST_LENGTHENED = 1.05  # the largest factor by which the base grows in one step
RECENT_S = 5.0
# Ordinary loss, which does not depend on the sender: averaged over so many packets, and at most the limit
# below.
LOSS_MEMORY_PACKETS = 4000
PRIOR_PACKETS = 400  # the average begins as if so many packets had arrived without loss
LOSS_SAMPLE_PACKETS = 100  # fewer are not judged, unless a fifth of them is lost
ORDINARY_LOSS_LIMIT = 0.08
# Loss beyond the ordinary at which the sender does not slow down: BBRv2's 2 %, and less while there is a
# queue.
CALM_TOLERANCE = 0.02
QUEUE_TOLERANCE = 0.005


@dataclass(slots=True)
class AckSample:
    """The measurements from one acknowledgement, or from one batch of them."""

    now_s: float
    acked_bytes: int
    lost_bytes: int
    lost_packets: int
    inflight_bytes: int
    prior_inflight_bytes: int
    delivered_bytes: int  # since the connection began
    prior_delivered_bytes: int  # the same at the time when the newest acknowledged packet was sent
    rtt_s: float | None
    delivery_rate_bytes_per_s: float | None
    is_app_limited: bool


class PathModel:
    """The estimates after each sample; `round_*` describe the last complete round."""

    __slots__ = (
        "_acked_bytes",
        "_began_bytes",
        "_began_s",
        "_delivered_bytes",
        "_emptied_bytes",
        "_lost_bytes",
        "_ordinary_lost",
        "_ordinary_sent",
        "_peak_before_s",
        "_peak_s",
        "_recent_until_s",
        "_round_ends_bytes",
        "_rtt_count",
        "_rtt_low_s",
        "_rtt_sum_s",
        "bandwidth",
        "base_rtt_s",
        "confirmed_s",
        "datagram_bytes",
        "emptied_s",
        "filled_s",
        "inflight_peak_bytes",
        "is_probed",
        "round_floor_s",
        "round_inflight_bytes",
        "round_is_calm",
        "round_is_lossy",
        "round_loss",
        "round_rate",
        "round_rtt_s",
        "srtt_s",
    )

    def __init__(self, datagram_bytes: int, now_s: float) -> None:
        self.datagram_bytes = datagram_bytes
        self.bandwidth = (
            0.0  # bytes per second: the highest rate of probing, until a queue shows that it is too high
        )
        self.base_rtt_s = math.inf
        self.confirmed_s = now_s  # when a round trip was last near the base
        self.srtt_s = 0.0
        self.emptied_s = now_s  # when the queue was last seen empty
        self._emptied_bytes = 0  # bytes delivered until then
        self.filled_s = now_s  # when the queue was last seen not empty
        self.inflight_peak_bytes = 0  # in this round
        self._peak_s = self._peak_before_s = 0.0  # highest mean of a round
        self._recent_until_s = now_s + RECENT_S
        self.is_probed = (
            True  # more than the bandwidth is being sent: higher rates count, and loss is our own
        )
        self._ordinary_lost = 0.0
        self._ordinary_sent = float(PRIOR_PACKETS)
        self.round_rate = 0.0
        self.round_rtt_s = 0.0
        self.round_floor_s = 0.0
        self.round_inflight_bytes = 0
        self.round_is_calm = True  # hardly any queue
        self.round_loss = 0.0
        self.round_is_lossy = False
        self._delivered_bytes = 0
        self._rtt_low_s = math.inf
        self._acked_bytes = self._lost_bytes = 0  # since the loss was last judged
        self._start_round(0, now_s)

    # -- estimates -----------------------------------------------------------------------------------------

    @property
    def empty_rtt_s(self) -> float:
        """The longest round trip that still counts as an empty queue."""
        return self.base_rtt_s * (1 + QUEUE_SLACK) + QUEUE_SLACK_S

    @property
    def recent_peak_s(self) -> float:
        return max(self._peak_s, self._peak_before_s)

    @property
    def ordinary_loss(self) -> float:
        """The share of packets that are lost while the queue is empty."""
        return min(self._ordinary_lost / self._ordinary_sent, ORDINARY_LOSS_LIMIT)

    @property
    def bdp_bytes(self) -> float:
        return self.bandwidth * self.base_rtt_s if self.srtt_s else 0.0

    def held_back(self, window_bytes: float) -> bool:
        """Return True if this window limited the sender in this round or the last."""
        most = max(self.inflight_peak_bytes, self.round_inflight_bytes)
        return most + 2 * self.datagram_bytes > 0.85 * window_bytes

    def rate_since_empty(self, sample: AckSample) -> float:
        """Return the bytes per second delivered since the queue was last seen empty."""
        return (sample.delivered_bytes - self._emptied_bytes) / (sample.now_s - self.emptied_s)

    # -- steps ---------------------------------------------------------------------------------------------

    def update(self, sample: AckSample) -> bool:
        """Add one sample; return True if it ended a round."""
        now = sample.now_s
        rtt = sample.rtt_s
        if rtt is not None:
            self.srtt_s += (rtt - self.srtt_s) / 8 if self.srtt_s else rtt
            if rtt < self.base_rtt_s * CONFIRMED:
                self.base_rtt_s = min(self.base_rtt_s, rtt)
                self.confirmed_s = now
            if rtt <= self.empty_rtt_s:
                self.emptied_s = now
                self._emptied_bytes = sample.delivered_bytes
            else:
                self.filled_s = now
            self._rtt_sum_s += rtt
            self._rtt_count += 1
            if rtt < self._rtt_low_s:
                self._rtt_low_s = rtt
        rate = sample.delivery_rate_bytes_per_s
        if self.is_probed and self.srtt_s and rate is not None and rate > self.bandwidth:
            self.bandwidth = rate
        self._delivered_bytes = sample.delivered_bytes
        self._acked_bytes += sample.acked_bytes
        self._lost_bytes += sample.lost_bytes
        if sample.prior_inflight_bytes > self.inflight_peak_bytes:
            self.inflight_peak_bytes = sample.prior_inflight_bytes
        if (
            sample.prior_delivered_bytes < self._round_ends_bytes
            or sample.now_s <= self._began_s
            or not self._rtt_count
        ):
            return False
        self._end_round(sample)
        return True

    def on_pause(self, now_s: float) -> None:
        """Note that nothing was sent for a while, so our queue has emptied."""
        self.emptied_s = now_s
        self._emptied_bytes = self._delivered_bytes

    def lengthen(self) -> None:
        """Let the base round trip grow a little toward the last round, in which there was no queue of
        ours.
        """
        self.base_rtt_s = min(max(self.round_floor_s, self.base_rtt_s), self.base_rtt_s * MOST_LENGTHENED)
        self.confirmed_s = self.emptied_s

    # -- inside --------------------------------------------------------------------------------------------

    def _start_round(self, delivered_bytes: int, now_s: float) -> None:
        self._began_bytes = self._round_ends_bytes = delivered_bytes
        self._began_s = now_s
        self._rtt_sum_s = 0.0
        self._rtt_count = 0
        self._rtt_low_s = math.inf
        self.inflight_peak_bytes = 0

    def _end_round(self, sample: AckSample) -> None:
        now = sample.now_s
        self.round_rate = (sample.delivered_bytes - self._began_bytes) / (now - self._began_s)
        self.round_rtt_s = self._rtt_sum_s / self._rtt_count
        self.round_floor_s = self._rtt_low_s
        self.round_inflight_bytes = self.inflight_peak_bytes
        self._judge_loss()
        if now > self._recent_until_s:
            self._recent_until_s = now + RECENT_S
            self._peak_before_s, self._peak_s = self._peak_s, 0.0
        self._peak_s = max(self._peak_s, self.round_rtt_s)
        self._start_round(sample.delivered_bytes, now)

    def _judge_loss(self) -> None:
        """Decide if the loss of this round, and of earlier rounds that were too short, is beyond the
        ordinary.
        """
        packets = (self._acked_bytes + self._lost_bytes) / self.datagram_bytes
        self.round_is_lossy = False
        if packets < LOSS_SAMPLE_PACKETS and self._lost_bytes * 4 <= self._acked_bytes:
            return
        lost = self._lost_bytes / self.datagram_bytes
        self.round_loss = lost / packets
        expected = self.ordinary_loss * packets
        self.round_is_calm = calm = self.round_rtt_s <= self.empty_rtt_s
        # 2.5 standard deviations of a Poisson count, plus the tolerance
        tolerated = (CALM_TOLERANCE if calm else QUEUE_TOLERANCE) * packets
        self.round_is_lossy = lost > expected + 2.5 * math.sqrt(expected + 1) + tolerated
        if calm and not self.is_probed:
            kept = max(1 - packets / LOSS_MEMORY_PACKETS, 0.0)
            self._ordinary_lost = self._ordinary_lost * kept + lost
            self._ordinary_sent = self._ordinary_sent * kept + packets
        self._acked_bytes = self._lost_bytes = 0
