"""One transfer over one path: what each of its chunks is encoded with.

The data are sampled once for each stretch of chunks. Codecs that could win are tried on the sample, and the
least of the cost model is taken. That is done again when the path's goodput has changed by a factor of two,
or the data or the settings have changed. What brought less than was there before is taken back.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable

import msgspec

from duetlink.base.quantities import rate_text
from duetlink.data.codecs import chunk
from duetlink.data.codecs.base import Array, Codec
from duetlink.data.codecs.element import UINT8, Element
from duetlink.data.codecs.registry import named
from duetlink.data.tuning.choice import Choice
from duetlink.data.tuning.compression import AUTO, FEWEST_BYTES, LATENCY, THROUGHPUT, role_of
from duetlink.data.tuning.data_profile import DataProfile, Outcome
from duetlink.data.tuning.decision import Decision
from duetlink.data.tuning.goodput import Goodput, alike
from duetlink.data.tuning.model import processors_rate, rate
from duetlink.data.tuning.path_estimate import PathEstimate
from duetlink.data.tuning.sample import SAMPLE_BYTES, Kind, kind_of, take
from duetlink.data.tuning.tuner import SMALL_BYTES, Tuner
from duetlink.errors import DuetError

_GAIN, _GAIN_BYTES = 1.05, 1.005  # for a change of choice: 5 % is not noticed; bytes are known exactly
_WORSE = 0.97  # of the rate before a change, below which it is taken back: rates waver by 2 %
_REVERSALS = 2  # per decision: back, and there again if it was not to blame
_SHUNNED_S = 60.0  # that a choice is not taken after that: a mistake of 0.15 s in a minute is not noticed
_EXPLORE, _EXPLORE_BYTES = 0.03, 0.1  # share of a transfer's time: not noticed; and where time does not count
_HOPELESS = 1.3  # times worse than the best at the usual ratio: beyond, a try does not pay
_LOOK_EVERY, _LOOK_EVERY_FAST = 16, 64  # chunks: a look takes 0.4 ms, a chunk on a fast link 3
_LOOK_S, _CALL_S = 0.0004, 0.00005  # a look at 64 KiB; a codec's call, before it was measured
_FEW_ITEMS = 128  # take a codec about as long as none
_MOST_CALL = 4.0  # times as long as its items, at most, a sample is thought to take
_PROCESSORS_SHARE = 0.6  # of what processors can do, from which on they may be what is slow
_LONG_S = 10.0  # of a transfer, beside which a library may load: Python does little else for 0.3 s
_TYPICAL_RATE = 200e6  # bytes/s of a link that nobody has measured, for what time is worth on it


class CodecController:
    """Any thread may call; chunks are sent in the order in which they were chosen for,
    and `sent` is called once for each, or `rested`.

    `chunk_bytes` and `workers` say how large the next chunk should be, before encoding, and how many threads
    should encode; they change as the transfer goes.
    """

    def __init__(
        self, tuner: Tuner, name: str, path: str, size_bytes: int, now_s: float, round_trip_s: float = 0.0
    ) -> None:
        """A transfer of `size_bytes` over one path begins."""
        self._tuner, self._name, self._path = tuner, name, path
        self._lock = threading.Lock()
        self._path_estimate = PathEstimate(tuner, path, size_bytes, round_trip_s)
        self._raw = Choice(named("raw"), 0)
        self._failed: dict[str, str] = {}  # by codec, for the rest of the transfer: how, in words
        self._profiles: dict[tuple[str, Kind], DataProfile] = {}
        self._latest: dict[str, DataProfile] = {}  # by element
        self._outcome: Outcome | None = None  # of the latest decision, until it is known
        self._reversals = 0
        self._queue: deque[Choice] = deque(maxlen=4096)  # chosen, not sent
        self._last_s = now_s
        self._chunks = 0
        self._spent_s = 0.0  # for exploring
        self._rate = 0.0  # bytes of arrays per second by the best choice known
        self._wanted: dict[str, Codec] = {}  # not loaded, but they could win
        self._shape(DataProfile(UINT8, Kind.DENSE), self._raw)

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
            self._path_estimate.others_load = others_load or 0.0
            sample = functools.cache(sample or functools.partial(take, array))
            choice = self._choose(array, element, now_s, sample)
            self._queue.append(choice)
            self._chunks += 1
            return choice

    def encoded(self, choice: Choice, raw_bytes: int, encoded_bytes: int, elapsed_s: float) -> None:
        """A worker has encoded a chunk."""
        with self._lock:
            profile = self._profile_of(choice)
            if profile is None or raw_bytes < SMALL_BYTES:
                return
            self._tuner.encoded(self._path_estimate.place(profile, choice), raw_bytes, elapsed_s)
            payload_bytes = max(0, encoded_bytes - chunk.HEADER_BYTES)
            if profile.encoded(choice.key, self._path_estimate.ratio(choice, raw_bytes, payload_bytes)):
                profile.due, profile.look_at = "the data have changed", 0

    def failed(self, choice: Choice) -> None:
        """The codec could not encode a chunk, which goes as it is. It is not chosen again here."""
        with self._lock:
            why = self._failed[choice.codec.name] = f"{choice.codec.name} failed to encode a chunk"
            self._outcome = None
            for profile in self._profiles.values():
                if profile.choice == choice:
                    profile.due = why

    def sent(self, raw_bytes: int, wire_bytes: int, elapsed_s: float, now_s: float) -> None:
        """The transport has taken the next chunk; it held the sender for `elapsed_s` until `now_s`."""
        with self._lock:
            choice = self._queue.popleft() if self._queue else self._raw
            passed_s = max(elapsed_s, now_s - self._last_s)
            self._last_s = now_s
            processors = self._processors_held(choice, raw_bytes, passed_s)
            held = self._path_estimate.goodput.sent(wire_bytes, elapsed_s, now_s, processors=processors)
            if self._outcome is not None and self._outcome.choice == choice:
                self._outcome.sent(raw_bytes, passed_s, held)
                if (measured := self._outcome.rate) is not None:
                    self._judge(self._outcome, measured, now_s)

    def rested(self, now_s: float) -> None:
        """The sender kept back by itself until now, and has dropped what it had chosen for."""
        with self._lock:
            self._queue.clear()
            self._last_s = now_s
            self._path_estimate.goodput.rested(now_s)
            if self._outcome is not None:
                self._outcome.rested()

    def decoded(self, codec_name: str, raw_bytes: int, elapsed_s: float) -> None:
        """The peer has decoded a chunk in that time."""
        with self._lock:
            for profile in self._latest.values():
                if codec_name in profile.used:
                    self._tuner.decoded(codec_name, profile.kind, raw_bytes, elapsed_s)

    def finished(self, now_s: float) -> None:
        """The transfer is over, complete or not."""
        with self._lock:
            goodput = self._path_estimate.goodput
            if goodput.measured is not None and goodput.lasting:
                self._tuner.goodput[self._path] = goodput.measured
            self._load_wanted()

    # -- choosing -------------------------------------------------------------------------------------------

    def _choose(self, array: Array, element: Element, now_s: float, sample: Callable[[], Array]) -> Choice:
        settings, path_estimate = self._tuner.compression, self._path_estimate
        if settings is not path_estimate.settings:
            path_estimate.settings, self._spent_s = settings, 0.0
            for profile in self._profiles.values():
                profile.due = "the settings have changed"
        if settings.mode == "manual" and settings.codec[role_of(element)] != AUTO:
            return self._named(element, now_s)
        if settings.pin and (pinned := self._pinned(element)) is not None:
            return pinned
        if not array.nbytes:
            return self._raw
        profile = self._profile(array, element, sample)
        if profile.due is None and not alike(path_estimate.speed, profile.speed):
            profile.due = self._link_changed(profile)
        if profile.due is not None:
            self._decide(profile, sample, now_s)
        choice = profile.choice or self._raw
        if profile.plan is not None:
            self.chunk_bytes, self.workers = profile.plan.chunk_bytes, profile.plan.workers
        return choice

    def _link_changed(self, profile: DataProfile) -> str:
        """Nothing that was measured counts any more; returns what to say of it."""
        profile.outcomes.clear()
        shunned, speed = self._tuner.shunned, self._path_estimate.speed
        for path, place in list(shunned):
            if path == self._path:
                shunned.pop((path, place), None)
        if speed is None or profile.speed is None:
            return ""
        return f"the link carries {rate_text(speed)}, no longer {rate_text(profile.speed)}"

    def _named(self, element: Element, now_s: float) -> Choice:
        """What the settings say."""
        role, choice = role_of(element), self._raw
        name, level = self._path_estimate.settings.codec[role], self._path_estimate.settings.level[role]
        why = f"the settings name {name} for {role}"
        try:
            codec = named(name)
        except DuetError:
            why += ", which is not installed here"
        else:
            if name in self._failed:
                why = self._failed[name]
            elif name not in self._tuner.available or not codec.lossless or not codec.accepts(element):
                why += f", which cannot be used for {element.name} here"
            else:
                choice = Choice(codec, codec.level if level is None else level)
        self._put(self._latest.get(element.name) or self._meet(element, Kind.DENSE), choice, why, now_s)
        return choice

    def _pinned(self, element: Element) -> Choice | None:
        """What was chosen last, by this transfer or another; None where nothing was."""
        profile = self._latest.get(element.name)
        choice = self._tuner.latest.get((self._path, element.name)) if profile is None else profile.choice
        if choice is None or choice.codec.name in self._failed:
            return None
        profile = profile or self._meet(element, Kind.DENSE)
        profile.choice = choice
        self._shape(profile, choice)
        return choice

    def _meet(self, element: Element, kind: Kind) -> DataProfile:
        """The subject of such data, now the latest of its element."""
        profile = self._profiles.setdefault((element.name, kind), DataProfile(element, kind))
        self._latest[element.name] = profile
        return profile

    def _profile(self, array: Array, element: Element, sample: Callable[[], Array]) -> DataProfile:
        """The kind of data that begins here: looked at now and then, in between as it was before."""
        before = self._latest.get(element.name)
        if before is not None and self._chunks < before.look_at:
            return before
        look_s = _LOOK_S * min(1.0, array.nbytes / SAMPLE_BYTES)
        if not self._affords(look_s):
            return before or self._meet(element, Kind.DENSE)
        self._spent_s += look_s
        profile = self._meet(element, kind_of(sample()))
        fast = self._path_estimate.line.processor_bound
        profile.look_at = self._chunks + (_LOOK_EVERY_FAST if fast else _LOOK_EVERY)
        return profile

    def _decide(self, profile: DataProfile, sample: Callable[[], Array], now_s: float) -> None:
        """Find the best choice, and change to it if it is better by enough."""
        path_estimate, news = self._path_estimate, profile.due or ""
        costs = self._costs(profile, sample, now_s)
        best, current = path_estimate.best(costs, profile), profile.choice or self._raw
        gain = _GAIN_BYTES if path_estimate.settings.objective == FEWEST_BYTES else _GAIN
        if current in costs and costs[best] * gain > costs[current]:
            best = current
        self._reversals = 0
        profile.speed = path_estimate.speed
        predicted = (
            rate(path_estimate.figures(profile, best), path_estimate.line) if path_estimate.speed else None
        )
        self._put(profile, best, path_estimate.reason(profile, best, news), now_s, predicted)

    # -- trying codecs on a sample --------------------------------------------------------------------------

    def _affords(self, cost_s: float) -> bool:
        """Whether the transfer is long enough for that, encoded as well as is known."""
        share = _EXPLORE_BYTES if self._path_estimate.settings.objective == FEWEST_BYTES else _EXPLORE
        return self._spent_s + cost_s <= share * self._lasts_s

    @property
    def _lasts_s(self) -> float:
        """How long the transfer takes, by the best choice known."""
        return self._path_estimate.size_bytes / max(self._rate, self._path_estimate.speed or _TYPICAL_RATE)

    def _costs(self, profile: DataProfile, sample: Callable[[], Array], now_s: float) -> dict[Choice, float]:
        """Of all choices that are allowed and known, after trying on a sample what could win."""
        path_estimate, shunned = self._path_estimate, self._tuner.shunned

        def expected(choice: Choice) -> float:
            return path_estimate.cost(path_estimate.figures(profile, choice), self.chunk_bytes)

        costs = {self._raw: expected(self._raw)}
        candidates = [
            choice
            for choice in self._tuner.candidates(profile.element)
            if profile.kind is not Kind.NOISE and choice.codec.name not in self._failed
            if shunned.get((self._path, path_estimate.place(profile, choice)), now_s) <= now_s
        ]
        for choice in sorted(candidates, key=expected):
            if choice.key not in profile.ratios and expected(choice) < _HOPELESS * min(costs.values()):
                self._rate = rate(
                    path_estimate.figures(profile, path_estimate.best(costs, profile)), path_estimate.line
                )
                self._try(profile, choice, sample)
            if choice.key in profile.ratios:
                costs[choice] = expected(choice)
        if self._lasts_s > _LONG_S:
            self._load_wanted()
        return costs

    def _try(self, profile: DataProfile, choice: Choice, sample: Callable[[], Array]) -> None:
        """Find out what a codec makes of a sample, and how fast, if there is time for it."""
        shared, path_estimate, name = self._tuner, self._path_estimate, choice.codec.name
        if not choice.codec.ready:
            if path_estimate.speed is not None:
                self._wanted[name] = choice.codec
            return
        if not self._affords(_CALL_S + SAMPLE_BYTES / path_estimate.figures(profile, choice).encode):
            return
        items, begin_s = sample(), shared.clock()
        try:
            if not choice.codec.suits(items, profile.element):
                profile.ratios[choice.key] = 1.0
                return
            _, call_s = self._time(profile, choice, items[:_FEW_ITEMS])  # its code is at hand from now on
            if name not in shared.call_s:
                _, shared.call_s[name] = self._time(profile, choice, items[:_FEW_ITEMS])
            encoded_bytes, elapsed_s = self._time(profile, choice, items)
        except Exception:
            self._failed[name] = f"{name} failed to encode a sample"
            return
        finally:
            self._spent_s += shared.clock() - begin_s
        profile.ratios[choice.key] = path_estimate.ratio(choice, items.nbytes, encoded_bytes)
        items_s = max(elapsed_s - min(call_s, shared.call_s[name]), elapsed_s / _MOST_CALL)
        if items_s > 0:
            shared.tried[path_estimate.place(profile, choice)] = items.nbytes / items_s

    def _time(self, profile: DataProfile, choice: Choice, items: Array) -> tuple[int, float]:
        """How many bytes a sample becomes, and what that takes."""
        begin_s = self._tuner.clock()
        encoded = choice.codec.encode(items, profile.element, choice.level)
        return len(encoded), self._tuner.clock() - begin_s

    def _load_wanted(self) -> None:
        for codec in self._wanted.values():
            self._tuner.load(codec)
        self._wanted.clear()

    # -- what comes of it -----------------------------------------------------------------------------------

    def _profile_of(self, choice: Choice) -> DataProfile | None:
        """The data that it is in force for; none for raw."""
        found = (profile for profile in self._latest.values() if profile.choice == choice)
        return None if choice.raw else next(found, None)

    def _processors_held(self, choice: Choice, raw_bytes: int, passed_s: float) -> bool:
        """Whether a chunk took about as long as processors need for it: then its time says nothing of the
        link, which would look slow; heavier codecs would look right, and the next chunk take longer still."""
        profile, path_estimate = self._profile_of(choice), self._path_estimate
        if profile is None:
            return False
        bound = processors_rate(path_estimate.figures(profile, choice), path_estimate.line)
        return raw_bytes > _PROCESSORS_SHARE * bound * passed_s

    def _shape(self, profile: DataProfile, choice: Choice) -> None:
        profile.plan = self._path_estimate.plan(profile, choice)
        self.chunk_bytes, self.workers = profile.plan.chunk_bytes, profile.plan.workers

    def _put(
        self, profile: DataProfile, choice: Choice, why: str, now_s: float, predicted: float | None = None
    ) -> None:
        """Put a choice in force, and record it where it is another one."""
        before, changed = profile.plan, profile.choice != choice
        profile.choice, profile.due = choice, None
        self._shape(profile, choice)
        if changed and profile.plan is not None:
            self._tuner.latest[self._path, profile.element.name] = choice
            number = next(self._tuner.numbers)
            decision = Decision(number, now_s, self._name, self._path, before, profile.plan, why, predicted)
            self._outcome = Outcome(decision, profile, choice)
            self._tuner.record(decision)

    def _judge(self, outcome: Outcome, measured: float, now_s: float) -> None:
        """It is known what a decision brought: tell, and take it back if something else brought more."""
        profile, choice, settings, shared = (
            outcome.profile,
            outcome.choice,
            self._path_estimate.settings,
            self._tuner,
        )
        self._outcome = None
        shared.record(msgspec.structs.replace(outcome.decision, measured=measured))
        outcomes = profile.outcomes
        if profile.speed is not None:
            outcomes.setdefault(self._raw, profile.speed)
        outcomes[choice] = measured
        best = max(outcomes, key=lambda choice: outcomes[choice])
        # fewer bytes, or less processor time, may take longer: that was asked for
        steered = settings.pin or settings.mode == "manual" or settings.objective not in (THROUGHPUT, LATENCY)
        if steered or measured >= _WORSE * outcomes[best] or self._reversals >= _REVERSALS:
            return
        self._reversals += 1
        if not choice.raw:
            shared.shunned[self._path, self._path_estimate.place(profile, choice)] = now_s + _SHUNNED_S
            self._path_estimate.goodput = Goodput(profile.speed)  # beside its encoding it was not the link's
        shared.shunned.pop((self._path, self._path_estimate.place(profile, best)), None)
        why = f"{choice} brought {rate_text(measured)} instead of the {rate_text(outcomes[best])} of {best}"
        self._put(profile, best, why, now_s)
