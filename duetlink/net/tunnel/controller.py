"""How fast the tunnel sends: a model of the path while it is alone there, CUBIC's window while it is not.

Theory. Loss says little on wireless and long paths, so a sender that is alone follows a model of the path
(BBR: Cardwell et al., CACM 60(2), 2017; draft-ietf-ccwg-bbr): it paces at the bottleneck's rate and keeps
little more than one bandwidth-delay product in flight. Beside a loss-based flow that fills the buffer such
a model takes far too much or far too little (Ware et al., IMC 2019). So, as in Copa (Arun and Balakrishnan,
NSDI 2018, §4), the sender finds out whether it is alone (`withdrawal`), and if not competes on its rival's
terms (`competition`).

    startup --the rate stops growing--> drain
    drain --the queue is empty--> probe, which cruises, sends more for some rounds, and drains again
    drain --the queue stays, and is not ours--> competing
    competing --a withdrawal shows that we are alone, or the queue stays empty--> drain or probe

The bandwidth is learnt while more than that is sent, in startup and in probes: a maximum of samples, which
noise makes too high, until a queue grows while cruising; then it is what was delivered meanwhile.
"""

from __future__ import annotations

import math

from duetlink.net.tunnel.competition import Competition
from duetlink.net.tunnel.path_model import AckSample, PathModel
from duetlink.net.tunnel.withdrawal import WITHDRAWN, Verdict, Withdrawal

__all__ = ["AckSample", "Controller"]

INITIAL_DATAGRAMS = 10  # RFC 9002 §7.2
FEWEST_DATAGRAMS = 4
# In flight beyond the model's window: what batches and late acknowledgements hold back.
BATCHING_S = 0.005
DRAINED_BATCHING_S = 0.001
STARTUP_GAIN = 2.885  # 2 / ln 2: the smallest that doubles the rate each round
STARTUP_LOSS = 0.2
GROWTH = 1.25  # of the rate in a round: startup goes on
PLATEAU_ROUNDS = 3
PROBE_GAIN = 1.25
PROBE_GROWTH = 1.05
PROBE_S = 0.02  # at least: on a short path rounds are shorter than a scheduler's time slice
CRUISE_S = (0.25, 2.0)  # between probes: at first, and after probes that found nothing more
CRUISE_ROUNDS = 6
WORTH_A_PROBE = 0.97  # of the bandwidth: who seems to have lost more looks again after the shortest cruise
QUEUE_ROUNDS = 4  # so long, and at least so many seconds, a queue is left alone while cruising
QUEUE_S = 0.1
DRAIN_ROUNDS = 6
DRAIN_S = 0.02
# A base round trip that was not met for so long is looked for with an empty queue, as in BBR's ProbeRTT.
BASE_AGE_S = 10.0
DEEP_ROUNDS = 3
# The most in flight, once that much has met unusual loss; it grows again, per round, in cruise and in probes.
CEILING_CUT = 0.85
CEILING_GROWTH = (0.01, 0.25)
BANDWIDTH_CUT = 0.7
# Of the ordinary loss, so much is made up for: not all, so that a policer's loss does not feed itself.
COMPENSATION = 0.9


class Controller:
    """Decides `pacing_rate_bytes_per_s` and `window_bytes` from what was acknowledged and lost.

    It has no clock and no randomness: the same calls give the same decisions. `mode` is "startup", "drain",
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
        self._competition: Competition | None = None  # in the mode of that name
        self._rounds = 0  # in this mode
        self._full_rate = 0.0  # what startup or this probe has reached
        self._is_up = False  # in the part of a probe that sends more
        self._probe_due_s = self._probed_by_s = now_s
        self._cruise_s = CRUISE_S[0]
        self._drained_by_s = now_s
        self._is_deep = False  # this drain measures the base round trip
        self._is_alone = False  # a withdrawal has shown that the queue is ours
        self._ceiling_bytes = math.inf
        self._answered_bytes = 0  # loss is answered up to here: what was delivered or in flight at that time

    @property
    def datagram_bytes(self) -> int:
        return self._model.datagram_bytes

    @datagram_bytes.setter
    def datagram_bytes(self, size_bytes: int) -> None:
        self._model.datagram_bytes = size_bytes

    # -- events --------------------------------------------------------------------------------------------

    def on_sent(self, now_s: float, size_bytes: int, inflight_bytes: int) -> None:
        """A batch has left; `inflight_bytes` includes it."""
        if inflight_bytes > self._model.inflight_peak_bytes:
            self._model.inflight_peak_bytes = inflight_bytes

    def on_ack(self, sample: AckSample) -> None:
        """Once per acknowledgement that was processed, and whenever packets are found lost."""
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
        """Nothing comes back: begin again, gently, since the path may be another one."""
        model = self._model
        if not model.srtt_s:
            return  # nothing has come back yet
        model.bandwidth = FEWEST_DATAGRAMS * model.datagram_bytes / model.srtt_s
        model.is_probed = True
        self._ceiling_bytes = math.inf
        self._full_rate = 0.0
        self._enter("startup")
        self._decide()

    def on_idle_restart(self, now_s: float) -> None:
        """Data after a pause, in which the queue has run empty."""
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
        """More was lost than this path loses anyway: a short buffer, or else a policer."""
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
                    # look again soon: a process that was not scheduled for a while looks the same
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
        """The queue did not empty although we sent less."""
        model = self._model
        verdict = self._withdrawal.judge(model)
        if self._is_alone and verdict is not Verdict.SHARED:
            # All of it is ours, and to drain it twice did not empty it: the path itself has become longer.
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
        """Rate and window while alone."""
        model = self._model
        if self.mode == "startup":
            # the first samples are of single small datagrams and say nothing of the rate
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
