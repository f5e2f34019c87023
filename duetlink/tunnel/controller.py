"""How fast the tunnel sends: a model of the path while it is alone there, CUBIC's window while it is not.

Theory. Loss says little on wireless and long paths, so a sender that is alone follows a model of the path (BBR,
Cardwell et al., CACM 60(2), 2017; draft-ietf-ccwg-bbr): it paces at the bottleneck's rate and keeps little more
than one bandwidth-delay product in flight. Beside a loss-based flow that fills the buffer such a model takes far
too much or far too little (Ware et al., IMC 2019). So, as in Copa (Arun and Balakrishnan, NSDI 2018, §4), the
sender finds out whether it is alone, and otherwise competes on its rival's terms: the window of CUBIC (RFC 9438),
for which loss counts only while the queue is long, so that random loss is still ignored.

Alone or not is asked by *withdrawing*: put less in flight for a few rounds and see what gives way. By Little's law
in flight = rate x round trip. Whoever owns the whole queue shortens it by all that was withdrawn, at the same
rate; whoever shares it loses rate; and where there is no queue, only the path is long, the round trip stays.

    startup --rate stops growing--> drain --queue empty--> probe (cruise <-> up; each up ends in a drain)
                                    drain --queue stays, and is not ours--> competing
    competing --withdrawing shows that we are alone, or the queue stays empty--> drain, probe
"""

from __future__ import annotations

from duetlink.tunnel.cubic import CubicWindow
from duetlink.tunnel.path_model import AckSample, PathModel

__all__ = ["AckSample", "Controller"]

INITIAL_DATAGRAMS = 10  # RFC 9002 §7.2
FEWEST_DATAGRAMS = 4
STARTUP_GAIN = 2.885  # 2 / ln 2: the smallest that doubles the rate each round
PROBE_GAIN = 1.25
# In flight beyond the model's window: what batches and late acknowledgements hold back.
BATCHING_S = 0.002
CRUISE_S = (0.25, 2.0)  # between probes: shortest, and after probes that found nothing more
CRUISE_ROUNDS = 6
DRAIN_ROUNDS = 6
DRAIN_S = 0.02
# A base round trip that was not met for so long is looked for with an empty queue, as BBR's PROBE_RTT does.
BASE_AGE_S = 10.0
DEEP_ROUNDS = 3
WITHDRAWN = 0.75
WITHDRAWAL_ROUNDS = 3
WITHDRAWAL_INTERVAL_S = 1.5
WITHDRAWAL_ROUNDS_BETWEEN = 10
# CUBIC flows take minutes to become equal in a deep buffer. Who has little of the queue hurries, who has much
# waits; beside many flows this makes us two of them.
EQUAL_SHARE = (0.35, 0.45)  # of the queue; less than half, since paced packets are lost less than bursts
HASTE = 2.0
CEILING_CUT = 0.85
CEILING_GROWTH = (0.01, 0.25)  # per round: cruising, and while probing


