"""Chooses among the dense sum, union compaction and integers, by samples of the arrays and figures of the
links.

Theory. The density of the union of all supports decides, rather than the density of one member's. So all
members look at the same 4,096 places, spread by multiples of the golden ratio. Each member sends all others
which of these items are not zero and which bits they use: half a KiB. From this and the figures of the links,
all predict the same times and choose the same way. When the union is known exactly, the choice is made once
more.

Predictions do not include busy CPUs. So each member also sends the time that each way has taken for an array
of this form, which replaces the prediction. A training calls the same sum again and again: it asks at the
first call, the second, the fourth, and so on, and uses the same way in between. A bad choice costs time but
never bits: every way has the bits of the dense sum.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from duetlink.data.codecs.element import FLOAT32, UINT8, Element
from duetlink.data.codecs.integers.lane import WIDTHS
from duetlink.data.codecs.integers.spans import NONE, Spans
from duetlink.errors import SettingError
from duetlink.groups.collectives.execution.elements import Array
from duetlink.groups.collectives.planning.choice import Choice, Explanation
from duetlink.groups.collectives.sums import integers
from duetlink.groups.collectives.sums.base import SumJob, SumReport
from duetlink.groups.collectives.sums.sampling import SAMPLE_BYTES, density_of, sample_of, support_of
from duetlink.groups.collectives.sums.union import DENSE_FROM, sum_of_union, union_of_supports

WAYS = ("dense", "union", "integers")
_HEAD = struct.Struct(f"<{SAMPLE_BYTES}s2h{len(WAYS)}f")
_MOST_CALLS = 16  # the most calls from one question to the next
_FORGETS_CALLS = 64
_MOST_HISTORIES = 1000
# Seconds for one item, measured on one core of an ordinary machine: to look at it for a bitmap, to gather
# and put it back, and to convert it to an integer and back.
LOOK_S_PER_ITEM = 1.0e-9
MOVE_S_PER_ITEM = 8.0e-9
CONVERT_S_PER_ITEM = 7e-9
# Another way replaces the dense one if it is predicted to take at most 80 % of its time, since predictions
# are off by about that much; with measured times, 95 % is enough.
_PREDICTED_SHARE = 0.8
_MEASURED_SHARE = 0.95
# Asking the others may take at most 3 % of the time of the dense sum.
_ASKING_SHARE = 0.03
_THEREFORE = {"dense": "; nothing else promises to be quicker", "union": ": quicker than dense"}


def predictions(choice: Choice, items: int, element: Element, density: float) -> dict[str, float]:
    """Predict the seconds of a sum by each way, at that density of the union."""
    size_bytes = items * element.size_bytes
    values_bytes = int(density * size_bytes)
    bitmap_bytes = int(items / 8 * min(1.0, 1.3 * _entropy(density)))
    return {
        "dense": choice.best("all_reduce", size_bytes).predicted_s,
        "union": choice.best("all_reduce", bitmap_bytes).predicted_s
        + choice.best_by_messages("all_reduce", values_bytes).predicted_s
        + items * (LOOK_S_PER_ITEM + density * MOVE_S_PER_ITEM),
    }


def foreseen(
    choice: Choice, items: int, element: Element, density: float
) -> tuple[dict[str, float], str, str]:
    """Predict what "auto" would do at that density of the union before it has measured anything.

    Returns the predicted seconds of each way, the way, and the reason. Integers are not considered: only the
    values themselves can show that they would do.
    """
    times_s, size_bytes = predictions(choice, items, element, density), items * element.size_bytes
    if _is_too_small(choice, size_bytes):
        return times_s, "dense", _too_small(size_bytes)
    way = _quickest(times_s, _PREDICTED_SHARE)
    return times_s, way, f"{density:.1%} of the items are not zero at some member{_THEREFORE[way]}"


def with_codecs(found: Explanation, choice: Choice, density: float) -> Explanation:
    """Add to an explanation of a dense float32 sum the predicted times of sums with a codec.

    Raises:
        SettingError: it explains another operation, or the density is not in [0, 1].
    """
    if found.kind != "all_reduce" or not 0 <= density <= 1:
        raise SettingError(f"{found.kind} with a density of {density}: all_reduce has one, from 0 to 1")
    times_s, way, why = foreseen(choice, found.size_bytes // FLOAT32.size_bytes, FLOAT32, density)
    return replace(found, codecs=times_s, auto=way, why_auto=why)


def _is_too_small(choice: Choice, size_bytes: int) -> bool:
    """Return True if asking the others would take more than 3 % of the dense sum's time."""
    asking_s = choice.best("all_gather", choice.costs.size * _HEAD.size).predicted_s
    return asking_s > _ASKING_SHARE * choice.best("all_reduce", size_bytes).predicted_s


def _too_small(size_bytes: int) -> str:
    return f"{size_bytes:,} bytes are too few to ask the others what theirs are like"


def _quickest(times_s: Mapping[str, float], share: float) -> str:
    """Return the fastest way if it takes at most that share of the dense sum's time, otherwise the
    dense way.
    """
    best = min(times_s, key=lambda way: times_s[way])
    return best if times_s[best] <= share * times_s["dense"] else "dense"


def _entropy(density: float) -> float:
    """Compute the bits for one item of a bitmap of that density."""
    if not 0 < density < 1:
        return 0.0
    return -density * math.log2(density) - (1 - density) * math.log2(1 - density)


