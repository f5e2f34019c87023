"""One transfer over one path: what each of its chunks is encoded with."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections import deque
from dataclasses import dataclass

from duetlink.codecs.base import BYTES, TENSOR, Array
from duetlink.codecs.element import UINT8, Element
from duetlink.codecs.registry import named
from duetlink.errors import DuetError
from duetlink.tuning.choice import Choice
from duetlink.tuning.compression import AUTO, FEWEST_BYTES, LATENCY, LEAST_CPU, THROUGHPUT, Compression
from duetlink.tuning.decision import Decision, Plan
from duetlink.tuning.goodput import Goodput
from duetlink.tuning.knowledge import Knowledge
from duetlink.tuning.model import RAW, Figures, Line, rate
from duetlink.tuning.priors import FAST_BYTES_PER_S, HOPED_RATIO, OTHER_WIRE_CPU_S, WIRE_CPU_S, known, prior
from duetlink.tuning.ranking import POSSIBLE_GOODPUT, Ranking
from duetlink.tuning.reason import in_words, reason
from duetlink.tuning.sample import SAMPLE_BYTES, Features, Kind, features, take
from duetlink.tuning.stretch import Stretch
from duetlink.tuning.subject import Subject

KIB = 1024
MIN_CHUNK_BYTES = 64 * KIB
MAX_CHUNK_BYTES = 2048 * KIB
_CHUNK_BYTES = 1024 * KIB
_FIRST_CHUNK_BYTES = 256 * KIB  # while the link's speed is unknown
_CHUNK_S = 0.25
_LEAST_CHUNKS = 16

_GAIN = 1.05  # for a change of choice
_GAIN_BYTES = 1.005
_WORSE = 0.97  # of the rate before a change, below which it is taken back
_EXPLORE = 0.02  # share of a transfer's time
_EXPLORE_BYTES = 0.1  # where time is not what counts
_HOPELESS = 1.3
_REHEARSED = 1.1
_MAX_REHEARSALS = 8
_FIRST_REHEARSAL = 4  # chunks; the first ones fill the pipeline, and a slow one would delay all
_DWELL = 8  # chunks, within which another change needs more reason
_MANY_CHANGES = 4  # in one transfer, after which a change needs a gain of a fifth
_LOOK_EVERY = 16
_LOOK_EVERY_FAST = 64
_SAMPLE_S = 0.0004
_CALL_S = 0.00005
_UNKNOWN_RATE = 200e6
_MUCH_SMALLER = 0.8
_CPU_SHARE = 0.1  # of all processors, from which encoding may slow the link down

_UNSEEN = Features(7.5, 0.0, 0.0)


@dataclass(slots=True)
class _Pending:
    """A change of choice whose outcome is not known yet."""

    decision: Decision
    subject: Subject
    goodput_before: float | None
    settling: bool = False  # it took an earlier one back; nothing else is tried before it is measured
    told: bool = False  # its outcome is known, and may still turn out to be worse


class Course:
    """Made by `Tuner.begin`. Any thread may call; chunks are sent in the order in which they were chosen for,
    and `sent` is called once for each.

    `chunk_bytes` and `workers` say how large the next chunk should be, before encoding, and how many threads
    should encode; they change as the transfer goes.
    """

    def __init__(
        self,
        knowledge: Knowledge,
        name: str,
        path: str,
        size_bytes: int,
        now_s: float,
        round_trip_s: float,
    ) -> None:
        self._knowledge = knowledge
        self._name, self._path, self._size_bytes = name, path, max(1, size_bytes)
        self._round_trip_s = round_trip_s
        self._lock = threading.Lock()
        self._settings = knowledge.compression
        self._goodput = Goodput(knowledge.goodput(path))
        self._raw = Choice(named("raw"), 0)
        self._subjects: dict[tuple[str, Kind], Subject] = {}
        self._latest: dict[str, Subject] = {}
        self._failed: dict[str, str] = {}
        self._queue: deque[tuple[Choice, bool]] = deque(maxlen=4096)  # chosen, not sent; whether in force
        self._rehearsing: set[tuple[Subject, Choice]] = set()
        self._rehearsals = 0
        self._chunks = 0
        self._changed_at = 0
        self._changes = 0
        self._due, self._look = True, False
        self._spent = 0.0  # share of the transfer's time that exploring took
        self._stretch: Stretch | None = None
        self._pending: _Pending | None = None
        self._outcomes: dict[Choice, float] = {}  # measured on this link, as it is now
        self._news = ""  # why a decision is made now
        self._decided_goodput: float | None = None
        self._cpu_load: float | None = None
        self._last_s = now_s
        self._plan: dict[str, Plan] = {}
        self._outbox: list[Decision] = []
        self.workers = 1
        self.chunk_bytes = self._chunk_size(self._raw, 1.0, self._speed())

    # -- what the transfer calls ----------------------------------------------------------------------------

    def choose(self, array: Array, element: Element, now_s: float, cpu_load: float | None = None) -> Choice:
        """What the next chunk is encoded with. `array` is the chunk, C-contiguous, of `element.storage`.

        `cpu_load` is the share of all processors that is in use, 0 to 1.
        """
        with self._lock:
            self._cpu_load = cpu_load
            choice, in_force = self._choose(array, element, now_s)
            self._queue.append((choice, in_force))
            self._chunks += 1
        self._publish()
        return choice

    def encoded(self, choice: Choice, raw_bytes: int, encoded_bytes: int, elapsed_s: float) -> None:
        """A worker has encoded a chunk."""
        if choice.raw or not raw_bytes:
            return
        with self._lock:
            subject = self._subject_of(choice)
            if subject is None:
                return
            new = not subject.seen(choice.key)
            place = (choice.key, subject.element.name, subject.kind)
            self._knowledge.speeds.encoded(place, raw_bytes, elapsed_s)
            self._rehearsing.discard((subject, choice))
            if subject.encoded(choice.key, encoded_bytes / raw_bytes):
                self._look = True
                self._news = "the data have changed"
            self._due |= new or self._look

    def failed(self, choice: Choice) -> None:
        """The codec could not encode a chunk, which goes as it is. It is not chosen again here."""
        with self._lock:
            if choice.raw:
                return
            self._failed[choice.codec.name] = self._news = f"{choice.codec.name} failed to encode a chunk"
            for index, (waiting, _) in enumerate(self._queue):
                if waiting == choice:
                    self._queue[index] = (self._raw, False)
                    break
            self._rehearsing = {found for found in self._rehearsing if found[1] != choice}
            self._pending = None
            self._due = True

    def sent(self, raw_bytes: int, wire_bytes: int, elapsed_s: float, now_s: float) -> None:
        """The transport has taken the next chunk; it held the sender for `elapsed_s` until `now_s`."""
        with self._lock:
            choice, in_force = self._queue.popleft() if self._queue else (self._raw, False)
            passed_s = max(elapsed_s, now_s - self._last_s)
            self._last_s = now_s
            before = self._speed()
            held, changed = self._goodput.sent(wire_bytes, elapsed_s, now_s)
            if in_force:
                if self._stretch is None or self._stretch.choice != choice:
                    self._stretch = Stretch(choice)
                self._stretch.sent(raw_bytes, wire_bytes, passed_s, held)
            if changed:
                self._link_changed(before, now_s)
            self._verify(now_s)
            self._follow()
        self._publish()

    def decoded(self, codec_name: str, raw_bytes: int, elapsed_s: float) -> None:
        """The peer has decoded a chunk in that time."""
        with self._lock:
            for subject in self._latest.values():
                self._knowledge.speeds.decoded(codec_name, subject.kind, raw_bytes, elapsed_s)

    def finished(self, now_s: float) -> None:
        """The transfer is over, complete or not."""
        with self._lock:
            measured = self._goodput.measured
            if measured is not None:
                self._knowledge.set_goodput(self._path, measured)
            pending, stretch = self._pending, self._stretch
            if pending is not None and not pending.told and stretch is not None and stretch.rate is not None:
                self._outcome(pending, stretch.rate)
        self._publish()

    # -- choosing -------------------------------------------------------------------------------------------

    def _choose(self, array: Array, element: Element, now_s: float) -> tuple[Choice, bool]:
        settings = self._knowledge.compression
        if settings is not self._settings:
            self._settings, self._due, self._spent = settings, True, 0.0
            self._rehearsals, self._news = 0, "the settings have changed"
        role = _role(element)
        if settings.mode == "manual" and settings.codec[role] != AUTO:
            return self._named(settings, role, element, now_s), True
        if settings.pin and (pinned := self._pinned(element)) is not None:
            return pinned, True
        if not array.nbytes:
            return self._raw, False
        subject = self._subject(array, element)
        if self._due or subject.choice is None:
            self._decide(subject, role, array, now_s)
        choice = subject.choice or self._raw
        rehearsal = self._rehearsal(subject, role, now_s)
        return (choice, True) if rehearsal is None else (rehearsal, False)

    def _named(self, settings: Compression, role: str, element: Element, now_s: float) -> Choice:
        name, level = settings.codec[role], settings.level[role]
        why = f"the settings name {name} for {role}"
        choice = self._raw
        try:
            codec = named(name)
        except DuetError:
            why += ", which is not installed here"
        else:
            if name in self._failed:
                why = self._failed[name]
            elif name not in self._knowledge.available or not codec.lossless or not codec.accepts(element):
                why += f", which cannot be used for {element.name} here"
            else:
                choice = Choice(codec, codec.level if level is None else level)
        subject = self._latest.get(element.name) or self._remember(element, _UNSEEN)
        if subject.choice != choice:
            self._change(subject, choice, None, why, now_s)
        elif self._due:
            self._shape(choice, subject.ratio(choice.key))
        self._due = False
        return choice

    def _pinned(self, element: Element) -> Choice | None:
        subject = self._latest.get(element.name)
        choice = subject.choice if subject is not None else None
        choice = choice or self._knowledge.latest(self._path, element)
        if choice is None or choice.codec.name in self._failed:
            return None
        if subject is None:
            subject = self._remember(element, _UNSEEN)
            subject.choice = choice
        if self._due:
            self._due = False
            self._shape(choice, subject.ratio(choice.key))
        return choice

    def _subject(self, array: Array, element: Element) -> Subject:
        """The kind of data of this chunk: looked at now and then, taken for that of its predecessor else."""
        latest = self._latest.get(element.name)
        every = _LOOK_EVERY_FAST if self._fast() else _LOOK_EVERY
        if latest is not None and not self._look and self._chunks - latest.looked_at < every:
            return latest
        cost_s = _SAMPLE_S * min(1.0, array.nbytes / SAMPLE_BYTES)
        if not self._spend(cost_s):
            return latest or self._remember(element, _UNSEEN)
        self._look = False
        before = latest
        latest = self._remember(element, features(take(array)))
        latest.looked_at = self._chunks
        self._due |= latest is not before
        return latest

    def _remember(self, element: Element, found: Features) -> Subject:
        subject = self._subjects.setdefault((element.name, found.kind), Subject(element, found))
        self._latest[element.name] = subject
        return subject

    def _subject_of(self, choice: Choice) -> Subject | None:
        for subject, rehearsed in self._rehearsing:
            if rehearsed == choice:
                return subject
        for subject in self._latest.values():
            if subject.choice == choice:
                return subject
        return next((subject for subject in self._latest.values()), None)

    def _decide(self, subject: Subject, role: str, array: Array, now_s: float) -> None:
        if self._pending is not None and self._pending.settling and subject.choice is not None:
            return
        self._due = False
        goodput = self._decided_goodput = self._speed()
        ranking, figures = self._rank(subject, role, array, now_s)
        best, current = ranking.best(), subject.choice
        if current is None or current not in figures:
            current = self._raw if self._raw in figures else best
        gain = _GAIN_BYTES if self._settings.objective == FEWEST_BYTES else _GAIN
        if current in figures and self._changes >= _MANY_CHANGES:  # data that differ from chunk to chunk
            gain **= 4
        elif not self._news and current in figures and self._chunks - self._changed_at < _DWELL:
            gain *= gain
        if ranking.regret(best) * gain > ranking.regret(current):
            best = current
        if best != subject.choice:
            line = None if goodput is None else self._lines(goodput)[0]
            why = reason(self._settings.objective, best, figures[best], line, self._news)
            self._change(subject, best, figures, why, now_s)
        else:
            self._shape(best, figures[best].ratio)
        self._news = ""

    def _rank(
        self, subject: Subject, role: str, array: Array | None, now_s: float
    ) -> tuple[Ranking, dict[Choice, Figures]]:
        """All choices that are allowed and known, after trying what could win on a sample of `array`."""
        goodput = self._speed()
        lines = self._lines(goodput)
        figures = {self._raw: RAW}
        untried = []
        paused = self._knowledge.paused
        for choice in self._knowledge.candidates(subject.element, role):
            if choice.codec.name in self._failed:
                continue
            if subject.kind is Kind.NOISE and not subject.seen(choice.key):
                continue  # the sample says that there is nothing to win
            if paused(self._path, subject.kind, choice.key, now_s, goodput):
                continue
            ratio = subject.ratio(choice.key)
            if ratio is None:
                untried.append(choice)
            elif self._allowed(found := self._figures(subject, choice, ratio), goodput):
                figures[choice] = found
        if len(figures) > 1 and paused(self._path, subject.kind, self._raw.key, now_s, goodput):
            del figures[self._raw]
        ranking = self._ranking(figures, lines)
        if array is None:
            return ranking, figures
        sample: Array | None = None
        untried.sort(key=lambda choice: ranking.regret_of(self._figures(subject, choice, None)))
        for choice in untried:
            if not self._promising(ranking, subject, choice, lines, goodput):
                continue
            if not self._spend(self._trial_s(subject, choice, array), first=sample is None):
                continue
            sample = take(array) if sample is None else sample
            ratio = self._try(subject, choice, sample)
            if ratio is not None and self._allowed(found := self._figures(subject, choice, ratio), goodput):
                figures[choice] = found
                ranking = self._ranking(figures, lines)
        return ranking, figures

    def _ranking(self, figures: dict[Choice, Figures], lines: list[Line]) -> Ranking:
        return Ranking(self._settings.objective, figures, lines, self._size_bytes, self.chunk_bytes)

    def _promising(
        self, ranking: Ranking, subject: Subject, choice: Choice, lines: list[Line], goodput: float | None
    ) -> bool:
        """Whether a try is worth its time: it could win at the ratio that one may hope for, and is not far
        behind at the ratio that is usual."""
        usual = self._figures(subject, choice, None)
        ease = min(1.0, subject.ease(subject.kind))
        usual = dataclasses.replace(usual, ratio=usual.ratio * ease)
        hoped_ratio = min(usual.ratio, HOPED_RATIO[subject.kind])
        if not any(line.processor_bound for line in lines):
            hoped_ratio /= 4
        hoped = dataclasses.replace(usual, ratio=hoped_ratio)
        if not self._allowed(hoped, goodput, 0.5) or not ranking.could_win(hoped, _GAIN):
            return False
        return not known(choice.key) or ranking.regret_of(usual) < _HOPELESS * ranking.regret(ranking.best())

    def _allowed(self, figures: Figures, goodput: float | None, leniency: float = 1.0) -> bool:
        """Objective "bytes": fast, or hidden by the link. All others judge speed themselves."""
        if self._settings.objective != FEWEST_BYTES or figures.encode >= leniency * FAST_BYTES_PER_S:
            return True
        return goodput is not None and figures.encode * self._knowledge.workers >= goodput / figures.ratio

    def _figures(self, subject: Subject, choice: Choice, ratio: float | None) -> Figures:
        """`ratio` None: what is usual for such data."""
        place = (choice.key, subject.element.name, subject.kind)
        speeds = self._knowledge.speeds
        usual = prior(choice.key, subject.kind).ratio
        return Figures(
            speeds.encode(place),
            speeds.decode(choice.key, subject.kind),
            max(1e-6, usual if ratio is None else ratio),
        )

    def _trial_s(self, subject: Subject, choice: Choice, array: Array) -> float:
        speed = self._figures(subject, choice, None).encode
        return _CALL_S + min(SAMPLE_BYTES, array.nbytes) / speed

    def _try(self, subject: Subject, choice: Choice, sample: Array) -> float | None:
        begin_s = self._knowledge.clock()
        try:
            encoded = choice.codec.encode(sample, subject.element, choice.level)
        except Exception:
            self._failed[choice.codec.name] = f"{choice.codec.name} failed to encode a sample"
            return None
        elapsed_s = self._knowledge.clock() - begin_s
        ratio = len(encoded) / sample.nbytes
        subject.sampled(choice.key, ratio)
        if elapsed_s > 0:
            place = (choice.key, subject.element.name, subject.kind)
            self._knowledge.speeds.tried(place, sample.nbytes / elapsed_s)
        return ratio

    def _rehearsal(self, subject: Subject, role: str, now_s: float) -> Choice | None:
        """A choice to be seen on a real chunk: its ratio is known of a sample alone, which misleads where
        data repeat at a distance, and it is close to the best, or a codec that finds such repeats."""
        if self._rehearsals >= _MAX_REHEARSALS or self._rehearsing:
            return None
        early = self._chunks < _FIRST_REHEARSAL
        if self._settings.objective != FEWEST_BYTES and (early or self._fast() or self._speed() is None):
            return None
        if subject.kind is Kind.NOISE:
            return self._seeker(subject, role)
        ranking, figures = self._rank(subject, role, None, now_s)
        unseen = [choice for choice in figures if not choice.raw and not subject.seen(choice.key)]
        unseen.sort(key=ranking.regret)
        sought = any(choice.codec.kind == BYTES and subject.seen(choice.key) for choice in figures)
        seeker = next((choice for choice in unseen if choice.codec.kind == BYTES and not sought), None)
        least = ranking.regret(ranking.best())
        for choice in unseen:
            loss = ranking.regret(choice) / least - 1
            if choice == subject.choice or (loss > _REHEARSED - 1 and choice != seeker):
                continue
            share = loss * self.chunk_bytes / self._size_bytes
            if self._spent + share > self._budget:
                continue
            self._spent += share
            self._rehearsals += 1
            self._rehearsing.add((subject, choice))
            return choice
        self._rehearsals = _MAX_REHEARSALS if not self._due else self._rehearsals
        return None

    def _seeker(self, subject: Subject, role: str) -> Choice | None:
        """For data that look like noise: one chunk by a codec that finds what repeats at a distance, where
        the link is so slow that this costs nothing."""
        self._rehearsals = _MAX_REHEARSALS
        goodput = self._speed() or 0.0
        found = [
            choice
            for choice in self._knowledge.candidates(subject.element, role)
            if choice.codec.kind == BYTES
            and choice.codec.name not in self._failed
            and not subject.seen(choice.key)
            and (figures := self._figures(subject, choice, None)).encode > max(2 * goodput, FAST_BYTES_PER_S)
            and figures.decode > goodput
        ]
        if not found:
            return None
        seeker = min(found, key=lambda choice: prior(choice.key, Kind.DENSE).ratio)
        self._rehearsing.add((subject, seeker))
        return seeker

    # -- what was measured ----------------------------------------------------------------------------------

    def _speed(self) -> float | None:
        """What the path takes, the cap considered."""
        estimate, cap = self._goodput.estimate, self._settings.rate_cap_bytes_per_s
        if self._goodput.floor is not None:  # nothing here says how fast it is; others may know
            estimate = max(estimate or 0.0, self._knowledge.goodput(self._path) or 0.0)
        return cap if estimate is None else estimate if cap is None else min(estimate, cap)

    def _fast(self) -> bool:
        goodput = self._speed()
        return goodput is not None and Line(goodput, 1, 1).processor_bound

    def _lines(self, goodput: float | None) -> list[Line]:
        floor = self._goodput.floor or 0.0
        possible = [speed for speed in POSSIBLE_GOODPUT if speed >= floor] or [floor]
        wire_cpu_s = WIRE_CPU_S.get(self._path, OTHER_WIRE_CPU_S)
        return [
            Line(speed, self._workers(speed), self._knowledge.cpus, wire_cpu_s, self._round_trip_s)
            for speed in ([goodput] if goodput is not None else possible)
        ]

    def _workers(self, goodput: float) -> float:
        """Threads that may encode; fewer where other programs use the processors."""
        workers = self._knowledge.workers
        sending_raw = self._stretch is None or self._stretch.choice.raw
        # on a fast link the load is our own, and the model accounts for it
        if self._cpu_load is None or not sending_raw or Line(goodput, 1, 1).processor_bound:
            return workers
        return min(workers, max(0.5, self._knowledge.cpus * (1 - self._cpu_load)))

    @property
    def _budget(self) -> float:
        """Share of the transfer's time that exploring may take."""
        return _EXPLORE_BYTES if self._settings.objective == FEWEST_BYTES else _EXPLORE

    def _spend(self, cost_s: float, first: bool = False) -> bool:
        """Take time for exploring, if the transfer is long enough."""
        share = cost_s * (self._speed() or _UNKNOWN_RATE) / self._size_bytes
        if self._spent + share > self._budget * (2 if first else 1):
            return False
        self._spent += share
        return True

    def _link_changed(self, before: float | None, now_s: float) -> None:
        latest = self._goodput.measured
        if latest is None:
            self._due = True  # faster than it was, nobody knows how much
            return
        pending = self._pending
        if pending is not None and self._outcomes and not self._steered and self._may_be_ours():
            self._revert(pending, None, now_s)
            return
        self._pending = None
        self._knowledge.set_goodput(self._path, latest)
        self._stretch = None
        self._outcomes.clear()
        self._due, self._rehearsals = True, 0
        self._news = f"the link carries {in_words(latest)}" + (
            f", no longer {in_words(before)}" if before else ""
        )

    def _may_be_ours(self) -> bool:
        """Whether encoding or decoding, rather than the link, may have slowed the sending down."""
        stretch, pending = self._stretch, self._pending
        if stretch is None or pending is None or stretch.choice.raw:
            return False
        key, subject = stretch.choice.key, pending.subject
        figures = self._figures(subject, stretch.choice, subject.ratio(key))
        achieved = (self._goodput.measured or 0.0) / figures.ratio
        if achieved > _CPU_SHARE * figures.encode * self._knowledge.cpus:
            return True
        if not self._knowledge.speeds.decode_measured(key, subject.kind):
            return True
        return figures.decode * self._knowledge.workers < 1.3 * achieved

    @property
    def _steered(self) -> bool:
        """Whether a person has chosen, and nothing is to be taken back."""
        return self._settings.pin or self._settings.mode == "manual"

    def _verify(self, now_s: float) -> None:
        """Compare the outcome of the latest change with what was there before it."""
        pending, stretch = self._pending, self._stretch
        if pending is None or stretch is None or stretch.choice.key != _key(pending.decision.after):
            return
        measured = stretch.rate
        if measured is None:
            return
        self._outcomes[stretch.choice] = measured
        worse = measured < _WORSE * max(self._outcomes.values())
        # fewer bytes, or less processor time, may take longer: that was asked for
        if worse and not self._steered and self._settings.objective in (THROUGHPUT, LATENCY):
            self._revert(pending, measured, now_s)
            return
        if not pending.told:
            self._outcome(pending, measured)
        if stretch.long:
            self._pending = None

    def _outcome(self, pending: _Pending, measured: float) -> None:
        self._outbox.append(dataclasses.replace(pending.decision, measured=measured))
        pending.told, pending.settling = True, False

    def _revert(self, pending: _Pending, measured: float | None, now_s: float) -> None:
        if measured is not None:
            self._outcome(pending, measured)
        self._pending = None
        subject = pending.subject
        back = max(self._outcomes, key=lambda choice: self._outcomes[choice])
        disappointing = subject.choice
        if disappointing is None or disappointing == back or back.codec.name in self._failed:
            self._due = True
            return
        goodput = pending.goodput_before
        for choice in self._no_lighter(subject, disappointing):
            self._knowledge.pause(self._path, subject.kind, choice.key, now_s, goodput)
        if not disappointing.raw:  # what was measured beside its encoding is not the link's speed
            self._goodput = Goodput(goodput)
        why = (
            f"{disappointing} brought {in_words(measured) if measured else 'less'} instead of the"
            f" {in_words(self._outcomes[back])} of {back}"
        )
        self._change(subject, back, None, why, now_s)
        if self._pending is not None:
            self._pending.settling = True
            self._pending.goodput_before = goodput

    def _no_lighter(self, subject: Subject, disappointing: Choice) -> list[Choice]:
        """A choice that did not pay, and those that ask more of the processors for hardly fewer bytes."""
        if disappointing.raw:
            return [disappointing]
        found = [disappointing]
        usual = self._figures(subject, disappointing, subject.ratio(disappointing.key))
        for choice in self._knowledge.candidates(subject.element, _role(subject.element)):
            figures = self._figures(subject, choice, subject.ratio(choice.key))
            heavier = figures.encode <= usual.encode and figures.ratio > _MUCH_SMALLER * usual.ratio
            if heavier and choice != disappointing:
                found.append(choice)
        return found

    def _follow(self) -> None:
        """Decide anew where the estimate has moved since, though not by much."""
        speed, decided = self._speed(), self._decided_goodput
        if speed is None or decided == speed:
            return
        if decided is None or not 0.85 <= speed / decided <= 1.18:
            self._due = True

    # -- the plan -------------------------------------------------------------------------------------------

    def _change(
        self,
        subject: Subject,
        choice: Choice,
        figures: dict[Choice, Figures] | None,
        why: str,
        now_s: float,
    ) -> None:
        subject.choice = choice
        self._changes += 1
        self._changed_at = self._chunks
        found = figures[choice] if figures is not None else None
        plan_before = self._plan.get(subject.element.name)
        self._shape(choice, found.ratio if found else subject.ratio(choice.key))
        plan = Plan(choice.codec.name, choice.level, self.chunk_bytes, self.workers)
        self._plan[subject.element.name] = plan
        self._knowledge.set_latest(self._path, subject.element, choice)
        goodput = self._speed()
        predicted = rate(found, self._lines(goodput)[0]) if found and goodput is not None else None
        if predicted is None and choice.raw:
            predicted = goodput
        number = next(self._knowledge.numbers)
        decision = Decision(number, now_s, self._name, self._path, plan_before, plan, why, predicted)
        self._outbox.append(decision)
        if self._stretch is not None and (measured := self._stretch.rate) is not None:
            self._outcomes[self._stretch.choice] = measured
        if not self._outcomes and goodput is not None:
            self._outcomes[self._raw] = goodput  # as others have measured it
        self._pending = _Pending(decision, subject, goodput)

    def _shape(self, choice: Choice, ratio: float | None) -> None:
        """Set `chunk_bytes` and `workers` to what suits the choice."""
        goodput = self._speed()
        ratio = 1.0 if ratio is None else ratio
        self.chunk_bytes = self._chunk_size(choice, ratio, goodput)
        if choice.raw or self._settings.objective == LEAST_CPU:
            self.workers = 1
        elif goodput is None or self._goodput.floor is not None:  # encoding may be what is slow
            self.workers = self._knowledge.workers
        else:
            subject = self._subject_of(choice)
            encode = self._figures(subject, choice, ratio).encode if subject else FAST_BYTES_PER_S
            needed = math.ceil(1.5 * goodput / ratio / encode)
            self.workers = max(1, min(self._knowledge.workers, needed))

    def _chunk_size(self, choice: Choice, ratio: float, goodput: float | None) -> int:
        few = self._settings.objective == FEWEST_BYTES  # what repeats is found within a chunk
        if goodput is None:
            size = MAX_CHUNK_BYTES if few else _FIRST_CHUNK_BYTES
        elif choice.raw and Line(goodput, 1, 1).processor_bound:
            size = MAX_CHUNK_BYTES
        else:
            pieces = _LEAST_CHUNKS * (2 if self._settings.objective == LATENCY else 1)
            of_object = MAX_CHUNK_BYTES if few else max(MIN_CHUNK_BYTES, self._size_bytes // pieces)
            most = MAX_CHUNK_BYTES if few else _CHUNK_BYTES
            size = int(min(most, of_object, _CHUNK_S * goodput / max(ratio, 1e-6)))
        # a power of two, so that chunks end where leaves of 4 MiB do
        return max(MIN_CHUNK_BYTES, min(MAX_CHUNK_BYTES, 1 << max(0, size.bit_length() - 1)))

    def _publish(self) -> None:
        """Hand decisions over, without a lock."""
        while self._outbox:
            try:
                decision = self._outbox.pop(0)
            except IndexError:  # another thread was quicker
                return
            self._knowledge.record(decision)


def _role(element: Element) -> str:
    return BYTES if element is UINT8 else TENSOR


def _key(plan: Plan) -> tuple[str, int]:
    return plan.codec, plan.level
