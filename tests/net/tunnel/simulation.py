"""A deterministic, event-driven network for the congestion controller: one bottleneck, several flows.

Every flow's packets cross the same first-in-first-out bottleneck, so the moment a packet leaves it is known
when it enters, and only senders, acknowledgements and timers need events: a minute at 100 Mbit/s is a
second of work. The bottleneck is a token bucket (ITU-T I.371's virtual scheduling): with `burst_bytes` it
lets bursts through, as `tbf` does, and with next to no buffer it is a policer. Random loss happens before
it, as in the test lab.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from duetlink.net.tunnel.controller import AckSample, Controller

DATAGRAM_BYTES = 1400  # what the controller counts
PAYLOAD_BYTES = 1384  # what the user gets of it
FRAME_BYTES = DATAGRAM_BYTES + 42  # UDP, IPv4 and Ethernet headers: what the bottleneck counts
TCP_SEGMENT_BYTES = 1448
TCP_FRAME_BYTES = TCP_SEGMENT_BYTES + 66
MBIT = 125_000.0  # bytes per second


class Network:
    """The clock and the bottleneck."""

    def __init__(
        self,
        *,
        rate_bytes_per_s: float = 100 * MBIT,
        rtt_s: float = 0.02,
        buffer_bytes: float = 250_000,
        burst_bytes: float = 0,
        loss: float = 0.0,
        seed: int = 1,
    ) -> None:
        self.now_s = 0.0
        self.rate_bytes_per_s = rate_bytes_per_s
        self.rtt_s = rtt_s
        self.buffer_bytes = buffer_bytes
        self.burst_bytes = burst_bytes
        self.loss = loss
        self.random = random.Random(seed)
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0
        self._queue: deque[tuple[float, int]] = deque()  # who leaves when
        self._queued_bytes = 0
        self._emptied_s = 0.0  # when the bucket would be full again, were nothing more to come

    def at(self, time_s: float, call: Callable[..., None], *args: Any) -> None:
        self._count += 1
        heapq.heappush(self._events, (time_s, self._count, call, args))

    def change(self, time_s: float, **settings: float) -> None:
        """From `time_s` on the bottleneck has other properties; what is queued leaves as it was."""

        def apply() -> None:
            for name, value in settings.items():
                setattr(self, name, value)

        self.at(time_s, apply)

    def stall(self, time_s: float, duration_s: float) -> None:
        """The bottleneck sends nothing for a while: a busy radio, or a receiver that was not scheduled."""

        def apply() -> None:
            self._emptied_s = max(self._emptied_s, self.now_s) + duration_s

        self.at(time_s, apply)

    def cross(self, size_bytes: int) -> float | None:
        """When a packet that enters now has crossed the bottleneck; None if it is lost."""
        now = self.now_s
        if self.loss and self.random.random() < self.loss:
            return None
        rate = self.rate_bytes_per_s
        depth_s = self.burst_bytes / rate
        emptied = self._emptied_s if self._emptied_s > now else now
        wait = emptied + size_bytes / rate - depth_s - now
        if wait <= 0:
            self._emptied_s = emptied + size_bytes / rate
            return now
        queue = self._queue
        while queue and queue[0][0] <= now:
            self._queued_bytes -= queue.popleft()[1]
        if self._queued_bytes + size_bytes > self.buffer_bytes:
            return None
        self._queued_bytes += size_bytes
        self._emptied_s = emptied + size_bytes / rate
        queue.append((now + wait, size_bytes))
        return now + wait

    def run(self, until_s: float) -> None:
        events = self._events
        while events and events[0][0] <= until_s:
            self.now_s, _, call, args = heapq.heappop(events)
            call(*args)
        self.now_s = until_s


class Flow:
    """A sender with endless data: what it delivered, and how much in a stretch of time."""

    def __init__(self, network: Network, payload_bytes: int) -> None:
        self.network = network
        self.payload_bytes = payload_bytes
        self.packets_sent = 0
        self.packets_delivered = 0
        self.packets_lost = 0
        self._marks: list[tuple[float, int]] = []

    def mark(self) -> None:
        self._marks.append((self.network.now_s, self.packets_delivered))

    def watch(self, interval_s: float = 0.25) -> None:
        """Keep the delivered count every `interval_s`, for `rate`."""
        self.mark()
        self.network.at(self.network.now_s + interval_s, self.watch, interval_s)

    def rate(self, from_s: float, to_s: float) -> float:
        """Payload in MB/s (1e6 B) between two watched moments."""
        first = min(self._marks, key=lambda mark: abs(mark[0] - from_s))
        last = min(self._marks, key=lambda mark: abs(mark[0] - to_s))
        return (last[1] - first[1]) * self.payload_bytes / (last[0] - first[0]) / 1e6


class TunnelFlow(Flow):
    """A sender driven by `Controller`: paced batches, one acknowledgement per batch, RFC 9002's loss."""

    def __init__(
        self,
        network: Network,
        *,
        start_s: float = 0.0,
        stop_s: float = math.inf,
        quantum_s: float = 0.001,
        coalescing_s: float = 0.0005,
    ) -> None:
        super().__init__(network, PAYLOAD_BYTES)
        self.controller: Controller
        self.stop_s = stop_s
        self.quantum_s = quantum_s
        self.coalescing_s = coalescing_s
        self.app_rate_bytes_per_s: float | None = None
        self.inflight_bytes = 0
        self.delivered_bytes = 0
        self.srtt_s = 0.0
        self.rtts: list[tuple[float, float]] = []
        self._delivered_s = 0.0
        self._first_sent_s = 0.0
        self._transit: deque[tuple[float, int]] = deque()  # arrival time, packet number
        # packet number -> sent at, delivered then, delivered when, first sent then, app limited
        self._unacked: dict[int, tuple[float, int, float, float, bool]] = {}
        self._oldest = 0  # below it all are acknowledged or lost
        self._ack_scheduled = False
        self._wake_s = math.inf
        self._app_credit_s = 0.0
        self._progress_s = 0.0
        self._timeouts = 0
        network.at(start_s, self._start)

    def _start(self) -> None:
        now = self.network.now_s
        self.controller = Controller(datagram_bytes=DATAGRAM_BYTES, now_s=now)
        self._delivered_s = self._first_sent_s = self._app_credit_s = self._progress_s = now
        self.watch()
        self._send(now)
        self._check_timeout()

    def _send(self, due_s: float) -> None:
        network, controller = self.network, self.controller
        now = network.now_s
        if due_s != self._wake_s and self._wake_s <= now:
            return
        self._wake_s = math.inf
        if now >= self.stop_s:
            return
        rate = controller.pacing_rate_bytes_per_s
        quantum = min(max(int(rate * self.quantum_s / DATAGRAM_BYTES), 2), 44)
        room = (controller.window_bytes - self.inflight_bytes) // DATAGRAM_BYTES
        count = min(quantum, room)
        app_limited = False
        if self.app_rate_bytes_per_s is not None:
            credit = int((now - self._app_credit_s) * self.app_rate_bytes_per_s / DATAGRAM_BYTES)
            if credit < count:
                app_limited, count = True, credit
            self._app_credit_s += count * DATAGRAM_BYTES / self.app_rate_bytes_per_s
        if count <= 0:
            if app_limited:
                self._sleep(now + 0.001)
            return
        self._transmit(count, app_limited)
        self._sleep(now + count * DATAGRAM_BYTES / controller.pacing_rate_bytes_per_s)

    def _transmit(self, count: int, app_limited: bool) -> None:
        network = self.network
        now = network.now_s
        if not self._unacked:
            self._first_sent_s = self._delivered_s = self._progress_s = now
        state = (now, self.delivered_bytes, self._delivered_s, self._first_sent_s, app_limited)
        for _ in range(count):
            number = self.packets_sent
            self.packets_sent = number + 1
            self._unacked[number] = state
            left = network.cross(FRAME_BYTES)
            if left is not None:
                self._transit.append((left + network.rtt_s, number))
        size = count * DATAGRAM_BYTES
        self.inflight_bytes += size
        self.controller.on_sent(now, size, self.inflight_bytes)
        if self._transit and not self._ack_scheduled:
            self._schedule_ack()

    def _sleep(self, until_s: float) -> None:
        self._wake_s = until_s
        self.network.at(until_s, self._send, until_s)

    def _schedule_ack(self) -> None:
        self._ack_scheduled = True
        self.network.at(max(self._transit[0][0] + self.coalescing_s, self.network.now_s), self._ack)

    def _ack(self) -> None:
        now = self.network.now_s
        transit, unacked = self._transit, self._unacked
        prior_inflight = self.inflight_bytes
        acked = lost = 0
        newest = -1
        newest_state = None
        while transit and transit[0][0] <= now:
            number = transit.popleft()[1]
            state = unacked.pop(number, None)
            if state is not None:
                acked += 1
                newest, newest_state = number, state
        self._ack_scheduled = False
        if transit:
            self._schedule_ack()
        if newest_state is None:
            return
        while self._oldest < newest - 2:
            lost += unacked.pop(self._oldest, None) is not None
            self._oldest += 1
        self._progress_s = now
        self._timeouts = 0
        self.packets_delivered += acked
        self.packets_lost += lost
        self.delivered_bytes += acked * DATAGRAM_BYTES
        self.inflight_bytes -= (acked + lost) * DATAGRAM_BYTES
        sent_s, prior_delivered, prior_delivered_s, first_sent_s, app_limited = newest_state
        self._delivered_s = now
        self._first_sent_s = sent_s
        rtt = now - sent_s
        self.srtt_s = rtt if not self.srtt_s else self.srtt_s + (rtt - self.srtt_s) / 8
        self.rtts.append((now, rtt))
        interval = max(sent_s - first_sent_s, now - prior_delivered_s)
        self.controller.on_ack(
            AckSample(
                now_s=now,
                acked_bytes=acked * DATAGRAM_BYTES,
                lost_bytes=lost * DATAGRAM_BYTES,
                lost_packets=lost,
                inflight_bytes=self.inflight_bytes,
                prior_inflight_bytes=prior_inflight,
                delivered_bytes=self.delivered_bytes,
                prior_delivered_bytes=prior_delivered,
                rtt_s=rtt,
                delivery_rate_bytes_per_s=(self.delivered_bytes - prior_delivered) / interval,
                is_app_limited=app_limited,
            )
        )
        if self._wake_s == math.inf:
            self._send(self._wake_s)

    def _check_timeout(self) -> None:
        """A probe after a timeout, and the controller told after three (RFC 9002 §6.2, §7.6)."""
        now = self.network.now_s
        timeout = (1.5 * self.srtt_s + 0.025) * 2**self._timeouts if self.srtt_s else 1.0
        if self._unacked and now - self._progress_s > timeout and now < self.stop_s:
            self._timeouts += 1
            self._progress_s = now
            if self._timeouts == 3:
                self.controller.on_timeout(now)
            self._transmit(2, False)
        self.network.at(now + min(max(timeout / 4, 0.001), 0.05), self._check_timeout)


