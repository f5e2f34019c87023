"""One transfer over one path: what each of its chunks is encoded with.

It decides, by what its parts know: `outlook.py` what a choice would bring, `exploration.py` how to find that
out, `probation.py` whether a change was for the better, `shape.py` how large chunks are.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable

from duetlink.base.quantities import rate_text
from duetlink.data.codecs import chunk
from duetlink.data.codecs.base import Array
from duetlink.data.codecs.element import Element
from duetlink.data.codecs.registry import named
from duetlink.data.tuning.choice import Choice
from duetlink.data.tuning.compression import AUTO, FEWEST_BYTES, LEAST_CPU, role_of
from duetlink.data.tuning.decision import Decision, Plan
from duetlink.data.tuning.exploration import GAIN, Exploration
from duetlink.data.tuning.knowledge import Knowledge
from duetlink.data.tuning.model import Figures, rate
from duetlink.data.tuning.outlook import Outlook, place
from duetlink.data.tuning.probation import Probation, Retreat
from duetlink.data.tuning.reason import reason
from duetlink.data.tuning.sample import SAMPLE_BYTES, Features, features, take
from duetlink.data.tuning.shape import chunk_bytes, workers
from duetlink.data.tuning.speeds import SMALL_BYTES
from duetlink.data.tuning.subject import Subject, Subjects
from duetlink.errors import DuetError

_GAIN_BYTES = 1.005
_DWELL = 8  # chunks, within which another change needs more reason
_MANY_CHANGES = 4  # in one transfer, after which a change needs a gain of a fifth
_PROCESSORS_SHARE = 0.6  # of what they can do, from which on they may be what is slow
_LOOK_EVERY = 16
_LOOK_EVERY_FAST = 64
_SAMPLE_S = 0.0004

_UNSEEN = Features(7.5, 0.0, 0.0)


class Course:
    """Made by `Tuner.begin`. Any thread may call; chunks are sent in the order in which they were chosen for,
    and `sent` is called once for each, or `rested`.

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
        self._name, self._path = name, path
        self._lock = threading.Lock()
        self._outbox: list[Decision] = []
        self._outlook = Outlook(knowledge, path, size_bytes, round_trip_s)
        self._exploration = Exploration(self._outlook)
        self._probation = Probation(self._outlook, self._outbox.append)
        self._subjects = Subjects()
        self._queue: deque[tuple[Choice, bool]] = deque(maxlen=4096)  # chosen, not sent; whether in force
        self._last_s = now_s
        self._chunks = 0
        self._changes, self._changed_at = 0, 0
        self._due, self._look = True, False  # whether to decide anew, and to look at the data first
        self._news = ""  # why a decision is made now
        self._decided_speed: float | None = None
        self._plan: dict[str, Plan] = {}
        self.workers = 1
        self.chunk_bytes = chunk_bytes(self._outlook, self._outlook.raw, 1.0)

    # -- what the transfer calls ----------------------------------------------------------------------------

    def choose(
        self,
        array: Array,
        element: Element,
        now_s: float,
        others_load: float | None = None,
        sample: Callable[[], Array] | None = None,
    ) -> Choice:
        """What the next chunk is encoded with. `array` is the chunk, C-contiguous, of `element.storage`.

        `others_load` is the share of all processors that other programs use, 0 to 1. `sample` makes a flat
        array of a few items of this chunk and those after it; without it they are taken from the chunk.
        """
        with self._lock:
            self._outlook.others_load = others_load
            sample = functools.cache(sample or functools.partial(take, array))
            choice, in_force = self._choose(array, element, now_s, sample)
            self._queue.append((choice, in_force))
            self._chunks += 1
        self._publish()
        return choice

    def encoded(self, choice: Choice, raw_bytes: int, encoded_bytes: int, elapsed_s: float) -> None:
        """A worker has encoded a chunk."""
        if choice.raw or raw_bytes < SMALL_BYTES:
            return
        with self._lock:
            subject = self._exploration.rehearsed(choice) or self._subjects.sent_by(choice)
            if subject is None:
                return
            new = not subject.seen(choice.key)
            self._knowledge.speeds.encoded(place(subject, choice), raw_bytes, elapsed_s)
            self._exploration.end_rehearsal(choice)
            ratio = self._outlook.ratio(choice, raw_bytes, max(0, encoded_bytes - chunk.HEADER_BYTES))
            changed = subject.encoded(choice.key, ratio)
            if changed:
                self._look = True
                self._news = "the data have changed"
            self._due |= new or changed or self._closer(subject)

    def failed(self, choice: Choice) -> None:
        """The codec could not encode a chunk, which goes as it is. It is not chosen again here."""
        with self._lock:
            if choice.raw:
                return
            why = self._news = f"{choice.codec.name} failed to encode a chunk"
            self._outlook.failed[choice.codec.name] = why
            for index, (waiting, _) in enumerate(self._queue):
                if waiting == choice:
                    self._queue[index] = (self._outlook.raw, False)
                    break
            self._exploration.end_rehearsal(choice)
            self._probation.drop()
            self._due = True

    def sent(self, raw_bytes: int, wire_bytes: int, elapsed_s: float, now_s: float) -> None:
        """The transport has taken the next chunk; it held the sender for `elapsed_s` until `now_s`."""
        with self._lock:
            choice, in_force = self._queue.popleft() if self._queue else (self._outlook.raw, False)
            passed_s = max(elapsed_s, now_s - self._last_s)
            self._last_s = now_s
            before = self._outlook.speed
            held, changed = self._outlook.goodput.sent(
                wire_bytes, elapsed_s, now_s, processors=self._processors_held(choice, raw_bytes, passed_s)
            )
            if in_force:
                self._probation.sent(choice, raw_bytes, wire_bytes, passed_s, held)
            if changed:
                self._link_changed(before, now_s)
            self._retreat(self._probation.verdict(now_s), now_s)
            self._follow()
        self._publish()

    def rested(self, now_s: float) -> None:
        """The sender kept back by itself until now, and has dropped what it had chosen for."""
        with self._lock:
            self._queue.clear()
            self._last_s = now_s
            self._outlook.goodput.rested(now_s)
            self._probation.rested()

    def decoded(self, codec_name: str, raw_bytes: int, elapsed_s: float) -> None:
        """The peer has decoded a chunk in that time."""
        with self._lock:
            for subject in self._subjects:
                if subject.sent_with(codec_name):
                    self._knowledge.speeds.decoded(codec_name, subject.kind, raw_bytes, elapsed_s)

    def finished(self, now_s: float) -> None:
        """The transfer is over, complete or not."""
        with self._lock:
            measured = self._outlook.goodput.measured
            if measured is not None and self._outlook.goodput.lasting:
                self._knowledge.set_goodput(self._path, measured)
            self._probation.finish()
            self._exploration.finished()
        self._publish()

    # -- choosing -------------------------------------------------------------------------------------------

    def _choose(
        self, array: Array, element: Element, now_s: float, sample: Callable[[], Array]
    ) -> tuple[Choice, bool]:
        """For the next chunk, and whether that is the choice in force."""
        settings = self._knowledge.compression
        if settings is not self._outlook.settings:
            self._outlook.settings, self._due = settings, True
            self._exploration.settings_changed()
            self._news = "the settings have changed"
        if settings.mode == "manual" and settings.codec[role_of(element)] != AUTO:
            return self._named(element, now_s), True
        if settings.pin and (pinned := self._pinned(element)) is not None:
            return pinned, True
        if array.nbytes < SMALL_BYTES:
            return self._small(array, element), False
        subject = self._subject(array, element, sample)
        if self._due or subject.choice is None:
            self._decide(subject, sample, now_s)
        rehearsal = self._exploration.rehearsal(
            subject, self.chunk_bytes, now_s, chunks=self._chunks, settled=not self._due
        )
        return (subject.choice or self._outlook.raw, True) if rehearsal is None else (rehearsal, False)

    def _small(self, array: Array, element: Element) -> Choice:
        """What is in force for such items, or what suits most bytes."""
        outlook = self._outlook
        if (subject := self._subjects.latest(element)) is not None and subject.choice is not None:
            return subject.choice
        objective, zstd = outlook.settings.objective, Choice(named("zstd"), 3)
        usable = zstd.codec.name in self._knowledge.available and zstd.codec.name not in outlook.failed
        worth_it = objective == FEWEST_BYTES or not (outlook.fast or objective == LEAST_CPU)
        return zstd if array.nbytes and usable and worth_it else outlook.raw

    def _named(self, element: Element, now_s: float) -> Choice:
        """What the settings say."""
        role, settings, choice = role_of(element), self._outlook.settings, self._outlook.raw
        name, level = settings.codec[role], settings.level[role]
        why = f"the settings name {name} for {role}"
        try:
            codec = named(name)
        except DuetError:
            why += ", which is not installed here"
        else:
            if name in self._outlook.failed:
                why = self._outlook.failed[name]
            elif name not in self._knowledge.available or not codec.lossless or not codec.accepts(element):
                why += f", which cannot be used for {element.name} here"
            else:
                choice = Choice(codec, codec.level if level is None else level)
        subject = self._subjects.latest(element) or self._subjects.meet(element, _UNSEEN)
        if subject.choice != choice:
            self._change(subject, choice, None, why, now_s)
        elif self._due:
            self._shape(subject, choice)
        self._due = False
        return choice

    def _pinned(self, element: Element) -> Choice | None:
        """What was chosen last, by this transfer or another; None where nothing was."""
        subject = self._subjects.latest(element)
        choice = subject.choice if subject is not None else None
        choice = choice or self._knowledge.latest(self._path, element)
        if choice is None or choice.codec.name in self._outlook.failed:
            return None
        if subject is None:
            subject = self._subjects.meet(element, _UNSEEN)
            subject.choice = choice
        if self._due:
            self._due = False
            self._shape(subject, choice)
        return choice

    def _subject(self, array: Array, element: Element, sample: Callable[[], Array]) -> Subject:
        """The kind of data that begins here: looked at now and then, in between as it was before."""
        before = self._subjects.latest(element)
        every = _LOOK_EVERY_FAST if self._outlook.fast else _LOOK_EVERY
        if before is not None and not self._look and self._chunks - before.looked_at < every:
            return before
        if not self._exploration.spend(_SAMPLE_S * min(1.0, array.nbytes / SAMPLE_BYTES)):
            return before or self._subjects.meet(element, _UNSEEN)
        self._look = False
        subject = self._subjects.meet(element, features(sample()))
        subject.looked_at = self._chunks
        self._due |= subject is not before
        return subject

    def _decide(self, subject: Subject, sample: Callable[[], Array], now_s: float) -> None:
        """Find the best choice, and change to it if it is better by enough."""
        if self._probation.settling and subject.choice is not None:
            return
        self._due = False
        outlook = self._outlook
        self._decided_speed = outlook.speed
        ranking = self._exploration.rank(subject, sample, self.chunk_bytes, now_s)
        figures, best, current = ranking.figures, ranking.best(), subject.choice
        if current is None or current not in figures:
            current = outlook.raw if outlook.raw in figures else best
        gain = _GAIN_BYTES if outlook.settings.objective == FEWEST_BYTES else GAIN
        if self._changes >= _MANY_CHANGES:  # data that differ from chunk to chunk
            gain **= 4
        elif not self._news and self._chunks - self._changed_at < _DWELL:
            gain *= gain
        if ranking.regret(best) * gain > ranking.regret(current) and not ranking.lighter(best, current):
            best = current
        subject.decided = figures[best].ratio
        if best != subject.choice:
            line = None if outlook.speed is None else ranking.lines[0]
            why = reason(outlook.settings.objective, best, figures[best], line, self._news)
            self._change(subject, best, figures[best], why, now_s)
        else:
            self._shape(subject, best)
        self._news = ""

    # -- what comes of it -----------------------------------------------------------------------------------

    def _processors_held(self, choice: Choice, raw_bytes: int, passed_s: float) -> bool:
        """Whether a chunk took about as long as processors need for it, and so says little of the link."""
        subject = None if choice.raw else self._subjects.sent_by(choice)
        if subject is None:
            return False
        bound = self._outlook.processors_rate(subject, choice)
        return raw_bytes > _PROCESSORS_SHARE * bound * passed_s

    def _link_changed(self, before: float | None, now_s: float) -> None:
        latest = self._outlook.goodput.measured
        if latest is None:
            self._due = True  # faster than it was, nobody knows how much
            return
        slower = before is None or latest < before  # no choice is to blame for a link that is faster
        if slower and (retreat := self._probation.blame(now_s)) is not None:
            self._retreat(retreat, now_s)
            return
        self._probation.forget()
        self._changes = 0
        self._exploration.link_changed()
        self._knowledge.set_goodput(self._path, latest)
        self._due = True
        no_longer = f", no longer {rate_text(before)}" if before else ""
        self._news = f"the link carries {rate_text(latest)}{no_longer}"

    def _retreat(self, retreat: Retreat | None, now_s: float) -> None:
        if retreat is None:
            return
        if retreat.choice is None:
            self._due = True
            return
        self._change(retreat.subject, retreat.choice, None, retreat.why, now_s)
        self._probation.settle(retreat)

    def _follow(self) -> None:
        """Decide anew where the estimate has moved since, though not by much."""
        speed, decided = self._outlook.speed, self._decided_speed
        if speed is None or decided == speed:
            return
        if decided is None or not 0.85 <= speed / decided <= 1.18:
            self._due = True

    def _closer(self, subject: Subject) -> bool:
        """Whether the size of what is in force is known better than when that was decided, by as much as
        decides: where only bytes count, two codecs may be alike."""
        ratio = subject.ratio(subject.choice.key) if subject.choice is not None else None
        if ratio is None or self._outlook.settings.objective != FEWEST_BYTES:
            return False
        return not 1 / _GAIN_BYTES <= ratio / subject.decided <= _GAIN_BYTES

    def _change(
        self, subject: Subject, choice: Choice, figures: Figures | None, why: str, now_s: float
    ) -> None:
        """Put a choice in force. `figures`: where it was chosen for them."""
        subject.choice = choice
        self._changes += 1
        self._changed_at = self._chunks
        self._shape(subject, choice)
        before = self._plan.get(subject.element.name)
        plan = Plan(choice.codec.name, choice.level, self.chunk_bytes, self.workers)
        self._plan[subject.element.name] = plan
        self._knowledge.set_latest(self._path, subject.element, choice)
        predicted = speed = self._outlook.speed
        if figures is not None and speed is not None:
            predicted = rate(figures, self._outlook.lines()[0])
        elif not choice.raw:
            predicted = None
        number = next(self._knowledge.numbers)
        decision = Decision(number, now_s, self._name, self._path, before, plan, why, predicted)
        self._outbox.append(decision)
        self._probation.begin(decision, subject)

    def _shape(self, subject: Subject, choice: Choice) -> None:
        """Set `chunk_bytes` and `workers` to what suits the choice."""
        ratio = subject.ratio(choice.key)
        figures = self._outlook.figures(subject, choice, 1.0 if ratio is None else ratio)
        self.chunk_bytes = chunk_bytes(self._outlook, choice, figures.ratio)
        self.workers = workers(self._outlook, choice, figures)

    def _publish(self) -> None:
        """Hand decisions over, without a lock."""
        while self._outbox:
            try:
                decision = self._outbox.pop(0)
            except IndexError:  # another thread was quicker
                return
            self._knowledge.record(decision)
