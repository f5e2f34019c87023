"""Congestion control while another flow fills the buffer: CUBIC's window, and checks if that flow remains.

Loss counts as congestion only while the round trip is in the upper half of its recent range, so that random
loss is ignored here too.
"""

from __future__ import annotations

from duetlink.net.tunnel.cubic import CubicWindow
from duetlink.net.tunnel.path_model import AckSample, PathModel
from duetlink.net.tunnel.withdrawal import WITHDRAWN, Verdict, Withdrawal

PACING_GAIN = 1.2  # as in Linux's CUBIC: above 1, so that the window decides and not the pacing
# CUBIC flows take minutes to reach equal shares in a deep buffer. So we grow faster when our share of the
# queue is below the range, and slower above it; beside many flows we then count as two. The range is below
# one half, because paced packets are lost less often than bursts.
EQUAL_SHARE = (0.35, 0.45)
HASTE = 2.0
WITHDRAWAL_ROUNDS = 3
INTERVAL_ROUNDS = 10  # the fewest between withdrawals
INTERVAL_S = 1.5
SECOND_CHECK_S = 0.5
VERDICTS = 2  # equal verdicts in a row that end the competition
EMPTY_S = 0.5  # the queue must stay empty for so long, and for EMPTY_ROUNDS, to end the competition
EMPTY_ROUNDS = 10


class Competition:
    """One period of competing with another flow; begins with the bytes in flight before the drain that
    revealed it.
    """

    __slots__ = (
        "_cubic",
        "_cut_bytes",
        "_floor_s",
        "_is_withdrawn",
        "_model",
        "_next_check_s",
        "_queued_s",
        "_rounds",
        "_verdict_rtt_s",
        "_verdicts",
        "_withdrawal",
    )

    def __init__(self, model: PathModel, withdrawal: Withdrawal, first: Verdict, now_s: float) -> None:
        self._model = model
        self._withdrawal = withdrawal
        self._cubic = CubicWindow(withdrawal.before_bytes, model.datagram_bytes)
        self._cubic.reduce()
        self._cut_bytes = 0  # delivered at the last reduction
        self._floor_s = model.round_floor_s  # the shortest round trip since the beginning
        self._queued_s = now_s  # when a round last ended without a moment of empty queue
        self._is_withdrawn = False
        self._rounds = 0  # since the last withdrawal began or ended
        self._verdicts = int(first is Verdict.LONGER)
        self._verdict_rtt_s = model.round_rtt_s
        self._next_check_s = now_s + (SECOND_CHECK_S if self._verdicts else INTERVAL_S)

    @property
    def window_bytes(self) -> float:
        return self._cubic.bytes * (WITHDRAWN if self._is_withdrawn else 1)

    @property
    def rate_bytes_per_s(self) -> float:
        return PACING_GAIN * self._cubic.bytes / self._model.srtt_s

    def on_ack(self, sample: AckSample, round_ended: bool) -> Verdict | None:
        """Return the verdict that ends the competition (never SHARED), or None."""
        model, now = self._model, sample.now_s
        if sample.lost_bytes and sample.prior_delivered_bytes >= self._cut_bytes:
            if sample.rtt_s is not None and sample.rtt_s > self._middle_s():
                self._cubic.reduce()
                self._cut_bytes = sample.delivered_bytes
                self._end_withdrawal()
        elif model.held_back(self._cubic.bytes):
            self._cubic.on_ack(sample.acked_bytes, now, model.srtt_s, self._haste())
        if not round_ended:
            return None
        self._rounds += 1
        self._floor_s = min(self._floor_s, model.round_floor_s)
        if model.round_floor_s > model.empty_rtt_s:
            self._queued_s = now
        if now - self._queued_s > max(EMPTY_ROUNDS * model.srtt_s, EMPTY_S):
            return Verdict.UNKNOWN
        if self._is_withdrawn:
            if self._rounds >= WITHDRAWAL_ROUNDS:
                return self._judge(now)
        elif now > self._next_check_s and self._rounds >= INTERVAL_ROUNDS:
            self._withdrawal.begin(model)
            self._is_withdrawn = True
            self._rounds = 0
        return None

    def _middle_s(self) -> float:
        model = self._model
        longest_s = model.recent_peak_s - self._floor_s
        return self._floor_s + max(longest_s / 2, model.empty_rtt_s - model.base_rtt_s)

    def _haste(self) -> float:
        share = self._withdrawal.share
        if share < EQUAL_SHARE[0]:
            return HASTE
        return 1 / HASTE if share > EQUAL_SHARE[1] else 1.0

    def _end_withdrawal(self) -> None:
        self._is_withdrawn = False
        self._rounds = 0

    def _judge(self, now_s: float) -> Verdict | None:
        verdict = self._withdrawal.judge(self._model)
        rtt_s = self._model.round_rtt_s
        if verdict is Verdict.LONGER and abs(rtt_s - self._verdict_rtt_s) > 0.03 * rtt_s + 0.001:
            verdict = Verdict.SHARED  # the length of a path does not change at every check
        self._verdict_rtt_s = rtt_s
        self._end_withdrawal()
        self._next_check_s = now_s + INTERVAL_S
        if verdict is Verdict.SHARED:
            self._verdicts = 0
        elif verdict is not Verdict.UNKNOWN:
            self._verdicts += 1
            if self._verdicts == VERDICTS:
                return verdict
            self._next_check_s = now_s + SECOND_CHECK_S
        return None
