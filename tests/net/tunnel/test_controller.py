"""How the controller fills and shares a bottleneck, in simulation: 12.0 MB/s of payload is line rate."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.net.tunnel.controller import AckSample, Controller
from duetlink.net.tunnel.cubic import CubicWindow
from tests.net.tunnel.simulation import DATAGRAM_BYTES, MBIT, CubicFlow, Flow, Network, TunnelFlow

BDP_BYTES = 250_000  # 100 Mbit/s, 20 ms: the network's default
LINE_MB_PER_S = 12.0


def share(flow: Flow, from_s: float, to_s: float) -> float:
    return flow.rate(from_s, to_s) / LINE_MB_PER_S


# -- alone -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [0.0, 0.001, 0.01, 0.05])
@pytest.mark.parametrize("buffer_bdp", [0.25, 1, 4])
def test_it_fills_the_line_whatever_is_lost_at_random(loss: float, buffer_bdp: float) -> None:
    network = Network(loss=loss, buffer_bytes=buffer_bdp * BDP_BYTES)
    flow = TunnelFlow(network)
    network.run(5)
    assert share(flow, 1, 5) > 0.94
    assert flow.packets_lost / flow.packets_sent < loss + 0.04  # most of it in startup


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_it_is_fast_from_the_first_second(seed: int) -> None:
    network = Network(loss=0.05, seed=seed)
    flow = TunnelFlow(network)
    network.run(1)
    assert share(flow, 0, 1) > 0.75


def test_it_keeps_the_queue_short() -> None:
    network = Network(buffer_bytes=8 * BDP_BYTES)
    flow = TunnelFlow(network)
    network.run(10)
    assert statistics.mean(rtt for at, rtt in flow.rtts if at > 1) < 0.028


def test_bursts_that_a_token_bucket_lets_through_do_not_mislead_it() -> None:
    network = Network(burst_bytes=100_000)
    flow = TunnelFlow(network)
    network.run(5)
    assert share(flow, 1, 5) > 0.97
    assert statistics.mean(rtt for at, rtt in flow.rtts if at > 1) < 0.03


@pytest.mark.parametrize("burst_bytes", [50_000, 300_000])
def test_it_uses_all_that_a_policer_allows(burst_bytes: int) -> None:
    network = Network(buffer_bytes=1500, burst_bytes=burst_bytes)
    flow = TunnelFlow(network)
    network.run(10)
    assert share(flow, 2, 10) > 0.9
    assert flow.packets_lost / flow.packets_sent < 0.2


@pytest.mark.parametrize(
    ("mbit_per_s", "rtt_s", "buffer_bytes", "loss"),
    [
        (1000, 0.001, 125_000, 0.0),
        (1000, 0.001, 125_000, 0.01),
        (100, 0.2, 2_500_000, 0.01),
        (100, 0.002, 100_000, 0.01),
        (1, 0.05, 64_000, 0.0),
    ],
)
def test_other_lines(mbit_per_s: float, rtt_s: float, buffer_bytes: int, loss: float) -> None:
    network = Network(rate_bytes_per_s=mbit_per_s * MBIT, rtt_s=rtt_s, buffer_bytes=buffer_bytes, loss=loss)
    flow = TunnelFlow(network)
    duration_s = 2 if mbit_per_s > 100 else 8
    network.run(duration_s)
    assert flow.rate(duration_s / 2, duration_s) > 0.85 * mbit_per_s * LINE_MB_PER_S / 100


@pytest.mark.parametrize("buffer_bytes", [213_000, 4_000_000])
def test_loopback_with_a_receiver_that_is_often_not_scheduled(buffer_bytes: int) -> None:
    network = Network(rate_bytes_per_s=600e6, rtt_s=0.0001, buffer_bytes=buffer_bytes)
    for slice_ in range(400):
        network.stall(
            slice_ * 0.002 + network.random.random() * 0.002, network.random.expovariate(1 / 0.0005)
        )
    flow = TunnelFlow(network)
    network.run(0.75)
    # the stalls alone take a quarter of the time, and the short buffer holds a third of a millisecond
    assert flow.rate(0.25, 0.75) > (180 if buffer_bytes < 1e6 else 350)
    assert flow.packets_lost / flow.packets_sent < 0.03


# -- changes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("buffer_bdp", [1, 4])
def test_a_tenth_of_the_rate_is_followed_down(buffer_bdp: float) -> None:
    network = Network(buffer_bytes=buffer_bdp * BDP_BYTES)
    flow = TunnelFlow(network)
    network.change(3, rate_bytes_per_s=10 * MBIT)
    network.run(10)
    assert flow.rate(6, 10) > 1.1
    assert statistics.mean(rtt for at, rtt in flow.rtts if at > 6) < 0.06


def test_ten_times_the_rate_is_found_within_seconds() -> None:
    network = Network(rate_bytes_per_s=10 * MBIT)
    flow = TunnelFlow(network)
    network.change(4, rate_bytes_per_s=100 * MBIT)
    network.run(10)
    assert share(flow, 8, 10) > 0.95


@pytest.mark.parametrize("loss", [0.0, 0.02])
@pytest.mark.parametrize("buffer_bdp", [1, 4])
def test_a_longer_path_is_not_taken_for_a_rival(loss: float, buffer_bdp: float) -> None:
    network = Network(loss=loss, buffer_bytes=buffer_bdp * BDP_BYTES)
    flow = TunnelFlow(network)
    network.change(4, rtt_s=0.06)
    network.run(11)
    assert share(flow, 8, 11) > 0.85
    assert flow.controller.mode != "competing"


def test_loss_that_begins_is_learnt_as_ordinary() -> None:
    network = Network()
    flow = TunnelFlow(network)
    network.change(3, loss=0.05)
    network.run(8)
    assert share(flow, 3, 5) > 0.8
    assert share(flow, 5, 8) > 0.93


def test_a_radio_that_pauses() -> None:
    network = Network(loss=0.01)
    for tenth in range(80):
        network.stall(tenth / 10 + network.random.random() / 10, network.random.random() * 0.02)
    flow = TunnelFlow(network)
    network.run(8)
    assert share(flow, 2, 8) > 0.72  # the pauses alone take a tenth


# -- sharing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("buffer_bdp", [1, 4])
@pytest.mark.parametrize("hystart_delay", [True, False])
@pytest.mark.parametrize(("ours_s", "theirs_s"), [(0, 0), (0, 5), (5, 0)])
def test_a_cubic_flow_and_we_both_get_a_good_part(
    buffer_bdp: float, hystart_delay: bool, ours_s: float, theirs_s: float
) -> None:
    network = Network(buffer_bytes=buffer_bdp * BDP_BYTES)
    ours = TunnelFlow(network, start_s=ours_s)
    theirs = CubicFlow(network, start_s=theirs_s, hystart_delay=hystart_delay)
    network.run(45)
    assert share(ours, 5, 45) > 0.3
    assert share(theirs, 5, 45) > 0.3


def test_a_shallow_buffer_does_not_starve_a_cubic_flow() -> None:
    network = Network(buffer_bytes=BDP_BYTES // 2)
    ours, theirs = TunnelFlow(network), CubicFlow(network, hystart_delay=True)
    network.run(25)
    assert share(ours, 5, 25) > 0.3
    assert share(theirs, 5, 25) > 0.25


@pytest.mark.parametrize("buffer_bdp", [0.5, 1, 4])
def test_two_tunnels_are_equals(buffer_bdp: float) -> None:
    network = Network(buffer_bytes=buffer_bdp * BDP_BYTES)
    first, second = TunnelFlow(network), TunnelFlow(network, start_s=2)
    network.run(20)
    assert 0.5 < first.rate(5, 20) / second.rate(5, 20) < 2
    assert share(first, 5, 20) + share(second, 5, 20) > 0.94


def test_two_tunnels_with_random_loss() -> None:
    network = Network(loss=0.05)
    first, second = TunnelFlow(network), TunnelFlow(network, start_s=2)
    network.run(20)
    assert 0.5 < first.rate(5, 20) / second.rate(5, 20) < 2
    assert share(first, 5, 20) + share(second, 5, 20) > 0.9


def test_what_a_cubic_flow_cannot_use_for_random_loss_is_ours() -> None:
    network = Network(loss=0.05)
    ours, theirs = TunnelFlow(network), CubicFlow(network)
    network.run(10)
    assert share(ours, 2, 10) > 0.85
    assert theirs.rate(2, 10) < 0.5  # as it is alone


@pytest.mark.parametrize("buffer_bdp", [1, 4])
def test_the_line_is_ours_again_when_the_other_has_left(buffer_bdp: float) -> None:
    network = Network(buffer_bytes=buffer_bdp * BDP_BYTES)
    ours = TunnelFlow(network)
    CubicFlow(network, stop_s=8)
    network.run(15)
    assert share(ours, 10, 15) > 0.95
    assert ours.controller.mode != "competing"
    assert statistics.mean(rtt for at, rtt in ours.rtts if at > 13) < 0.03


# -- the sender's pauses -----------------------------------------------------------------------------------


def test_a_slow_application_is_not_taken_for_a_slow_path() -> None:
    network = Network()
    flow = TunnelFlow(network)
    network.run(3)
    flow.app_rate_bytes_per_s = 1e6
    flow._app_credit_s = network.now_s
    network.run(8)
    assert flow.rate(4, 8) == pytest.approx(0.99, abs=0.05)
    assert flow.controller.pacing_rate_bytes_per_s > 10e6
    flow.app_rate_bytes_per_s = None
    network.run(9)
    assert share(flow, 8, 9) > 0.9


def test_after_silence_it_begins_again() -> None:
    network = Network()
    flow = TunnelFlow(network)
    network.change(2, loss=1.0)
    network.change(12, loss=0.0)
    network.run(11.9)
    assert flow.controller.window_bytes < 20 * DATAGRAM_BYTES
    network.run(24)
    assert share(flow, 20, 24) > 0.9


def sample(now_s: float, **known: object) -> AckSample:
    values: dict[str, object] = {
        "now_s": now_s,
        "acked_bytes": 1400,
        "lost_bytes": 0,
        "lost_packets": 0,
        "inflight_bytes": 0,
        "prior_inflight_bytes": 1400,
        "delivered_bytes": 1400,
        "prior_delivered_bytes": 0,
        "rtt_s": 0.02,
        "delivery_rate_bytes_per_s": 70_000.0,
        "is_app_limited": False,
    }
    return AckSample(**{**values, **known})  # type: ignore[arg-type]


def test_the_first_window_is_ten_datagrams() -> None:
    controller = Controller(datagram_bytes=1400, now_s=5.0)
    assert controller.mode == "startup"
    assert controller.window_bytes == 14_000
    assert controller.pacing_rate_bytes_per_s > 1e6


def test_one_small_datagram_says_nothing_of_the_rate() -> None:
    controller = Controller(datagram_bytes=1400, now_s=0.0)
    controller.on_ack(sample(0.02, acked_bytes=16, delivered_bytes=16, delivery_rate_bytes_per_s=800.0))
    assert controller.window_bytes >= 14_000
    assert controller.pacing_rate_bytes_per_s > 14_000 / 0.02


def test_timeouts_before_the_first_answer_change_nothing() -> None:
    controller = Controller(datagram_bytes=1400, now_s=0.0)
    controller.on_timeout(1.0)
    assert controller.window_bytes == 14_000


def test_the_datagram_size_can_be_set() -> None:
    controller = Controller(datagram_bytes=1200, now_s=0.0)
    controller.datagram_bytes = 1400
    assert controller.datagram_bytes == 1400


Event = tuple[str, float, int, int, float | None, float | None, bool]
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["ack", "ack", "ack", "sent", "timeout", "idle"]),
        st.floats(0, 5),
        st.integers(0, 1 << 24),
        st.integers(0, 1 << 24),
        st.none() | st.floats(1e-6, 10),
        st.none() | st.floats(0, 1e11),
        st.booleans(),
    ),
    max_size=60,
)


def play(events: list[Event], check: Callable[[Controller], None]) -> list[tuple[float, int, str]]:
    controller = Controller(datagram_bytes=1400, now_s=0.0)
    now_s, delivered = 0.0, 0
    decisions = []
    for kind, wait_s, acked, lost, rtt_s, rate, limited in events:
        now_s += wait_s
        if kind == "ack":
            prior, delivered = delivered, delivered + acked
            controller.on_ack(
                sample(
                    now_s,
                    acked_bytes=acked,
                    lost_bytes=lost,
                    lost_packets=lost // 1400,
                    inflight_bytes=lost,
                    prior_inflight_bytes=acked + 2 * lost,
                    delivered_bytes=delivered,
                    prior_delivered_bytes=prior,
                    rtt_s=rtt_s,
                    delivery_rate_bytes_per_s=rate,
                    is_app_limited=limited,
                )
            )
        elif kind == "sent":
            controller.on_sent(now_s, acked, lost)
        elif kind == "timeout":
            controller.on_timeout(now_s)
        else:
            controller.on_idle_restart(now_s)
        check(controller)
        decisions.append((controller.pacing_rate_bytes_per_s, controller.window_bytes, controller.mode))
    return decisions


@settings(deadline=None, max_examples=100)
@given(EVENTS)
def test_whatever_it_is_told_it_stays_sane_and_repeatable(events: list[Event]) -> None:
    def check(controller: Controller) -> None:
        assert controller.window_bytes >= 4 * 1400
        assert 0 < controller.pacing_rate_bytes_per_s < math.inf

    assert play(events, check) == play(events, check)


# -- CUBIC's window ----------------------------------------------------------------------------------------


def test_cubic_comes_back_to_its_peak_after_k_seconds() -> None:
    window = CubicWindow(200 * 1000, 1000)
    window.reduce()
    assert window.bytes == pytest.approx(140_000)
    # K = (200 * 0.3 / 0.4) ** (1/3) = 5.313 s
    for step in range(32):
        before = window.bytes
        window.on_ack(int(window.bytes), now_s=step * 0.2, rtt_s=0.2)
        assert window.bytes >= before
        if step * 0.2 < 5.0:
            assert window.bytes < 200_000
    assert window.bytes == pytest.approx(200_000, rel=0.01)


def test_cubic_makes_room_when_its_peaks_fall() -> None:
    window = CubicWindow(100 * 1000, 1000)
    window.reduce()
    window.reduce()
    assert window.bytes == pytest.approx(49_000)
    # the peak to come back to is 70 * 0.85, not 70
    for step in range(9):
        window.on_ack(int(window.bytes), now_s=step * 0.5, rtt_s=0.5)
    assert window.bytes == pytest.approx(60_000, rel=0.03)


def test_cubic_is_no_slower_than_reno_on_a_short_path() -> None:
    window = CubicWindow(10 * 1000, 1000)
    window.reduce()
    for step in range(1000):
        window.on_ack(int(window.bytes), now_s=step * 0.001, rtt_s=0.001)
    assert window.bytes > 100_000
