"""Congestion control of the tunnel: a model of the path while it is alone there, CUBIC's window while it is
not.

Loss says little on wireless and long paths, so a sender that is alone follows a model of the path (BBR:
Cardwell et al., CACM 60(2), 2017; draft-ietf-ccwg-bbr): it paces at the bottleneck's rate and keeps little
more than one bandwidth-delay product in flight. Beside a loss-based flow that fills the buffer, such a model
takes far too much or far too little (Ware et al., IMC 2019). So, as in Copa (Arun and Balakrishnan, NSDI
2018, §4), the sender finds out if it is alone (`withdrawal`), and if not, it competes with CUBIC's rules
(`competition`).

    startup --the rate stops growing--> drain
    drain --the queue is empty--> probe, which cruises, sends more for some rounds, and drains again
    drain --the queue stays, and is not ours--> competing
    competing --a withdrawal shows that we are alone, or the queue stays empty--> drain or probe

The bandwidth is measured while more than that is sent, in startup and in probes. It is a maximum of samples,
which noise makes too high. When a queue grows during cruising, it is replaced by the rate delivered
meanwhile.
"""

from __future__ import annotations

import math

from duetlink.net.tunnel.competition import Competition
from duetlink.net.tunnel.path_model import AckSample, PathModel
from duetlink.net.tunnel.withdrawal import WITHDRAWN, Verdict, Withdrawal

__all__ = ["AckSample", "Controller"]

INITIAL_DATAGRAMS = 10  # RFC 9002 §7.2
FEWEST_DATAGRAMS = 4
# Seconds of sending that are added to the window, for batches and late acknowledgements.
BATCHING_S = 0.005
DRAINED_BATCHING_S = 0.001
STARTUP_GAIN = 2.885  # 2 / ln 2: the smallest that doubles the rate each round
STARTUP_LOSS = 0.2
GROWTH = 1.25  # startup continues while the rate grows by this factor per round
PLATEAU_ROUNDS = 3
PROBE_GAIN = 1.25
PROBE_GROWTH = 1.05
PROBE_S = 0.02  # the shortest probe: on a short path, rounds are shorter than a scheduler's time slice
CRUISE_S = (0.25, 2.0)  # between probes: at first, and after probes that found no more bandwidth
CRUISE_ROUNDS = 6
WORTH_A_PROBE = 0.97  # if the rate fell below this share of the bandwidth, probe after the shortest cruise
QUEUE_ROUNDS = 4  # a queue is tolerated for so many rounds, and at least QUEUE_S seconds, while cruising
QUEUE_S = 0.1
DRAIN_ROUNDS = 6
DRAIN_S = 0.02
# If the base round trip was not seen for so long, it is measured with an empty queue, as in BBR's ProbeRTT.
BASE_AGE_S = 10.0
DEEP_ROUNDS = 3
# After unusual loss, the bytes in flight are limited to this share; the limit grows per round: cruising,
# probing.
CEILING_CUT = 0.85
CEILING_GROWTH = (0.01, 0.25)
BANDWIDTH_CUT = 0.7
# The share of the ordinary loss that is compensated by a higher rate: below 1, so that a policer's loss does
# not amplify itself.
COMPENSATION = 0.9


