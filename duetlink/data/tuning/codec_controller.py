"""Choose the codec of each chunk of one transfer over one path.

The data are sampled every 16 chunks (64 on a fast link). Codecs that could win are tried on the sample, and
the choice of least cost in the model is taken. The decision is repeated when the path's goodput has changed
by a factor of two, or the data or the settings have changed. A choice that turns out slower than an earlier
one is reverted.
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

_GAIN, _GAIN_BYTES = 1.05, 1.005  # least gain of a change: users do not notice 5 %; bytes are known exactly
_WORSE = 0.97  # a change is reverted if the rate falls below this share of the earlier one; noise is 2 %
_REVERSALS = 2  # per decision: back, and forth again if the choice was not the cause
_BANNED_S = 60.0  # then a reverted choice may be tried again: users do not notice 0.15 s lost per minute
_EXPLORE, _EXPLORE_BYTES = 0.03, 0.1  # share of a transfer's time spent on trials; more for "bytes"
_HOPELESS = 1.3  # a codec whose usual cost is this many times the best one's is not tried
_LOOK_EVERY, _LOOK_EVERY_FAST = 16, 64  # chunks per sample: it takes 0.4 ms, a chunk on a fast link 3 ms
_LOOK_S, _CALL_S = 0.0004, 0.00005  # time to sample 64 KiB; a codec's call before it was measured
_FEW_ITEMS = 128  # encoding so few items measures the fixed cost of a call
_MOST_CALL = 4.0  # the fixed cost of a call is assumed to be at most 3/4 of a sample's time
_PROCESSORS_SHARE = 0.6  # from this share of the processors' capacity on, they may be the slow part
_LONG_S = 10.0  # a library is loaded during transfers this long: it blocks Python for about 0.3 s
_TYPICAL_RATE = 200e6  # bytes/s assumed of an unmeasured link, to estimate how long the transfer takes


class CodecController:
    """Chooses the codec of each chunk of one transfer. Any thread may call.

    Chunks must be sent in the order in which `choose` was called for them. Call `sent` once for each, or
    `rested` if they are dropped.

    `chunk_bytes` is the size that the next chunk should have before encoding, and `workers` the number of
    threads that should encode; both change during the transfer.
    """

    def __init__(
        self, tuner: Tuner, name: str, path: str, size_bytes: int, now_s: float, round_trip_s: float = 0.0
    ) -> None:
        self._tuner, self._name, self._path = tuner, name, path
        self._lock = threading.Lock()
        self._path_estimate = PathEstimate(tuner, path, size_bytes, round_trip_s)
        self._raw = Choice(named("raw"), 0)
        self._failed: dict[str, str] = {}  # by codec, for the rest of the transfer: the reason
        self._profiles: dict[tuple[str, Kind], DataProfile] = {}
        self._latest: dict[str, DataProfile] = {}  # by element
        self._outcome: Outcome | None = None  # measurement of the latest decision, until it is complete
        self._reversals = 0
        self._queue: deque[Choice] = deque(maxlen=4096)  # chosen, not sent
        self._last_s = now_s
        self._chunks = 0
        self._spent_s = 0.0  # for exploring
        self._rate = 0.0  # bytes of arrays per second by the best choice known
        self._wanted: dict[str, Codec] = {}  # codecs that could win and are not loaded yet
        self._update_plan(DataProfile(UINT8, Kind.DENSE), self._raw)

    # -- what the transfer calls ----------------------------------------------------------------------------

    def choose(
        self,
        array: Array,
        element: Element,
        now_s: float,
        others_load: float | None = None,
        sample: Callable[[], Array] | None = None,
    ) -> Choice:
        """Return the choice for the next chunk. `array` is the chunk, C-contiguous, of `element.storage`.

        `others_load` is the share of all processors that other programs use, 0 to 1. `sample` returns a flat
        array of a few items of this chunk and those after it; by default they are taken from the chunk.
        """
        with self._lock:
            self._path_estimate.others_load = others_load or 0.0
            sample = functools.cache(sample or functools.partial(take, array))
            choice = self._choose(array, element, now_s, sample)
            self._queue.append(choice)
            self._chunks += 1
            return choice

    def encoded(self, choice: Choice, raw_bytes: int, encoded_bytes: int, elapsed_s: float) -> None:
        """Record the time and size of a chunk that a worker has encoded."""
        with self._lock:
            profile = self._profile_of(choice)
            if profile is None or raw_bytes < SMALL_BYTES:
                return
            self._tuner.encoded(self._path_estimate.speed_key(profile, choice), raw_bytes, elapsed_s)
            payload_bytes = max(0, encoded_bytes - chunk.HEADER_BYTES)
            if profile.encoded(choice.key, self._path_estimate.ratio(choice, raw_bytes, payload_bytes)):
                profile.due, profile.look_at = "the data have changed", 0

    def failed(self, choice: Choice) -> None:
        """Stop choosing a codec that raised; its chunk is sent raw."""
        with self._lock:
            why = self._failed[choice.codec.name] = f"{choice.codec.name} failed to encode a chunk"
            self._outcome = None
            for profile in self._profiles.values():
                if profile.choice == choice:
                    profile.due = why

    def sent(self, raw_bytes: int, wire_bytes: int, elapsed_s: float, now_s: float) -> None:
        """Record that the transport took the next chunk, having held the sender for `elapsed_s` until
        `now_s`."""
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
        """Forget the chosen chunks and restart all timing, after the sender paused until `now_s`."""
        with self._lock:
            self._queue.clear()
            self._last_s = now_s
            self._path_estimate.goodput.rested(now_s)
            if self._outcome is not None:
                self._outcome.rested()

    def decoded(self, codec_name: str, raw_bytes: int, elapsed_s: float) -> None:
        with self._lock:
            for profile in self._latest.values():
                if codec_name in profile.used:
                    self._tuner.decoded(codec_name, profile.kind, raw_bytes, elapsed_s)

    def finished(self, now_s: float) -> None:
        """Keep the measured goodput for later transfers; the transfer may be complete or not."""
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
            return self._named_choice(element, now_s)
        if settings.pin and (pinned := self._pinned_choice(element)) is not None:
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
        """Drop the measurements of the old speed; return the reason to show for the next decision."""
        profile.outcomes.clear()
        banned, speed = self._tuner.banned, self._path_estimate.speed
        for path, speed_key in list(banned):
            if path == self._path:
                banned.pop((path, speed_key), None)
        if speed is None or profile.speed is None:
            return ""
        return f"the link carries {rate_text(speed)}, no longer {rate_text(profile.speed)}"

    def _named_choice(self, element: Element, now_s: float) -> Choice:
        """Return the choice that the settings name; raw if it cannot be used here."""
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
        self._apply(
            self._latest.get(element.name) or self._profile_of_kind(element, Kind.DENSE), choice, why, now_s
        )
        return choice

    def _pinned_choice(self, element: Element) -> Choice | None:
        """Return the latest choice of this transfer or another one; None if there is none."""
        profile = self._latest.get(element.name)
        choice = self._tuner.latest.get((self._path, element.name)) if profile is None else profile.choice
        if choice is None or choice.codec.name in self._failed:
            return None
        profile = profile or self._profile_of_kind(element, Kind.DENSE)
        profile.choice = choice
        self._update_plan(profile, choice)
        return choice

    def _profile_of_kind(self, element: Element, kind: Kind) -> DataProfile:
        """Return the profile of such data, and make it the latest one of its element."""
        profile = self._profiles.setdefault((element.name, kind), DataProfile(element, kind))
        self._latest[element.name] = profile
        return profile

    def _profile(self, array: Array, element: Element, sample: Callable[[], Array]) -> DataProfile:
        """Return the profile of the data in this chunk; the data are sampled only every few chunks."""
        before = self._latest.get(element.name)
        if before is not None and self._chunks < before.look_at:
            return before
        look_s = _LOOK_S * min(1.0, array.nbytes / SAMPLE_BYTES)
        if not self._can_afford(look_s):
            return before or self._profile_of_kind(element, Kind.DENSE)
        self._spent_s += look_s
        profile = self._profile_of_kind(element, kind_of(sample()))
        fast = self._path_estimate.line.processor_bound
        profile.look_at = self._chunks + (_LOOK_EVERY_FAST if fast else _LOOK_EVERY)
        return profile

    def _decide(self, profile: DataProfile, sample: Callable[[], Array], now_s: float) -> None:
        """Find the best choice; change to it only if it is 5 % better (0.5 % for the objective "bytes")."""
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
        self._apply(profile, best, path_estimate.reason(profile, best, news), now_s, predicted)

    # -- trying codecs on a sample --------------------------------------------------------------------------

    def _can_afford(self, cost_s: float) -> bool:
        """Return True if `cost_s` more of exploration stays within its share of the transfer's time."""
        share = _EXPLORE_BYTES if self._path_estimate.settings.objective == FEWEST_BYTES else _EXPLORE
        return self._spent_s + cost_s <= share * self._expected_s

    @property
    def _expected_s(self) -> float:
        """Expected seconds of the whole transfer, with the best choice known."""
        return self._path_estimate.size_bytes / max(self._rate, self._path_estimate.speed or _TYPICAL_RATE)

    def _costs(self, profile: DataProfile, sample: Callable[[], Array], now_s: float) -> dict[Choice, float]:
        """Return the cost of each usable choice, after trying those that could win on a sample."""
        path_estimate, banned = self._path_estimate, self._tuner.banned

        def expected(choice: Choice) -> float:
            return path_estimate.cost(path_estimate.figures(profile, choice), self.chunk_bytes)

        costs = {self._raw: expected(self._raw)}
        candidates = [
            choice
            for choice in self._tuner.candidates(profile.element)
            if profile.kind is not Kind.NOISE and choice.codec.name not in self._failed
            if banned.get((self._path, path_estimate.speed_key(profile, choice)), now_s) <= now_s
        ]
        for choice in sorted(candidates, key=expected):
            if choice.key not in profile.ratios and expected(choice) < _HOPELESS * min(costs.values()):
                self._rate = rate(
                    path_estimate.figures(profile, path_estimate.best(costs, profile)), path_estimate.line
                )
                self._try(profile, choice, sample)
            if choice.key in profile.ratios:
                costs[choice] = expected(choice)
        if self._expected_s > _LONG_S:
            self._load_wanted()
        return costs

    def _try(self, profile: DataProfile, choice: Choice, sample: Callable[[], Array]) -> None:
        """Measure a codec's ratio and speed on a sample, if time allows."""
        shared, path_estimate, name = self._tuner, self._path_estimate, choice.codec.name
        if not choice.codec.ready:
            if path_estimate.speed is not None:
                self._wanted[name] = choice.codec
            return
        if not self._can_afford(_CALL_S + SAMPLE_BYTES / path_estimate.figures(profile, choice).encode):
            return
        items, begin_s = sample(), shared.clock()
        try:
            if not choice.codec.suits(items, profile.element):
                profile.ratios[choice.key] = 1.0
                return
            _, call_s = self._time(profile, choice, items[:_FEW_ITEMS])  # warms the caches
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
            shared.tried[path_estimate.speed_key(profile, choice)] = items.nbytes / items_s

    def _time(self, profile: DataProfile, choice: Choice, items: Array) -> tuple[int, float]:
        """Return the encoded bytes of a sample, and the seconds that encoding took."""
        begin_s = self._tuner.clock()
        encoded = choice.codec.encode(items, profile.element, choice.level)
        return len(encoded), self._tuner.clock() - begin_s

    def _load_wanted(self) -> None:
        for codec in self._wanted.values():
            self._tuner.load(codec)
        self._wanted.clear()

    # -- judging decisions ----------------------------------------------------------------------------------

    def _profile_of(self, choice: Choice) -> DataProfile | None:
        """Return the latest profile for which a choice is in force; None for raw."""
        found = (profile for profile in self._latest.values() if profile.choice == choice)
        return None if choice.raw else next(found, None)

    def _processors_held(self, choice: Choice, raw_bytes: int, passed_s: float) -> bool:
        """Return True if a chunk took about as long as the processors need for it.

        Its time then says nothing about the link. Otherwise the link would look slow, heavier codecs would
        look right, and the next chunk would take longer still.
        """
        profile, path_estimate = self._profile_of(choice), self._path_estimate
        if profile is None:
            return False
        bound = processors_rate(path_estimate.figures(profile, choice), path_estimate.line)
        return raw_bytes > _PROCESSORS_SHARE * bound * passed_s

    def _update_plan(self, profile: DataProfile, choice: Choice) -> None:
        profile.plan = self._path_estimate.plan(profile, choice)
        self.chunk_bytes, self.workers = profile.plan.chunk_bytes, profile.plan.workers

    def _apply(
        self, profile: DataProfile, choice: Choice, why: str, now_s: float, predicted: float | None = None
    ) -> None:
        """Put a choice in force, and record a decision if it differs from the one before."""
        before, changed = profile.plan, profile.choice != choice
        profile.choice, profile.due = choice, None
        self._update_plan(profile, choice)
        if changed and profile.plan is not None:
            self._tuner.latest[self._path, profile.element.name] = choice
            number = next(self._tuner.numbers)
            decision = Decision(number, now_s, self._name, self._path, before, profile.plan, why, predicted)
            self._outcome = Outcome(decision, profile, choice)
            self._tuner.record(decision)

    def _judge(self, outcome: Outcome, measured: float, now_s: float) -> None:
        """Record the outcome of a decision, and revert to a choice that was measured to be faster."""
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
        # with these settings the user accepts a slower transfer
        steered = settings.pin or settings.mode == "manual" or settings.objective not in (THROUGHPUT, LATENCY)
        if steered or measured >= _WORSE * outcomes[best] or self._reversals >= _REVERSALS:
            return
        self._reversals += 1
        if not choice.raw:
            shared.banned[self._path, self._path_estimate.speed_key(profile, choice)] = now_s + _BANNED_S
            self._path_estimate.goodput = Goodput(profile.speed)  # the slow time was encoding, not the link
        shared.banned.pop((self._path, self._path_estimate.speed_key(profile, best)), None)
        why = f"{choice} brought {rate_text(measured)} instead of the {rate_text(outcomes[best])} of {best}"
        self._apply(profile, best, why, now_s)
