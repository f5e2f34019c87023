"""Chooses the algorithm, and the order of the members, that are predicted to be the fastest."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from duetlink.base.quantities import rate_text
from duetlink.errors import SettingError
from duetlink.groups.collectives.execution.layout import FRAME_BYTES, Whole
from duetlink.groups.collectives.planning.costs import Costs, HostRanks, predicted_s
from duetlink.groups.collectives.planning.order import ring_order
from duetlink.groups.collectives.schedules.algorithms import ALGORITHMS, BY_MEMBER, schedule

# The algorithm that uses shared memory: two waits, and about six passes of the array through memory.
SHARED = "shared"
SHARED_KINDS = frozenset(ALGORITHMS) - {"all_to_all"}  # its members do not know each other's sizes
SHARED_S = 100e-6
SHARED_S_PER_BYTE = 1e-9
# The algorithm within hosts in shared memory, and between one member of each by messages: `two_levels.py`.
TWO_LEVELS = "two_levels"
_UP_AND_DOWN_S = 2 * SHARED_S


@dataclass(frozen=True, slots=True)
class Candidate:
    """One algorithm in one order, with its predicted time in seconds."""

    algorithm: str
    order: tuple[int, ...]  # for two levels, that of the leaders
    predicted_s: float
    between: str = ""  # for two levels, the algorithm of the leaders
    hosts: HostRanks = ()  # for two levels; the first member of each leads it

    @property
    def name(self) -> str:
        """The algorithm with everything by which members' calls have to match, apart from the order."""
        if not self.between:
            return self.algorithm
        hosts = " ".join(_joined(host) for host in self.hosts)
        return f"{self.algorithm} {hosts} by {self.between}"


