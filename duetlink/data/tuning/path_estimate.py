"""Estimate the cost of each choice for one transfer, on its path as it is now."""

from __future__ import annotations

import math

from duetlink.base.quantities import rate_text
from duetlink.data.tuning.choice import Choice
from duetlink.data.tuning.compression import FEWEST_BYTES, LATENCY, LEAST_CPU, Compression
from duetlink.data.tuning.data_profile import DataProfile
from duetlink.data.tuning.decision import Plan
from duetlink.data.tuning.goodput import Goodput
from duetlink.data.tuning.model import PROCESSOR_BOUND_BYTES_PER_S, RAW, Figures, Line, cost, cpu_s, rate
from duetlink.data.tuning.priors import prior
from duetlink.data.tuning.tuner import SpeedKey, Tuner

_KIB = 1024
# Sizes of a chunk before encoding: smaller ones cost calls, larger ones delay the first byte.
_LEAST_CHUNK_BYTES, _LARGE_CHUNK_BYTES, _MOST_CHUNK_BYTES = 64 * _KIB, 1024 * _KIB, 2048 * _KIB
_FIRST_CHUNK_BYTES = 256 * _KIB  # while the link's speed is unknown
_CHUNK_S = 0.25  # longest time of a chunk on the link: a change of settings waits for it
_CHUNKS = 16  # least number per object: the first passes encoder, link and decoder without overlap
_SPARE = 1.5  # times as many workers as the link needs, since their speeds vary
_FAST_BYTES_PER_S = 60e6  # objective "bytes": slower encoders are used only if the link is slower still
_UNMEASURED = 800e6  # bytes/s assumed of an unmeasured link: only nearly free codecs win on it
# Costs within 1 % count as equal, since the model is no more exact; then the least processor time decides.
_ALIKE = 1.01