@dataclass(slots=True)
class _SumHistory:
    """The history of sums of one form. All fields but `seconds` are equal at all members."""

    calls: int = 0
    way: str = "dense"
    why: str = ""
    times_s: dict[str, float] = field(default_factory=dict)  # the times that were compared, by way
    warm: set[str] = field(default_factory=set)  # ways that have run
    seconds: dict[str, float] = field(default_factory=dict)  # the time that each way takes at this member

    @property
    def asks(self) -> bool:
        """True at the calls that ask the others: numbers 0, 1, 3, 7, 15, 31, 47, …"""
        return self.calls & (self.calls + 1) == 0 or self.calls % _MOST_CALLS == _MOST_CALLS - 1

    def took(self, way: str, seconds: float) -> None:
        """Update the moving average of a way's time; the latest call counts half, as a single one may be
        delayed.

        The first call of each way is not counted: it includes the time of new memory pages.
        """
        if way in self.warm:
            self.seconds[way] = (self.seconds.get(way, seconds) + seconds) / 2
        self.warm.add(way)

    def forget(self) -> None:
        """Drop the old times of other ways, so that they are tried again."""
        self.seconds = {way: seconds for way, seconds in self.seconds.items() if way == self.way}


async def run(job: SumJob) -> SumReport:
    """Sum with the bits of the dense sum, by the way that is predicted or measured to be the fastest."""
    choice = job.flat.choice
    size_bytes = job.array.nbytes
    if _is_too_small(choice, size_bytes):
        return await job.dense(_too_small(size_bytes))
    histories: dict[str, _SumHistory] = job.flat.remembered.setdefault("automatic", {})
    history = histories.setdefault(job.form, _SumHistory())
    if len(histories) > _MOST_HISTORIES:
        del histories[next(iter(histories))]
    if history.asks:
        if history.calls % _FORGETS_CALLS == _FORGETS_CALLS - 1:
            history.forget()
        await _ask(job, history)
    history.calls += 1
    began_s = time.monotonic()
    report = await _RUN[history.way](job, history)
    if report.way == history.way:
        history.took(report.way, time.monotonic() - began_s)
    history.way = report.way
    return replace(report, predicted_s=history.times_s)


async def _dense(job: SumJob, history: _SumHistory) -> SumReport:
    return await job.dense(history.why + _THEREFORE["dense"])


async def _integers(job: SumJob, history: _SumHistory) -> SumReport:
    report = await integers.run(job)
    return replace(report, why=f"{history.why}, and they are integers; {report.why}")


async def _union(job: SumJob, history: _SumHistory) -> SumReport:
    bitmap, union_items = await union_of_supports(job)
    density = union_items / job.array.size
    now = predictions(job.flat.choice, job.array.size, job.element, density)
    if density > DENSE_FROM or now["union"] > now["dense"]:
        return await job.dense(f"{history.why}, but it was {density:.1%}", union_items)
    return await sum_of_union(job, bitmap, union_items, history.why + _THEREFORE["union"])


_RUN = {"dense": _dense, "union": _union, "integers": _integers}


async def _ask(job: SumJob, history: _SumHistory) -> None:
    """Choose the way again, by a sample of all members' arrays and the times that each has measured."""
    head = np.frombuffer(_head(job.array, job.element, history.seconds), np.uint8)
    out = np.empty(job.members * _HEAD.size, np.uint8)
    await job.flat.all_gather(head, out, UINT8, [_HEAD.size] * job.members, job.step("a sample"))
    heads = [_HEAD.unpack(part.tobytes()) for part in out.reshape(job.members, -1)]
    supports = np.array([np.frombuffer(each[0], np.uint8) for each in heads])
    density = density_of(supports, job.array.size)
    times_s = predictions(job.flat.choice, job.array.size, job.element, density)
    width_bytes = _width_bytes(job, heads)
    if width_bytes < job.element.size_bytes:
        share = width_bytes / job.element.size_bytes
        integers_s = job.flat.choice.best("all_reduce", int(share * job.array.nbytes)).predicted_s
        times_s["integers"] = integers_s + job.array.size * CONVERT_S_PER_ITEM
    measured_s = {way: _slowest([each[3 + index] for each in heads]) for index, way in enumerate(WAYS)}
    known_s = {way: seconds for way, seconds in measured_s.items() if seconds > 0 and way in times_s}
    times_s |= known_s
    if density > DENSE_FROM:  # it would end as a dense sum in any case
        del times_s["union"]
    best = min(times_s, key=lambda way: times_s[way])
    share = _MEASURED_SHARE if best in known_s and "dense" in known_s else _PREDICTED_SHARE
    history.way = _quickest(times_s, share)
    history.why = f"about {density:.1%} of the items are not zero at some member"
    history.times_s = times_s


def _slowest(seconds: Sequence[float]) -> float:
    """Return the longest time that a member has measured, 0 if none has. Values from members are
    not trusted.
    """
    return max((each for each in seconds if 0 < each < math.inf), default=0.0)


def _width_bytes(job: SumJob, heads: Sequence[tuple[Any, ...]]) -> int:
    """Return the bytes of the smallest integers that hold the sums, as far as the sample shows."""
    if not job.element.is_float:
        return job.element.size_bytes
    spans = Spans(*(np.array([max(each[index] for each in heads)], np.int16) for index in (1, 2)))
    if not spans.proven(job.element, job.members)[0]:
        return job.element.size_bytes
    width = int(spans.width_bits(job.members)[0])
    return next(each for each in WIDTHS if width <= 8 * each)


def _head(array: Array, element: Element, seconds: Mapping[str, float]) -> bytes:
    """Encode this member's answer: the sample's support, its highest and lowest bit, and the time of each
    way.
    """
    sample = np.ascontiguousarray(sample_of(array))
    top, neg_low = NONE, NONE
    if element.is_float:
        spans = Spans.of(sample, element)
        top, neg_low = int(spans.top.max(initial=NONE)), int(spans.neg_low.max(initial=NONE))
    support = support_of(sample, element).tobytes()
    return _HEAD.pack(support, top, neg_low, *(seconds.get(way, 0.0) for way in WAYS))