class CubicFlow(Flow):
    """CUBIC as RFC 9438 has it (or Reno, RFC 5681), an acknowledgement per two segments, SACK recovery.

    With `hystart_delay` slow start ends when the round trips grow by an eighth, as in the kernel's HyStart.
    """

    def __init__(
        self,
        network: Network,
        *,
        start_s: float = 0.0,
        stop_s: float = math.inf,
        reno: bool = False,
        hystart_delay: bool = False,
    ) -> None:
        super().__init__(network, TCP_SEGMENT_BYTES)
        self.stop_s = stop_s
        self.reno = reno
        self.hystart_delay = hystart_delay
        self.window = 10.0
        self.threshold = math.inf
        self.srtt_s = 0.0
        self.min_rtt_s = math.inf
        self._unacked: dict[int, float] = {}
        self._transit: deque[tuple[float, int]] = deque()
        self._recover = -1
        self._oldest = 0
        self._window_max = 0.0
        self._epoch_s: float | None = None
        self._k_s = 0.0
        self._origin = 0.0
        self._reno_window = 0.0
        self._progress_s = start_s
        network.at(start_s, self._start)

    def _start(self) -> None:
        self._progress_s = self.network.now_s
        self.watch()
        self._send()
        self._check_timeout()

    def _send(self) -> None:
        network = self.network
        if network.now_s >= self.stop_s:
            return
        now = network.now_s
        for _ in range(int(self.window) - len(self._unacked)):
            number = self.packets_sent
            self.packets_sent = number + 1
            self._unacked[number] = now
            left = network.cross(TCP_FRAME_BYTES)
            if left is not None:
                self._transit.append((left + network.rtt_s, number))
                if number & 1 or self.window < 8 or len(self._transit) < 3:
                    network.at(left + network.rtt_s, self._ack)

    def _ack(self) -> None:
        now = self.network.now_s
        transit, unacked = self._transit, self._unacked
        acked, newest, sent_s = 0, -1, now
        while transit and transit[0][0] <= now:
            number = transit.popleft()[1]
            sent = unacked.pop(number, None)
            if sent is not None:
                acked, newest, sent_s = acked + 1, number, sent
        if not acked:
            return
        self._progress_s = now
        self.packets_delivered += acked
        rtt = now - sent_s
        self.srtt_s = rtt if not self.srtt_s else self.srtt_s + (rtt - self.srtt_s) / 8
        self.min_rtt_s = min(self.min_rtt_s, rtt)
        newest_lost = -1
        while self._oldest < newest - 2:
            if unacked.pop(self._oldest, None) is not None:
                newest_lost = self._oldest
                self.packets_lost += 1
            self._oldest += 1
        if newest_lost > self._recover:
            self._reduce()
        elif newest > self._recover and len(unacked) + acked >= self.window - 3:
            self._grow(acked)
        self._send()

    def _grow(self, acked: int) -> None:
        if self.window < self.threshold:
            self.window += acked
            if self.hystart_delay and self.window > 16:
                slack = min(max(self.min_rtt_s / 8, 0.004), 0.016)
                if self.srtt_s > self.min_rtt_s + slack:
                    self.threshold = self.window
            return
        if self.reno:
            self.window += acked / self.window
            return
        now = self.network.now_s
        if self._epoch_s is None:
            self._epoch_s = now
            self._origin = max(self._window_max, self.window)
            self._k_s = ((self._origin - self.window) / 0.4) ** (1 / 3)
            self._reno_window = self.window
        target = self._origin + 0.4 * (now - self._epoch_s + self.srtt_s - self._k_s) ** 3
        self._reno_window += (
            (3 * 0.3 / 1.7 if self._reno_window < self._window_max else 1.0) * acked / self.window
        )
        target = max(self.window + 0.01, min(target, 1.5 * self.window))
        self.window += (target - self.window) * acked / self.window
        self.window = max(self.window, self._reno_window)

    def _reduce(self) -> None:
        self._recover = self.packets_sent - 1
        if self.reno:
            self.window = max(self.window * 0.5, 2.0)
        else:
            self._window_max = self.window * (0.85 if self.window < self._window_max else 1.0)
            self.window = max(self.window * 0.7, 2.0)
        self.threshold = self.window
        self._epoch_s = None

    def _check_timeout(self) -> None:
        now = self.network.now_s
        if self._unacked and now - self._progress_s > max(0.2, 2 * self.srtt_s):
            self.packets_lost += len(self._unacked)
            self._unacked.clear()
            self._progress_s = now
            self._reduce()
            self.window = 1.0
            self._send()
        self.network.at(now + 0.05, self._check_timeout)
