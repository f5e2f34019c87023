"""Whether a change of choice brought what was hoped for, and the way back where it did not.

change -> chunks under it, timed (stretch.py) -> as good as what was there before: it stays
                                              -> worse: back, and not that choice again for a while
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from duetlink.base.quantities import rate_text
from duetlink.data.tuning.choice import Choice
from duetlink.data.tuning.compression import LATENCY, THROUGHPUT
from duetlink.data.tuning.decision import Decision
from duetlink.data.tuning.goodput import Goodput
from duetlink.data.tuning.knowledge import MUCH_SMALLER
from duetlink.data.tuning.outlook import Outlook, place
from duetlink.data.tuning.stretch import Stretch
from duetlink.data.tuning.subject import Subject

_WORSE = 0.97  # of the rate before a change, below which it is taken back
_CPU_SHARE = 0.1  # of all processors, from which encoding may slow the link down


@dataclass(slots=True)
class _Change:
    """A change of choice whose outcome is not known yet."""

    decision: Decision
    subject: Subject
    goodput_before: float | None
    settling: bool = False  # it took an earlier one back; nothing else is tried before it is measured
    told: bool = False  # its outcome is known, and may still turn out to be worse
    blamed: Sequence[Choice] = ()  # what it gave up, if that was for a link that seemed to have changed


@dataclass(frozen=True, slots=True)
class Retreat:
    """A change that is to be taken back: what to return to, None where nothing was better after all."""

    subject: Subject
    choice: Choice | None
    why: str
    goodput_before: float | None
    blamed: Sequence[Choice] = ()


class Probation:
    """Of one transfer. `tell` hears of a decision again once its outcome is known."""

    def __init__(self, outlook: Outlook, tell: Callable[[Decision], None]) -> None:
        self._outlook = outlook
        self._tell = tell
        self._change: _Change | None = None
        self._stretch: Stretch | None = None
        self._outcomes: dict[Choice, float] = {}  # measured on this link, as it is now
        self._hearsay = False  # whether that of raw is what other transfers have measured

    @property
    def settling(self) -> bool:
        """Whether a retreat is under way, beside which nothing is to be tried."""
        return self._change is not None and self._change.settling

    def begin(self, decision: Decision, subject: Subject) -> None:
        """A choice was changed, for such data."""
        speed = self._outlook.speed
        if self._stretch is not None and (measured := self._stretch.rate) is not None:
            self._measured(self._stretch.choice, measured)
        if not self._outcomes and speed is not None:
            self._outcomes[self._outlook.raw] = speed
            self._hearsay = True
        self._change = _Change(decision, subject, speed)

    def settle(self, retreat: Retreat) -> None:
        """The latest change was this retreat."""
        assert self._change is not None
        self._change.settling = True
        self._change.goodput_before = retreat.goodput_before
        self._change.blamed = retreat.blamed

    def sent(self, choice: Choice, raw_bytes: int, wire_bytes: int, passed_s: float, held: bool) -> None:
        """A chunk has left under the choice in force; see `Stretch.sent`."""
        if self._stretch is None or self._stretch.choice != choice:
            self._stretch = Stretch(choice)
        self._stretch.sent(raw_bytes, wire_bytes, passed_s, held)

    def verdict(self, now_s: float) -> Retreat | None:
        """Compare the outcome of the latest change with what was there before it."""
        change, stretch = self._change, self._stretch
        if change is None or stretch is None:
            return None
        after, measured = change.decision.after, stretch.rate
        if measured is None or stretch.choice.key != (after.codec, after.level):
            return None
        if self._hearsay and not stretch.settled:
            return None  # the beginning of a transfer is slower than what others measured
        self._measured(stretch.choice, measured)
        worse = measured < _WORSE * max(self._outcomes.values())
        # fewer bytes, or less processor time, may take longer: that was asked for
        if worse and not self._steered and self._outlook.settings.objective in (THROUGHPUT, LATENCY):
            return self._retreat(change, measured, now_s)
        if not change.told:
            self._conclude(change, measured)
        if stretch.long:
            self._change = None
        return None

    def _measured(self, choice: Choice, rate: float) -> None:
        self._outcomes[choice] = rate
        if choice.raw:
            self._hearsay = False

    def blame(self, now_s: float) -> Retreat | None:
        """The link seems to have changed: a retreat where the latest change may be what slowed it down."""
        change = self._change
        if change is None or not self._outcomes or self._steered or not self._may_be_ours(change):
            return None
        return self._retreat(change, None, now_s)

    def forget(self) -> None:
        """It is another link: nothing that was measured counts any more, and what was blamed was not it."""
        outlook = self._outlook
        if self._change is not None:
            for choice in self._change.blamed:
                outlook.knowledge.acquit(outlook.path, place(self._change.subject, choice))
        self._change, self._stretch = None, None
        self._outcomes.clear()
        self._hearsay = False

    def rested(self) -> None:
        """The sender kept back by itself: what comes now begins with empty buffers, and is timed anew."""
        self._stretch = None

    def drop(self) -> None:
        """The latest change will have no outcome."""
        self._change = None

    def finish(self) -> None:
        """The transfer is over: what is known by now is the outcome."""
        change, stretch = self._change, self._stretch
        if change is not None and not change.told and stretch is not None and stretch.rate is not None:
            self._conclude(change, stretch.rate)

    @property
    def _steered(self) -> bool:
        """Whether a person has chosen, and nothing is to be taken back."""
        return self._outlook.settings.pin or self._outlook.settings.mode == "manual"

    def _conclude(self, change: _Change, measured: float) -> None:
        self._tell(dataclasses.replace(change.decision, measured=measured))
        change.told, change.settling = True, False

    def _may_be_ours(self, change: _Change) -> bool:
        """Whether encoding or decoding, rather than the link, may have slowed the sending down."""
        outlook, subject, stretch = self._outlook, change.subject, self._stretch
        if stretch is None or stretch.choice.raw:
            return False
        key = stretch.choice.key
        figures = outlook.figures(subject, stretch.choice, subject.ratio(key))
        achieved = (outlook.goodput.measured or 0.0) / figures.ratio
        if achieved >= max(self._outcomes.values()):
            return False  # slower or not, it is the best that there was
        if achieved > _CPU_SHARE * figures.encode * outlook.knowledge.cpus:
            return True
        if not outlook.knowledge.speeds.decode_measured(key, subject.kind):
            return True
        return figures.decode * outlook.knowledge.workers < 1.3 * achieved

    def _retreat(self, change: _Change, measured: float | None, now_s: float) -> Retreat:
        if measured is not None:
            self._conclude(change, measured)
        self._change = None
        outlook, subject, goodput = self._outlook, change.subject, change.goodput_before
        back = max(self._outcomes, key=lambda choice: self._outcomes[choice])
        disappointing = subject.choice
        if disappointing is None or disappointing == back or back.codec.name in outlook.failed:
            return Retreat(subject, None, "", goodput)
        given_up = self._no_lighter(subject, disappointing)
        for choice in given_up:
            ratio = outlook.figures(subject, choice, subject.ratio(choice.key)).ratio
            outlook.knowledge.pause(outlook.path, place(subject, choice), now_s, goodput, ratio)
        if not disappointing.raw:  # what was measured beside its encoding is not the link's speed
            outlook.goodput = Goodput(goodput)
        why = (
            f"{disappointing} brought {rate_text(measured) if measured else 'less'} instead of the"
            f" {rate_text(self._outcomes[back])} of {back}"
        )
        return Retreat(subject, back, why, goodput, given_up if measured is None else ())

    def _no_lighter(self, subject: Subject, disappointing: Choice) -> list[Choice]:
        """A choice that did not pay, and those that ask more of the processors for hardly fewer bytes."""
        if disappointing.raw:
            return [disappointing]
        outlook = self._outlook
        found = [disappointing]
        usual = outlook.figures(subject, disappointing, subject.ratio(disappointing.key))
        for choice in outlook.knowledge.candidates(subject.element):
            figures = outlook.figures(subject, choice, subject.ratio(choice.key))
            heavier = figures.encode <= usual.encode and figures.ratio > MUCH_SMALLER * usual.ratio
            if heavier and choice != disappointing:
                found.append(choice)
        return found