class Controller:
    """Decides `pacing_rate_bytes_per_s` and `window_bytes` from what was acknowledged and lost.

    It has no clock and no randomness: the same calls give the same decisions.
    """

    __slots__ = (
        "_alone",
        "_ceiling_bytes",
        "_cruise_s",
        "_cubic",
        "_cut_bytes",
        "_drained_by_s",
        "_floor_s",
        "_full_rate",
        "_is_deep",
        "_is_up",
        "_model",
        "_phase_ends_s",
        "_rate_before",
        "_rounds",
        "_rtt_before_s",
        "_share",
        "_verdict_rtt_s",
        "_verdicts",
        "_withdrawn",
        "mode",
        "pacing_rate_bytes_per_s",
        "window_bytes",
    )

    def __init__(self, *, datagram_bytes: int, now_s: float) -> None:
        self.mode = "startup"
        self._model = PathModel(datagram_bytes, now_s)
        self._cubic = CubicWindow(0, datagram_bytes)
        self.window_bytes = INITIAL_DATAGRAMS * datagram_bytes
        self.pacing_rate_bytes_per_s = STARTUP_GAIN * self.window_bytes / 0.001
        self._rounds = 0  # in this phase
        self._full_rate = 0.0  # what startup has reached
        self._is_up = False
        self._is_deep = False  # a drain that measures the base round trip
        self._phase_ends_s = 0.0
        self._cruise_s = CRUISE_S[0]
        self._ceiling_bytes = float("inf")  # more in flight was lost
        self._rate_before = self._rtt_before_s = 0.0  # of the last round before a withdrawal
        self._withdrawn = False
        self._verdicts = 0  # how many withdrawals in a row spoke for being alone
        self._share = 0.5  # of the queue, as withdrawals have shown
        self._alone = False
        self._cut_bytes = 0  # loss up to here is answered: what was delivered, or in flight, at the last cut

    @property
    def datagram_bytes(self) -> int:
        return self._model.datagram_bytes

    @datagram_bytes.setter
    def datagram_bytes(self, size_bytes: int) -> None:
        self._model.datagram_bytes = size_bytes

    # -- events --------------------------------------------------------------------------------------------

    def on_sent(self, now_s: float, size_bytes: int, inflight_bytes: int) -> None:
        """A batch has left."""
        if inflight_bytes > self._model.inflight_peak_bytes:
            self._model.inflight_peak_bytes = inflight_bytes

    def on_ack(self, sample: AckSample) -> None:
        round_ended = self._model.update(sample)
        if self.mode == "competing":
            self._compete(sample, round_ended)
        else:
            if round_ended:
                self._end_round(sample)
            if self.mode == "drain":
                self._end_drain(sample.now_s)
            elif self.mode == "probe":
                self._probe(sample)
        self._decide()

    def on_timeout(self, now_s: float) -> None:
        """Nothing comes back: begin again, gently, since the path may be another one."""
        model = self._model
        if not model.srtt_s:
            return  # nothing has come back yet
        model.bandwidth = FEWEST_DATAGRAMS * model.datagram_bytes / model.srtt_s
        model.is_probed = True
        self._ceiling_bytes = float("inf")
        self._full_rate = 0.0
        self._enter("startup")
        self._decide()

    def on_idle_restart(self, now_s: float) -> None:
        """Data after a pause, in which the queue has run empty."""
        self._model.emptied_s = now_s
        self._phase_ends_s = now_s
        if self.mode in ("drain", "competing"):
            self._cruise(now_s)
        self._decide()

    # -- alone ---------------------------------------------------------------------------------------------

    def _enter(self, mode: str) -> None:
        self.mode = mode
        self._rounds = 0
        self._is_up = False

    def _end_round(self, sample: AckSample) -> None:
        model = self._model
        self._rounds += 1
        if self.mode == "startup":
            if sample.is_app_limited or model.bandwidth >= self._full_rate * 1.25:
                self._full_rate = model.bandwidth
                self._rounds = 0
            if self._rounds >= 3 or (model.round_is_lossy and model.round_loss > 0.2):
                self._cut_bytes = sample.delivered_bytes + sample.inflight_bytes
                self._drain(sample.now_s)
            return
        if model.round_is_lossy and sample.delivered_bytes > self._cut_bytes:
            self._cut_bytes = sample.delivered_bytes + sample.inflight_bytes
            self._avoid_loss(sample.now_s)
        if self.mode == "drain" and self._rounds >= DRAIN_ROUNDS and sample.now_s > self._drained_by_s:
            self._judge_drain(sample)

    def _avoid_loss(self, now_s: float) -> None:
        """More was lost than this path loses anyway: a short buffer, or a policer."""
        model = self._model
        ceiling = CEILING_CUT * model.round_inflight_bytes
        self._ceiling_bytes = max(ceiling, model.bdp_bytes)
        if self._is_up:
            self._drain(now_s)
        elif ceiling < model.bdp_bytes and model.round_rate < model.bandwidth:
            model.bandwidth = max(model.round_rate, 0.7 * model.bandwidth)

    def _cruise(self, now_s: float) -> None:
        self._enter("probe")
        self._model.is_probed = False
        self._alone = False
        if now_s > self._phase_ends_s:
            self._phase_ends_s = now_s + max(self._cruise_s, CRUISE_ROUNDS * self._model.srtt_s)

    def _up(self) -> None:
        self._enter("probe")
        self._is_up = self._model.is_probed = True
        self._full_rate = self._model.bandwidth
        self._cruise_s = min(2 * self._cruise_s, CRUISE_S[1])

    def _drain(self, now_s: float) -> None:
        self._enter("drain")
        self._is_deep = now_s - self._model.confirmed_s > BASE_AGE_S
        self._drained_by_s = now_s + DRAIN_S
        self._rate_before = self._model.round_rate
        self._rtt_before_s = self._model.round_rtt_s

    def _end_drain(self, now_s: float) -> None:
        model = self._model
        if model.emptied_s == now_s and not (self._is_deep and self._rounds < DEEP_ROUNDS):
            if self._is_deep:
                model.lengthen()
            self._cruise(now_s)

    def _probe(self, sample: AckSample) -> None:
        now, model = sample.now_s, self._model
        if sample.prior_inflight_bytes > 0.9 * self._ceiling_bytes:
            self._ceiling_bytes += CEILING_GROWTH[self._is_up] * sample.acked_bytes
        if not self._is_up:
            if now > self._phase_ends_s:
                self._up()
            elif now - model.emptied_s > max(4 * model.srtt_s, 0.1):
                # too fast even so: the maximum of noisy samples is too high, or there is less than there was
                model.bandwidth = min(model.bandwidth, model.rate_since_empty(sample))
                self._drain(now)
            return
        if model.bandwidth > self._full_rate * 1.05:
            self._full_rate = model.bandwidth
            self._cruise_s = CRUISE_S[0]
            self._rounds = 0
        if (self._rounds >= 1 and model.filled_s == now) or self._rounds >= 3:
            self._drain(now)

    def _judge_drain(self, sample: AckSample) -> None:
        """The queue did not empty although we sent less."""
        model, now = self._model, sample.now_s
        verdict = self._verdict()
        if self._alone and verdict != "shared":
            # We own all of it, and draining twice did not empty it: the path itself has become longer.
            model.base_rtt_s = model.round_floor_s
            self._cruise(now)
        elif verdict == "alone":
            self._alone = True
            model.bandwidth = model.round_rate
            self._drain(now)
        else:
            self._start_competing(now, verdict)

    def _verdict(self) -> str:
        """What gave way to a withdrawal: "alone", "shared", "longer" (only the path is long) or "unknown"."""
        model = self._model
        if not self._rate_before:
            return "unknown"
        rate = model.round_rate / self._rate_before
        inflight = rate * model.round_rtt_s / self._rtt_before_s
        if inflight > 0.92:
            return "unknown"
        own = 1 - (1 - rate) / (1 - inflight)  # the part that the round trip answered for
        self._share += (min(max(own, 0.0), 1.0) - self._share) / 2
        if own > 0.85:
            return "alone" if own < 1.3 else "unknown"
        return "longer" if own < 0.1 else "shared"

    # -- competing -----------------------------------------------------------------------------------------

    def _start_competing(self, now_s: float, verdict: str) -> None:
        model = self._model
        self._enter("competing")
        self._cubic = CubicWindow(self._rate_before * self._rtt_before_s, model.datagram_bytes)
        self._cubic.reduce()
        self._cut_bytes = 0
        self._withdrawn = False
        self._floor_s = model.round_floor_s
        self._verdict_rtt_s = model.round_rtt_s
        self._verdicts = int(verdict == "longer")
        self._phase_ends_s = now_s + (0.5 if self._verdicts else WITHDRAWAL_INTERVAL_S)

    def _compete(self, sample: AckSample, round_ended: bool) -> None:
        model, cubic, now = self._model, self._cubic, sample.now_s
        if sample.lost_bytes and sample.prior_delivered_bytes >= self._cut_bytes:
            longest = model.recent_peak_s - self._floor_s
            middle = self._floor_s + max(longest / 2, model.empty_rtt_s - model.base_rtt_s)
            if sample.rtt_s is not None and sample.rtt_s > middle:
                cubic.reduce()
                self._cut_bytes = sample.delivered_bytes
                self._stop_withdrawal(now)
        elif model.held_back(cubic.bytes):
            haste = (
                HASTE if self._share < EQUAL_SHARE[0] else 1 / HASTE if self._share > EQUAL_SHARE[1] else 1
            )
            cubic.on_ack(sample.acked_bytes, now, model.srtt_s, haste)
        if round_ended:
            self._rounds += 1
            self._floor_s = min(self._floor_s, model.round_floor_s)
            if now - model.filled_s > max(10 * model.srtt_s, 0.5):
                self._up()
            elif self._withdrawn:
                if self._rounds >= WITHDRAWAL_ROUNDS:
                    self._judge_withdrawal(now)
            elif now > self._phase_ends_s and self._rounds >= WITHDRAWAL_ROUNDS_BETWEEN:
                self._withdrawn = True
                self._rounds = 0
                self._rate_before = model.round_rate
                self._rtt_before_s = model.round_rtt_s

    def _stop_withdrawal(self, now_s: float) -> None:
        self._withdrawn = False
        self._rounds = 0
        self._phase_ends_s = max(self._phase_ends_s, now_s)

    def _judge_withdrawal(self, now_s: float) -> None:
        verdict = self._verdict()
        self._stop_withdrawal(now_s)
        model = self._model
        self._phase_ends_s = now_s + WITHDRAWAL_INTERVAL_S
        if (
            verdict == "longer"
            and abs(model.round_rtt_s - self._verdict_rtt_s) > 0.03 * model.round_rtt_s + 0.001
        ):
            verdict = "shared"
        self._verdict_rtt_s = model.round_rtt_s
        if verdict == "shared":
            self._verdicts = 0
        elif verdict != "unknown":
            self._verdicts += 1
            if self._verdicts < 2:
                self._phase_ends_s = now_s + 0.5
            elif verdict == "longer":
                model.base_rtt_s = model.round_floor_s
                self._up()
            else:
                self._alone = True
                model.bandwidth = model.round_rate
                self._drain(now_s)

    # -- decisions -----------------------------------------------------------------------------------------

    def _decide(self) -> None:
        model = self._model
        datagram = model.datagram_bytes
        if self.mode == "competing":
            window = self._cubic.bytes
            rate = 1.2 * window / model.srtt_s
            if self._withdrawn:
                window *= WITHDRAWN
        elif model.bandwidth:
            bandwidth, bdp = model.bandwidth, model.bdp_bytes
            if self.mode == "startup":
                # the first samples are of single small datagrams and say nothing of the rate
                least = INITIAL_DATAGRAMS * datagram
                rate = STARTUP_GAIN * max(bandwidth, least / model.srtt_s)
                window = max(STARTUP_GAIN * bdp + BATCHING_S * rate, least)
            elif self.mode == "drain":
                rate = bandwidth
                window = (WITHDRAWN if self._rounds > 1 or self._is_deep else 1.0) * bdp + BATCHING_S / 2 * rate
            else:
                # replace what the path always loses; not quite, so that a policer's loss does not feed itself
                rate = bandwidth / (1 - 0.9 * model.ordinary_loss)
                window = 2 * bdp + BATCHING_S * rate
                if self._is_up:
                    rate *= PROBE_GAIN
                    window = 2.25 * bdp + BATCHING_S * rate
            window = min(window, self._ceiling_bytes)
        else:
            return
        self.window_bytes = max(int(window), FEWEST_DATAGRAMS * datagram)
        self.pacing_rate_bytes_per_s = max(rate, datagram / 1.0)
