"""Recovery against a naive one with a dictionary per packet, and its rules one by one."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.net.tunnel.acknowledgement import MAX_SPAN_PACKETS, Acknowledgement
from duetlink.net.tunnel.recovery import AckOutcome, Recovery

SIZE = 1200


def ack(numbers: list[int], *, base: int = 0, delay_s: float = 0.0) -> Acknowledgement:
    largest = max(numbers)
    received = np.zeros(largest + 1 - base, np.bool_)
    received[[number - base for number in numbers if number >= base]] = True
    return Acknowledgement(largest, received, 0, 0, delay_s)


def send(recovery: Recovery, now_s: float, count: int) -> None:
    first = recovery.next_number
    recovery.on_sent(now_s, count, SIZE, np.arange(first, first + count) * 1000, 1000)


def lost(outcome: AckOutcome | None) -> list[int]:
    assert outcome is not None
    return [position // 1000 for position in outcome.lost.positions.tolist()]


@dataclass
class NaivePacket:
    sent_s: float
    size: int
    state: str = "flying"


class Naive:
    """RFC 9002 §6.1 packet by packet, with what duetlink.net.tunnel.recovery promises about round trips."""

    def __init__(self) -> None:
        self.packets: dict[int, NaivePacket] = {}
        self.largest = -1
        self.smoothed_s: float | None = None
        self.latest_s = 0.0
        self.min_s = math.inf
        self.delivered = 0
        self.lost_total = 0

    @property
    def inflight(self) -> int:
        return sum(packet.size for packet in self.packets.values() if packet.state == "flying")

    def on_ack(self, now_s: float, numbers: list[int], largest: int, delay_s: float) -> tuple[int, set[int]]:
        flying = [n for n in numbers if n in self.packets and self.packets[n].state == "flying"]
        late = [n for n in numbers if n in self.packets and self.packets[n].state == "lost"]
        for number in flying + late:
            self.packets[number].state = "arrived"
            self.delivered += self.packets[number].size
        if flying and max(flying) > self.largest:
            self.largest = max(flying)
            rtt_s = max(now_s - self.packets[self.largest].sent_s, 1e-6)
            self.min_s = min(self.min_s, rtt_s)
            if self.largest == largest:
                rtt_s = max(rtt_s - min(delay_s, 0.025), self.min_s)
            self.latest_s = rtt_s
            self.smoothed_s = (
                rtt_s if self.smoothed_s is None else self.smoothed_s + (rtt_s - self.smoothed_s) / 8
            )
        return sum(self.packets[n].size for n in flying), self.detect(now_s)

    def detect(self, now_s: float) -> set[int]:
        smoothed_s = self.smoothed_s or 0.0
        wait_s = max(smoothed_s, self.latest_s) + max(min(self.min_s / 4, smoothed_s), 0.001)
        gone = {
            number
            for number, packet in self.packets.items()
            if packet.state == "flying"
            and number < self.largest
            and (number <= self.largest - 3 or packet.sent_s + wait_s <= now_s)
        }
        for number in gone:
            self.packets[number].state = "lost"
        self.lost_total += len(gone)
        return gone


@given(st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_agrees_with_the_naive_reference(seed: int) -> None:
    chance = random.Random(seed)
    now_s = 5.0
    recovery, naive = Recovery(now_s), Naive()
    for _ in range(60):
        now_s += chance.choice([0.0, 0.0004, 0.003, 0.02])
        step = chance.random()
        if step < 0.45:
            count, size = chance.randint(1, 30), chance.choice([1200, 1440])
            first = recovery.next_number
            recovery.on_sent(now_s, count, size, np.arange(first, first + count) * 1000, size - 32)
            naive.packets.update({number: NaivePacket(now_s, size) for number in range(first, first + count)})
        elif step < 0.55:
            recovery.on_skipped(chance.randint(1, 4))
        elif step < 0.9 and recovery.next_number:
            # of all that ever flew, the recent with some chance; nothing comes so late that it counts as late
            candidates = [n for n, packet in naive.packets.items() if packet.state != "lost"]
            numbers = sorted(
                {n for n in candidates if chance.random() < 0.7} & set(range(recovery.next_number))
            )
            if not numbers:
                continue
            numbers = numbers[: chance.randint(1, len(numbers))]
            base = max(0, min(numbers) - chance.randint(0, 5))
            delay_s = chance.choice([0.0, 0.002, 0.1])
            outcome = recovery.on_ack(now_s, ack(numbers, base=base, delay_s=delay_s))
            assert outcome is not None
            acked_bytes, gone = naive.on_ack(now_s, numbers, max(numbers), delay_s)
            assert outcome.sample.acked_bytes == acked_bytes
            assert set(lost(outcome)) == gone
            assert outcome.sample.lost_packets == len(gone)
            assert outcome.sample.delivered_bytes == naive.delivered
            assert len(outcome.late.positions) == 0
        else:
            assert set(lost(recovery.on_loss_deadline(now_s))) == naive.detect(now_s)
        assert recovery.inflight_bytes == naive.inflight
        assert recovery.lost_packets == naive.lost_total
        assert recovery.smoothed_rtt_s == pytest.approx(naive.smoothed_s)
        flying = [number for number, packet in naive.packets.items() if packet.state == "flying"]
        assert recovery.floor <= min(flying, default=recovery.next_number)


def test_three_later_packets_make_a_loss() -> None:
    recovery = Recovery(0.0)
    send(recovery, 0.0, 5)
    assert lost(recovery.on_ack(0.02, ack([1, 2]))) == []
    assert lost(recovery.on_ack(0.02, ack([1, 2, 3]))) == [0]
    assert recovery.inflight_bytes == SIZE


def test_time_makes_a_loss_of_the_last_but_one() -> None:
    recovery = Recovery(0.0)
    send(recovery, 0.0, 2)
    assert lost(recovery.on_ack(0.020, ack([1]))) == []
    assert recovery.loss_deadline_s == pytest.approx(0.025)  # the round trip, and a quarter of it
    assert lost(recovery.on_loss_deadline(0.0249)) == []
    assert lost(recovery.on_loss_deadline(0.0251)) == [0]
    assert recovery.loss_deadline_s == math.inf


def test_reordering_is_noticed_and_forgotten() -> None:
    recovery = Recovery(0.0)
    now_s = 0.0
    for _ in range(4):  # the first of ten always comes last
        first = recovery.next_number
        send(recovery, now_s, 10)
        outcome = recovery.on_ack(now_s + 0.02, ack(list(range(first + 1, first + 10)), base=first))
        late = recovery.on_ack(now_s + 0.021, ack(list(range(first, first + 10)), base=first))
        assert late is not None
        if lost(outcome):
            assert late.late.positions.tolist() == [first * 1000]
        now_s += 0.1
    assert recovery.threshold_packets == 12
    assert lost(outcome) == []
    for _ in range(16 * 2):  # real losses only, in as many round trips
        first = recovery.next_number
        send(recovery, now_s, 40)
        recovery.on_ack(now_s + 0.02, ack(list(range(first + 1, first + 40)), base=first))
        now_s += 0.1
    assert recovery.threshold_packets == 3


def test_what_was_never_sent_is_not_acknowledged() -> None:
    recovery = Recovery(0.0)
    send(recovery, 0.0, 3)
    assert recovery.on_ack(0.02, ack([3])) is None
    assert recovery.inflight_bytes == 3 * SIZE


def test_a_base_below_the_floor_acknowledges_nothing_falsely() -> None:
    recovery = Recovery(0.0)
    send(recovery, 0.0, 10)
    recovery.on_ack(0.02, ack(list(range(10))))
    send(recovery, 0.03, 10)
    assert recovery.floor == 10
    outcome = recovery.on_ack(0.05, ack([0, 1, 2, 3, 15], base=0))
    assert outcome is not None
    assert outcome.sample.acked_bytes == SIZE
    assert recovery.inflight_bytes == (9 - 3) * SIZE  # 10, 11 and 12 are lost


def test_numbers_of_what_needs_no_answer_do_not_hold_the_floor() -> None:
    recovery = Recovery(0.0)
    for _ in range(3 * MAX_SPAN_PACKETS):
        recovery.on_skipped(1)
    assert recovery.room_packets == MAX_SPAN_PACKETS
    send(recovery, 1.0, 2)
    assert recovery.inflight_bytes == 2 * SIZE


def test_no_more_is_outstanding_than_an_acknowledgement_can_tell() -> None:
    recovery = Recovery(0.0)
    send(recovery, 0.0, MAX_SPAN_PACKETS)
    assert recovery.room_packets == 0
    given_up = recovery.on_skipped(5)
    assert given_up.positions.tolist() == [0, 1000, 2000, 3000, 4000]
    assert recovery.inflight_bytes == (MAX_SPAN_PACKETS - 5) * SIZE
    assert recovery.room_packets == 0


def test_the_probe_timeout_backs_off_to_300_ms_and_no_further() -> None:
    recovery = Recovery(0.0)
    assert recovery.probe_deadline_s == math.inf
    send(recovery, 0.0, 1)
    assert recovery.probe_deadline_s == pytest.approx(0.2)
    recovery.on_ack(0.02, ack([0]))
    send(recovery, 1.0, 3)
    waits = []
    for _ in range(6):
        waits.append(round(recovery.probe_deadline_s - recovery.last_sent_s, 3))
        oldest = recovery.on_probe_timeout(2)
        assert oldest.positions.tolist() == [1000, 2000]
    assert waits == [0.085, 0.17, 0.3, 0.3, 0.3, 0.3]
    recovery.on_ack(1.5, ack([3]))
    assert recovery.probes == 0


def test_the_delivery_rate_is_that_of_the_bottleneck() -> None:
    """100 packets leave at once; they arrive 1 ms apart: 1.2 MB/s, whatever the round trip."""
    recovery = Recovery(0.0)
    send(recovery, 0.0, 100)
    samples = []
    for number in range(300):
        now_s = 0.05 + number * 0.001
        outcome = recovery.on_ack(now_s, ack([number], base=number))
        assert outcome is not None
        samples.append(outcome.sample)
        send(recovery, now_s, 1)
    # the second hundred left more slowly than that, for they waited for the first to arrive
    rates = [sample.delivery_rate_bytes_per_s for sample in samples[1:]]
    assert all(rate is not None and rate < 1.25e6 for rate in rates)
    assert all(sample.delivery_rate_bytes_per_s == pytest.approx(1.2e6, rel=0.02) for sample in samples[200:])
    assert not any(sample.is_app_limited for sample in samples)


def test_samples_while_there_was_nothing_to_send_are_marked() -> None:
    recovery = Recovery(0.0)
    send(recovery, 0.0, 2)
    recovery.on_application_limited()
    send(recovery, 0.01, 1)
    first = recovery.on_ack(0.02, ack([0, 1]))
    marked = recovery.on_ack(0.03, ack([2]))
    send(recovery, 0.04, 1)
    after = recovery.on_ack(0.06, ack([3]))
    assert first is not None and marked is not None and after is not None  # noqa: PT018
    assert [outcome.sample.is_app_limited for outcome in (first, marked, after)] == [False, True, False]
    assert marked.sample.prior_delivered_bytes == 0
    assert after.sample.prior_delivered_bytes == 3 * SIZE