class Controller:
    """Decides `pacing_rate_bytes_per_s` and `window_bytes` from what was acknowledged and lost.

    It uses no clock and no randomness: the same calls give the same decisions. `mode` is "startup", "drain",
    "probe" or "competing".
    """

    __slots__ = (
        "_answered_bytes",
        "_ceiling_bytes",
        "_competition",
        "_cruise_s",
        "_drained_by_s",
        "_full_rate",
        "_is_alone",
        "_is_deep",
        "_is_up",
        "_model",
        "_probe_due_s",
        "_probed_by_s",
        "_rounds",
        "_withdrawal",
        "mode",
        "pacing_rate_bytes_per_s",
        "window_bytes",
    )

    def __init__(self, *, datagram_bytes: int, now_s: float) -> None:
        self.mode = "startup"
        self.window_bytes = INITIAL_DATAGRAMS * datagram_bytes
        self.pacing_rate_bytes_per_s = STARTUP_GAIN * self.window_bytes / 0.001
        self._model = PathModel(datagram_bytes, now_s)
        self._withdrawal = Withdrawal()
        self._competition: Competition | None = None  # in the mode "competing"
        self._rounds = 0  # in this mode
        self._full_rate = 0.0  # the highest rate of startup or of this probe
        self._is_up = False  # in the part of a probe that sends more
        self._probe_due_s = self._probed_by_s = now_s
        self._cruise_s = CRUISE_S[0]
        self._drained_by_s = now_s
        self._is_deep = False  # this drain measures the base round trip
        self._is_alone = False  # a withdrawal has shown that the queue is ours
        self._ceiling_bytes = math.inf
        self._answered_bytes = (
            0  # no second reaction to losses before this point: bytes delivered or in flight at the last one
        )

    @property
    def datagram_bytes(self) -> int:
        return self._model.datagram_bytes

    @datagram_bytes.setter
    def datagram_bytes(self, size_bytes: int) -> None:
        self._model.datagram_bytes = size_bytes

    # -- events --------------------------------------------------------------------------------------------

    def on_sent(self, now_s: float, size_bytes: int, inflight_bytes: int) -> None:
        """Note a sent batch; `inflight_bytes` includes it."""
        if inflight_bytes > self._model.inflight_peak_bytes:
            self._model.inflight_peak_bytes = inflight_bytes

    def on_ack(self, sample: AckSample) -> None:
        """Call once per processed acknowledgement, and whenever packets are declared lost."""
        round_ended = self._model.update(sample)
        if self._competition is not None:
            verdict = self._competition.on_ack(sample, round_ended)
            if verdict is not None:
                self._end_competition(verdict, sample.now_s)
        else:
            if round_ended:
                self._end_round(sample)
            if self.mode == "drain":
                self._end_drain(sample.now_s)
            elif self.mode == "probe":
                self._probe(sample)
        self._decide()

    def on_timeout(self, now_s: float) -> None:
        """Restart from a low rate when no answers arrive: the path may have changed."""
        model = self._model
        if not model.srtt_s:
            return  # no acknowledgement has arrived yet
        model.bandwidth = FEWEST_DATAGRAMS * model.datagram_bytes / model.srtt_s
        model.is_probed = True
        self._ceiling_bytes = math.inf
        self._full_rate = 0.0
        self._enter("startup")
        self._decide()

    def on_idle_restart(self, now_s: float) -> None:
        """Note that data follows a pause in which the queue has emptied."""
        self._model.on_pause(now_s)
        if self.mode in ("drain", "competing"):
            self._cruise(now_s)
        self._probe_due_s = now_s
        self._decide()

    # -- alone ---------------------------------------------------------------------------------------------

    def _enter(self, mode: str) -> None:
        self.mode = mode
        self._rounds = 0
        self._is_up = False
        self._competition = None

    def _end_round(self, sample: AckSample) -> None:
        model = self._model
        self._rounds += 1
        if self.mode == "startup":
            if sample.is_app_limited or model.bandwidth >= GROWTH * self._full_rate:
                self._full_rate = model.bandwidth
                self._rounds = 0
            if self._rounds >= PLATEAU_ROUNDS or (model.round_is_lossy and model.round_loss > STARTUP_LOSS):
                self._answer_loss(sample)
                self._drain(sample.now_s)
            return
        if model.round_is_lossy and sample.delivered_bytes > self._answered_bytes:
            self._answer_loss(sample)
            self._avoid_loss(sample.now_s)
        if self.mode == "drain" and self._rounds >= DRAIN_ROUNDS and sample.now_s > self._drained_by_s:
            self._judge_drain(sample.now_s)

    def _answer_loss(self, sample: AckSample) -> None:
        self._answered_bytes = sample.delivered_bytes + sample.inflight_bytes

    def _avoid_loss(self, now_s: float) -> None:
        """React to more loss than is ordinary on this path: it has a short buffer, or a policer."""
        model = self._model
        ceiling_bytes = CEILING_CUT * model.round_inflight_bytes
        self._ceiling_bytes = max(ceiling_bytes, model.bdp_bytes)
        if self._is_up:
            self._drain(now_s)
        elif model.round_is_calm and ceiling_bytes < model.bdp_bytes:
            model.bandwidth = min(model.bandwidth, max(model.round_rate, BANDWIDTH_CUT * model.bandwidth))

    def _cruise(self, now_s: float) -> None:
        self._enter("probe")
        self._model.is_probed = False
        self._is_alone = False
        if now_s > self._probe_due_s:
            self._probe_due_s = now_s + max(self._cruise_s, CRUISE_ROUNDS * self._model.srtt_s)

    def _up(self, now_s: float) -> None:
        self._enter("probe")
        self._is_up = self._model.is_probed = True
        self._probed_by_s = now_s + PROBE_S
        self._full_rate = self._model.bandwidth
        self._cruise_s = min(2 * self._cruise_s, CRUISE_S[1])

    def _probe(self, sample: AckSample) -> None:
        now, model = sample.now_s, self._model
        if sample.prior_inflight_bytes > 0.9 * self._ceiling_bytes:
            self._ceiling_bytes += CEILING_GROWTH[self._is_up] * sample.acked_bytes
        if not self._is_up:
            if now > self._probe_due_s:
                self._up(now)
            elif now - model.emptied_s > max(QUEUE_ROUNDS * model.srtt_s, QUEUE_S):
                rate = model.rate_since_empty(sample)
                if rate < WORTH_A_PROBE * model.bandwidth:
                    # probe soon: a process that was not scheduled for a while looks the same
                    self._probe_due_s = min(self._probe_due_s, now + CRUISE_S[0])
                model.bandwidth = min(model.bandwidth, rate)
                self._drain(now)
            return
        if model.bandwidth > PROBE_GROWTH * self._full_rate:
            self._full_rate = model.bandwidth
            self._cruise_s = CRUISE_S[0]
            self._rounds = 0
        enough = PLATEAU_ROUNDS if model.filled_s < now else 1
        if self._rounds >= enough and now > self._probed_by_s:
            self._drain(now)

    def _drain(self, now_s: float) -> None:
        self._enter("drain")
        self._withdrawal.begin(self._model)
        self._drained_by_s = now_s + DRAIN_S
        self._is_deep = now_s - self._model.confirmed_s > BASE_AGE_S

    def _end_drain(self, now_s: float) -> None:
        model = self._model
        if model.emptied_s != now_s or (self._is_deep and self._rounds < DEEP_ROUNDS):
            return
        if self._is_deep:
            model.lengthen()
        self._cruise(now_s)

    def _judge_drain(self, now_s: float) -> None:
        """Decide what to do when the queue did not empty although less was sent."""
        model = self._model
        verdict = self._withdrawal.judge(model)
        if self._is_alone and verdict is not Verdict.SHARED:
            # All of the queue is ours, and two drains did not empty it: the path itself has become longer.
            model.base_rtt_s = model.round_floor_s
            self._cruise(now_s)
        elif verdict is Verdict.ALONE:
            self._drain_ours(now_s)
        else:
            self._enter("competing")
            self._competition = Competition(model, self._withdrawal, verdict, now_s)

    def _drain_ours(self, now_s: float) -> None:
        self._is_alone = True
        self._model.bandwidth = self._model.round_rate
        self._drain(now_s)

    def _end_competition(self, verdict: Verdict, now_s: float) -> None:
        if verdict is Verdict.ALONE:
            self._drain_ours(now_s)
            return
        if verdict is Verdict.LONGER:
            self._model.base_rtt_s = self._model.round_floor_s
        self._up(now_s)

    # -- decisions -----------------------------------------------------------------------------------------

    def _decide(self) -> None:
        model = self._model
        if self._competition is not None:
            rate, window = self._competition.rate_bytes_per_s, self._competition.window_bytes
        elif model.bandwidth:
            rate, window = self._follow(model.bandwidth, model.bdp_bytes)
            window = min(window, self._ceiling_bytes)
        else:
            return
        self.window_bytes = max(int(window), FEWEST_DATAGRAMS * model.datagram_bytes)
        self.pacing_rate_bytes_per_s = max(rate, float(model.datagram_bytes))

    def _follow(self, bandwidth: float, bdp_bytes: float) -> tuple[float, float]:
        """Return rate and window for the modes without competition."""
        model = self._model
        if self.mode == "startup":
            # the first samples are of single small datagrams, and do not show the rate
            least_bytes = INITIAL_DATAGRAMS * model.datagram_bytes
            rate = STARTUP_GAIN * max(bandwidth, least_bytes / model.srtt_s)
            return rate, max(STARTUP_GAIN * bdp_bytes + BATCHING_S * rate, least_bytes)
        if self.mode == "drain":
            kept = WITHDRAWN if self._is_deep or self._rounds > 1 else 1.0
            return bandwidth, kept * bdp_bytes + DRAINED_BATCHING_S * bandwidth
        rate = bandwidth / (1 - COMPENSATION * model.ordinary_loss)
        if self._is_up:
            rate *= PROBE_GAIN
        return rate, (2 * PROBE_GAIN if self._is_up else 2) * bdp_bytes + BATCHING_S * rate