class PathEstimate:
    """The settings in force and the measured path, from which figures, costs and plans are derived.

    The transfer's `CodecController` updates it, under the controller's lock.
    """

    def __init__(self, tuner: Tuner, path: str, size_bytes: int, round_trip_s: float) -> None:
        self.tuner, self.path = tuner, path
        self.size_bytes = max(1, size_bytes)
        self.settings: Compression = tuner.compression
        self.goodput = Goodput(tuner.goodput.get(path))
        self.others_load = 0.0  # share of the processors that other programs use
        self._round_trip_s = round_trip_s

    @property
    def speed(self) -> float | None:
        """Bytes per second that the path carries, limited by the rate cap; None if neither is known."""
        estimate, cap = self.goodput.estimate, self.settings.rate_cap_bytes_per_s
        return cap if estimate is None else estimate if cap is None else min(estimate, cap)

    @property
    def line(self) -> Line:
        """The path in the terms of the cost model (`model.py`)."""
        shared, goodput = self.tuner, self.speed or _UNMEASURED
        workers: float = shared.workers
        # together, or on a fast link, the load is mostly this transfer's own, which the model counts already
        if not shared.together and goodput < PROCESSOR_BOUND_BYTES_PER_S:
            workers = min(workers, max(0.5, shared.cpus * (1 - self.others_load)))
        return Line(goodput, workers, shared.cpus, self._round_trip_s, shared.together, self.path)

    def speed_key(self, profile: DataProfile, choice: Choice) -> SpeedKey:
        """Return the key of the tuner's tables under which this choice's speed is kept."""
        return choice.key, profile.element.name, profile.kind

    def figures(self, profile: DataProfile, choice: Choice) -> Figures:
        """Return measured figures if there are any, otherwise those of `priors.py`."""
        if choice.raw:
            return RAW
        shared, speed_key, usual = (
            self.tuner,
            self.speed_key(profile, choice),
            prior(choice.key, profile.kind),
        )
        encode = shared.encode.get(speed_key) or shared.tried.get(speed_key) or usual.encode
        decode = shared.decode.get((choice.codec.name, profile.kind)) or usual.decode
        return Figures(encode, decode, max(1e-6, profile.ratios.get(choice.key, usual.ratio)))

    def ratio(self, choice: Choice, raw_bytes: int, encoded_bytes: int) -> float:
        """Estimate the encoded share of a full-size chunk from a smaller one.

        A codec's fixed overhead counts less in a larger chunk.
        """
        full_bytes = max(raw_bytes, min(self.size_bytes, _LARGE_CHUNK_BYTES))
        overhead_bytes = min(choice.codec.overhead_bytes, encoded_bytes)
        return (encoded_bytes - overhead_bytes) / raw_bytes + overhead_bytes / full_bytes

    def cost(self, figures: Figures, chunk_bytes: int) -> float:
        """Return the quantity that the objective minimises; infinite for a choice that it rules out.

        With the objective "bytes", a slow codec is ruled out unless a slow link hides its time.
        """
        objective, line = self.settings.objective, self.line
        if objective == FEWEST_BYTES and figures.encode < _FAST_BYTES_PER_S:
            hidden = self.speed is not None and figures.encode * line.workers >= self.speed / figures.ratio
            if not hidden:
                return math.inf
        return cost(objective, figures, line, self.size_bytes, chunk_bytes)

    def best(self, costs: dict[Choice, float], profile: DataProfile) -> Choice:
        """Return the choice of least cost; among costs within 1 %, the one with the least processor time."""
        most, line = _ALIKE * min(costs.values()), self.line
        alike = [choice for choice, found in costs.items() if found <= most]
        return min(alike, key=lambda choice: cpu_s(self.figures(profile, choice), line))

    def plan(self, profile: DataProfile, choice: Choice) -> Plan:
        """Return chunk size and number of workers for a choice.

        The chunk size is a power of two, so that chunks end where digest leaves of 4 MiB end. No more workers
        are planned than keep the link busy.
        """
        objective, speed, figures = self.settings.objective, self.speed, self.figures(profile, choice)
        size = min(_LARGE_CHUNK_BYTES, self.size_bytes // (_CHUNKS * (2 if objective == LATENCY else 1)))
        if objective == FEWEST_BYTES or (choice.raw and self.line.processor_bound and speed is not None):
            size = _MOST_CHUNK_BYTES  # repetitions are found only within a chunk
        workers = self.tuner.workers
        if speed is None:
            size = min(size, _FIRST_CHUNK_BYTES)
        else:
            size = int(min(size, _CHUNK_S * speed / figures.ratio))
            if not self.goodput.free:  # otherwise encoding may be the slow part
                workers = min(workers, math.ceil(_SPARE * speed / figures.ratio / figures.encode))
        size = max(_LEAST_CHUNK_BYTES, 1 << max(0, size.bit_length() - 1))
        workers = 1 if choice.raw or objective == LEAST_CPU else max(1, workers)
        return Plan(choice.codec.name, choice.level, size, workers)

    def reason(self, profile: DataProfile, best: Choice, news: str) -> str:
        """Explain a choice to the user in one or two sentences; `news` is the event that led to it."""
        objective, speed, figures = self.settings.objective, self.speed, self.figures(profile, best)
        occasion = news[:1].upper() + news[1:] + ". " if news else ""
        link = f"The link carries {rate_text(speed)}" if speed else "How fast the link is, is not known yet"
        if best.raw:
            return f"{occasion}{link}, and no codec is worth it for this object: as it is."
        does = f"{best} encodes it at {rate_text(figures.encode)} per worker to {figures.ratio:.1%}"
        if objective == FEWEST_BYTES:
            return f"{occasion}{link}; {does}, the fewest bytes."
        if speed is None:
            return f"{occasion}{link}; {does}, which costs little on any."
        times = rate(figures, self.line) / rate(RAW, self.line)
        aim = f" (objective: {objective})" if objective in (LEAST_CPU, LATENCY) else ""
        return f"{occasion}{link}, and {does}: {times:.2f} times as fast as raw{aim}."
