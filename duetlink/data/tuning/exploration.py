"""Finding out what codecs make of the data at hand: of samples, and now and then of a whole chunk.

That takes time from the transfer, so all of it together is bounded by a share of the transfer's own, and only
what could win is tried.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from duetlink.data.codecs.base import BYTES, Array, Codec
from duetlink.data.tuning.choice import Choice
from duetlink.data.tuning.compression import FEWEST_BYTES
from duetlink.data.tuning.model import RAW, Figures
from duetlink.data.tuning.outlook import Outlook, place
from duetlink.data.tuning.priors import FAST_BYTES_PER_S, HOPED_RATIO, known, prior
from duetlink.data.tuning.ranking import Ranking
from duetlink.data.tuning.sample import SAMPLE_BYTES, Kind
from duetlink.data.tuning.subject import Subject

GAIN = 1.05  # for a change of choice

_EXPLORE = 0.02  # share of a transfer's time
_EXPLORE_BYTES = 0.1  # where time is not what counts
_HOPELESS = 1.3
_REHEARSED = 1.1
_MAX_REHEARSALS = 8
_FIRST_REHEARSAL = 4  # chunks; the first ones fill the pipeline, and a slow one would delay all
_CALL_S = 0.00005
_FEW_ITEMS = 128  # take about as long as none
_MOST_CALL = 4.0  # times as long as its items, at most, a sample is thought to take
_UNKNOWN_RATE = 200e6
_LONG_S = 10.0


class Exploration:
    """Of one transfer."""

    def __init__(self, outlook: Outlook) -> None:
        self._outlook = outlook
        self._spent = 0.0  # share of the transfer's time
        self._rate = 0.0  # bytes of the array per second, by the best choice known
        self._wanted: dict[str, Codec] = {}  # not loaded, but they could win
        self._rehearsals = 0
        self._rehearsing: tuple[Subject, Choice] | None = None

    def settings_changed(self) -> None:
        self._spent, self._rehearsals = 0.0, 0

    def link_changed(self) -> None:
        self._rehearsals = 0

    def spend(self, cost_s: float, *, first: bool = False) -> bool:
        """Take time for exploring, if the transfer is long enough, encoded as well as is known."""
        share = cost_s * max(self._rate, self._outlook.speed or _UNKNOWN_RATE) / self._outlook.size_bytes
        return self._take(share, 2 * self._budget if first else self._budget)

    def _take(self, share: float, most: float) -> bool:
        if self._spent + share > most:
            return False
        self._spent += share
        return True

    @property
    def _budget(self) -> float:
        return _EXPLORE_BYTES if self._outlook.settings.objective == FEWEST_BYTES else _EXPLORE

    # -- samples --------------------------------------------------------------------------------------------

    def rank(self, subject: Subject, sample: Callable[[], Array], chunk_bytes: int, now_s: float) -> Ranking:
        """All choices that are allowed and known, after trying what could win on a sample."""
        ranking, untried = self._known(subject, chunk_bytes, now_s)
        self._rate = ranking.rate()
        taken: Array | None = None
        untried.sort(key=lambda choice: ranking.regret_of(self._outlook.figures(subject, choice, None)))
        for choice in untried:
            if not self._promising(ranking, subject, choice):
                continue
            if not self.spend(self._trial_s(subject, choice), first=taken is None):
                continue
            taken = sample() if taken is None else taken
            ratio = self._try(subject, choice, taken)
            figures = None if ratio is None else self._usable(subject, choice, ratio, now_s)
            if figures is not None:
                ranking = self._ranking({**ranking.figures, choice: figures}, chunk_bytes)
                self._rate = ranking.rate()
        self._load(ranking, subject)
        return ranking

    def _load(self, ranking: Ranking, subject: Subject) -> None:
        """What is not loaded but could win is there for a later decision: of this transfer if it is a long
        one, for Python does little else while it imports."""
        outlook = self._outlook
        if subject.kind is Kind.NOISE or outlook.speed is None:
            return
        for choice in outlook.unready(subject.element):
            if self._promising(ranking, subject, choice):
                self._wanted[choice.codec.name] = choice.codec
        if outlook.size_bytes > _LONG_S * max(self._rate, outlook.speed):
            self.finished()

    def finished(self) -> None:
        """Nothing is in the way of loading codecs now."""
        for codec in self._wanted.values():
            self._outlook.knowledge.load(codec)
        self._wanted.clear()

    def _known(self, subject: Subject, chunk_bytes: int, now_s: float) -> tuple[Ranking, list[Choice]]:
        """The choices that are allowed and known, and those that would have to be tried."""
        outlook = self._outlook
        figures = {outlook.raw: RAW}
        untried = []
        for choice in outlook.candidates(subject.element):
            if subject.kind is Kind.NOISE and not subject.seen(choice.key):
                continue  # the sample says that there is nothing to win
            ratio = subject.ratio(choice.key)
            if ratio is None:
                untried.append(choice)
            elif (found := self._usable(subject, choice, ratio, now_s)) is not None:
                figures[choice] = found
        ranking = self._ranking(figures, chunk_bytes)
        others = (choice for choice in figures if not choice.raw)
        # the objective may allow none of the others
        if self._paused(subject, outlook.raw, 1.0, now_s) and any(
            math.isfinite(ranking.regret(choice)) for choice in others
        ):
            del figures[outlook.raw]
            ranking = self._ranking(figures, chunk_bytes)
        return ranking, untried

    def _usable(self, subject: Subject, choice: Choice, ratio: float, now_s: float) -> Figures | None:
        """What a choice brings that makes that share of the data; None where it may not be taken."""
        figures = self._outlook.figures(subject, choice, ratio)
        usable = self._outlook.allowed(figures) and not self._paused(subject, choice, ratio, now_s)
        return figures if usable else None

    def _paused(self, subject: Subject, choice: Choice, ratio: float, now_s: float) -> bool:
        outlook = self._outlook
        return outlook.knowledge.paused(outlook.path, place(subject, choice), now_s, outlook.speed, ratio)

    def _ranking(self, figures: dict[Choice, Figures], chunk_bytes: int) -> Ranking:
        outlook = self._outlook
        lines = outlook.lines()
        return Ranking(outlook.settings.objective, figures, lines, outlook.size_bytes, chunk_bytes)

    def _promising(self, ranking: Ranking, subject: Subject, choice: Choice) -> bool:
        """Whether a try is worth its time: it could win at the ratio that one may hope for, and is not far
        behind at the ratio that is usual."""
        usual = self._outlook.figures(subject, choice, None)
        usual = dataclasses.replace(usual, ratio=usual.ratio * subject.ease(subject.kind))
        hoped_ratio = min(usual.ratio, HOPED_RATIO[subject.kind])
        if not any(line.processor_bound for line in ranking.lines):
            hoped_ratio /= 4
        hoped = dataclasses.replace(usual, ratio=hoped_ratio)
        if not self._outlook.allowed(hoped, 0.5) or not ranking.could_win(hoped, GAIN):
            return False
        return not known(choice.key) or ranking.regret_of(usual) < _HOPELESS * ranking.regret(ranking.best())

    def _trial_s(self, subject: Subject, choice: Choice) -> float:
        speed = self._outlook.figures(subject, choice, None).encode
        return _CALL_S + SAMPLE_BYTES / speed

    def _try(self, subject: Subject, choice: Choice, sample: Array) -> float | None:
        """The encoded share of a sample; None where the codec fails."""
        knowledge = self._outlook.knowledge
        try:
            if not choice.codec.suits(sample, subject.element):
                subject.sampled(choice.key, 1.0)
                return 1.0
            call_s = self._call_s(subject, choice, sample[:_FEW_ITEMS])
            encoded_bytes, elapsed_s = self._encode(subject, choice, sample)
        except Exception:
            self._outlook.failed[choice.codec.name] = f"{choice.codec.name} failed to encode a sample"
            return None
        ratio = self._outlook.ratio(choice, sample.nbytes, encoded_bytes)
        subject.sampled(choice.key, ratio)
        items_s = max(elapsed_s - call_s, elapsed_s / _MOST_CALL)
        if items_s > 0:
            knowledge.speeds.tried(place(subject, choice), sample.nbytes / items_s)
        return ratio

    def _call_s(self, subject: Subject, choice: Choice, few: Array) -> float:
        """What a call takes beside the items. After it the codec's code and memory are at hand."""
        knowledge = self._outlook.knowledge
        _, latest_s = self._encode(subject, choice, few)
        known_s = knowledge.call_s(choice.codec)
        if known_s is None:
            _, known_s = self._encode(subject, choice, few)
            knowledge.set_call_s(choice.codec, known_s)
        return min(latest_s, known_s)

    def _encode(self, subject: Subject, choice: Choice, sample: Array) -> tuple[int, float]:
        """How many bytes a sample becomes, and what that takes."""
        begin_s = self._outlook.knowledge.clock()
        encoded = choice.codec.encode(sample, subject.element, choice.level)
        return len(encoded), self._outlook.knowledge.clock() - begin_s

    # -- whole chunks ---------------------------------------------------------------------------------------

    def rehearsal(
        self, subject: Subject, chunk_bytes: int, now_s: float, *, chunks: int, settled: bool
    ) -> Choice | None:
        """A choice to be seen on the next chunk, after so many `chunks`, if one is worth it. `settled`: where
        none is now, none will be before something changes.
        """
        outlook = self._outlook
        if self._rehearsals >= _MAX_REHEARSALS or self._rehearsing is not None:
            return None
        early = chunks < _FIRST_REHEARSAL
        if outlook.settings.objective != FEWEST_BYTES and (early or outlook.fast or outlook.speed is None):
            return None
        if subject.kind is Kind.NOISE:
            self._rehearsals = _MAX_REHEARSALS
            found = self._seeker(subject)
        else:
            found = self._unseen(subject, chunk_bytes, now_s)
            if found is not None:
                self._rehearsals += 1
            elif settled:
                self._rehearsals = _MAX_REHEARSALS
        if found is not None:
            self._rehearsing = subject, found
        return found

    def rehearsed(self, choice: Choice) -> Subject | None:
        """The data that a choice is being rehearsed for."""
        if self._rehearsing is None or self._rehearsing[1] != choice:
            return None
        return self._rehearsing[0]

    def end_rehearsal(self, choice: Choice) -> None:
        """It was seen, or failed."""
        if self.rehearsed(choice) is not None:
            self._rehearsing = None

    def _unseen(self, subject: Subject, chunk_bytes: int, now_s: float) -> Choice | None:
        """One whose ratio is known of a sample alone, which misleads where data repeat at a distance, and it
        is close to the best, or a codec that finds such repeats."""
        ranking, _ = self._known(subject, chunk_bytes, now_s)
        unseen = [choice for choice in ranking.figures if not choice.raw and not subject.seen(choice.key)]
        unseen.sort(key=ranking.regret)
        sought = any(choice.codec.kind == BYTES and subject.seen(choice.key) for choice in ranking.figures)
        seeker = next((choice for choice in unseen if choice.codec.kind == BYTES and not sought), None)
        least = ranking.regret(ranking.best())
        for choice in unseen:
            loss = ranking.regret(choice) / least - 1
            if choice == subject.choice or (loss > _REHEARSED - 1 and choice != seeker):
                continue
            if self._take(loss * chunk_bytes / self._outlook.size_bytes, self._budget):
                return choice
        return None

    def _seeker(self, subject: Subject) -> Choice | None:
        """For data that look like noise: a codec that finds what repeats at a distance, where the link is so
        slow that this costs nothing."""
        outlook = self._outlook
        speed = outlook.speed or 0.0
        found = [
            choice
            for choice in outlook.candidates(subject.element)
            if choice.codec.kind == BYTES
            and not subject.seen(choice.key)
            and (figures := outlook.figures(subject, choice, None)).encode > max(2 * speed, FAST_BYTES_PER_S)
            and figures.decode > speed
        ]
        return min(found, key=lambda choice: prior(choice.key, Kind.DENSE).ratio, default=None)