class Choice:
    """Chooses by one epoch's figures. Members with equal figures choose the same."""

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self._planned = costs.with_lines() if costs.hosts else costs
        self._natural = tuple(range(costs.size))
        self.best = functools.lru_cache(maxsize=256)(self._best)
        self.best_by_messages = functools.lru_cache(maxsize=256)(self._best_by_messages)

    @functools.cached_property
    def ring(self) -> tuple[int, ...]:
        """The order of the members around a ring."""
        return ring_order(self._planned)

    @functools.cached_property
    def _between_hosts(self) -> Choice | None:
        """The choice among the first members of all hosts; None if there are no two levels."""
        hosts = self.costs.hosts
        return Choice(self._planned.among([host[0] for host in hosts])) if len(hosts) > 1 else None

    def candidates(self, kind: str, size_bytes: int, root: int = 0) -> list[Candidate]:
        """Return every algorithm that could be chosen, in the order of the table of algorithms.

        `size_bytes` is the size of the whole array: for an all-gather, of the result.
        """
        shared = []
        if len(self.costs.hosts) == 1 and kind in SHARED_KINDS:
            shared = [Candidate(SHARED, self._natural, size_bytes * SHARED_S_PER_BYTE + SHARED_S)]
        elif self._between_hosts is not None and kind == "all_reduce":
            shared = [self._two_levels(self._between_hosts.best(kind, size_bytes), size_bytes)]
        both = [self._natural] if self.ring == self._natural else [self._natural, self.ring]
        return shared + [
            Candidate(name, order, self._predicted_s(kind, name, order, size_bytes, root))
            for name in ALGORITHMS[kind]
            for order in ([self.ring] if name == "ring" else both)
        ]

    def check(self, kind: str, algorithm: str | None) -> None:
        """Raise SettingError if no group has that algorithm for that operation."""
        if algorithm == TWO_LEVELS and kind == "all_reduce":
            return
        if algorithm not in (None, SHARED, *ALGORITHMS[kind]):
            raise _no_algorithm(kind, algorithm)

    def explain(self, kind: str, size_bytes: int) -> Explanation:
        """Compare the candidates for an array of `size_bytes`, and name the one that would be chosen.

        Raises:
            SettingError: there is no operation of that kind.
        """
        if kind not in ALGORITHMS:
            raise SettingError(f"no operation {kind!r}; there are {', '.join(ALGORITHMS)}")
        candidates = tuple(self.candidates(kind, size_bytes))
        return Explanation(kind, size_bytes, candidates, self.best(kind, size_bytes), self.costs)

    def _best(self, kind: str, size_bytes: int, root: int = 0, algorithm: str | None = None) -> Candidate:
        """Return the fastest candidate (of that algorithm, if one is given); shared memory always wins."""
        found = self.candidates(kind, size_bytes, root)
        named = [candidate for candidate in found if algorithm in (None, candidate.algorithm)]
        if not named and algorithm == TWO_LEVELS and kind == "all_reduce":
            raise SettingError(
                f"{TWO_LEVELS} needs members on several hosts, two of them on one; in this group "
                + ("all are on one host" if self.costs.hosts else "no two members share memory")
            )
        if not named:
            raise _no_algorithm(kind, algorithm)
        return min(named, key=lambda candidate: (candidate.algorithm != SHARED, candidate.predicted_s))

    def _best_by_messages(self, kind: str, size_bytes: int, algorithm: str | None = None) -> Candidate:
        """Return the fastest candidate that sends messages, even if there is shared memory."""
        if algorithm is not None:
            return self.best(kind, size_bytes, 0, algorithm)
        found = [each for each in self.candidates(kind, size_bytes) if each.algorithm != SHARED]
        return min(found, key=lambda candidate: candidate.predicted_s)

    def _two_levels(self, between: Candidate, size_bytes: int) -> Candidate:
        hosts = self.costs.hosts
        order = tuple(hosts[place][0] for place in between.order)
        # the levels overlap, less so the smaller the array is
        s = between.predicted_s + size_bytes * SHARED_S_PER_BYTE + _UP_AND_DOWN_S
        return Candidate(TWO_LEVELS, order, s, between.algorithm, hosts)

    def _predicted_s(self, kind: str, name: str, order: tuple[int, ...], size_bytes: int, root: int) -> float:
        schedules = [schedule(kind, name, rank, order, root) for rank in range(len(order))]
        if kind in BY_MEMBER:
            parts = max(1, -(-size_bytes // (FRAME_BYTES * len(order))))
        else:
            parts = Whole.of(size_bytes, 1, schedules[0].blocks).parts
        return predicted_s(schedules, size_bytes, parts, self._planned)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reason for a choice: every candidate with its predicted time. `str()` is a table."""

    kind: str
    size_bytes: int
    candidates: tuple[Candidate, ...]
    chosen: Candidate
    costs: Costs  # the figures behind the predictions
    codecs: Mapping[str, float] = field(default_factory=dict)  # predicted seconds of a sum, by codec
    auto: str = ""  # the codec that "auto" would take
    why_auto: str = ""

    def __str__(self) -> str:
        lines = [f"{self.kind} of {self.size_bytes:,} bytes among {self.costs.size} members"]
        width = max(len(_order(candidate)) for candidate in self.candidates)
        lines.append(f"  {'algorithm':<10} {'order':<{width}} {'predicted':>12}")
        for candidate in self.candidates:
            mark = ">" if candidate == self.chosen else " "
            predicted = f"{candidate.predicted_s * 1000:,.2f} ms"
            lines.append(f"{mark} {candidate.algorithm:<10} {_order(candidate):<{width}} {predicted:>12}")
        for name, s in self.codecs.items():
            mark = ">" if name == self.auto else " "
            lines.append(f"{mark} codec {name:<8} {s * 1000:>{width + 9},.2f} ms")
        if self.auto:
            lines.append(f'  codec "auto" takes {self.auto}: {self.why_auto}')
        if self.chosen.algorithm == TWO_LEVELS:
            lines.append("  items are added within hosts first: the last bits depend on who shares a host")
        if self.chosen.algorithm != SHARED:
            lines += _links(self.costs, self.size_bytes)
        return "\n".join(lines)

    __repr__ = __str__


def _no_algorithm(kind: str, algorithm: str | None) -> SettingError:
    return SettingError(f"{kind} has no algorithm {algorithm!r}; it has {', '.join(ALGORITHMS[kind])}")


def _order(candidate: Candidate) -> str:
    if not candidate.hosts:
        return _joined(candidate.order)
    hosts = " ".join(_joined(host) for host in candidate.hosts)
    return f"{hosts}, {_joined(candidate.order)} by {candidate.between}"


def _joined(ranks: Iterable[int]) -> str:
    return "-".join(map(str, ranks))


def _links(costs: Costs, size_bytes: int) -> list[str]:
    """Describe the figures behind a prediction: the slowest link, and the number of relayed and unmeasured
    ones.
    """
    pairs = [(a, b) for a in range(costs.size) for b in range(costs.size) if a != b]
    if not pairs:
        return []
    of, to = max(pairs, key=lambda pair: costs.link(*pair).seconds(size_bytes))
    slowest = costs.link(of, to)
    by = f"by {slowest.path}, " if slowest.path else ""
    lines = [
        f"  slowest link: {of} to {to}, {by}{slowest.latency_s * 1000:,.1f} ms, "
        f"{rate_text(slowest.rate_bytes_per_s)}" + ("" if slowest.measured else " (not measured)")
    ]
    if relayed := sum(costs.link(*pair).relayed for pair in pairs):
        lines.append(f"  relayed: {relayed} of {len(pairs)} directions")
    if unknown := sum(not costs.link(*pair).measured for pair in pairs):
        lines.append(f"  not measured: {unknown} of {len(pairs)} directions, which are guesses")
    return lines
